"""Quantities as users write them: text with a unit outside, integers inside."""

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from events.bounds import AMOUNT_MAX, MS_MAX, OUTPUT_KIB_MAX, OUTPUT_KIB_MIN, WINDOW_MAX_MS, WINDOW_MIN_MS
from events.resources import Unit, amount_text
from events.time_units import MS_OF_UNIT

_KIB: dict[str, int] = {"KiB": 1, "MiB": 1 << 10, "GiB": 1 << 20}
_MIB: dict[str, int] = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
NEVER = "never"
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z]*)")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([KMGT]?)(i?b?)", re.IGNORECASE)

_BEYOND = re.compile(r"[0-9.]+ ?[PEZY]i?B")


def _whole(number: str, factor: int, what: str) -> int:
    value = Decimal(number) * factor
    if not value.is_finite() or value != int(value):
        raise PydanticCustomError("quantity", "{what}", {"what": f"{what}; {number} is no whole number of those"})
    return int(value)


def within(value: int, least: int, most: int, write: Callable[[int], object]) -> int:
    """The value. Raises a problem where it is out of bounds, which are told as users write them."""
    if not least <= value <= most:
        message = f"must be from {write(least)} to {write(most)}"
        raise PydanticCustomError("quantity", "{what}", {"what": message})
    return value


def _parser(units: dict[str, int], bare: int | None, what: str) -> Callable[[Any], Any]:
    """A parser of quantities; `bare` is the factor of a number without a unit, None: only 0 may have none."""

    def parse(value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if bare is not None or value == 0:
                return _whole(repr(value), bare or 0, what)
        elif isinstance(value, str):
            match = _QUANTITY.fullmatch(value)
            factor = (units.get(match[2]) or (bare if not match[2] else None)) if match else None
            if match and factor:
                return _whole(match[1], factor, what)
        if "MiB" in units and _BEYOND.fullmatch(str(value)):
            raise PydanticCustomError("quantity", "{what}", {"what": "is too large: the largest unit is TiB"})
        raise PydanticCustomError("quantity", "{what}", {"what": what + _size_meant(value, units)})

    return parse


def _size_meant(value: Any, units: dict[str, int]) -> str:
    """A hint at the unit for a size in another one, or in none; empty: it is no size."""
    match = None if isinstance(value, bool) or "MiB" not in units else _SIZE.fullmatch(str(value))
    if match is None:
        return ""
    number, letter = match[1], match[2].upper()
    if not letter:
        return f"; {value} has no unit, write {number}MiB or {number}GiB"
    if f"{letter}iB" not in units:
        return ""
    exact = Decimal(number) * 1000 ** (1 + "KMGT".index(letter)) / (1 << 20)
    other = f" or {exact.to_integral_value(ROUND_CEILING)}MiB" if letter in "GT" and match[3].upper() == "B" else ""
    return f"; {value} isn't known, write {number}{letter}iB{other}"


def write_milli(value: int) -> int | float:
    """1500 -> 1.5, 2000 -> 2."""
    return value / 1000 if value % 1000 else value // 1000


def write_mib(value: int) -> str:
    """2048 -> 2GiB: in the largest unit that makes it whole."""
    return amount_text(value, Unit.MIB)


def write_kib(value: int) -> str:
    """2048 -> 2MiB: in the largest unit that makes it whole."""
    unit = next(unit for unit in reversed(_KIB) if value % _KIB[unit] == 0)
    return f"{value // _KIB[unit]}{unit}"


def write_ms(value: int) -> str:
    """90000 -> 90s: in the largest unit that makes it whole."""
    unit, factor = next((unit, factor) for unit, factor in reversed(MS_OF_UNIT.items()) if value % factor == 0)
    return f"{value // factor}{unit}" if value else "0ms"


def write_ms_or_never(value: int) -> str:
    """The same, -1: never."""
    return NEVER if value < 0 else write_ms(value)


def _schema(what: str, units: dict[str, int], number: dict[str, Any], unit: str = "") -> WithJsonSchema:
    """The JSON Schema of a parser's input; `unit` "?": one may be left out."""
    pattern = rf"^[0-9]{{1,15}}(\.[0-9]{{1,9}})?({'|'.join(units)}){unit}$"
    return WithJsonSchema({"anyOf": [{"type": "string", "pattern": pattern}, number], "description": what})


class Size(int):
    """An amount in MiB of a resource whose unit only its cell knows, so that it is written as a size again."""


def _other(value: Any) -> int:
    """An amount of a resource that only some cells know: a size has a unit, anything else is thousandths."""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    size = isinstance(value, Size) or (match is not None and match[2] in _MIB)
    if not isinstance(value, Size):
        value = _parser(_MIB if size else {"m": 1}, None if size else 1000, f"must be {_OTHER_TEXT}")(value)
    within(value, 0, AMOUNT_MAX, write_mib if size else write_milli)
    return Size(value) if size else int(value)


def write_amount(value: int, unit: Unit) -> int | float | str:
    """An amount of a resource as users write it."""
    return write_mib(value) if unit is Unit.MIB else write_milli(value)


def write_amounts(amounts: Mapping[str, int], units: Mapping[str, Unit]) -> dict[str, Any]:
    """Amounts of a record as users write them; `units`: those of the cell."""
    return {name: write_amount(value, units.get(name, Unit.MILLI)) for name, value in amounts.items()}


_OTHER_TEXT = 'a number of units, such as 2 or 0.5, or a size with a unit, such as "2GiB"'
_MILLI_TEXT = 'a number of units or of thousandths, such as 2 or "500m"'
_MEMORY_TEXT = 'a size with a unit, such as "64MiB" or "2GiB"'
_OUTPUT_TEXT = 'a size with a unit, such as "64KiB" or "10MiB"'
_TIME_TEXT = 'a time with a unit, such as "500ms", "10s", "5m", "2h" or "1d"'


def _bounds(least: int, most: int, write: Callable[[int], object]) -> AfterValidator:
    return AfterValidator(lambda value: within(value, least, most, write))


_parse_milli = BeforeValidator(_parser({"m": 1}, 1000, f"must be {_MILLI_TEXT}"))
_milli = PlainSerializer(write_milli), _schema(_MILLI_TEXT, {"m": 1}, {"type": "number", "minimum": 0}, unit="?")
Milli = Annotated[int, _parse_milli, _bounds(0, AMOUNT_MAX, write_milli), *_milli]
SomeMilli = Annotated[int, _parse_milli, _bounds(1, AMOUNT_MAX, write_milli), *_milli]
"""More than nothing."""
Mebibytes = Annotated[
    int,
    BeforeValidator(_parser(_MIB, None, f"must be {_MEMORY_TEXT}")),
    _bounds(0, AMOUNT_MAX, write_mib),
    PlainSerializer(write_mib),
    _schema(_MEMORY_TEXT, _MIB, {"const": 0}),
]
OutputKib = Annotated[
    int,
    BeforeValidator(_parser(_KIB, None, f"must be {_OUTPUT_TEXT}")),
    _bounds(OUTPUT_KIB_MIN, OUTPUT_KIB_MAX, write_kib),
    PlainSerializer(write_kib),
    _schema(_OUTPUT_TEXT, _KIB, {"const": 0}),
]
OtherAmount = Annotated[
    int,
    PlainValidator(_other),
    PlainSerializer(lambda value: write_mib(value) if isinstance(value, Size) else write_milli(value)),
    WithJsonSchema({"type": ["number", "string"], "description": _OTHER_TEXT}),
]
"""An amount of a resource beside the four. Without a unit of size it counts thousandths."""
_ms_of = _parser(MS_OF_UNIT, None, f"must be {_TIME_TEXT}")
_parse_ms = BeforeValidator(_ms_of)
_ms = PlainSerializer(write_ms), _schema(_TIME_TEXT, MS_OF_UNIT, {"const": 0})
Milliseconds = Annotated[int, _parse_ms, _bounds(0, MS_MAX, write_ms), *_ms]
SomeMilliseconds = Annotated[int, _parse_ms, _bounds(1, MS_MAX, write_ms), *_ms]
"""Longer than nothing."""
WindowMilliseconds = Annotated[int, _parse_ms, _bounds(WINDOW_MIN_MS, WINDOW_MAX_MS, write_ms), *_ms]
"""As long as a window may be open."""
_ms_or_never_of = _parser(MS_OF_UNIT, None, f"must be {_TIME_TEXT}; or {NEVER}")
MillisecondsOrNever = Annotated[
    int,
    BeforeValidator(lambda value: -1 if value == NEVER else _ms_or_never_of(value)),
    AfterValidator(lambda value: value if value == -1 else within(value, 0, MS_MAX, write_ms)),
    PlainSerializer(write_ms_or_never),
    WithJsonSchema({"type": "string", "description": f"{_TIME_TEXT}; or {NEVER}"}),
]
"""-1: never."""
