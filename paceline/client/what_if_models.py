"""Questions what would have been otherwise, and their answers, as the API has them."""

from typing import Literal, TypedDict


class Trust(TypedDict):
    """The likeness of the branches without a change to history. `near`: the share of first starts within `1s`, `10s`
    and `60s` of when they were; null: no job began. Below `min_calibration` no effect is told.
    """

    near: dict[str, float | None]
    same_host: float | None
    preempted_recorded: float
    preempted_again: float
    min_calibration: float
    calibrated: bool


class LengthRule(TypedDict):
    """The part of the runs, and of their core-seconds, whose length one rule gave, of 1."""

    runs: float
    core_seconds: float


class WhatIfFigure(TypedDict):
    """A figure of a pool, an owner or the cell (`of`); waits are in seconds. `use` and `lost_work` are there for each
    `resource` that is asked for; `unit` is MiB for sizes. `within`: half of the interval of the effect at 90 %, null:
    one pair can't say.
    """

    of: str
    name: str
    figure: str
    resource: str
    unit: str
    recorded: float
    again: float
    changed: float
    effect: float
    within: float | None
    verdict: str


class WhatIfJob(TypedDict):
    """The wait of a job in seconds; `recorded` is null where it didn't wait."""

    job_id: str
    pool: str
    owner: str
    recorded: float | None
    again: float
    changed: float
    effect: float
    within: float | None
    verdict: str


class WhatIfPreemptions(TypedDict):
    """The runs that were ordered to leave one pool for work of another."""

    from_pool: str
    for_pool: str
    recorded: int
    again: float
    changed: float
    within: float | None
    effect: float


class OtherAnswer(TypedDict):
    """A fact that is answered otherwise with the change; `share`: in this part of the pairs."""

    kind: str
    subject: str
    at: str
    recorded: str
    again: str
    changed: str
    message: str
    share: float


class PoolLines(TypedDict):
    """A resource of a pool over time: by `entitlement`, `allocation` and `demand` a number for each time."""

    pool: str
    resource: str
    unit: str
    recorded: dict[str, list[float]]
    again: dict[str, list[float]]
    changed: dict[str, list[float]]


class WhatIfSeries(TypedDict):
    """The largest pools over time."""

    times: list[str]
    pools: list[PoolLines]


class WhatIfCondition(TypedDict):
    """A condition that was asked for, and whether it holds: yes, no, can't tell."""

    condition: str
    holds: str


class WhatIfAnswer(TypedDict):
    """The answer, as `summary.json` of `paceline what-if` has it."""

    from_at: str
    to_at: str
    change: list[str]
    pairs: int
    model: str
    trust: Trust
    lengths: dict[str, LengthRule]
    facts: dict[str, float]
    figures: list[WhatIfFigure]
    jobs: list[WhatIfJob]
    preemptions: list[WhatIfPreemptions]
    answers: list[OtherAnswer]
    series: WhatIfSeries
    conditions: list[WhatIfCondition]


WhatIf = TypedDict(
    "WhatIf",
    {
        "id": str,
        "state": Literal["RUNNING", "DONE", "FAILED"],
        "done": float,
        "error": str,
        "from": str | None,
        "to": str | None,
        "changes": list[str],
        "change_file": str,
        "runs": int,
        "seed": int,
        "conditions": list[str],
        "answer": WhatIfAnswer | None,
    },
)
"""A question: `done` of 1 is worked off; `answer` once it is DONE, `error` says why it FAILED."""
