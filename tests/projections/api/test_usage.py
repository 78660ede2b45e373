"""What ended runs asked for and used, by job, pool, owner and month, as the log says it."""

from typing import Any

import pytest

from events.codes import Outcome, RunReport
from events.columns import pack_ints, pack_longs
from events.records.hosts import HostsLoaded
from events.records.tasks import RunsReported
from projections.views.projector import Projector, rebuild
from projections.views.tables import open_engine
from tests.helpers.written_cell import Cell, dump, ended, ordered, queued, runs

NEED = {"resources": {"cpu": 2, "memory": "100MiB"}}


def used(
    job_id: str, run: int = 1, state: RunReport = RunReport.EXITED, host_id: str = "h1", **more: bytes
) -> RunsReported:
    """A run is over that used 1.5 s of CPU and 50 MiB, was throttled and wrote."""
    use = {"cpu_ms": pack_longs([1500]), "memory_kib": pack_longs([50 << 10]), "throttled_ms": pack_longs([20]),
           "read_kib": b"", "written_kib": pack_longs([7])} | more  # fmt: skip
    one, zero = pack_ints([int(state)]), pack_ints([0])
    return RunsReported(gateway="g", host_ids=(host_id,), **runs(job_id, (0,), run), host=zero, state=one,
                        exit_code=zero, reason=zero, signal=zero, out_of_memory=zero, **use)  # fmt: skip


def run(cell: Cell, job_id: str, number: int = 1, reports: int = 1, s: int = 10, **more: bytes) -> None:
    """A run of so many seconds."""
    if number > 1:
        cell.decide("lifecycle", queued(job_id, (0,), number))
    cell.decide("lifecycle", ordered(job_id, (0,), number, "h1"))
    cell.ms += 1000 * s
    for _ in range(reports):
        cell.fact(used(job_id, number, **more))
    cell.decide("lifecycle", ended(job_id, (0,), Outcome.SUCCEEDED, run=number))


def sums(api: Any, **asked: str) -> dict[str, tuple[int, ...]]:
    """By what is summed by: runs, those measured, seconds, CPU asked for and used, memory asked for and used."""
    by = asked.get("by", "pool")
    names = ("runs", "measured_runs", "run_s", "asked_cpu_ms", "used_cpu_ms", "asked_memory_mib_s", "peak_memory_mib_s")
    answer = api.get("/v1/usage?" + "&".join(f"{name}={value}" for name, value in asked.items()))
    return {each["job_id" if by == "job" else by]: tuple(each[name] for name in names) for each in answer["usage"]}


ONE = (1, 1, 10, 20_000, 1500, 1000, 500)
TWO = tuple(2 * each for each in ONE)


def test_runs_count_once_for_their_job_pool_owner_and_month(api: Any) -> None:
    api.cell.host()
    api.cell.accept("a", owner="ann", **NEED)
    api.cell.accept("b", owner="bob", **NEED)
    run(api.cell, "a")
    run(api.cell, "a", 2, reports=2)
    run(api.cell, "b")
    api.fold()
    assert sums(api, by="job") == {"a": TWO, "b": ONE}
    assert sums(api, by="owner") == {"ann": TWO, "bob": ONE}
    assert sums(api, by="month") == {"2023-11": tuple(3 * each for each in ONE)}
    assert sums(api, by="job", owner="bob") == {"b": ONE}
    assert sums(api, by="owner", since="2023-12") == {}
    [pool] = sums(api)
    assert sums(api, by="owner", pool=pool) == {"ann": TWO, "bob": ONE}
    first = api.get("/v1/usage?by=job&page_size=1")
    assert (first["more"], first["usage"][0]["peak_memory_kib"], first["usage"][0]["written_kib"]) == (True, 51200, 14)


def test_a_host_says_nothing_of_the_use_of_runs_elsewhere(api: Any) -> None:
    api.cell.host()
    api.cell.host("thief")
    api.cell.accept("a", owner="ann", **NEED)
    api.cell.decide("lifecycle", ordered("a", (0,), 1, "h1"))
    api.cell.ms += 10_000
    api.cell.fact(used("a", host_id="thief", cpu_ms=pack_longs([9_000_000])))
    api.cell.fact(used("a"))
    api.cell.fact(used("a", host_id="thief", cpu_ms=pack_longs([9_000_000])))
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.SUCCEEDED))
    api.fold()
    assert sums(api, by="job") == {"a": ONE}


def test_a_run_of_which_no_host_says_anything_counts_as_asked_for(api: Any) -> None:
    api.cell.host()
    api.cell.accept("a", owner="ann", **NEED)
    run(api.cell, "a", reports=0)
    api.cell.fact(used("a"))  # too late: it has ended
    api.cell.decide("lifecycle", queued("a", (0,), 2))
    api.fold()
    assert sums(api, by="job") == {"a": (1, 0, 10, 20_000, 0, 1000, 0)}


def test_numbers_that_no_run_can_have_used_stay_within_what_the_views_hold(api: Any) -> None:
    most = 2**63 - 1
    said = dict.fromkeys(("cpu_ms", "memory_kib", "throttled_ms", "read_kib", "written_kib"), pack_longs([most]))
    api.cell.host()
    for job_id, owner in (("a", "ann"), ("b", "bob")):
        api.cell.accept(job_id, owner=owner, **NEED)
        run(api.cell, job_id, 1, s=10_000, **said)
        run(api.cell, job_id, 2, s=10_000, **said)
    api.cell.accept("c", owner="eve", **NEED)
    run(api.cell, "c")
    api.fold()
    assert sums(api, by="job")["a"] == (2, 2, 20_000, 40_000_000, most, 2_000_000, most)
    assert sums(api, by="month") == {"2023-11": (5, 5, 40_010, 80_020_000, most, 4_001_000, most)}
    [row] = api.get("/v1/usage?by=month")["usage"]
    assert {row[name] for name in ("peak_memory_kib", "throttled_ms", "read_kib", "written_kib")} == {most}
    assert sums(api, by="owner")["eve"] == ONE


def test_a_job_that_is_forgotten_still_counts_for_its_owner(api: Any) -> None:
    api.cell.host()
    api.cell.accept("a", owner="ann", **NEED)
    run(api.cell, "a")
    api.cell.changed("SUCCEEDED", "a")
    api.cell.forget("a")
    api.fold()
    assert sums(api, by="job") == {}
    assert sums(api, by="owner") == {"ann": ONE}


def test_views_that_are_built_anew_say_the_same(tmp_path: Any) -> None:
    cell = Cell()
    cell.host()
    cell.accept("a", owner="ann", **NEED)
    engine = open_engine(tmp_path / "views.sqlite")
    for number in (1, 2, 3):
        run(cell, "a", number, reports=number)
        live = Projector(cell.log, engine)
        while live.step():
            pass
        live.stop_reading()
    again = tmp_path / "again"
    again.mkdir()
    found = dump(engine)
    assert found["job_usage"]
    assert found == dump(rebuild(cell.log, again))


@pytest.mark.parametrize("query", ["by=task", "since=yesterday", "page_size=0"])
def test_what_it_cannot_be_asked_for(api: Any, query: str) -> None:
    assert api.client.get(f"/v1/usage?{query}").status_code == 422


@pytest.mark.parametrize("month", ["2026-13", "2026-00", "2026"])
def test_a_month_that_there_is_not_is_refused_with_a_sentence(api: Any, month: str) -> None:
    said = api.problem(api.client.get(f"/v1/usage?since={month}"), 422, "INVALID_REQUEST")
    assert said["detail"] == f"'{month}' is no month; one looks like 2026-11, and months go from 01 to 12"


def test_the_usage_of_a_pool_that_there_is_not_is_refused(api: Any) -> None:
    api.pool("/p")
    api.cell.host()
    api.cell.accept("a", pool="/p", **NEED)
    run(api.cell, "a")
    api.fold()
    assert sums(api, pool="/p") == sums(api, pool="/") == sums(api)
    api.problem(api.client.get("/v1/usage?pool=/none"), 404, "NOT_FOUND")


def test_a_host_shows_the_use_that_its_present_session_said(api: Any) -> None:
    api.cell.host("h1")
    api.fold()
    assert api.get("/v1/hosts/h1")["used"] is None
    session = api.get("/v1/hosts/h1")["session"]
    for number, cpu in ((session + 1, 9), (session, 3)):
        api.cell.fact(HostsLoaded.pack(gateway="g", host_ids=("h1",), host_session=[number], cpu_used=[cpu],
                                       memory_used=[4], slack=[0]))  # fmt: skip
    api.fold()
    host = api.get("/v1/hosts/h1")
    assert {name: host["used"][name] for name in ("cpu", "memory")} == {"cpu": 3, "memory": 4}
