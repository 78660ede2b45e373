"""Where a task was placed and why there, as it stands on the wire. See `models.py`."""

from typing import TypedDict

from paceline.client.models import Amounts, RunDevices


class PlacementCandidate(TypedDict):
    """A host that was possible for a task. `score`: that of its strategy, in parts of the largest host of the cell.
    With `pack` and `spread` its `terms` add up to it: what it had free of each resource. `balanced` has `unevenness`
    (0 to 1) and `room` (the sum of what it had free), `load-aware` `load` in sixteenths (8: it hadn't told) and `room`.
    `adaptive` counts in cards: `loss` is what the host loses for tasks that are expected, `room` a small part of what
    it had free, `place` grows from the first to the last host of a model. `fragmentation` has `loss`, 0 to 1 in 101
    steps. What is recorded of both is the score of `pack`.
    `free` is what it had free, `tasks` how many of the job it had. `own_room`: the room was kept for this task.
    `chosen`: it is the host of the run.

    Before the score go: `value_tasks` of the job on hosts with its `value` of the attribute `spread_over` (null: it has
    no `spread`), then `with_devices` that the task doesn't ask for, then the least sum of `unmet` weights, as written,
    1 more for a host that is `without_image`.
    """

    host_id: str
    score: float
    terms: dict[str, float]
    free: Amounts
    tasks: int
    own_room: bool
    chosen: bool
    value: str
    value_tasks: int | None
    with_devices: bool
    unmet: int
    without_image: bool


class TaskPlacement(RunDevices):
    """The decision that placed a run, and the best hosts at that moment, the first choice first. `why`: the reason why
    they can't be derived again; empty: they are. `feasible` of `hosts` were possible. Where they can't, `strategy` and
    `feasible` are those that were recorded, and `hosts` is 0. `score`: the recorded one of the host; null: it was
    placed before 0.4. `alternative`: that of `any_of` which it took, from 0; null: its job has none. `passed_over`: why
    those before it weren't taken.
    """

    job_id: str
    instance: int
    run: int
    host_id: str
    ports: list[int]
    round: int
    position: str
    at: str | None
    why: str
    strategy: str
    score: float | None
    hosts: int
    feasible: int
    spread_over: str
    alternative: int | None
    passed_over: list[str]
    candidates: list[PlacementCandidate]
