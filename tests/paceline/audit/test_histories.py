"""Drawn histories of roles, tokens and facts: the audit finds what a twin does, which reads all of it for each fact."""

from typing import Any, NamedTuple

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

from events.access import EVERYBODY, covers
from events.pool_paths import parent_of
from events.records.entitlement import PoolAnswered
from events.records.hosts import HostsCordonRequested
from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from events.records.pools import (
    CellConfigured,
    LockdownSet,
    PoolDefined,
    PoolRemoved,
    RoleBound,
    RoleUnbound,
    TokenIssued,
    TokenRevoked,
)
from events.roles import ROLES, Verb
from paceline.audit.verify import verify
from tests.helpers.drawn import examples
from tests.helpers.written_cell import Cell, job

POOLS = ("/maps", "/maps/tiles", "/mapsets", "/ads")
SUBJECTS, GROUPS = ("ci", "ann"), ("crew", EVERYBODY)
AHEAD = 10_000
"""A position that no history reaches."""
LATE_AFTER_MS = 10_000


class Stored(NamedTuple):
    """A fact of paceline.pools, and whether entitlement has carried it out."""

    offset: int
    at_ms: int
    fact: Any
    done: bool


class Act(NamedTuple):
    """A fact with a proven actor. `verb`, `pool`, `own`: what it needs; `pool` None: nobody knows what it is about."""

    position: str
    at_ms: int
    end: int | None
    actor: Actor
    verb: Verb
    pool: str | None
    own: bool


class History:
    """A log, as its steps write it, and all that the twin has to know of it."""

    def __init__(self) -> None:
        self.cell = Cell()
        self.stored: list[Stored] = []
        self.jobs: dict[str, tuple[str, str]] = {}
        """Pools of jobs that were accepted, and who submitted each."""
        self.acts: list[Act] = []
        for path in POOLS:
            self.fact(PoolDefined(path=path, command_id="d"))

    def fact(self, fact: Any, done: bool = True) -> int:
        """Writes a fact of paceline.pools, and its answer."""
        offset = self.cell.fact(fact)
        self.stored.append(Stored(offset, self.cell.ms, fact, done))
        code = "DONE" if done else "INVALID_ACCESS"
        self.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=offset, command_id="c", code=code))
        return offset

    # The steps.

    def wait(self, ms: int) -> None:
        self.cell.ms += ms

    def bind(
        self, name: str, holder: tuple[str, str], role: str, pool: str, times: tuple[int, int], done: bool
    ) -> None:
        subject, group = holder
        from_ms, until_ms = (self.cell.ms + each if each else 0 for each in times)
        bound = RoleBound(command_id="b", binding_id=name, subject=subject, group=group, role=role, pool=pool)
        self.fact(msgspec.structs.replace(bound, from_ms=from_ms, until_ms=until_ms), done)

    def unbind(self, name: str) -> None:
        self.fact(RoleUnbound(command_id="u", binding_id=name), name in state_at(self.stored, AHEAD)[0])

    def issue(self, name: str, subject: str, groups: tuple[str, ...], until: int) -> None:
        old = state_at(self.stored, AHEAD)[1].get(name)
        is_free = old is None or 0 < old.fact.until_ms <= self.cell.ms
        until_ms = self.cell.ms + until if until else 0
        issued = TokenIssued(command_id="i", token_id=name, subject=subject, groups=groups, token_hash=bytes(32))
        self.fact(msgspec.structs.replace(issued, until_ms=until_ms), is_free)

    def revoke(self, name: str) -> None:
        self.fact(TokenRevoked(command_id="r", token_id=name), name in state_at(self.stored, AHEAD)[1])

    def remove(self, pool: str) -> None:
        self.fact(PoolRemoved(path=pool, command_id="r"))
        self.fact(PoolDefined(path=pool, command_id="d"))

    def allow_late(self, ms: int) -> None:
        self.fact(CellConfigured(command_id="l", late_after_ms=ms))

    def act(self, kind: str, job_id: str, pool: str, token: str, lie: str, choice: int, unread: int) -> None:
        """Somebody writes a fact by a token, and names one of the bindings that ever were. `unread`: facts of the topic
        that the server hadn't read; -1: it doesn't say, -2: it says more than there are.
        """
        self.cell.ms += 1
        end = self.cell.log.bounds("paceline.pools")[1]
        read_to = {-1: None, -2: AHEAD}.get(unread, end - 1 - unread)
        issued = [each for each in self.stored if isinstance(each.fact, TokenIssued) and each.fact.token_id == token]
        subject = lie or (issued[-1].fact.subject if issued else "ci")
        bound = [each for each in self.stored if isinstance(each.fact, RoleBound)]
        own = [each for each in bound if each.fact.subject == subject or each.fact.group]
        chosen = own if own and choice >= 0 else bound
        binding = chosen[-1 - choice % len(chosen)].offset if chosen else None
        actor = Actor(subject, how="token", binding=binding, read_to=read_to, credential=token)
        match kind:
            case "submit":
                offset = self._acted(msgspec.structs.replace(job(job_id, pool=pool), actor=actor), Verb.SUBMIT, pool)
                if job_id not in self.jobs:
                    self.jobs[job_id] = pool, actor.subject
                    self.cell.accept(job_id, offset, pool=pool)
            case "stop":
                place, owner = self.jobs.get(job_id, (None, ""))
                stop = JobStopRequested(job_id=job_id, command_id="s", actor=actor)
                self._acted(stop, Verb.CHANGE, place, owner == actor.subject)
            case "define":
                self._acted(PoolDefined(path=pool, command_id="d", actor=actor), Verb.POOLS, parent_of(pool))
            case "lock":
                self._acted(LockdownSet(command_id="l", pool=pool, locked=True, actor=actor), Verb.LOCKDOWN, pool)
            case "cordon":
                cordon = HostsCordonRequested(host_ids=("h",), command_id="h", actor=actor)
                self._acted(cordon, Verb.HOSTS, "/")

    def land_late(self, ending: str, ms: int, choice: int) -> None:
        """Something ends, and a fact that was allowed before lands so much later; the id of the token is free again."""
        before = self.cell.log.bounds("paceline.pools")[1]
        match ending:
            case "unbind":
                self.unbind("b1")
            case "revoke":
                self.revoke("t1")
                self.issue("t1", "ci", (), 0)
            case "remove":
                self.remove("/maps")
            case "rebind" | "postpone":
                self.bind("b1", ("ci", ""), "submitter", "/maps", (40_000 * (ending == "postpone"), 0), True)
        self.wait(ms)
        unread = self.cell.log.bounds("paceline.pools")[1] - before
        self.act("submit", "a", "/maps", "t1", "", choice, unread)
        self.act("submit", "b", "/maps", "t1", "", 0, 0)

    def _acted(self, fact: Any, verb: Verb, pool: str | None, own: bool = False) -> int:
        if fact.topic == "paceline.pools":
            offset = end = self.fact(fact)
        else:
            offset, end = self.cell.fact(fact), None
        self.acts.append(Act(f"{fact.topic}:{offset}", self.cell.ms, end, fact.actor, verb, pool, own))
        return offset


def state_at(stored: list[Stored], read_to: int) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """The bindings and tokens by their ids, to who has read so far."""
    bindings: dict[str, Stored] = {}
    tokens: dict[str, Stored] = {}
    for each in stored:
        if not each.done or each.offset > read_to:
            continue
        match each.fact:
            case RoleBound(binding_id=name):
                bindings[name] = each
            case RoleUnbound(binding_id=name):
                bindings.pop(name, None)
            case TokenIssued(token_id=name):
                tokens[name] = each
            case TokenRevoked(token_id=name):
                tokens.pop(name, None)
            case PoolRemoved(path=path):
                bindings = {name: held for name, held in bindings.items() if held.fact.pool != path}
    return bindings, tokens


def end_of(stored: list[Stored], held: Stored) -> int:
    """When something ended, by a fact or by itself; 0: it didn't."""
    ends = [held.fact.until_ms] if held.fact.until_ms else []
    for each in stored:
        bindings, tokens = state_at(stored, each.offset)
        if each.offset > held.offset and held not in (*bindings.values(), *tokens.values()):
            ends.append(each.at_ms)
            break
    return min(ends, default=0)


def judged(history: History, act: Act) -> str:
    """What the audit has to say of an act: `allowed`, `late`, `failed` or `unknown`."""
    stored, actor, read_to = history.stored, act.actor, act.actor.read_to
    if read_to is None or read_to >= (stored[-1].offset + 1 if act.end is None else act.end):
        return "failed"
    bindings, tokens = state_at(stored, read_to)
    token = tokens.get(actor.credential)
    binding = next((each for each in bindings.values() if each.offset == actor.binding), None)
    if token is None or token.fact.subject != actor.subject or binding is None:
        return "failed"
    bound, role = binding.fact, ROLES[binding.fact.role]
    if bound.subject != actor.subject and bound.group not in (EVERYBODY, *token.fact.groups):
        return "failed"
    set_ = [each for each in stored if isinstance(each.fact, CellConfigured) and each.at_ms <= act.at_ms]
    late_after_ms = set_[-1].fact.late_after_ms if set_ else LATE_AFTER_MS
    if bound.from_ms - act.at_ms > late_after_ms:
        return "failed"
    if act.pool is not None:
        verbs = role.verbs | (role.own if act.own else frozenset())
        if not covers(bound.pool, act.pool) or act.verb not in verbs:
            return "failed"
    late_ms = max((act.at_ms - end for held in (token, binding) if (end := end_of(stored, held))), default=0)
    if late_ms > 0:
        return "failed" if late_ms > late_after_ms else "late"
    return "allowed" if act.pool is not None else "unknown"


def often(*usual: Any, rare: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """One of these, the rare ones less often."""
    return st.sampled_from((*usual * (1 + 6 * len(rare) // len(usual)), *rare))


NAMES, TOKENS = often("b1", rare=("b2",)), often("t1", rare=("t2",))
HOLDERS = often(("ci", ""), rare=(("ann", ""), ("", "crew"), ("", EVERYBODY)))
ROLE = often("submitter", "pool-admin", "admin", rare=tuple(ROLES))
ENDS, WAITS = often(0, rare=(5, 5_000, 30_000)), st.sampled_from((1, 6, 4_000, 9_999, 12_000))
CHOICES = often(0, rare=(1, 2, -1))
ACTS = st.tuples(
    *(st.just("act"), st.sampled_from(("submit", "submit", "submit", "stop", "stop", "define", "lock", "cordon"))),
    *(st.sampled_from("abc"), st.sampled_from(POOLS), TOKENS, often("", rare=("ann",)), CHOICES),
    often(0, rare=(1, 2, 3, -1, -2)),
)
BINDS = st.tuples(
    *(st.just("bind"), NAMES, HOLDERS, ROLE, st.sampled_from(("/", "/maps", *POOLS))),
    *(st.tuples(often(0, rare=(4_000, 40_000)), ENDS), often(True, rare=(False,))),
)
ISSUES = st.tuples(st.just("issue"), TOKENS, st.sampled_from(SUBJECTS), st.sampled_from(((), ("crew",))), ENDS)
STEPS = st.one_of(
    *(ACTS, ACTS, ACTS, BINDS, ISSUES),
    st.tuples(st.just("wait"), WAITS),
    st.tuples(
        st.just("land_late"), st.sampled_from(("unbind", "revoke", "remove", "rebind", "postpone")), WAITS, CHOICES
    ),
    st.tuples(st.just("allow_late"), st.sampled_from((0, 5_000, 20_000))),
)
BEGIN = (
    ("issue", "t1", "ci", ("crew",), 0),
    ("issue", "t2", "ann", (), 0),
    ("bind", "b1", ("ci", ""), "submitter", "/maps", (0, 0), True),
    ("bind", "b2", ("ann", ""), "submitter", "/", (0, 0), True),
    ("act", "submit", "a", "/maps", "t1", "", 0, 0),
    ("act", "submit", "b", "/maps", "t2", "", 0, 0),
)


@examples(1_000, suite=200)
@given(st.lists(STEPS, min_size=8, max_size=30))
def test_the_audit_finds_what_a_naive_twin_finds(steps: list[tuple[Any, ...]]) -> None:
    history = History()
    for name, *values in (*BEGIN, *steps):
        getattr(history, name)(*values)
    told = {act.position: judged(history, act) for act in history.acts}
    verdict = verify(history.cell.log, lambda topic, offset: None)
    counts = {each: list(told.values()).count(each) for each in ("allowed", "late", "failed", "unknown")}
    for name, count in counts.items():
        if count:
            event(name)
    found = {each.position: "failed" if each.fails else "late" for each in verdict.findings}
    assert found == {position: each for position, each in told.items() if each in ("late", "failed")}
    assert verdict.verified == len(told)
    assert verdict.unknown == counts["unknown"]
    assert verdict.allowed == counts["allowed"] + counts["late"]
    assert verdict.facts - verdict.verified == sum(verdict.unverified.values())
