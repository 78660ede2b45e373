"""Rows of an older format as a machine keeps them now.

Who raises `state` writes, in the machine's folder, a function that makes the new rows of the old ones, if that can be
done, and names it in `conversions`. A store or a snapshot of the older format is then gone on with; without the
function the machine is folded from the log again, from its start (decision 032).

The law of a conversion: what it makes of the rows after a round are the rows that the new build has after that round
when it folds the log from the start. A test holds one against the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from events.structs import known
from processors.state.table import RowChange

Rows = Iterable[RowChange]
Conversion = Callable[[Rows], Rows]
Conversions = Mapping[int, Conversion]
"""By the number of the older format: what makes rows of the next number of them."""


def conversion(conversions: Conversions, old: int, new: int) -> Conversion | None:
    """The function that makes rows of the format `new` from those of the format `old`; None where a step is missing."""
    steps = [conversions.get(number) for number in range(old, new)]
    if old > new or None in steps:
        return None

    def convert(rows: Rows) -> Rows:
        for step in steps:
            assert step is not None
            rows = step(rows)
        return rows

    return convert


def with_defaults(tables: Mapping[str, Any]) -> Conversion:
    """Makes rows of structs that have more fields now, with their defaults; `tables`: what rows are, by table."""
    decoders = {name: msgspec.msgpack.Decoder(known(row)) for name, row in tables.items()}

    def convert(rows: Rows) -> Iterator[RowChange]:
        for row in rows:
            decoder = decoders.get(row.table)
            if decoder is not None and row.row is not None:
                row = row._replace(row=msgspec.msgpack.encode(decoder.decode(row.row)))
            yield row

    return convert
