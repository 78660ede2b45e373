"""Each promise that the checker looks after, broken in rounds that nobody but this test has written."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import pytest
from msgspec.structs import replace

from events.codes import Outcome, RunReport
from events.columns import pack_ints, pack_longs
from events.id_digests import job_digest
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, EntitlementsSet, GangsAdmitted, GangsHeld, PoolAnswered
from events.records.hosts import HostConnected, HostOffered, HostSilent
from events.records.lifecycle import (
    GangsQueued,
    HostReconciled,
    JobAccepted,
    JobChanged,
    JobsForgotten,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.parts import Constraint, TaskShape
from events.records.placement import CapacityChanged, GangsReturned, HostLost, TasksPlaced
from events.records.pools import PoolDefined
from events.records.rounds import TimerPassed
from events.records.sla import DisruptionAllowed
from events.records.tasks import HostInventory, RunsReported
from events.resources import Amounts
from paceline.simulate.checker.history import Round, Taken, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.runs import Runs
from tests.helpers.machines import shaped

SECOND_MS = 1000
ROOM = {"cpu": 2000, "memory": 2000, "disk": 2000, "gpu": 2000}


class Fold(Protocol):
    """A part of the checker."""

    def round(self, round_: Round) -> None: ...


class Turn(NamedTuple):
    """What a machine takes in, and what it decides then."""

    inputs: Sequence[Event]
    decisions: Sequence[Event]


def takes(*inputs: Event) -> Turn:
    return Turn(inputs, ())


def decides(*decisions: Event) -> Turn:
    return Turn((), decisions)


def play(fold: Fold, turns: Sequence[Turn]) -> None:
    for number, turn in enumerate(turns):
        inputs = [Taken("a topic", number, event, SECOND_MS * (number + 1)) for event in turn.inputs]
        fold.round(Round("it", number + 1, number, inputs, list(turn.decisions), SECOND_MS * (number + 1)))


def breaks(fold: Fold, turns: Sequence[Turn], says: str) -> None:
    """All turns but the last are in order, which breaks the promise that the text is about."""
    play(fold, turns[:-1])
    with pytest.raises(Violation, match=re.escape(says)):
        play(fold, turns[-1:])


def runs(run: int, *instances: int) -> dict[str, Any]:
    """One run of instances of the job j."""
    size = len(instances)
    return {
        "job_ids": ("j",),
        "job": pack_ints([0] * size),
        "instance": pack_ints(instances),
        "run": pack_ints([run] * size),
    }


def places(run: int, *instances: int, host: str = "h", session: int = 1, ports: Sequence[int] = ()) -> dict[str, Any]:
    there = {"host_ids": (host,), "host_session": pack_longs([session]), "host": pack_ints([0] * len(instances))}
    each = [len(ports) // len(instances)] * len(instances) if ports else []
    return runs(run, *instances) | there | {"ports": pack_ints(ports), "port_count": pack_ints(each)}


def gangs(run: int, count: int = 1, gang: bool = False) -> dict[str, Any]:
    """The first instances of the job j."""
    columns = {"job": 0, "first": 0, "count": count, "run": run, "gang": int(gang)}
    return {"job_ids": ("j",), **{name: pack_ints([value]) for name, value in columns.items()}}


def accepted(pool: str = "/p", need: Amounts | None = None, **what: Any) -> JobAccepted:
    need = need or {"cpu": 1000}
    what = {"kind": "batch", "instances": 2} | what
    return JobAccepted(job_id="j", jobs_offset=0, pool=pool, **shaped(need, **what))


def placed(run: int, *instances: int, **where: Any) -> TasksPlaced:
    return TasksPlaced(**places(run, *instances, **where))


def ordered(run: int, *instances: int, **where: Any) -> RunsOrdered:
    return RunsOrdered(**places(run, *instances, **where))


def ended(run: int, *instances: int, outcome: int = Outcome.LOST, kept: bool = False) -> RunsEnded:
    size = len(instances)
    columns = {"outcome": outcome, "exit_code": 0, "kept": int(kept)}
    return RunsEnded(**runs(run, *instances), **{name: pack_ints([value] * size) for name, value in columns.items()})


def stopping(run: int, *instances: int, cause: int = Outcome.STOPPED) -> RunsStopping:
    size = len(instances)
    where = {"host_ids": ("h",), "host": pack_ints([0] * size), "cause": pack_ints([cause] * size)}
    return RunsStopping(**runs(run, *instances), **where)


def reported(run: int, *instances: int, state: int, host: str = "h") -> RunsReported:
    size = len(instances)
    said = {"host": pack_ints([0] * size), "state": pack_ints([state] * size), "exit_code": pack_ints([0] * size)}
    return RunsReported(gateway="g", host_ids=(host,), **runs(run, *instances), **said)


def queued(run: int, count: int = 1, gang: bool = False, kept: bool = False) -> GangsQueued:
    return GangsQueued(**gangs(run, count, gang), admitted=pack_ints([int(kept)]))


def admitted(run: int, count: int = 1, gang: bool = False) -> GangsAdmitted:
    return GangsAdmitted(**gangs(run, count, gang))


def held(code: str) -> GangsHeld:
    return GangsHeld(pool="/p", at="/p", code=code, asked={}, **gangs(1))


def changed(state: str, **counts: int) -> JobChanged:
    return JobChanged(job_id="j", state=state, **counts)


STARTED = [takes(placed(1, 0)), decides(accepted(), ordered(1, 0)), takes(reported(1, 0, state=RunReport.STARTED))]
GANG = [takes(placed(1, 0, 1)), decides(accepted(gang_min=2), ordered(1, 0, 1))]
OVER = [*STARTED, decides(ended(1, 0))]
KILLED = [*OVER, decides(changed("KILLED", killed=2))]
ELSEWHERE = [*OVER, takes(placed(2, 0, host="g")), decides(ordered(2, 0, host="g"))]


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([decides(accepted()), decides(accepted())], "accepts j for the second time"),
        ([decides(accepted(), ordered(1, 0))], "placed was None"),
        ([*STARTED, takes(placed(2, 0)), decides(ordered(2, 0))], "orders ('j', 0) run 2 while run (1, 'h') is live"),
        ([*OVER, decides(ordered(1, 0))], "run 1, which is over"),
        ([*KILLED, takes(placed(2, 0)), decides(ordered(2, 0))], "run 2, which is over"),
        ([*GANG[:1], takes(placed(2, 1)), decides(*GANG[1].decisions[:1], ordered(1, 0), ordered(2, 1))], "of a gang"),
        ([*STARTED, decides(stopping(2, 0))], "run 2, which isn't live"),
        (
            [STARTED[0], decides(accepted(max_unavailable=1), ordered(1, 0)), decides(stopping(1, 0, cause=4))],
            "disturbs ('j', 0) run 1 without a verdict of sla",
        ),
        ([*OVER, decides(ended(1, 0))], "ends ('j', 0) run 1 for the second time"),
        ([*STARTED, decides(ended(1, 0, outcome=Outcome.SUCCEEDED))], "by itself, which no host has said"),
        ([*GANG, decides(ended(1, 0)), decides()], "leaves ('j', 1) run 1 of a gang of which ('j', 0) has ended"),
        ([*KILLED, decides(changed("SUCCEEDED", succeeded=2))], "j is SUCCEEDED after KILLED"),
        ([*OVER, decides(changed("KILLED", killed=1))], "j is KILLED with 1 of 2 outcomes"),
        ([*STARTED, decides(changed("KILLED", killed=2))], "j is KILLED and has live runs"),
        ([*OVER, decides(JobsForgotten(job_ids=("j",)))], "forgets ['j'], which have no outcome"),
        ([*STARTED, takes(reported(1, 0, state=RunReport.STOPPED))], "was stopped, which nobody has told to"),
        ([*STARTED, takes(reported(2, 0, state=RunReport.STARTED))], "goes on at h, which nobody has ordered"),
        ([*STARTED, takes(reported(1, 0, state=RunReport.STARTED, host="g"))], "goes on at g, which nobody"),
        ([*ELSEWHERE, takes(reported(2, 0, state=RunReport.STARTED, host="g"))], "two runs of ('j', 0) go on"),
    ],
)
def test_lifecycle_breaks_a_promise(turns: list[Turn], says: str) -> None:
    breaks(Runs(), turns, says)


FORGOTTEN = [*OVER, decides(changed("KILLED", killed=2)), decides(JobsForgotten(digests=job_digest("j")))]


def test_runs_of_an_id_that_returns_begin_above_all_that_it_had() -> None:
    breaks(Runs(), [*FORGOTTEN, decides(accepted(first_run=1))], "begins j with 1 after run 1")
    again = [
        *FORGOTTEN,
        takes(reported(1, 0, state=RunReport.STARTED)),
        decides(stopping(1, 0)),
        decides(accepted(first_run=2)),
        takes(reported(1, 0, state=RunReport.STARTED)),
        decides(stopping(1, 0)),
        takes(placed(2, 0)),
        decides(ordered(2, 0)),
    ]
    play(Runs(), again)
    breaks(Runs(), [*again, takes(placed(1, 1)), decides(ordered(1, 1))], "run 1, which is over")


STOPPED = [
    takes(DisruptionAllowed(**runs(1, 0))),
    decides(stopping(1, 0, cause=4)),
    takes(reported(1, 0, state=RunReport.STOPPED)),
    decides(ended(1, 0)),
]


@pytest.mark.parametrize(
    "turns",
    [
        [*STARTED, *STOPPED, decides(changed("KILLED", killed=2)), decides(JobsForgotten(job_ids=("j",)))],
        [*STARTED, takes(reported(1, 0, state=RunReport.EXITED)), decides(ended(1, 0, outcome=Outcome.FAILED))],
        [*GANG, decides(ended(1, 0)), decides(stopping(1, 1)), decides(ended(1, 1)), decides()],
        [*GANG, takes(reported(1, 0, state=RunReport.EXITED)), decides(ended(1, 0, outcome=1)), decides()],
        [
            *ELSEWHERE,
            takes(HostLost(host_id="h", session=1, code="SILENT", silent_ms=1)),
            takes(reported(2, 0, state=RunReport.STARTED, host="g")),
        ],
        [*OVER, takes(reported(1, 0, state=RunReport.STARTED))],
        [
            *STARTED,
            takes(HostInventory(host_id="h", session=2, **runs(1), state=b"", exit_code=b"")),
            takes(reported(1, 0, state=RunReport.STARTED)),
        ],
    ],
    ids=["disturbed as allowed", "failed", "a gang as one", "done before others", "moved", "late", "late and lost"],
)
def test_lifecycle_keeps_its_promises(turns: list[Turn]) -> None:
    play(Runs(), turns)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ([], "waits for nothing"),
        ([held("BACKOFF")], "waits for BACKOFF"),
        ([held("LIMIT_REACHED")], "j waits for LIMIT_REACHED, and there is room"),
        ([held("RESERVATION_REACHED")], "j waits for RESERVATION_REACHED, and there is room"),
        ([GangsReturned(**gangs(1), code="NO_HOST_FITS")], "waits for NO_HOST_FITS"),
    ],
)
def test_a_job_waits_for_what_is_there(told: list[Event], says: str) -> None:
    fold = Runs()
    play(fold, [decides(accepted())])
    for event in told:
        fold.take_reasons(Round("it", 1, 0, [], [event]))
    with pytest.raises(Violation, match=re.escape(says)):
        fold.stalled(lambda job_id: True)


@pytest.mark.parametrize("code", ["LIMIT_REACHED", "RESERVATION_REACHED", "NEVER_FITS", "NO_SUCH_POOL"])
def test_a_job_waits_for_what_is_not_there(code: str) -> None:
    fold = Runs()
    play(fold, [decides(accepted())])
    fold.take_reasons(Round("it", 1, 0, [], [held(code)]))
    fold.stalled(lambda job_id: False)


@pytest.mark.parametrize(
    "turns", [[decides(accepted())], [*STARTED]], ids=["a job without an outcome", "a run that goes on"]
)
def test_a_cell_at_rest_has_nothing_open(turns: list[Turn]) -> None:
    fold = Runs()
    play(fold, turns)
    with pytest.raises(Violation, match="the cell is at rest"):
        fold.settled()


class Facts:
    """The facts about pools that a test has made."""

    def __init__(self, *facts: Event) -> None:
        self._facts = facts

    def fact(self, topic: str, offset: int) -> Event:
        assert topic == "paceline.pools"
        return self._facts[offset]


def pools(*facts: PoolDefined) -> tuple[Pools, Turn]:
    """A fold, and the turn in which entitlement answers the facts."""
    history: Any = Facts(*facts)
    answers = (
        PoolAnswered(path=fact.path, pools_offset=at, command_id="c", code="DONE") for at, fact in enumerate(facts)
    )
    return Pools(history, 0), decides(*answers)


def shares(demand: int = 0, **cpu: int) -> EntitlementsSet:
    """What pools may use, of CPU alone; the root is called `root`. Each demands the same."""
    names = {name: "/" if name == "root" else f"/{name}" for name in cpu}
    wanted, column = pack_longs([demand] * len(cpu)), pack_longs(list(cpu.values()))
    pools = tuple(names.values())
    held = {"allocation": column, "placed": column}
    return EntitlementsSet(pools=pools, resources=("cpu",), entitlement=column, demand=wanted, **held)


def ranked(run: int, entitled: int = 1) -> AdmissionsRanked:
    return AdmissionsRanked(**gangs(run), entitled=pack_ints([entitled]))


LESS, MORE = (
    replace(queued(2, kept=True), shapes=(TaskShape({"cpu": cpu}),), shape=pack_ints([0])) for cpu in (500, 2500)
)
P = PoolDefined(path="/p", command_id="c")
LIMITED = PoolDefined(path="/p", command_id="c", limit={"cpu": 1500})
OTHER = PoolDefined(path="/r", command_id="c")
CLOSED = PoolDefined(path="/p", command_id="c", closed=True)
CAPACITY = CapacityChanged(capacity={"cpu": 1000}, hosts=1, version=1)
ADMITTED = [takes(accepted(), queued(1, 2)), decides(admitted(1, 2))]
DEFAULT_SHAPE = [takes(accepted(gang_min=2), queued(1, 2, gang=True)), decides(admitted(1, 2, gang=True))]


@pytest.mark.parametrize(
    ("pool", "turns", "says"),
    [
        (LIMITED, ADMITTED, "pool /p holds 2000 cpu, its limit is 1500"),
        (
            P,
            [takes(accepted(preemptible=False), queued(1)), decides(admitted(1))],
            "1000 cpu of /p aren't preemptible, it reserves 0",
        ),
        (OTHER, [decides(shares(root=1000, p=600, q=500))], "the pools in / may use more cpu than it may: 1000"),
        (P, [takes(accepted()), decides(admitted(1))], "admits ('j', 0) run 1, which isn't queued"),
        (P, [takes(accepted(), queued(1)), decides(admitted(2))], "admits ('j', 0) run 2, which isn't queued"),
        (P, [*ADMITTED, takes(queued(2)), decides(admitted(2))], "of which run 1 is admitted"),
        (P, [DEFAULT_SHAPE[0], decides(admitted(1, 1, gang=True))], "admits a part of a gang"),
        (CLOSED, ADMITTED, "admits j in /p, which is closed"),
        (P, [*ADMITTED, takes(placed(1, 0)), decides(ranked(1, entitled=0))], "borrowed, which has a place"),
        (P, [takes(accepted(), queued(1)), decides(ranked(1))], "ranks ('j', 0) run 1, which isn't admitted"),
        (P, [takes(CAPACITY), decides(shares(p=600, demand=700))], "entitlements that aren't fair"),
        (P, [*ADMITTED, takes(changed("KILLED"))], "j is KILLED, its pool still holds [('j', 0), ('j', 1)]"),
        (
            P,
            [*ADMITTED, takes(accepted(need={"cpu": 3000}), ended(1, 0))],
            "pool /p gave back more cpu than it held",
        ),
    ],
)
def test_entitlement_breaks_a_promise(pool: PoolDefined, turns: list[Turn], says: str) -> None:
    fold, answered = pools(pool)
    breaks(fold, [answered, *turns], says)


@pytest.mark.parametrize(
    "turns",
    [
        [*ADMITTED, takes(ended(1, 0, 1), changed("KILLED"))],
        [*ADMITTED, takes(ended(1, 0)), takes(queued(2)), decides(admitted(2))],
        [*ADMITTED, takes(ended(1, 0, kept=True), queued(2, kept=True), placed(2, 0)), decides(ranked(2))],
        [*ADMITTED, takes(GangsReturned(**gangs(1), code="NO_HOST_FITS")), decides(admitted(1))],
        [*ADMITTED, takes(ended(1, 0, kept=True), LESS), takes(ended(2, 0), ended(1, 1), changed("KILLED"))],
        [*DEFAULT_SHAPE, takes(CAPACITY), decides(shares(p=600, demand=600))],
    ],
    ids=["over", "again", "kept", "returned", "another shape", "a gang"],
)
def test_entitlement_keeps_its_promises(turns: list[Turn]) -> None:
    fold, answered = pools(P)
    play(fold, [answered, *turns])


@pytest.mark.parametrize(
    ("limit", "reservation", "job", "room"),
    [
        (3000, 0, accepted(), True),
        (2999, 0, accepted(), False),
        (-1, 0, accepted(), True),
        (-1, 3000, accepted(preemptible=False), True),
        (-1, 2999, accepted(preemptible=False), False),
        (3999, 0, accepted(gang_min=2), False),
        (4000, 0, accepted(gang_min=2), True),
        (2000, 0, accepted(need={"memory": 1}), True),
    ],
)
def test_room_is_what_limit_and_reservation_leave(limit: int, reservation: int, job: JobAccepted, room: bool) -> None:
    """Two instances of another job hold 2,000 thousandths of a core."""
    limits, reserves = {"cpu": limit} if limit >= 0 else {}, {"cpu": reservation}
    fold, answered = pools(PoolDefined(path="/p", command_id="c", limit=limits, reservation=reserves))
    firm = not job.preemptible
    play(fold, [answered, takes(accepted(preemptible=not firm), queued(1, 2)), decides(admitted(1, 2)), takes(job)])
    assert fold.has_room("j") is room


OFFERED = HostOffered(host_id="h", session=1, capacity=ROOM, port_first=5, port_last=7, attributes={"disk": "ssd"})
CONNECTED = HostConnected(host_id="h", session=1, gateway="g")
RECONCILED = HostReconciled(host_id="h", session=1, kept=0, ended=0, stopped=0)
HERE = (CONNECTED, RECONCILED, OFFERED)
CAME_BACK = tuple(replace(each, session=2) for each in HERE)
LOST_HOST = HostLost(host_id="h", session=1, code="SILENT", silent_ms=1)


def waits(count: int = 1, gang: bool = False, **what: Any) -> Turn:
    return takes(*HERE, accepted(**what), admitted(1, count, gang))


G = tuple(replace(each, host_id="g") for each in HERE)
KEPT = replace(ended(1, 0, outcome=Outcome.REPLACED, kept=True), hold=pack_ints([1]))
HOME = [
    takes(*HERE, *G, accepted(need={"cpu": 2000}), admitted(1, 2)),
    decides(placed(1, 0)),
    takes(KEPT, queued(2, kept=True)),
]
"""Task 0 is updated and may go back to h; task 1 waits for room."""
BOUND = [*HOME[:2], takes(KEPT, replace(queued(2, kept=True), host_ids=("h",), pin=pack_ints([0])))]
"""As `HOME`, of a task that may go nowhere else."""


def home_passed(due_ms: int) -> TimerPassed:
    return TimerPassed(machine="placement", due_ms=due_ms)


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([*HOME, decides(placed(1, 1))], "places ('j', 1) on h: 4000 of 2000 cpu"),
        ([*HOME, decides(home_passed(122_999)), decides(placed(1, 1))], "places ('j', 1) on h: 4000 of 2000 cpu"),
        ([*BOUND, decides(home_passed(123_000)), decides(placed(1, 1))], "places ('j', 1) on h: 4000 of 2000 cpu"),
        ([*HOME, decides(placed(2, 0, host="g"))], "places ('j', 0) on g, and h is kept for it"),
        ([*HOME[:2], takes(KEPT, LESS), decides(placed(1, 1))], "2500 of 2000 cpu"),
        ([takes(*HERE, accepted()), decides(placed(1, 0))], "places ('j', 0) run 1, which isn't admitted"),
        (
            [waits(), decides(placed(1, 0)), takes(admitted(2)), decides(placed(2, 0))],
            "places ('j', 0) run 2, of which run 1 has a place",
        ),
        *(
            (
                [takes(*events, accepted(), admitted(1)), decides(*before, placed(1, 0, session=session))],
                "take nothing",
            )
            for events, before, session in [
                ((CONNECTED, RECONCILED), (), 1),
                ((CONNECTED, OFFERED), (), 1),
                ((*HERE, HostSilent(host_id="h", session=1)), (), 1),
                (HERE, (LOST_HOST,), 1),
                (HERE, (), 2),
                ((*HERE, HostConnected(host_id="h", session=2, gateway="g")), (), 1),
            ]
        ),
        *(
            ([waits(constraints=(Constraint(*condition),)), decides(placed(1, 0))], "on h, which doesn't meet")
            for condition in [
                ("disk", "in", ("hdd",)),
                ("disk", "not_in", ("ssd",)),
                ("rack", "exists"),
                ("disk", "absent"),
                ("disk", "like", ("ssd",)),
            ]
        ),
        *(([waits(2, need={name: 1001}), decides(placed(1, 0, 1))], f"2002 of 2000 {name}") for name in ROOM),
        ([waits(ports=1), decides(placed(1, 0, ports=[8]))], "ports [8] aren't its own"),
        ([waits(ports=2), decides(placed(1, 0, ports=[5, 5]))], "of ports [5, 5] one has another holder"),
        ([waits(2, ports=1), decides(placed(1, 0, 1, ports=[6, 6]))], "of ports [6] one has another holder"),
        ([waits(2, gang=True), decides(placed(1, 0))], "places a part of a gang"),
        (
            [waits(), decides(GangsReturned(**gangs(1), code="NO_HOST_FITS"))],
            "returns ('j', 0) run 1, which is a claim",
        ),
    ],
)
def test_placement_breaks_a_promise(turns: list[Turn], says: str) -> None:
    breaks(Hosts(), turns, says)


@pytest.mark.parametrize(
    "turns",
    [
        [
            waits(2, need=ROOM, ports=3),
            *(decides(placed(1, 0, ports=[5, 6, 7])), takes(ended(1, 0))),
            decides(placed(1, 1, ports=[7, 6, 5])),
        ],
        [waits(2, gang=True, constraints=(Constraint("disk", "in", ("ssd",)),)), decides(placed(1, 0, 1))],
        [
            waits(constraints=(Constraint("rack", "not_in", ("r1",)), Constraint("rack", "absent"))),
            decides(placed(1, 0)),
        ],
        [waits(), decides(LOST_HOST), takes(*CAME_BACK), decides(placed(1, 0, session=2))],
        [*HOME, decides(placed(2, 0), placed(1, 1, host="g"))],
        [*HOME, decides(home_passed(123_000)), decides(placed(1, 1))],
        [*BOUND, takes(queued(2, kept=True)), decides(home_passed(123_000)), decides(placed(1, 1))],
        [*HOME, takes(HostSilent(host_id="h", session=1)), decides(placed(2, 0, host="g"))],
        [*HOME, takes(ended(2, 0)), decides(placed(1, 1))],
        [*HOME[:2], takes(KEPT, MORE), decides(placed(1, 1))],
    ],
    ids=["given back", "a gang", "conditions", "back", "home", "late", "bound no more", "silent", "ended", "more"],
)
def test_placement_keeps_its_promises(turns: list[Turn]) -> None:
    play(Hosts(), turns)
