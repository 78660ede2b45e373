"""The strategies by which hosts are chosen (decisions 080, 106); columns and rows have their place in `STRATEGIES`."""

from typing import Literal, get_args

Strategy = Literal["pack", "spread", "balanced", "load-aware", "fragmentation", "adaptive"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
PACK, SPREAD, BALANCED, LOAD_AWARE, FRAGMENTATION, ADAPTIVE = range(len(STRATEGIES))
OF_POOL = -1
"""In place of a number: as the pool of the job has it."""

DEFAULT = "default"
"""The strategy in records of pools that were defined without one since there is `adaptive`: see `default_strategy`."""

_NUMBERS = {"": OF_POOL} | {name: number for number, name in enumerate(STRATEGIES)}


def strategy_number(name: str) -> int:
    """The number of a strategy; "": `OF_POOL`."""
    return _NUMBERS.get(name, PACK)


def default_strategy(of_pool: str, gpus: int) -> int:
    """The strategy of a pool where neither it nor one above has one; `gpus`: the amount that hosts have. Pools that
    were defined before there was `adaptive` pack.
    """
    return ADAPTIVE if of_pool == DEFAULT and gpus else PACK
