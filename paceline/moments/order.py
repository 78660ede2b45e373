"""Messages to and from the processes that work on the past of a cell for its server."""

import msgspec

from paceline.client.operation_models import RoundDifference

GONE = 3
"""Exit code: the log no longer has what the views are made of."""


class LogAddress(msgspec.Struct, frozen=True):
    """Where a process opens the log of a cell, as settings name it."""

    data: str
    cell: int
    kafka: str = ""
    kafka_options: dict[str, str] = {}
    schema_registry_url: str = ""
    archive: str = ""


class Order(msgspec.Struct, frozen=True):
    """The order to the process that makes views: the log, where its topics shall end, the file to make, and the folder
    with what it may begin from.
    """

    log: LogAddress
    ends: dict[str, int]
    target: str
    folder: str


class RoundOrder(msgspec.Struct, frozen=True):
    """The order to the process that replays a round: the log, the round, and the URL of snapshots, empty: none."""

    log: LogAddress
    machine: str
    round: int
    snapshots: str = ""


class RoundResult(msgspec.Struct, frozen=True):
    """The result of replaying a round. `decided`: False where this build decides by another logic, so the round was
    only applied. `begun`: the round that the machine began after; `difference`: as `paceline log verify -o json` has
    it.
    """

    logic: int
    decided: bool
    decisions: int
    begun: int
    ms: int
    hash: str
    difference: RoundDifference | None = None


class Progress(msgspec.Struct, frozen=True):
    """The number of records that are folded, and of all."""

    done: int
    of: int


class PlanStart(msgspec.Struct, frozen=True):
    """The first line to the process that plans: the log, the file of the views, folders with stores of the machines
    that may be there, and the URL of snapshots, empty: none.
    """

    log: LogAddress
    views: str
    stores: list[str]
    snapshots: str = ""


class PlanOrder(msgspec.Struct, frozen=True):
    """A line to the process that plans: by job the records that submit or update it, in the order of the jobs; without
    jobs, the record that drains hosts, moves them or makes room, or those that define pools; and how many seconds it
    may take.
    """

    limit_s: float
    jobs: dict[str, list[bytes]] = {}
    pools: list[bytes] = []
    drain: bytes = b""


class PlanResult(msgspec.Struct, frozen=True):
    """A line from the process that plans: the plan of pools or of a drain, or the plans of jobs, as the API answers
    them, or an error: a code and a sentence.
    """

    plan: msgspec.Raw = msgspec.Raw(b"null")
    code: str = ""
    error: str = ""


class PlacementOrder(msgspec.Struct, frozen=True):
    """The order to the process that derives a placement again: the log, the round of placement and the index of its
    decision, the task, and the URL of snapshots, empty: none.
    """

    log: LogAddress
    round: int
    index: int
    job_id: str
    instance: int
    snapshots: str = ""


class PlacementCandidate(msgspec.Struct, frozen=True):
    """A host that was possible, as `paceline.client.placement_models` has it; `free` as machines count it,
    `value_tasks` -1: the job has no `spread`.
    """

    host_id: str
    score: float
    terms: dict[str, float]
    free: dict[str, int]
    tasks: int
    own_room: bool
    value: str = ""
    value_tasks: int = -1
    with_devices: bool = False
    unmet: int = 0
    without_image: bool = False


class PlacementResult(msgspec.Struct, frozen=True):
    """The candidates for a task; `why`: the reason why they can't be derived."""

    why: str = ""
    strategy: str = ""
    hosts: int = 0
    feasible: int = 0
    best: list[PlacementCandidate] = []
    spread_over: str = ""


class WhatIfOrder(msgspec.Struct, frozen=True):
    """The order to the process that answers a what-if: the log, the question as
    `projections.api.what_if_questions.Question` has it, and the MiB of memory that it may take.
    """

    log: LogAddress
    from_ms: int
    to_ms: int
    changes: tuple[str, ...]
    change_file: str
    runs: int
    seed: int
    conditions: tuple[str, ...]
    memory_mib: int


class WhatIfProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The part of the work that is done, of 1."""

    done: float


class WhatIfResult(msgspec.Struct, frozen=True, tag="result"):
    """The answer as `summary.json` has it, and its values as pages show them; or why there is none."""

    summary: msgspec.Raw = msgspec.Raw(b"null")
    page: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
