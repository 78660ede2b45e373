"""The strategies by which hosts are chosen (decision 080); columns and rows have their place in `STRATEGIES`."""

from typing import Literal, get_args

Strategy = Literal["pack", "spread", "balanced", "load-aware"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
PACK, SPREAD, BALANCED, LOAD_AWARE = range(len(STRATEGIES))
OF_POOL = -1
"""In place of a number: as the pool of the job has it."""

_NUMBERS = {"": OF_POOL} | {name: number for number, name in enumerate(STRATEGIES)}


def strategy_number(name: str) -> int:
    """The number of a strategy; "": `OF_POOL`."""
    return _NUMBERS.get(name, PACK)
