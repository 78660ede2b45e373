"""The kernels, as they decide: with numpy in their innermost loops, or compiled by numba. Their answers are the same.

`VECTORS` is always there. `compiled()` takes a while where numba has no cache of them: who serves a cell asks for it
only where there is one, and fills it beside (`processors/runtime/kernel_cache.py`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from events.columns import I64
from processors.placement.engine import kernels, placing, ruled, vectors
from processors.placement.engine.columns import REQUEST, Columns, Ruled, new_columns

MODULES = kernels, placing, ruled


class Kernels(NamedTuple):
    """The functions that the engine calls."""

    place: Callable[[Columns, I64, I64, I64], None]
    place_ruled: Callable[[Columns, int, int, Ruled, I64], int]
    set_host: Callable[[Columns, int, I64, I64], None]
    undo: Callable[[Columns, int], None]
    note: Callable[[Columns, int], None]


def functions(modules: Sequence[ModuleType]) -> dict[str, FunctionType]:
    """The functions that some modules define, by name."""
    all_names = {name: one for module in modules for name, one in vars(module).items()}
    names = [module.__name__ for module in modules]
    return {name: one for name, one in all_names.items() if isinstance(one, FunctionType) and one.__module__ in names}


def bound(
    modules: Sequence[ModuleType], change: Callable[[FunctionType], Any], others: Mapping[str, Any]
) -> dict[str, Any]:
    """The names of some modules, each function changed, calling one another so changed; `others` stand in place of
    some.
    """
    scope: dict[str, Any] = {name: one for module in modules for name, one in vars(module).items()}
    for name, one in functions(modules).items():
        fresh = FunctionType(one.__code__, scope, name, one.__defaults__)
        fresh.__module__, fresh.__qualname__, fresh.__doc__ = one.__module__, one.__qualname__, one.__doc__
        scope[name] = others[name] if name in others else change(fresh)
    return scope


def compile_all(
    modules: Sequence[ModuleType], inline: Collection[str], arguments: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """The names of some modules with their functions compiled, those of `arguments` for their types and for no others.

    Raises ImportError where numba is missing.
    """
    import numba  # here: half a second, and not everybody needs it

    types = cast(Callable[[Any], Any], numba.typeof)
    # Nothing is allocated: without counting references to columns at each call it is 20 times as fast.
    njit = cast(Any, numba.njit)
    jit, small = njit(cache=True, _nrt=False), njit(cache=True, _nrt=False, forceinline=True)
    scope = bound(modules, lambda one: small(one) if one.__name__ in inline else jit(one), {})
    for name, each in arguments.items():
        entry = cast(Any, scope[name])
        entry.compile(tuple(types(one) for one in each))
        entry.disable_compile()
    return scope


def _kernels(scope: Mapping[str, Any]) -> Kernels:
    return Kernels(*(scope[name] for name in Kernels._fields))


INLINE = {
    "block_at",
    "blocks_for",
    "fit_of",
    "is_forbidden",
    "key_at",
    "key_of",
    "note",
    "score_of",
    "share",
}

LOOPS = _kernels(bound(MODULES, lambda one: one, {}))
"""The loops as they stand, in plain Python: slow, for tests."""

_OTHERS = "block_min_at", "block_top", "copy", "least_above", "least_bound", "catch_up", "rebuild"
VECTORS = _kernels(bound(MODULES, lambda one: one, {name: vars(vectors)[name] for name in _OTHERS}))


_now = [VECTORS]


def now() -> Kernels:
    """The kernels that decide in this process."""
    return _now[0]


def use(kernels: Kernels) -> None:
    """From now on these decide, with the same answers."""
    _now[0] = kernels


def compiled() -> Kernels:
    """The kernels compiled for the types that the engine calls them with, and for no others.

    Raises ImportError where numba is missing.
    """
    return _kernels(compile_all(MODULES, INLINE, _arguments()))


def _arguments() -> dict[str, tuple[Any, ...]]:
    """Arguments of the types with which the engine calls each."""
    columns = new_columns(1, 2, 16, 1)
    some = np.zeros((1, 1), dtype=np.int64)
    flat = np.zeros(1, dtype=np.int64)
    return {
        "place": (columns, np.zeros((1, REQUEST), dtype=np.int64), some, flat),
        "place_ruled": (columns, 0, 0, Ruled(columns.ranks[0], flat, flat, flat, some, some, flat, some), flat),
        "set_host": (columns, 0, flat, flat),
        "undo": (columns, 0),
        "note": (columns, 0),
    }
