"""Why a job stands where it stands, in one sentence with its numbers, and who can act."""

from typing import Any

import pytest
from msgspec.structs import replace

from events.codes import Code, Outcome, TaskState
from events.columns import pack_ints, pack_longs
from events.reasons import kind_of
from events.records.entitlement import (
    CreditsSet,
    EntitlementsSet,
    GangsHeld,
    PoolAnswered,
    PreemptionRefused,
    RightsSet,
    TurnSet,
)
from events.records.hosts import HostOffered
from events.records.jobs import JobStopRequested
from events.records.lifecycle import CommandAnswered, JobHeld, PreemptionAnswered, RunsAvailable, RunsStopping
from events.records.parts import Cause, NearMiss
from events.records.placement import GangsReturned, HostLost, HostsReserved, HostTainted, PreemptionAsked
from events.records.pools import CellConfigured, PoolDefined
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.resources import STANDARD_KINDS
from projections.queries.sentences import bound_host_text, funnel
from tests.helpers.written_cell import (
    CORE,
    accepted,
    admitted,
    dump,
    ended,
    held,
    job,
    preempted,
    queued,
    ranges,
    runs,
    unplaced,
)

CPU = {"cpu": 1000}
NEAR = (NearMiss(host_id="h17", lacks={"cpu": 500, "memory": 2048}),)


def why(api: Any, job_id: str = "a") -> dict[str, Any]:
    api.fold()
    found: dict[str, Any] = api.get(f"/v1/jobs/{job_id}/explanation")
    return found


def told(api: Any, job_id: str = "a") -> tuple[str, str, str]:
    """Code, who can act, and the sentence."""
    headline = why(api, job_id)["headline"]
    return headline["code"], headline["actor"], headline["message"]


def up(cell: Any, job_id: str, instances: tuple[int, ...], run: int = 1) -> None:
    """Runs are ordered and available."""
    cell.run(job_id, instances, run)
    cell.decide("lifecycle", RunsAvailable(**runs(job_id, instances, run)))


def answered(offset: int) -> PoolAnswered:
    return PoolAnswered(path="/p", pools_offset=offset, command_id="c", code="DONE")


@pytest.fixture
def waiting(api):
    api.cell.host()
    api.cell.accept("a", instances=2)
    return api


def test_all_jobs_of_a_queue_have_their_true_reason_and_their_place(api):
    for number in range(9):
        api.cell.accept(f"j{number}", instances=3, priority=int(number == 8))
    ids = tuple(f"j{number}" for number in (8, *range(8)))
    fields = {"pool": "/p", "asked": CORE, "job": pack_ints(range(8)), "first": pack_ints([0] * 8)}
    fields |= {"count": pack_ints([3] * 8), "run": pack_ints([1] * 8), "gang": pack_ints([0] * 8)}
    behind = GangsHeld(at="/p", code="BEHIND_IN_QUEUE", job_ids=ids[1:], **fields)
    api.cell.decide("entitlement", held("j8", (0, 1, 2), "LIMIT_REACHED", limit=CPU, allocated=CPU), behind)
    assert told(api, "j8")[0] == "LIMIT_REACHED"
    for place, job_id in enumerate(ids[1:], 1):
        code, _, message = told(api, job_id)
        assert code == "BEHIND_IN_QUEUE"
        others = "1 job" if place == 1 else f"{place} jobs"
        assert message.startswith(f"3 tasks wait behind {3 * place} others of {others} in the queue of pool /p; ")
        assert "first is job j8 (LIMIT_REACHED)" in message
    assert {job["reason"]["code"] for job in api.get("/v1/jobs")["jobs"]} == {"LIMIT_REACHED", "BEHIND_IN_QUEUE"}


LARGE = {"cpu": 8000, "memory": 512 << 20}


@pytest.mark.parametrize(
    ("code", "numbers", "aside"),
    [
        ("LIMIT_REACHED", {"asked": LARGE, "limit": {"cpu": 4000}}, True),
        ("LIMIT_REACHED", {"asked": LARGE, "limit": {"cpu": 9000}}, False),
        ("LIMIT_REACHED", {"asked": LARGE, "limit": {"cpu": 4000}, "at": "/"}, False),
        ("RESERVATION_REACHED", {"asked": LARGE, "limit": {"cpu": 8000}}, True),
        ("NO_SUCH_POOL", {}, True),
        ("NEVER_FITS", {}, True),
    ],
)
def test_nobody_waits_behind_a_job_that_its_pool_can_never_let_in(api, code, numbers, aside):
    for job_id in ("aaa-too-large", "next", "last"):
        api.cell.accept(job_id)
    api.cell.decide(
        "entitlement",
        held("aaa-too-large", (0,), code, **numbers),
        held("next", (0,), "ENTITLEMENT_REACHED"),
        held("last", (0,), "BEHIND_IN_QUEUE"),
    )
    first, ahead = ("next", "1 other of 1 job") if aside else ("aaa-too-large", "2 others of 2 jobs")
    assert told(api, "last")[2].startswith(
        f"1 task waits behind {ahead} in the queue of pool /p; first is job {first} ("
    )
    api.pool("/p")
    api.fold()
    assert api.get("/v1/pools/p")["queue"]["preemptible"]["head"]["job_id"] == first


def test_who_asks_for_more_than_the_limit_is_told_that_it_is_for_ever_and_that_no_host_is_as_large(api):
    api.cell.host(cpu=8000)
    api.cell.accept("a", resources={"cpu": 20})
    said = held("a", (0,), asked={"cpu": 20_000, "memory": 64}, limit={"cpu": 4000}, largest={"cpu": 8000})
    api.cell.decide("entitlement", said)
    assert told(api) == (
        "LIMIT_REACHED",
        "you",
        "1 task asks for more than the limit of pool /p, and can never run (20 cpu asked, the limit is 4 cpu); "
        "no host has 20 cpu either, the largest has 8 cpu; ask for less, or have the limit raised",
    )


def test_a_limit_of_a_pool_above_is_named_with_what_is_held_of_it(waiting):
    waiting.cell.decide("entitlement", held("a", (0, 1), at="/up", limit={"cpu": 4000}, allocated={"cpu": 3500}))
    assert told(waiting) == (
        "LIMIT_REACHED",
        "pool owner",
        "2 tasks would exceed the limit of pool /up (3.5 of 4 cpu held, 1 asked); "
        "raise the limit, or wait until tasks of the pool end",
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (1000, "2 tasks wait for licences of the cell (3 of 3 matlab held, 1 asked); "
               "add some with `paceline cell set --licence matlab=N`, or wait until some are given back"),
        (4000, "2 tasks ask for more licences than the cell has (3 of 3 matlab held, 4 asked); "
               "add some with `paceline cell set --licence matlab=N`"),
    ],
)  # fmt: skip
def test_licences_of_the_cell_are_an_operators_to_add(waiting, asked, message):
    numbers = {"asked": {"cpu": 1000, "matlab": asked}, "limit": {"matlab": 3000}, "allocated": {"matlab": 3000}}
    waiting.cell.decide("entitlement", held("a", (0, 1), at="/", **numbers))
    assert told(waiting) == ("LIMIT_REACHED", "operator", message)


def test_a_reservation_is_no_limit(waiting):
    waiting.cell.decide("entitlement", held("a", (0, 1), "RESERVATION_REACHED", limit={"cpu": 1500}))
    (found,) = why(waiting)["reasons"]
    assert (found["limit"], found["reserved"]) == (None, {"cpu": 1.5})


def test_what_most_tasks_wait_for_comes_first(api):
    api.cell.host()
    api.cell.accept("a", instances=7)
    said = held("a", (0, 1), "LIMIT_REACHED", limit=CORE, allocated=CORE), admitted("a", (2, 3, 4))
    api.cell.decide("entitlement", *said, held("a", (5, 6), "BEHIND_IN_QUEUE"))
    api.cell.decide("placement", unplaced("a", tasks=3))
    assert [each["code"] for each in why(api)["reasons"]] == ["NO_HOST_FITS", "LIMIT_REACHED", "BEHIND_IN_QUEUE"]


def test_a_gang_held_by_the_other_work_of_its_own_pool_is_told_who_holds_what(waiting):
    cell = waiting.cell
    cell.accept("other", instances=3)
    cell.run("other", (0, 1, 2))
    numbers = {"entitlement": {"cpu": 4000}, "allocated": {"cpu": 3000}}
    cell.decide("entitlement", held("a", (0, 1), "ENTITLEMENT_REACHED", gang=1, **{**numbers, "asked": {"cpu": 2000}}))
    assert told(waiting) == (
        "ENTITLEMENT_REACHED",
        "nobody, wait",
        "2 tasks wait: pool /p uses all that it may (3 of 4 cpu held, 2 asked); most by job "
        "other: 3 cpu; it goes on when tasks of that pool end; a higher priority goes first",
    )


def test_numbers_are_those_of_now_where_these_say_no_too(waiting):
    cell = waiting.cell
    at = cell.fact(PoolDefined(path="/p", command_id="c"))
    cell.decide("entitlement", answered(at))
    numbers = {"entitlement": {"cpu": 4000}, "allocated": {"cpu": 4000}, "asked": CPU}
    cell.decide("entitlement", held("a", (0,), "ENTITLEMENT_REACHED", **numbers))
    for entitlement, allocation, shown in ((3000, 3000, "3 of 3 cpu held"), (9000, 1000, "4 of 4 cpu held")):
        columns = {"entitlement": entitlement, "allocation": allocation, "placed": allocation, "demand": 9000}
        packed = {name: pack_longs([each]) for name, each in columns.items()}
        cell.decide("entitlement", EntitlementsSet(pools=("/p",), resources=("cpu",), **packed))
        assert shown in told(waiting)[2]
        [listed] = waiting.get("/v1/jobs")["jobs"]
        assert shown in listed["reason"]["message"]


def test_a_pool_that_may_use_too_little_is_told_apart_from_one_that_is_full(waiting):
    numbers = {"entitlement": {"cpu": 500, "memory": 4096}, "allocated": {}}
    waiting.cell.decide("entitlement", held("a", (0,), "ENTITLEMENT_REACHED", **numbers))
    assert told(waiting)[2] == (
        "1 task waits: the entitlement of pool /p is less than is asked (1 cpu asked, 0.5 cpu for it); others use the "
        "rest; it goes on when others need less; a larger share or reservation helps"
    )


def test_a_pool_that_saves_says_when_its_credit_suffices(waiting):
    cell = waiting.cell
    columns = {"credit": [400_000], "rate": [100], "full": [1_000_000]}
    saved = CreditsSet(pools=("/p",), resources=("cpu",), **{name: pack_longs(each) for name, each in columns.items()})
    numbers = {"entitlement": {"cpu": 500}, "allocated": {}, "asked": CPU}
    cell.decide("entitlement", held("a", (0,), "SAVING_FOR_TURN", **numbers), saved)
    assert told(waiting)[2] == (
        "1 task needs more than the share of pool /p, which saves for it (1 cpu asked, 0.5 cpu for it); that suffices "
        "at 2023-11-14T22:13:26.000Z; it has its turn when that suffices; a larger share or reservation helps"
    )
    cell.decide("entitlement", CreditsSet(pools=("/p",), resources=("cpu",), credit=pack_longs([4]),
                                          rate=pack_longs([-1]), full=pack_longs([9])))  # fmt: skip
    assert "it saves nothing now, since its own work uses its share" in told(waiting)[2]
    cell.decide("entitlement", CreditsSet(pools=("/p",), resources=("cpu",), credit=pack_longs([9]),
                                          rate=pack_longs([-1]), full=pack_longs([9])))  # fmt: skip
    assert "it saves nothing now" in told(waiting)[2], "what it has saved is being used"
    turn = TurnSet(pool="/p", job_id="big", first=0, count=2, run=1, floor=CPU, state="STARTED")
    cell.decide("entitlement", turn)
    assert told(waiting)[2] == (
        "1 task needs more than the share of pool /p; job big has its turn now; it saves for the next turn"
    )


def test_a_turn_that_ended_with_credit_left_is_followed_by_the_next_one_at_once(waiting):
    cell = waiting.cell
    waiting.pool("/p")
    unit = {"pool": "/p", "job_id": "big", "first": 0, "count": 2, "run": 1}
    used, saves = (
        CreditsSet(pools=("/p",), resources=("cpu",), credit=pack_longs([credit]), rate=pack_longs([rate]),
                   full=pack_longs([1_000_000]))
        for credit, rate in ((1_000_000, -1), (400_000, 0))
    )  # fmt: skip
    cell.decide(
        "entitlement", held("a", (0,), "SAVING_FOR_TURN", asked=CPU), TurnSet(**unit, floor=CPU, state="STARTED")
    )
    cell.decide("entitlement", used)
    cell.ms += 600_000
    cell.decide("entitlement", TurnSet(**unit, floor={}, state="ENDED"), saves)
    assert "that suffices at 2023-11-14T22:23:20.000Z" in told(waiting)[2]
    assert waiting.get("/v1/pools/p")["credit"] == {"percent": 100, "saves": True, "at": "2023-11-14T22:23:20.000Z"}
    cell.decide("entitlement", TurnSet(**unit, floor=CPU, state="STARTED"), used)
    cell.ms += 1_000_000
    cell.decide("entitlement", TurnSet(**unit, floor={}, state="ENDED"), saves)
    assert "it saves nothing now" in told(waiting)[2], "nothing of it was left"
    assert waiting.get("/v1/pools/p")["credit"] == {"percent": 40, "saves": False, "at": "2023-11-14T22:40:00.000Z"}


@pytest.mark.parametrize(
    ("code", "numbers", "actor", "message"),
    [
        ("RESERVATION_REACHED", {"limit": {"cpu": 1500}}, "pool owner",
         "2 tasks that must not be preempted would exceed the reservation of pool /p (1 cpu, 512MiB memory asked, "
         "1.5 cpu reserved for all such work); raise the reservation, or make the job preemptible"),
        ("POOL_CLOSED", {"at": "/"}, "pool owner",
         "2 tasks wait: pool / is closed and admits nothing; open it: `paceline pool open /`"),
        ("CONTROLLER_LIMIT_REACHED", {"entitlement": {}}, "pool owner",
         "2 tasks wait: controllers hold as much of pool /p as they may; raise controllers_percent, or wait until "
         "controllers end"),
        ("SHARE_OF_NOTHING", {"entitlement": CORE}, "pool owner",
         "2 tasks wait: pool /p has a share of 0, so it is served after all others; give the pool a share or a "
         "reservation, or wait"),
        ("NO_SUCH_POOL", {}, "you",
         "2 tasks wait because there is no pool /p any more; choose another pool, or define this one"),
        ("NO_HOSTS", {"at": "/"}, "operator",
         "2 tasks wait because the cell has no host that takes tasks; connect hosts"),
        ("A_CODE_OF_LATER", {}, "operator", "2 tasks wait: A_CODE_OF_LATER"),
    ],
)  # fmt: skip
def test_what_else_entitlement_says(waiting, code, numbers, actor, message):
    waiting.cell.decide("entitlement", held("a", (0, 1), code, **numbers))
    assert told(waiting) == (code, actor, message)
    assert waiting.get("/v1/jobs/a")["reason"] == {"code": code, "message": message, "actor": actor}


@pytest.mark.parametrize(
    ("said", "actor", "message"),
    [
        (unplaced("a", "NEVER_FITS", tasks=2), "you",
         "2 tasks fit no host, even when it is empty; ask for less, or add larger hosts"),
        (unplaced("a", "NEVER_FITS", tasks=60, size=60, fit=50, missing="50-59", hosts_considered=50,
                  hosts_by_reason={"cpu": 50}), "operator",
         "at most 50 of the gang's 60 tasks fit, even on empty hosts; without a place: tasks 50-59 "
         "(of 50 hosts 50 lack cpu); add hosts, or ask for less"),
        (unplaced("a", "GANG_INCOMPLETE", tasks=4, size=4, fit=2, missing="1,3"), "nobody, wait",
         "there is room for 2 of the 4 tasks of the gang now, not for the whole; without a place: tasks 1,3"
         "; it goes on when there is room for the whole gang; a smaller gang helps"),
        (unplaced("a", tasks=2, nearest=NEAR, hosts_considered=4, hosts_by_reason={"cpu": 3, "memory": 1}),
         "nobody, wait",
         "2 tasks find no room on any host now (of 4 hosts 3 lack cpu, 1 lacks memory); nearest h17, short of 0.5 "
         "cpu, 2GiB memory; it goes on when tasks end or hosts are added"),
    ],
)  # fmt: skip
def test_what_placement_says_of_what_stands_aside_until_hosts_change(waiting, said, actor, message):
    waiting.cell.decide("placement", said)
    waiting.cell.decide("entitlement", held("a", (0, 1), said.code, at="/p"))
    assert told(waiting) == (said.code, actor, message)
    assert [each["machine"] for each in why(waiting)["reasons"]] == ["placement"], "the numbers of who decided"


def test_without_hosts_nobody_is_told_of_hosts_that_were_full_before(waiting):
    waiting.cell.decide("placement", unplaced("a", tasks=2, hosts_considered=1, hosts_by_reason={"cpu": 1}))
    waiting.cell.decide("entitlement", held("a", (0, 1), "NO_HOSTS", at="/"))
    assert told(waiting) == (
        "NO_HOSTS",
        "operator",
        "2 tasks wait because the cell has no host that takes tasks; connect hosts",
    )


def test_a_task_between_two_runs_and_one_that_failed_for_good(api):
    api.cell.host()
    api.cell.accept("a", instances=2, retries={"max": 1})
    api.cell.run("a", (0, 1))
    api.cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, exit_code=7, kept=1))
    assert why(api)["headline"]["message"].startswith("1 task waits before it is tried again; task 1 exited with 7")
    api.cell.decide("lifecycle", queued("a", (1,), 2, admitted=1))
    api.cell.run("a", (1,), run=2)
    api.cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, run=2, exit_code=8),
                    ended("a", (0,), Outcome.SUCCEEDED))  # fmt: skip
    api.cell.changed("FAILED")
    found = why(api)
    assert found["headline"]["code"] == "RUN_FAILED"
    assert found["headline"]["message"].startswith("1 task of 2 failed; task 1 exited with 8")


def test_tasks_of_a_job_that_is_held_wait_until_it_is_released(api):
    api.cell.host()
    api.cell.accept("a", instances=3, retries={"max": 9})
    api.cell.run("a", (0, 1, 2))
    api.cell.decide("lifecycle", JobHeld(job_id="a", held=True))
    helps = "`paceline job release a` lets them go on"
    assert told(api) == ("HELD", "you", f"the job is held; tasks that end wait until it is released; {helps}")
    api.cell.ms += 5000
    api.cell.decide("lifecycle", ended("a", (0, 1), Outcome.FAILED, exit_code=1, kept=1))
    assert told(api) == ("HELD", "you", f"the job is held: 2 tasks wait until it is released; {helps}")
    shown = api.get("/v1/jobs/a")
    assert (shown["held"], shown["held_since"]) == (True, "2023-11-14T22:13:20.000Z")
    assert why(api)["reasons"][0]["since"] == shown["held_since"]
    assert api.get("/v1/jobs")["jobs"][0]["reason"]["code"] == "HELD"
    api.cell.decide("lifecycle", JobHeld(job_id="a", held=False))
    assert told(api)[0] == "BACKOFF"
    assert api.get("/v1/jobs/a")["held"] is False


def test_the_failure_that_is_named_is_that_of_a_task_that_waits(api):
    api.cell.host()
    api.cell.accept("a", instances=2, retries={"max": 9})
    api.cell.run("a", (0, 1))
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, exit_code=7, kept=1))
    api.cell.decide("lifecycle", queued("a", (0,), 2, admitted=1))
    api.cell.run("a", (0,), run=2)
    api.cell.decide("lifecycle", ended("a", (1,), Outcome.PREEMPTED, kept=1))
    assert told(api)[2] == "1 task waits before it is tried again; it is tried again by itself"


def test_tasks_of_a_stateful_job_wait_for_the_one_before(api):
    """They have never run: nothing is tried again."""
    at = api.cell.submit("a", instances=3, kind="stateful")
    answer, _ = accepted(job("a", instances=3, kind="stateful"), at)
    api.cell.decide("lifecycle", replace(answer, kind="stateful"), queued("a", (0,), 1))
    api.cell.decide("entitlement", admitted("a", (0, 1)))
    [reason] = [each for each in why(api)["reasons"] if each["code"] == "STARTS_IN_ORDER"]
    assert (reason["actor"], reason["tasks"]) == ("nobody, wait", 2)
    assert reason["message"] == (
        "2 tasks wait for the one before to be up (a stateful job starts in order); "
        "each starts once the one before it is available"
    )
    api.cell.run("a", (0,))
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.SUCCEEDED, kept=1))
    text = "3 tasks wait before they are tried again, in order; they are tried again by themselves"
    assert told(api) == ("BACKOFF", "nobody, wait", text), "the first waits for its time"


def test_tasks_wait_for_room_among_max_running(api):
    api.cell.host()
    at = api.cell.submit("a", instances=4, max_running=1)
    answer, _ = accepted(job("a", instances=4, max_running=1), at)
    api.cell.decide("lifecycle", replace(answer, max_running=1), queued("a", (0,), 1))
    text = "3 tasks wait: max_running is 1, and 1 {}; a higher max_running helps"
    api.cell.decide("entitlement", held("a", (0,), limit=CORE, allocated=CORE))
    first, second = why(api)["reasons"]
    assert first["code"] == "LIMIT_REACHED", "what the queued one waits for is what all wait for"
    assert second["message"] == text.format("runs or is queued")
    api.cell.run("a", (0,))
    assert told(api) == ("MAX_RUNNING", "you", text.format("runs"))
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.SUCCEEDED))
    assert told(api)[2].endswith("3 tasks wait before they are tried again; they are tried again by themselves")


def test_a_task_that_waits_for_its_host_says_for_which_and_until_when(waiting):
    cell = waiting.cell
    cell.decide("entitlement", admitted("a", (0, 1)))
    home = {"tasks": 2, "host_id": "h17", "until_ms": cell.ms + 60_000}
    cell.decide("placement", unplaced("a", "WAITING_FOR_HOST", **home))
    assert told(waiting)[2].startswith(
        "2 tasks wait for the host where they ran, which is kept until 2023-11-14T22:14:20.000Z: task 0 for h17"
    )
    assert told(waiting)[2].endswith("it goes there when the host is connected again, afterwards to any other")


def test_admitted_work_without_a_place_says_what_placement_says_and_what_comes_next(waiting):
    cell = waiting.cell
    cell.ms += 1000
    cell.decide("entitlement", admitted("a", (0, 1)))
    assert told(waiting)[2] == "2 tasks are admitted and wait for a place; it is looked at in the next rounds"
    full = {"tasks": 2, "hosts_considered": 4, "hosts_by_reason": {"cpu": 4}}
    cell.decide("placement", unplaced("a", **full))
    assert told(waiting)[2] == (
        "2 tasks find no room on any host now (of 4 hosts 4 lack cpu); entitled since 2023-11-14T22:13:21.000Z; "
        "preemption is allowed from 2023-11-14T22:15:21.000Z on; it goes on when tasks end or hosts are added"
    )
    some = {name: pack_longs([500]) for name in ("others", "entitlement")}
    none = dict.fromkeys(("excess", "giver_entitlement", "reserved", "spare"), b"")
    taker = {**ranges("a", (0,)), "gang": pack_ints([0]), "pools": ("/p",), "pool": pack_ints([0])}
    cell.ms += 120_000
    cell.decide("entitlement", RightsSet(**taker, **some, **none, resources=("cpu",), flags=pack_ints([0]), givers=()))
    assert "preemption has been allowed since 2023-11-14T22:15:21.000Z; it goes on" in told(waiting)[2]
    cell.ms += 6000
    cell.decide("entitlement")
    message = told(waiting)[2]
    assert "preemption has been allowed since 2023-11-14T22:15:21.000Z; no set of victims is permitted now" in message
    at = cell.fact(PoolDefined(path="/p", command_id="c", preemption_delay_ms=-1))
    cell.decide("entitlement", answered(at))
    assert "entitled since 2023-11-14T22:13:21.000Z; nobody is preempted for pool /p" in told(waiting)[2]


def test_borrowed_work_without_a_place_is_given_back_and_says_when_it_is_tried_again(waiting):
    cell = waiting.cell
    cell.decide("entitlement", admitted("a", (0, 1), entitled=0))
    cell.decide("placement", unplaced("a", tasks=2))
    assert "it is beyond the entitlement of pool /p, so it is given back after 20s and tried later" in told(waiting)[2]
    cell.decide("placement", GangsReturned(**ranges("a", (0, 1)), gang=pack_ints([0, 0]), code="NO_HOST_FITS"))
    cell.decide("entitlement", held("a", (0, 1), "BACKOFF", not_before_ms=cell.ms + 20_000))
    found = why(waiting)
    assert [each["code"] for each in found["reasons"]] == ["NO_HOST_FITS", "BACKOFF"]
    assert found["reasons"][1]["not_before"] == "2023-11-14T22:13:40.000Z"
    assert (
        found["reasons"][1]["message"] == "2 tasks wait before they are tried again; they are tried again by themselves"
    )


def test_parts_of_a_job_have_reasons_of_their_own(waiting):
    waiting.cell.decide("entitlement", admitted("a", (0,)), held("a", (1,), "LIMIT_REACHED", limit=CORE))
    waiting.cell.decide("placement", unplaced("a", nearest=NEAR))
    found = why(waiting)
    assert [(each["code"], each["tier"], each["tasks"]) for each in found["reasons"]] == [
        ("LIMIT_REACHED", "pool", 1),
        ("NO_HOST_FITS", "now", 1),
    ]
    assert found["reasons"][1]["nearest"] == [
        {"host_id": "h17", "lacks": {"cpu": 0.5, "memory": "2GiB"}, "devices": ""}
    ]
    up(waiting.cell, "a", (0,))
    assert [each["code"] for each in why(waiting)["reasons"]] == ["LIMIT_REACHED"]
    up(waiting.cell, "a", (1,))
    assert why(waiting)["headline"] is None


@pytest.fixture
def contest(api):
    """Job v of pool /p runs, job w of pool /q waits for a place."""
    api.cell.host()
    api.cell.accept("v", instances=3)
    api.cell.accept("w", pool="/q")
    up(api.cell, "v", (0, 1, 2))
    api.cell.decide("entitlement", admitted("w", (0,)))
    api.cell.decide("placement", unplaced("w"))
    return api


def test_an_order_keeps_the_times_of_the_settings_by_which_it_was_given(contest):
    cell = contest.cell

    def configure(**settings: int) -> None:
        at = cell.fact(CellConfigured(command_id="c", **settings))
        cell.decide("entitlement", PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE"))

    cell.decide("entitlement", preempted(7, {"v": (0,)}, "w"))
    configure(hold_for_ms=60_000, defer_for_ms=60_000)
    assert "kept for it until 2023-11-14T22:23:20.000Z" in told(contest, "w")[2]
    cell.decide("lifecycle", answer(cell, 7, "DEFERRED", **runs("v", (0,))))
    assert "aren't asked again before 2023-11-14T22:23:20.000Z" in str(why(contest, "w")["reasons"])
    cell.decide("entitlement", preempted(8, {"v": (1,)}, "w"))
    assert "kept for it until 2023-11-14T22:14:20.000Z" in told(contest, "w")[2]


def test_winner_and_victim_name_each_other_and_who_has_left_is_not_leaving(contest):
    cell = contest.cell
    cell.decide("entitlement", preempted(7, {"v": (0, 2)}, "w", spared={"NON_PREEMPTIBLE": 1}))
    assert told(contest, "v") == (
        "BELOW_ENTITLEMENT",
        "nobody, wait",
        "2 tasks must leave for job w of pool /q, which is below its entitlement; "
        "it runs again when its pool is entitled to more",
    )
    assert told(contest, "w")[2] == (
        "2 runs leave for it (2 of job v); what they free is kept for it until 2023-11-14T22:23:20.000Z; "
        "spared on these hosts: 1 NON_PREEMPTIBLE; it goes on when they have left"
    )
    assert [each["code"] for each in why(contest, "w")["reasons"]] == ["WAITING_FOR_PREEMPTION", "NO_HOST_FITS"]
    assert [job["reason"]["code"] for job in contest.get("/v1/jobs")["jobs"]] == [
        "WAITING_FOR_PREEMPTION",
        "BELOW_ENTITLEMENT",
    ]
    stop = RunsStopping(**runs("v", (0, 2)), host_ids=("h1",), host=pack_ints([0, 0]), cause=pack_ints([4, 4]))
    cell.decide("lifecycle", stop)
    assert "2 tasks must leave" in told(contest, "v")[2]
    cell.decide("lifecycle", ended("v", (0,), Outcome.PREEMPTED), queued("v", (0,), 2))
    assert "1 task must leave" in told(contest, "v")[2]
    cell.decide("lifecycle", ended("v", (2,), Outcome.PREEMPTED), queued("v", (2,), 2), answer(cell, 7, "LEFT"))
    message = told(contest, "v")[2]
    assert message.startswith(
        "2 runs left for job w of pool /q, which is below its entitlement; 2 of these tasks wait;"
    ), message
    assert told(contest, "w")[2].startswith("2 runs have left for it (2 of job v); what they free is kept for it until")
    cell.decide("entitlement", held("v", (0, 2), "ENTITLEMENT_REACHED", run=2, entitlement=CORE, allocated=CORE))
    assert [each["code"] for each in why(contest, "v")["reasons"]] == ["ENTITLEMENT_REACHED", "BELOW_ENTITLEMENT"]
    up(cell, "w", (0,))
    up(cell, "v", (0, 2), run=2)
    assert why(contest, "v")["headline"] is None
    assert why(contest, "w")["headline"] is None
    assert why(contest, "w")["preempted_for_it"] == {"v": 2}
    assert "pool /," not in str(contest.get("/v1/jobs/v/history"))
    told_to = {job_id: contest.get(f"/v1/jobs/{job_id}/history")["events"] for job_id in "vw"}
    (lost,) = [each["detail"] for each in told_to["v"] if each["event"] == "PreemptionsOrdered"]
    (won,) = [each["detail"] for each in told_to["w"] if each["event"] == "PreemptionsOrdered"]
    assert (lost["for_job"], lost["for_pool"], lost["order"], lost["ways"]) == ("w", "/q", 7, ["GIVE"])
    assert (won["from_jobs"], won["from_pools"], won["spared"]) == ({"v": 2}, ["/p"], {"NON_PREEMPTIBLE": 1})


def test_a_victim_of_many_orders_is_told_of_all_of_them_though_the_last_was_deferred(contest):
    cell = contest.cell
    for number in (0, 1):
        cell.decide("entitlement", preempted(number + 1, {"v": (number,)}, "w"))
        left = ended("v", (number,), Outcome.PREEMPTED), queued("v", (number,), 2)
        cell.decide("lifecycle", *left, answer(cell, number + 1, "LEFT"))
    cell.decide("entitlement", preempted(3, {"v": (2,)}, "w"))
    cell.decide("lifecycle", answer(cell, 3, "DEFERRED"))
    assert "2 runs left for job w of pool /q" in str([each["message"] for each in why(contest, "v")["reasons"]])
    contest.fold()
    reasons = {each["instance"]: each["reason"] for each in contest.get("/v1/jobs/v/tasks")["tasks"]}
    assert reasons == {0: "preempted for job w", 1: "preempted for job w", 2: None}


def test_runs_that_were_moved_to_make_room_say_so_and_for_which_job(contest):
    cell = contest.cell
    order = replace(preempted(1, {"v": (0,)}, "w"), code=str(Code.REBALANCED))
    cell.decide("entitlement", order)
    cell.decide("lifecycle", ended("v", (0,), Outcome.PREEMPTED), queued("v", (0,), 2), answer(cell, 1, "LEFT"))
    contest.fold()
    [task] = [each for each in contest.get("/v1/jobs/v/tasks")["tasks"] if each["instance"] == 0]
    assert task["reason"] == "moved to make room for job w (REBALANCED)"
    (moved,) = [
        each["detail"] for each in contest.get("/v1/jobs/v/history")["events"] if each["event"] == "PreemptionsOrdered"
    ]
    assert (moved["code"], moved["for_job"]) == (Code.REBALANCED, "w")


def test_tasks_that_fail_when_they_are_preempted_are_told_for_whom(api):
    api.cell.host()
    api.cell.accept("v", instances=3, on_preempt="fail")
    api.cell.accept("w", pool="/q")
    api.cell.run("v", (0, 1, 2))
    api.cell.decide("entitlement", preempted(7, {"v": (0, 2)}, "w"))
    api.cell.decide(
        "lifecycle", ended("v", (0, 2), Outcome.PREEMPTED, following=TaskState.FAILED), answer(api.cell, 7, "LEFT")
    )
    wanted = "2 tasks failed: preempted for job w of pool /q, which is below its entitlement (on_preempt: fail)"
    assert told(api, "v")[2].startswith(wanted)
    api.cell.decide("lifecycle", ended("v", (1,), Outcome.SUCCEEDED))
    api.cell.changed("FAILED", "v")
    assert told(api, "v")[2].startswith(wanted)


@pytest.mark.parametrize(
    ("code", "whom"),
    [
        ("BELOW_RESERVATION", "job w of pool /q, which is below its reservation"),
        ("HIGHER_PRIORITY", "job w of the same pool, /q, which goes first"),
        ("HOSTS_CLEARED", "job w of pool /q, which fits nowhere else"),
        ("FOR_DAEMON", "daemon w, which runs on every host that matches"),
        ("LIMIT_REACHED", "job w of pool /q, under the limit that both share"),
        ("A_CODE_OF_LATER", "job w of pool /q"),
    ],
)
def test_a_victim_is_told_by_which_right_it_leaves(contest, code, whom):
    contest.cell.decide("entitlement", preempted(7, {"v": (0,)}, "w", code=code))
    assert told(contest, "v")[2].startswith(f"1 task must leave for {whom}")


def test_a_preemption_that_the_sla_defers_is_no_reason_any_more_and_the_winner_is_told(contest):
    cell = contest.cell
    cell.decide("entitlement", preempted(7, {"v": (0,)}, "w"))
    cell.decide("sla", DisruptionDeferred(**runs("v", (0,)), code="SLA_BUDGET_SPENT", unavailable=pack_ints([1]),
                                          max_unavailable=pack_ints([1])))  # fmt: skip
    assert [each["machine"] for each in why(contest, "v")["reasons"]] == ["entitlement", "sla"]
    cell.decide("lifecycle", answer(cell, 7, "DEFERRED", **runs("v", (0,))))
    assert why(contest, "v")["headline"] is None
    assert "the SLA of a job allows no preemption now (1 of job v); they aren't asked again before " \
        "2023-11-14T22:23:20.000Z" in str(why(contest, "w")["reasons"])  # fmt: skip
    cell.decide("entitlement", preempted(8, {"v": (1,)}, "w"))
    assert told(contest, "v")[0] == "BELOW_ENTITLEMENT", "another is asked"
    assert told(contest, "w")[0] == "WAITING_FOR_PREEMPTION"
    cell.decide("sla", DisruptionAllowed(**runs("v", (1,))))
    assert [each["code"] for each in why(contest, "v")["reasons"]] == ["BELOW_ENTITLEMENT"]


def test_who_may_stay_is_named_where_an_ask_is_refused(contest):
    unit = {"job_id": "w", "first": 0, "count": 1, "run": 1}
    refused = PreemptionRefused(**unit, code="SLICE_NOT_OVER", victim_job_id="v", victim_instance=2, victim_run=1,
                                wanted={"cpu": 4000}, free={"cpu": 1000})  # fmt: skip
    contest.cell.decide("entitlement", refused)
    (reason,) = [each for each in why(contest, "w")["reasons"] if each["code"] == "SLICE_NOT_OVER"]
    assert reason["message"] == (
        "others were asked to leave for 1 task, and stay: task 2 of job v, it takes more than its pool holds beyond "
        "its entitlement, and its slice isn't over (4 cpu wanted, 1 cpu may be taken)"
    )
    contest.cell.decide("entitlement", preempted(7, {"v": (0,)}, "w"))
    assert [each["code"] for each in why(contest, "w")["reasons"]] == ["WAITING_FOR_PREEMPTION", "NO_HOST_FITS"]


def test_hosts_that_are_drained_for_a_gang_are_named(contest):
    unit = {"job_id": "w", "first": 0, "count": 1, "run": 1}
    reserved = {**unit, "host_ids": ("h1", "h2"), "tasks": pack_ints([1, 1]), "until_ms": contest.cell.ms + 600_000}
    contest.cell.decide("placement", HostsReserved(**reserved, kept={"cpu": 500}, state="RESERVED"))
    assert told(contest, "w")[2] == (
        "hosts h1, h2 are reserved for 1 task, 0.5 cpu kept there so far, short of 0.5 cpu, 512MiB memory; "
        "given up at 2023-11-14T22:23:20.000Z; "
        "entitled since 2023-11-14T22:13:20.000Z; preemption is allowed from 2023-11-14T22:15:20.000Z on; "
        "it goes on when enough tasks on these hosts have ended"
    )
    said = unplaced("w", "HOSTS_RESERVED", nearest=NEAR, hosts_considered=2, hosts_by_reason={"cpu": 2})
    contest.cell.ms += 600_000
    contest.cell.decide("placement", said)
    (reason,) = why(contest, "w")["reasons"]
    assert reason["hosts_by_reason"] == {"cpu": 2}, "what placement says of the same is no second reason"
    assert "preemption has been allowed since 2023-11-14T22:15:20.000Z; it goes on" in reason["message"]
    up(contest.cell, "w", (0,))
    assert why(contest, "w")["headline"] is None


def test_the_alternative_is_named_for_which_room_is_made_and_why_not_those_before_it(contest):
    unit = {"job_id": "w", "first": 0, "count": 1, "run": 1, "host_ids": ("h1",), "tasks": pack_ints([1])}
    by = {"alternative": 1, "passed_codes": ("NO_DEVICES_FIT",)}
    victims = {"job_ids": ("v",), "victim_run": pack_ints([1]), "way": pack_ints([2])}
    victims |= {column: pack_ints([0]) for column in ("shape", "job", "instance")}
    contest.cell.decide("placement", PreemptionAsked(**unit, **victims, **by))
    contest.cell.decide("entitlement", preempted(7, {"v": (0,)}, "w"))
    assert "1 run leaves for it by alternative 1 of any_of (0: NO_DEVICES_FIT) (" in told(contest, "w")[2]
    contest.cell.decide("entitlement", answer(contest.cell, 7, "DEFERRED"))
    reserved = {**unit, "until_ms": contest.cell.ms + 600_000, "kept": {"cpu": 500}, "state": "RESERVED"}
    contest.cell.decide("placement", HostsReserved(**reserved, alternative=0))
    messages = [each["message"] for each in why(contest, "w")["reasons"]]
    assert any("h1 is reserved for 1 task by alternative 0 of any_of, 0.5 cpu kept" in each for each in messages)


def test_a_gang_that_taints_keep_away_is_told_which_host_has_one(waiting):
    cell = waiting.cell
    offer = {"session": 1_795_673_927_421, "capacity": {"cpu": 4000}}
    cell.host("h4", session=offer["session"])
    cell.fact(HostOffered(host_id="h4", taints={"dedicated": "ml"}, **offer))
    cell.decide("entitlement", admitted("a", (0, 1)))
    cell.decide("placement", unplaced("a", "HOSTS_TAINTED", tasks=2, size=2, fit=1, missing="1"))
    message = why(waiting)["reasons"][0]["message"]
    assert message.startswith(
        "1 of the 2 tasks of the gang would fit on hosts without taints, even if nothing else ran"
    )
    assert message.endswith("host h4 has the taint dedicated=ml, its agent's settings give it")
    cell.decide("placement", HostTainted(host_id="h4", taints={"dedicated": "ml"}))
    assert "`paceline host taint h4 dedicated --remove` takes it off" in why(waiting)["reasons"][0]["message"]


def test_instances_that_wait_for_the_same_are_told_apart(waiting):
    cell = waiting.cell
    cell.decide("placement", unplaced("a", "CONSTRAINT_MISMATCH", tasks=1))
    for at in (0, 1):
        cell.decide("entitlement", held("a", (at,), "CONSTRAINT_MISMATCH"))
    messages = [each["message"] for each in why(waiting)["reasons"]]
    assert sorted(each.split(":")[0] for each in messages) == ["instance 0", "instance 1"]


def test_an_operator_can_act_where_the_only_host_has_shrunk(waiting):
    waiting.cell.decide("entitlement", admitted("a", (0, 1)))
    failed = {"offers less than runs there": 1, "constraint:rack": 2}
    waiting.cell.decide("placement", unplaced("a", "NO_HOST_FITS", tasks=2, hosts_considered=3, hosts_by_reason=failed))
    assert why(waiting)["headline"]["actor"] == "operator"


def test_a_pool_that_holds_more_than_it_may_is_told_so(waiting):
    numbers = {"asked": {"cpu": 16_000}, "allocated": {"cpu": 70_400}, "entitlement": {"cpu": 64_000}}
    waiting.cell.decide("entitlement", held("a", (0, 1), "ENTITLEMENT_REACHED", **numbers))
    assert "(70.4 cpu held, more than the 64 of now, 16 asked)" in why(waiting)["reasons"][0]["message"]


def test_tasks_beside_one_for_which_hosts_are_drained_keep_their_reason(waiting):
    cell = waiting.cell
    cell.decide("entitlement", admitted("a", (0, 1)))
    cell.decide("placement", unplaced("a", "NO_HOST_FITS", tasks=2))
    unit = {"job_id": "a", "first": 0, "count": 1, "run": 1}
    reserved = {**unit, "host_ids": ("h1",), "tasks": pack_ints([1]), "until_ms": cell.ms + 600_000}
    cell.decide("placement", HostsReserved(**reserved, kept={"memory": 64}, state="RESERVED"))
    told_of = [(each["code"], each["message"].split(";")[0]) for each in why(waiting)["reasons"]]
    assert sorted(told_of) == [
        ("HOSTS_RESERVED",
         "host h1 is reserved for 1 task, 64MiB memory kept there so far, short of 1 cpu, 448MiB memory"),
        ("NO_HOST_FITS", "1 task finds no room on any host now"),
    ]  # fmt: skip


def answer(cell: Any, number: int, code: str, **named: Any) -> PreemptionAnswered:
    position = Cause(machine="entitlement", round=cell.writers["entitlement"].round)
    fields = {**runs("v", ()), **named}
    return PreemptionAnswered(number=number, order=position, code=code, victims=2, **fields)


def test_a_job_that_was_stopped_lacks_nothing(waiting):
    waiting.cell.decide("entitlement", held("a", (0, 1)))
    at = waiting.cell.fact(JobStopRequested(job_id="a", command_id="c"))
    waiting.cell.decide("lifecycle", CommandAnswered(job_id="a", jobs_offset=at, command_id="c", code="DONE"),
                        ended("a", (0, 1), Outcome.STOPPED))  # fmt: skip
    waiting.cell.changed("KILLED")
    assert why(waiting)["reasons"] == []
    assert why(waiting)["state"] == "KILLED"


@pytest.mark.parametrize("late", [held("a", (0, 1)), unplaced("a"), admitted("a", (0, 1))])
def test_what_a_machine_says_that_has_not_heard_of_the_end_leaves_nothing(waiting, late):
    machine = late.topic.removeprefix("paceline.")
    waiting.cell.decide(machine, late)
    waiting.cell.decide("lifecycle", ended("a", (0, 1), Outcome.STOPPED))
    waiting.cell.changed("KILLED")
    waiting.cell.decide(machine, late)
    waiting.fold()
    rows = dump(waiting.projector.views.engine)
    assert rows["explanations"] == rows["waiting"] == rows["holds"] == []


def test_every_code_has_a_tier():
    assert {kind_of(code).tier for code in Code} == {"job", "pool", "shape", "now", "hosts", "cell"}
    assert kind_of(Code.NOT_YET_EVALUATED).tier == "cell"
    assert kind_of("A_CODE_OF_LATER").tier == "cell"


def test_a_daemon_that_no_host_matches_says_so(api):
    api.cell.host()
    at = api.cell.submit("a", kind="daemon")
    api.cell.decide("lifecycle", replace(accepted(job("a", kind="daemon"), at)[0], instances=0))
    code, actor, message = told(api)
    assert (code, actor) == ("CONSTRAINT_MISMATCH", "you")
    assert message == (
        "no host meets the constraints of the daemon, which has a task on each that does; "
        "add hosts with these attributes, or submit another daemon"
    )


def test_own_work_is_told_as_own_and_what_of_it_has_no_hosts(api):
    api.cell.host()
    api.cell.accept("a", instances=30)
    api.cell.run("a", tuple(range(10)))
    api.cell.decide("entitlement", admitted("a", (10, 11, 12, 13)))
    numbers = {"entitlement": {"cpu": 14_000}, "allocated": {"cpu": 14_000}, "asked": CPU}
    api.cell.decide("entitlement", held("a", tuple(range(14, 30)), "ENTITLEMENT_REACHED", **numbers))
    assert told(api) == (
        "ENTITLEMENT_REACHED",
        "nobody, wait",
        "16 tasks wait: this job holds 14 cpu of the 14 cpu that pool /p may use, 4 cpu of it for 4 tasks admitted "
        "before, without hosts yet; it goes on when tasks of the job end",
    )


def test_a_gang_that_reservations_of_others_keep_waiting_is_told_which(api):
    api.pool("/p", reservation={"cpu": 2000})
    api.pool("/donor", reservation={"cpu": 2000})
    api.pool("/idle", reservation={"cpu": 1000})
    api.cell.accept("a", instances=4, gang={"min": 4})
    columns = {
        "entitlement": [4000, 2000, 2000, 0],
        "demand": [7000, 5000, 3000, 0],
        "allocation": [3000, 1000, 2000, 0],
    }
    packed = {name: pack_longs(each) for name, each in columns.items()} | {"placed": pack_longs(columns["allocation"])}
    api.cell.decide("entitlement", EntitlementsSet(pools=("/", "/p", "/donor", "/idle"), resources=("cpu",), **packed))
    numbers = {"entitlement": {"cpu": 2000}, "allocated": CPU, "asked": {"cpu": 4000}}
    api.cell.decide("entitlement", held("a", (0, 1, 2, 3), "ENTITLEMENT_REACHED", gang=1, **numbers))
    assert told(api) == (
        "ENTITLEMENT_REACHED",
        "pool owner",
        "4 tasks wait: the entitlement of pool /p is less than is asked (4 cpu asked, 2 cpu for it); other pools use "
        "their reservations (/donor 2 cpu), which leaves 2 cpu at most; ask for less, or have reservations changed; it "
        "goes on when these pools want less",
    )


def test_who_is_behind_others_hears_that_no_host_meets_its_constraints(api):
    api.cell.host()
    api.cell.accept("first", instances=2)
    api.cell.accept("a", instances=2, constraints=[{"attribute": "gpu_model", "values": ["h100"]}])
    api.cell.accept("b", instances=2, constraints=[{"attribute": "gpu_model", "operator": "absent"}])
    for job_id in ("a", "b"):
        api.cell.decide("entitlement", held(job_id, (0, 1), "BEHIND_IN_QUEUE"))
    assert told(api) == (
        "CONSTRAINT_MISMATCH",
        "you",
        "2 tasks ask for hosts that the cell doesn't have (gpu_model h100), and wait behind others in the queue; "
        "change the constraints, or add hosts with these attributes",
    )
    assert told(api, "b")[0] == "BEHIND_IN_QUEUE"


def test_who_lacks_a_device_hears_of_the_field_that_asks_for_it_and_not_of_constraints(api):
    api.cell.host()
    api.cell.accept("a")
    reasons = {"constraint:paceline/device/dev/fuse": 1}
    api.cell.decide("placement", unplaced("a", "CONSTRAINT_MISMATCH", hosts_considered=1, hosts_by_reason=reasons))
    api.cell.decide("entitlement", held("a", (0,), "CONSTRAINT_MISMATCH"))
    code, actor, said = told(api)
    assert (code, actor) == ("CONSTRAINT_MISMATCH", "you")
    assert said.endswith(
        "; leave out device_files of the job, or add hosts that offer paceline/device/dev/fuse (docs/hosts.md)"
    )


def test_a_host_that_is_given_up_meets_no_constraints(api):
    api.cell.host("gone")
    api.cell.fact(HostOffered(host_id="gone", session=1, capacity=CPU, attributes={"gpu_model": "h100"}))
    api.cell.host("h2")
    api.cell.accept("a", constraints=[{"attribute": "gpu_model", "values": ["h100"]}])
    api.cell.decide("entitlement", held("a", (0,), "BEHIND_IN_QUEUE"))
    assert told(api)[0] == "BEHIND_IN_QUEUE"
    api.cell.decide("placement", HostLost(host_id="gone", session=1, code="SILENT", silent_ms=60_000))
    assert told(api)[0] == "CONSTRAINT_MISMATCH"


def test_what_fits_no_host_is_told_how_large_the_largest_is_and_nothing_that_would_have_to_become_free(waiting):
    asked = {"cpu": 20_000}
    numbers = {"entitlement": {"cpu": 31_800}, "allocated": {"cpu": 35_000}, "largest": {"cpu": 16_000}}
    waiting.cell.decide("entitlement", held("a", (0, 1), "NEVER_FITS", at="/", **{**numbers, "asked": asked}))
    assert told(waiting)[2] == (
        "2 tasks fit no host, even when it is empty; the largest has 16 cpu; ask for less, or add larger hosts"
    )
    [reason] = why(waiting)["reasons"]
    assert (reason["allocated"], reason["entitlement"]) == (None, None)


def test_what_fits_no_host_is_told_as_the_machine_says_it_that_holds_it_for_that(waiting):
    fits_none = "2 tasks fit no host, even when it is empty"
    shared = {"at": "/", "asked": CPU, "entitlement": {"cpu": 500}}  # daemons hold the rest of the cell
    waiting.cell.decide("placement", unplaced("a", "NEVER_FITS", tasks=2))
    waiting.cell.decide("entitlement", held("a", (0, 1), "NEVER_FITS", **shared))
    assert told(waiting)[2] == f"{fits_none}; ask for less, or add larger hosts"
    waiting.cell.decide("placement", unplaced("a", "NO_HOST_FITS", tasks=2))  # and then the largest host goes
    waiting.cell.decide("entitlement", held("a", (0, 1), "NEVER_FITS", at="/", asked=CPU, largest={"cpu": 700}))
    assert told(waiting)[::2] == (
        "NEVER_FITS", f"{fits_none}; the largest has 0.7 cpu; ask for less, or add larger hosts"
    )  # fmt: skip


def test_a_task_of_one_host_is_told_from_when_on_others_leave_for_it(waiting):
    cell = waiting.cell
    cell.ms += 1000
    cell.decide("entitlement", admitted("a", (0, 1)))
    busy = {
        "tasks": 2,
        "hosts_considered": 1,
        "hosts_by_reason": {"cpu": 1},
        "nearest": (NearMiss(host_id="h17", lacks={}),),
    }
    cell.decide("placement", unplaced("a", "BOUND_HOST_BUSY", **busy))
    assert told(waiting)[2] == (
        "2 tasks may run on h17 alone (lacks cpu); entitled since 2023-11-14T22:13:21.000Z; preemption is allowed from "
        "2023-11-14T22:15:21.000Z on; it starts once that host has room and is connected"
    )
    cell.decide("placement", unplaced("a", "BOUND_HOST_BUSY", **{**busy, "hosts_by_reason": {"silent": 1}}))
    assert told(waiting)[2] == (
        "2 tasks may run on h17 alone (is silent); it starts once that host has room and is connected"
    )


def test_tasks_of_hosts_of_their_own_are_told_no_more_hosts_than_tasks():
    numbers = {
        "hosts_considered": 2000,
        "hosts_by_reason": {"cpu": 1937, "memory": 63},
        "nearest": [{"host_id": f"sim-{each}", "lacks": {"cpu": 50}} for each in (32, 55, 270)],
    }
    assert bound_host_text(993, numbers, STANDARD_KINDS) == (
        "993 tasks may run on one host each (sim-32, sim-55, sim-270 and 990 more: lack cpu, lack memory)"
    )
    numbers |= {"hosts_considered": 1, "hosts_by_reason": {"cpu": 1}, "nearest": numbers["nearest"][:1]}
    assert bound_host_text(1, numbers, STANDARD_KINDS) == (
        "1 task may run on sim-32 alone (lacks cpu), short of 0.05 cpu"
    )
    numbers |= {"hosts_considered": 2000, "hosts_by_reason": {"cpu": 1937, "constraint:disk": 62, "lost": 1}}
    assert funnel(numbers, STANDARD_KINDS).startswith(
        " (of 2,000 hosts 62 don't match on disk, 1,937 lack cpu, 1 is lost); nearest sim-32"
    )
