"""Whether everything of the cells is there: topics, the history of each machine, who runs it, how far behind it is."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from events.acceptance import CLAIM, Acceptance, Chain, RoundKey, parse
from events.bounds import ALARM_UNREAD_MS
from events.codec import CodecError, decode
from events.log.port import Log, LogRecord
from events.records.base import Event
from events.records.hosts import GatewayBeat
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import RoundFault, accept, key_of
from events.topics import rounds_of
from paceline.output import span
from processors.machine import Machine
from projections.lateness import late_since_ms, unread_of

if TYPE_CHECKING:
    from events.log.kafka.groups import Group

TAIL_RECORDS = 500
"""So much of the end of a machine's topic is looked at; rounds before that are for `paceline log verify`."""
BEGINNINGS = 20
"""A tail may begin with records that were refused: so many of them are tried as the first of the history."""
BEHIND_MAX = 10_000
"""A machine that hasn't read more records than this is behind."""
SILENT_S = 30
"""Gateways beat every 10 s."""


@dataclass(slots=True)
class History:
    """The end of a machine's topic, judged. `first` is the offset where the judging began, 0 for the whole history;
    `last` the newest accepted record; `accepted` and `ignored` count records. `fault`: why the judging ended.
    """

    chain: Chain
    first: int
    claim: EpochStarted | None = None
    last: LogRecord | None = None
    hash: bytes = b""
    hash_round: int = 0
    accepted: int = 0
    ignored: int = 0
    fault: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class MachineStatus:
    """One machine of one cell: its history, who runs it (empty: nobody), records behind per topic."""

    cell: int
    machine: str
    history: History
    runner: str
    behind: Mapping[str, int]
    problems: list[str]

    def body(self) -> dict[str, Any]:
        """As JSON has it."""
        history, claim = self.history, self.history.claim
        return {
            "cell": self.cell,
            "machine": self.machine,
            "epoch": history.chain.epoch,
            "claimant": claim.claimant if claim else None,
            "runner": self.runner or None,
            "round": history.chain.round,
            "at_ms": history.last.at_ms if history.last else None,
            "behind": dict(self.behind),
            "hash": history.hash.hex() or None,
            "hash_after_round": history.hash_round,
            "verified_from": history.first,
            "ignored": history.ignored,
            "problems": self.problems,
        }


def history(log: Log, machine: str) -> History:
    """Judges the end of a machine's topic. Raises `LogError`."""
    topic = rounds_of(machine)
    start, _, records = _tail(log, topic)
    if start == 0:
        return _follow_records(records, History(Chain(), 0), machine, log.cell)
    loaded = History(Chain(), start)
    beginnings = [(at, key) for at, record in enumerate(records) if (key := key_of(record)) is not None]
    for at, key in beginnings[:BEGINNINGS]:
        attempt = _follow_records(records[at:], History(_before(key), records[at].offset), machine, log.cell)
        if attempt.accepted > loaded.accepted:
            loaded = attempt
        if 2 * loaded.accepted > len(records):
            break
    return loaded


def check_machine(
    log: Log,
    machine: Machine,
    ends: Mapping[str, int],
    group: "Group | None",
    runner: str,
    alarm_unread_ms: int = ALARM_UNREAD_MS,
) -> MachineStatus:
    """Looks at one machine of a cell; `ends` are those of its inputs, `group` where Kafka has one for it;
    `alarm_unread_ms`: see `late_since_ms`.
    """
    loaded = history(log, machine.name)
    behind = {}
    for topic, end in ends.items():
        read_to = group.read.get((topic, log.cell), 0) if group else 0
        behind[topic] = max(0, end - max(read_to, loaded.chain.inputs.get(topic, loaded.seen.get(topic, 0))))
    out = MachineStatus(log.cell, machine.name, loaded, runner, behind, [])
    where = f"{machine.name} of cell {log.cell}"
    if not runner:
        out.problems.append(f"Nobody runs {where}. Start `paceline processor {machine.name}`, or `paceline up`.")
    if loaded.fault:
        out.problems.append(loaded.fault)
    elif runner and not loaded.accepted:
        out.problems.append(f"{where} has decided nothing yet. Look at what {runner} says.")
    topics = set(ends) if loaded.first == 0 else set(loaded.chain.inputs)  # of a tail, what its rounds name
    unread = unread_of(
        machine.name, loaded.chain.inputs, {topic: end for topic, end in ends.items() if topic in topics}
    )
    now_ms = int(time.time() * 1000)
    if late := late_since_ms(log, machine.name, unread, now_ms, alarm_unread_ms):
        out.problems.append(
            f"{where} doesn't decide: the oldest record that it leaves unread has waited for "
            f"{span((now_ms - late) / 1000)}. Look at what {runner or 'its process'} says."
        )
    lag = sum(behind.values())
    if runner and group and lag > BEHIND_MAX:
        out.problems.append(f"{where} is {lag} records behind. Look at what {runner} says.")
    return out


def gateway_missing(log: Log) -> str:
    """The advice where no gateway was heard lately; empty: one was, or more records came since than are looked at.
    Raises `LogError`.
    """
    _, whole, records = _tail(log, GatewayBeat.topic)
    since_ms = (time.time() - SILENT_S) * 1000
    lag = [record for record in records if record.at_ms >= since_ms]
    if (lag == records and not whole) or any(isinstance(_event(record), GatewayBeat) for record in lag):
        return ""
    return (
        f"No gateway of cell {log.cell} was heard for {SILENT_S} s. "
        f"Start `paceline gateway --cell {log.cell}`, or `paceline up`."
    )


def age_seconds(standing: MachineStatus) -> float | None:
    """Seconds since the newest record of a machine was appended, by the log's time and this machine's clock."""
    last = standing.history.last
    return None if last is None else max(0.0, time.time() - last.at_ms / 1000)


def _tail(log: Log, topic: str) -> tuple[int, bool, list[LogRecord]]:
    """The newest records of a topic, with the offset where they begin and whether the log has none before."""
    first, end = log.bounds(topic)
    start = max(first, end - TAIL_RECORDS)
    return start, start == first, list(log.scan(topic, start))


def _event(record: LogRecord) -> Event | None:
    try:
        return decode(record.value)
    except CodecError:
        return None


def _before(key: RoundKey) -> Chain:
    """The chain of a reader that accepts the record with this key next."""
    if key.kind == CLAIM:
        return Chain(epoch=key.epoch - 1, round=key.round, hash=key.prev)
    return Chain(epoch=key.epoch, round=key.round - 1, hash=key.prev)


def _follow_records(records: Iterable[LogRecord], out: History, machine: str, cell: int) -> History:
    chain, partly = out.chain, out.first > 0
    for record in records:
        key = parse(record.key)
        judged = partly and key is not None and chain.judge(key, machine, cell) is Acceptance.ACCEPTED
        event = _event(record) if judged else None
        if isinstance(event, RoundCommitted):
            for segment in event.inputs:  # where a topic begins that hasn't come yet, this round says
                chain.inputs.setdefault(segment.topic, segment.start)
        try:
            event = accept(record, chain, machine, cell).event
        except RoundFault as fault:
            out.fault = str(fault)
            break
        if event is None:
            out.ignored += 1
            continue
        out.accepted += 1
        out.last = record
        if isinstance(event, EpochStarted):
            out.claim, out.hash, out.hash_round = event, event.start_hash, event.round
        elif isinstance(event, RoundCommitted):
            out.hash, out.hash_round = event.start_hash, event.round - 1
            out.seen = {seen.topic: seen.position for seen in event.seen}
    return out
