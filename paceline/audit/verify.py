"""Verifies that who wrote a fact was allowed to, by bindings as they stood where the fact says that it was checked."""

from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from events.actors import OIDC, PROVEN, RUN, TOKEN
from events.codec import CodecError, decode_once, writer_schema
from events.hashed_names import NameHashes, is_hashed
from events.log.port import Log, LogRecord
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobAccepted
from events.records.parts import Actor
from events.records.tasks import SecretPut
from events.signatures import VERIFIED
from events.topics import FACTS, HOSTS, JOBS, POOLS, TASKS
from paceline.audit.decisions import decisions
from paceline.audit.history import AccessHistory, HeldRole, HeldToken, Span
from paceline.audit.owners import Owned, Owners
from paceline.audit.rules import EVERYBODY, NEEDS, OF_RUNS, ROOT, WITHOUT_NEED, Need, above, is_below, lets

KEPT_MAX = 1_000
"""Findings that are kept; others are counted."""
TOPICS = (POOLS.name, JOBS.name, HOSTS.name, TASKS.name)
assert set(TOPICS) == FACTS


class Act(NamedTuple):
    """A fact that somebody wrote."""

    topic: str
    offset: int
    at_ms: int
    kind: str
    fact: Any
    actor: Actor

    @property
    def position(self) -> str:
        """Where it stands."""
        return f"{self.topic}:{self.offset}"


class Finding(NamedTuple):
    """A fact that was not allowed, or landed late. `fails`: it makes the audit fail. `late_ms`: how late it landed."""

    position: str
    at_ms: int
    event: str
    subject: str
    code: str
    message: str
    fails: bool = True
    late_ms: int = 0


@dataclass
class Verdict:
    """The result of an audit. `verified`: facts whose actor was known by proof; `unverified`: the others, by how the
    name was known; `unknown`: facts whose binding or job stands before the beginning of the log, or whose names are
    hashed by a key that isn't here.
    """

    facts: int = 0
    verified: int = 0
    allowed: int = 0
    late: int = 0
    unknown: int = 0
    failed: int = 0
    unverified: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def found(self, finding: Finding) -> None:
        """Takes a finding."""
        self.failed += finding.fails
        self.late += not finding.fails
        if len(self.findings) < KEPT_MAX:
            self.findings.append(finding)


class Fault(NamedTuple):
    """Why an act was not allowed. `late_ms` 0: it never was."""

    code: str
    message: str
    late_ms: int = 0


NO_KEY = Fault("UNKNOWN", "it has a hash for a name, and the key of names isn't here")


def verify(log: Log, on_step: Callable[[str, int], None], names: NameHashes | None = None) -> Verdict:
    """Verifies all facts of a log; `on_step` is told a topic and an offset now and then. `names`: by which facts may
    have hashes of subjects. Raises `LogError`.
    """
    with closing(Owners()) as owners:
        audit = _Audit(log, owners, names)
        for topic in TOPICS:
            for act in audit.acts(topic, on_step):
                audit.judge(act)
        return audit.verdict


class _Audit:
    """An audit of a log, with what it has to know of it before it judges."""

    def __init__(self, log: Log, owners: Owners, names: NameHashes | None) -> None:
        self.verdict = Verdict()
        self._names = names
        self._log = log
        self._owners = owners
        self._history = access_history(log)
        for decision in decisions(log, "lifecycle", JobAccepted):
            assert isinstance(decision, JobAccepted)
            owners.accept(decision.jobs_offset)

    def acts(self, topic: str, on_step: Callable[[str, int], None]) -> Iterator[Act]:
        """The facts of a topic that somebody wrote."""
        kinds = NEEDS.keys() | WITHOUT_NEED
        for record in self._log.scan(topic, self._log.bounds(topic)[0]):
            if record.offset % 10_000 == 0:
                on_step(topic, record.offset)
            fact = _fact(record, kinds)
            if fact is None:
                continue
            self._note(record, fact)
            kind, actor = type(fact).__name__, getattr(fact, "actor", None)
            if kind in WITHOUT_NEED:
                continue
            self.verdict.facts += 1
            if actor is None or actor.how not in PROVEN:
                self.verdict.unverified["not said" if actor is None else actor.how] += 1
                continue
            if not actor.signature and self._history.keys(record.at_ms).has_root:
                self.verdict.unverified[f"{actor.how}, not signed"] += 1
                continue
            yield Act(topic, record.offset, record.at_ms, kind, fact, actor)

    def _note(self, record: LogRecord, fact: Event) -> None:
        """Notes what later facts are about."""
        if isinstance(fact, JobSubmitted):
            sure = self._owners.was_accepted(record.offset)
            self._put("job", fact.job_id, record, fact.pool, fact.actor, sure)
        elif isinstance(fact, SecretPut):
            self._put("secret", fact.name, record, fact.pool, fact.actor, True)

    def _put(self, kind: str, name: str, record: LogRecord, pool: str, actor: Actor | None, sure: bool) -> None:
        subject = actor.subject if actor is not None and actor.how in PROVEN else ""
        self._owners.put(kind, name, record.at_ms, record.offset, Owned(pool, subject), sure)

    def judge(self, act: Act) -> None:
        """Judges a fact of a proven actor."""
        self.verdict.verified += 1
        faults = list(self._faults(act))
        worst = max(faults, key=_weight, default=None)
        if worst is None:
            self.verdict.allowed += 1
            return
        if worst.code == "UNKNOWN":
            self.verdict.unknown += 1
            return
        fails = not worst.late_ms or worst.late_ms > self._history.late_after_ms(act.at_ms)
        self.verdict.allowed += not fails
        place = act.position, act.at_ms, act.kind, act.actor.subject
        self.verdict.found(Finding(*place, worst.code, worst.message, fails, worst.late_ms))

    def _faults(self, act: Act) -> Iterator[Fault]:
        actor, need = act.actor, NEEDS[act.kind]
        if actor.signature and self._standing(act) != VERIFIED:
            yield Fault("FORGED", "its signature is by no key that vouches for its actor")
        if actor.how == RUN:
            yield from _run_faults(act)
            return
        token = self._history.token(actor.credential, actor.read_to) if actor.how == TOKEN else None
        if actor.how == TOKEN:
            yield from self._token_faults(act, token)
        yield from self._reading_faults(act)
        if actor.binding is None:
            yield Fault("NO_BINDING", "it names no binding that allowed it")
            return
        role = self._history.roles.get(actor.binding)
        if role is None:
            if actor.binding < self._history.start:
                yield Fault("UNKNOWN", "its binding stands before the beginning of the log")
            else:
                yield Fault("NO_SUCH_BINDING", f"there is no binding at paceline.pools:{actor.binding}")
            return
        yield from self._role_faults(act, need, role, token)

    def _standing(self, act: Act) -> str:
        return self._history.keys(act.at_ms).standing(act.fact, self._log.cell, act.at_ms)

    def _token_faults(self, act: Act, token: HeldToken | None) -> Iterator[Fault]:
        if token is None:
            if not self._history.start:
                yield Fault("NO_SUCH_TOKEN", f"no token {act.actor.credential} was ever made")
            return
        what = f"token {act.actor.credential}"
        if (same := self._same(token.subject, act.actor.subject)) is None:
            yield NO_KEY
        elif not same:
            yield Fault("OTHER_TOKEN", f"{what} is of {token.subject}")
        yield from _span_faults(act, token, what, "was made")

    def _reading_faults(self, act: Act) -> Iterator[Fault]:
        read_to = act.actor.read_to
        end = act.offset if act.topic == POOLS.name else self._history.end
        if read_to is None:
            yield Fault("NOT_READ", "it doesn't say how far paceline.pools was read")
        elif read_to >= end:
            yield Fault("READ_AHEAD", f"it says that paceline.pools:{read_to} was read, which wasn't there")

    def _role_faults(self, act: Act, need: Need, role: HeldRole, token: HeldToken | None) -> Iterator[Fault]:
        actor, what = act.actor, f"binding {role.binding_id} (paceline.pools:{role.offset})"
        groups = token.groups if token is not None else ()
        by_group = role.group in (EVERYBODY, *groups) or (role.group and actor.how == OIDC)
        same = bool(by_group) or self._same(role.subject, actor.subject)
        if same is None:
            yield NO_KEY
        elif not same:
            yield Fault("OTHER_SUBJECT", f"{what} is of {role.subject or f'group {role.group}'}")
        yield from _span_faults(act, role, what, "was bound")
        early_ms = role.from_ms - act.at_ms
        if early_ms > self._history.late_after_ms(act.at_ms):
            yield Fault("TOO_EARLY", f"{what} held {early_ms} ms later only")
        pool, owner = self._place(act, need)
        if pool is None:
            yield Fault("UNKNOWN", "what it is about stands before the beginning of the log")
            return
        if pool and not is_below(pool, role.pool):
            yield Fault("OTHER_POOL", f"{what} is of {role.pool}, and this is about {pool}")
        own = need.over == "any" or self._same(owner, actor.subject)
        if own is None and lets(role.role, need, own=True) and not lets(role.role, need, own=False):
            yield NO_KEY
        elif not lets(role.role, need, own=bool(own)):
            needed = need.verbs.replace(" ", " or ")
            yield Fault("OTHER_VERB", f"{what} is of a {role.role}, and this needs {needed}")

    def _same(self, one: str, other: str) -> bool | None:
        """Whether two names are of one subject, either of which may be hashed; None: only the key could tell."""
        if one == other:
            return True
        if self._names is not None:
            return bool(one and other) and (other == self._names.of(one) or one == self._names.of(other))
        return None if one and other and is_hashed(one) != is_hashed(other) else False

    def _place(self, act: Act, need: Need) -> tuple[str | None, str]:
        """The pool that a fact is about, and who owns what it is about. None: not known; empty: any."""
        match need.over:
            case "cell":
                return ROOT, ""
            case "pool":
                owner = act.actor.subject if isinstance(act.fact, SecretPut) else ""
                return act.fact.pool, owner
            case "above":
                return above(act.fact.path), ""
            case "job":
                return self._owned("job", act.fact.job_id, act.at_ms)
            case "secret":
                return self._owned("secret", act.fact.name, act.at_ms)
        return "", ""

    def _owned(self, kind: str, name: str, at_ms: int) -> tuple[str | None, str]:
        owned = self._owners.find(kind, name, at_ms)
        return (None, "") if owned is None else owned


def access_history(log: Log) -> AccessHistory:
    """The bindings and tokens at each position of a log. Raises `LogError`."""
    carried_out = set[int]()
    for decision in decisions(log, "entitlement", PoolAnswered):
        assert isinstance(decision, PoolAnswered)
        if decision.code == "DONE":
            carried_out.add(decision.pools_offset)
    start, end = log.bounds(POOLS.name)
    history = AccessHistory(start, end)
    kinds = {"RoleBound", "RoleUnbound", "TokenIssued", "TokenRevoked", "CellConfigured", "PoolRemoved"}
    for record in log.scan(POOLS.name, start):
        fact = _fact(record, kinds)
        if fact is not None:
            history.learn(record.at_ms, fact)
            if record.offset in carried_out:
                history.apply(record.offset, record.at_ms, fact)
        history.end = record.offset + 1
    return history


def _fact(record: LogRecord, kinds: Set[str]) -> Event | None:
    """The fact of one of these kinds in a record; None: it is another, or no record."""
    try:
        if writer_schema(record.value)["name"].rpartition(".")[2] not in kinds:
            return None
        return decode_once(record.value)
    except CodecError:
        return None


def _weight(fault: Fault) -> tuple[bool, bool, int]:
    """The rank of a fault among several: one that no time mends, then the latest, then what isn't known."""
    return fault.code != "UNKNOWN" and not fault.late_ms, fault.late_ms > 0, fault.late_ms


def _run_faults(act: Act) -> Iterator[Fault]:
    """A run may add instances to its own job."""
    if act.kind not in OF_RUNS:
        yield Fault("OTHER_VERB", "the token of a run adds instances to its own job, and does nothing else")
    elif (job_id := getattr(act.fact, "job_id", None)) and act.actor.subject.split("/")[1:2] != [job_id]:
        yield Fault("OTHER_SUBJECT", f"the run isn't one of job {job_id}")


def _span_faults(act: Act, span: Span, what: str, verb: str) -> Iterator[Fault]:
    """Whether something held where a fact says that it was checked, and when it landed."""
    read_to = act.actor.read_to
    if read_to is None:
        return
    if span.offset > read_to:
        yield Fault("NOT_YET", f"{what} {verb} after paceline.pools:{read_to}, up to which was read")
    elif span.end is not None and span.end <= read_to:
        yield Fault("ENDED", f"{what} had ended at paceline.pools:{span.end}, and paceline.pools:{read_to} was read")
    elif span.end_ms and act.at_ms > span.end_ms:
        late_ms = act.at_ms - span.end_ms
        yield Fault("LATE", f"it landed {late_ms} ms after the end of {what}", late_ms)
