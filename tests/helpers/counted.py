"""What work costs, without a clock: the lines of Python that it runs, or the values of columns that it goes through."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np


class Counted(np.ndarray[Any, Any]):
    """Adds the size of each operand of an operation on it to `seen`."""

    seen = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(each) for each in inputs]
        Counted.seen += max(each.size for each in plain)
        options["out"] = tuple(map(np.asarray, options.get("out", ()))) or None
        return getattr(ufunc, method)(*plain, **options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        Counted.seen += max(each.size for each in arguments if isinstance(each, np.ndarray))
        return function(*[np.asarray(each) if isinstance(each, Counted) else each for each in arguments], **options)


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
