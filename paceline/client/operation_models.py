"""Rounds, their replays, and the process that answers, in the API's answers."""

from typing import Any, NotRequired, TypedDict

from paceline.client.json_type import Json


class LogRange(TypedDict):
    """The records of a topic from `start` to before `end`."""

    topic: str
    start: int
    end: int


class SkippedInput(TypedDict):
    """An input of a round that could not be decoded."""

    topic: str
    offset: int
    reason: str
    digest: str


class SeenPosition(TypedDict):
    """A position that the writer of a round knew: the offset after the last record."""

    topic: str
    position: int


class RoundRecord(TypedDict):
    """A round of a machine, decoded; each of `decisions` has its name under `event`, and columns as lists."""

    position: str
    at: str | None
    cell: int
    machine: str
    epoch: int
    round: int
    now: int
    caught_up: bool
    budget: int
    inputs: list[LogRange]
    skipped: list[SkippedInput]
    inputs_hash: str
    start_hash: str
    seen: list[SeenPosition]
    decisions: list[Json]
    prev_hash: str
    logic: int
    state: int


class RowChange(TypedDict):
    """A row that two states differ in, and the fields that differ; null: there is no such row."""

    table: str
    key: Any
    recorded: Json | None
    decided: Json | None


class RoundDifference(TypedDict):
    """The first difference between the decisions in the log and those of a replay, or between the states after it.
    `places`: the records that it is about.
    """

    machine: str | None
    round: int
    index: int
    reason: str
    places: list[str]
    recorded: Json | None
    decided: Json | None
    states_part_after_round: int | None
    states_fault: str | None
    rows: list[RowChange]


class RoundResult(TypedDict):
    """The result of replaying a round, begun after round `begun`. `decided`: False where this build decides by another
    logic, so that the round was only applied.
    """

    logic: int
    decided: bool
    decisions: int
    begun: int
    ms: int
    hash: str
    difference: RoundDifference | None


class RoundReplay(TypedDict):
    """A replay of a round: `done` of `of` rounds are replayed; `result` once it is over."""

    machine: str
    round: int
    done: int
    of: int
    result: RoundResult | None


class ProcessInfo(TypedDict):
    """The process that answers; `host` is the name of its machine."""

    version: str
    python: str
    host: str
    pid: int
    started: str | None
    views_format: str


class ConsumerGroup(TypedDict):
    """A consumer group on Kafka, which of its members has this cell, and the records that it has not read of it."""

    name: str
    state: str
    members: int
    member: str | None
    behind: int | None


class MachineSnapshot(TypedDict):
    """The newest snapshot of a machine; `fault`: empty, or why it can't be used."""

    round: int
    fault: str


class StoredSnapshots(TypedDict):
    """The place of snapshots, and the newest of each machine."""

    url: str
    machines: dict[str, MachineSnapshot]


class ArchivedTopics(TypedDict):
    """The place of the archive, and of each topic the first offset in it and the one after the last."""

    url: str
    topics: dict[str, list[int]]


class ViewCopies(TypedDict):
    """The copies of the views beside them: their number and size, and the records that the newest has."""

    count: int
    bytes: int
    newest: int


class SettingOrigin(TypedDict):
    """A setting of the process, and where its value comes from."""

    name: str
    value: str
    origin: str


class Alarm(TypedDict):
    """An alarm that holds; `severity` is page or ticket."""

    name: str
    severity: str
    text: str


class ProcessOperations(TypedDict):
    """The state of a cell as the process that answers knows it beside its views. A part is null where it does not apply
    to the process, or could not be found out: then `faults` says why. `stores` are sizes in bytes, `log` the first
    offset of each topic and the one after its last.
    """

    at: str | None
    process: NotRequired[ProcessInfo | None]
    log: NotRequired[dict[str, list[int]] | None]
    stores: NotRequired[dict[str, int] | None]
    readers: NotRequired[list[ConsumerGroup] | None]
    snapshots: NotRequired[StoredSnapshots | None]
    archive: NotRequired[ArchivedTopics | None]
    copies: NotRequired[ViewCopies | None]
    settings: NotRequired[list[SettingOrigin] | None]
    alarms: NotRequired[list[Alarm] | None]
    faults: list[str]
