"""Where a task was placed and why there, as it stands on the wire. See `models.py`."""

from typing import TypedDict

from paceline.client.models import Amounts


class PlacementCandidate(TypedDict):
    """A host that had room for a task. `terms` add up to `score`, in parts of the largest host of the cell; `free` is
    what it had free, `tasks` how many of the job it had. `own_room`: the room was kept for this task. `chosen`: it is
    the host of the run.
    """

    host_id: str
    score: float
    terms: dict[str, float]
    free: Amounts
    tasks: int
    own_room: bool
    chosen: bool


class TaskPlacement(TypedDict):
    """The decision that placed a run, and the best hosts at that moment, the first choice first. `why`: the reason why
    they can't be derived again; empty: they are. `feasible` of `hosts` had room. Where they can't, `strategy` and
    `feasible` are those that were recorded, and `hosts` is 0. `score`: the recorded one of the host; null: it was
    placed before 0.4.
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
    candidates: list[PlacementCandidate]
