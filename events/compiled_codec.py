"""Straight Python for each current schema: made of its fields when a record of that kind is first met.

What is written here costs a third of asking fastavro and msgspec for the same bytes, which is most of what a record
costs. It handles what is usual and raises on anything else, whatever it is: then `events.codec` asks fastavro, whose
word is the last. An encoder takes values of exactly the types that decoding gives, so that a record which one wrote is
what a reader would make of the bytes.
"""

from collections.abc import Callable
from typing import Any

from events.records import BY_NAME, parts

Encoder = Callable[[list[bytes], Any], None]
"""Adds the bytes of a value to its first argument, piece by piece."""
Decoder = Callable[[bytes, int], tuple[Any, int]]
"""The value that begins at a place of some bytes, and where it ends: beyond them where they end too early."""

SMALL = 1024
"""Numbers from 0 below this one are looked up."""
SHORT = 1 << 20
"""Numbers below this one take three bytes at most."""
LONGS = {"int": 32, "long": 64}


def encoder(schema: Any) -> Encoder:
    """Makes the encoder of a schema. Raises `LookupError` where one of its types has no place in ours."""
    function: Encoder = _made("encode", schema, _Writing())
    return function


def decoder(schema: Any) -> Decoder:
    """Makes the decoder of a schema. Raises as `encoder`."""
    function: Decoder = _made("decode", schema, _Reading())
    return function


def _made(what: str, schema: Any, source: "_Source") -> Any:
    source.record(schema)
    names = {f"class_{name}": _class(name) for name in source.done} | _HELP
    exec(compile("\n".join(source.lines), f"<{what} {schema['name']}>", "exec"), names)
    return names[f"{what}_{schema['name']}"]


def _class(name: str) -> Any:
    return BY_NAME.get(name) or getattr(parts, name)


def _long(number: int, bits: int = 64) -> bytes:
    """An integer as Avro writes it: zigzag, seven bits a byte."""
    if 0 <= number < SHORT:
        twice = number << 1
        if twice < 1 << 14:
            return bytes((twice & 127 | 128, twice >> 7)) if twice > 127 else bytes((twice,))
        return bytes((twice & 127 | 128, twice >> 7 & 127 | 128, twice >> 14))
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _tail(data: bytes, at: int) -> tuple[int, int]:
    """A number whose first byte, of several, stands before `at`, and where it ends."""
    number, shift, byte = data[at - 1] & 127, 7, 128
    while byte > 127:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    if number >> 64:
        raise ValueError
    return (number >> 1) ^ -(number & 1), at


def _size(data: bytes, at: int) -> tuple[int, int]:
    """As `_tail`, of a length or count."""
    number, at = _tail(data, at)
    if number < 0 or data[at - 1] & 128:
        raise ValueError
    return number, at


_HELP: dict[str, Any] = {
    "long": _long,
    "tail": _tail,
    "size": _size,
    "small": tuple(_long(number) for number in range(SMALL)),
    "number": tuple((byte >> 1) ^ -(byte & 1) if byte < 128 else None for byte in range(256)),
    "sizes": tuple(byte >> 1 if byte < 128 and not byte & 1 else -1 for byte in range(256)),
    "flags": (False, True),
}
"""Values by a number's only byte: of numbers, None where more bytes follow; of sizes, -1 there and below 0."""


class _Source:
    """The lines of the functions for a record and all that is in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: dict[str, Any] = {}
        self._count = 0

    def record(self, schema: Any) -> None:
        """Adds the function of a record, after those of the records in it."""
        if schema["name"] in self.done:
            return
        self.done[schema["name"]] = schema
        self.lines += self._function(schema)

    def _function(self, schema: Any) -> list[str]:
        raise NotImplementedError

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _record_of(self, avro: Any) -> str:
        """The name of the record that a type is."""
        if isinstance(avro, dict):
            self.record(avro)
            return str(avro["name"])
        name = str(avro).removeprefix("paceline.")
        if name not in self.done:
            raise LookupError(f"no type {avro}")
        return name


def _optional(avro: list[Any]) -> Any:
    """The type beside null of a union, null first."""
    if len(avro) != 2 or avro[0] != "null":
        raise LookupError(f"no type {avro}")
    return avro[1]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class _Writing(_Source):
    def _function(self, schema: Any) -> list[str]:
        self._pieces: list[str] = []
        name = schema["name"]
        body = [line for field in schema["fields"] for line in self._of(field["type"], f"record.{field['name']}")]
        check = f"if type(record) is not class_{name}: raise TypeError"
        return [f"def encode_{name}(out, record):", *_indented([check, *body, *self._written()])]

    def _written(self) -> list[str]:
        """Hands over what there is so far, all at once."""
        pieces, self._pieces = self._pieces, []
        return [f"out += ({', '.join(pieces)},)"] if pieces else []

    def _block(self, avro: Any, value: str) -> list[str]:
        lines = self._of(avro, value)
        return [*lines, *self._written()]

    def _of(self, avro: Any, value: str) -> list[str]:
        """Writes what an expression gives."""
        name = self._name()
        kind = avro["type"] if isinstance(avro, dict) else avro
        if isinstance(avro, list):
            before = self._written()
            some = ["out.append(small[1])", *self._block(_optional(avro), name)]
            return [*before, f"{name} = {value}", f"if {name} is None: out.append(small[0])", "else:", *_indented(some)]
        if kind in ("array", "map"):
            return self._many(avro, name, value)
        exactly = {"string": "str", "bytes": "bytes", "boolean": "bool", "int": "int", "long": "int"}.get(kind)
        if exactly is None:
            before = self._written()
            return [*before, f"encode_{self._record_of(avro)}(out, {value})"]
        lines = [f"{name} = {value}", f"if type({name}) is not {exactly}: raise TypeError"]
        if kind in LONGS:
            self._pieces.append(f"small[{name}] if 0 <= {name} < {SMALL} else long({name}, {LONGS[kind]})")
        elif kind == "boolean":
            self._pieces.append(f"{bytes((1,))!r} if {name} else {bytes(1)!r}")
        else:
            size = self._name()
            lines += [f"{name} = {name}.encode()"] if kind == "string" else []
            lines.append(f"{size} = len({name})")
            self._pieces += [f"small[{size}] if {size} < {SMALL} else long({size})", name]
        return lines

    def _many(self, avro: Any, name: str, value: str) -> list[str]:
        before, item, kind = self._written(), self._name(), avro["type"]
        if kind == "array":
            exactly, each, of, inner = "tuple", item, name, self._block(avro["items"], item)
        else:
            item_value = self._name()
            exactly, each, of = "dict", f"{item}, {item_value}", f"{name}.items()"
            inner = [*self._of("string", item), *self._block(avro["values"], item_value)]
        some = [f"out.append(long(len({name})))", f"for {each} in {of}:", *_indented(inner)]
        head = [f"{name} = {value}", f"if type({name}) is not {exactly}: raise TypeError"]
        return [*before, *head, f"if {name}:", *_indented(some), "out.append(small[0])"]


class _Reading(_Source):
    def _function(self, schema: Any) -> list[str]:
        name, body, arguments = schema["name"], [], []
        for field in schema["fields"]:
            value = self._name()
            body += self._of(field["type"], value)
            arguments.append(f"{field['name']}={value}")
        body.append(f"return class_{name}({', '.join(arguments)}), at")
        return [f"def decode_{name}(data, at):", *_indented(body)]

    def _of(self, avro: Any, name: str) -> list[str]:
        """Reads a value into a name."""
        kind = avro["type"] if isinstance(avro, dict) else avro
        if isinstance(avro, list):
            some = self._of(_optional(avro), name)
            head = [f"{name} = data[at]; at += 1", f"if {name} == 0: {name} = None", f"elif {name} == 2:"]
            return [*head, *_indented(some), "else: raise ValueError"]
        if kind in LONGS:
            return [f"{name} = number[data[at]]; at += 1", f"if {name} is None: {name}, at = tail(data, at)"]
        if kind == "boolean":
            return [f"{name} = flags[data[at]]; at += 1"]
        if kind in ("string", "bytes"):
            end, of, nothing = self._name(), *((".decode()", "''") if kind == "string" else ("", "b''"))
            some = [f"{end} = at + {name}; {name} = data[at:{end}]{of}; at = {end}"]
            return self._sized(name, some, f"{name} = {nothing}")
        if kind in ("array", "map"):
            return self._many(avro, name)
        return [f"{name}, at = decode_{self._record_of(avro)}(data, at)"]

    def _sized(self, name: str, some: list[str], nothing: str) -> list[str]:
        """Reads a length or count, and what follows where there is any."""
        more = [f"if {name} < 0: {name}, at = size(data, at)", *some]
        return [f"{name} = sizes[data[at]]; at += 1", f"if {name}:", *_indented(more), f"else: {nothing}"]

    def _many(self, avro: Any, name: str) -> list[str]:
        items, item = self._name(), self._name()
        if avro["type"] == "array":
            begin, nothing, end = "[]", "()", f"{name} = tuple({items})"
            inner = [*self._of(avro["items"], item), f"{items}.append({item})"]
        else:
            item_value = self._name()
            begin, nothing, end = "{}", "{}", f"{name} = {items}"
            inner = [
                *self._of("string", item),
                *self._of(avro["values"], item_value),
                f"{items}[{item}] = {item_value}",
            ]
        again = self._sized(name, [], "break")
        loop = [f"for _ in range({name}):", *_indented(inner), *again]
        return self._sized(name, [f"{items} = {begin}", "while True:", *_indented(loop), end], f"{name} = {nothing}")
