"""Campaigns of maintenance: which hosts are emptied when, and what becomes of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from events.codes import Code, Outcome, RunCause, Stage, Step
from events.columns import pack_ints
from events.records.base import Event
from events.records.hosts import (
    HostConnected,
    MaintenanceActionRequested,
    MaintenanceRequested,
)
from events.records.lifecycle import HostReconciled, RunsAvailable, RunsEnded
from events.records.parts import DrainPlan, MaintenancePlan
from events.records.placement import HostMaintenanceChanged, HostsAnswered, MaintenanceChanged
from processors.placement.drain_cost import drain_costs
from tests.helpers.machines import Run, columns
from tests.processors.placement.harness import World, hosts_of, offered
from tests.processors.placement.test_windows import set_window

MINUTE = 60_000
PLAN = MaintenancePlan(drain=DrainPlan())


class Cell(World):
    """Hosts whose runs are ended by lifecycle when they drain."""

    def start(self, *hosts: str, name: str = "kernel", drain: dict[str, Any] | None = None, **plan: Any) -> list[Event]:
        """An operator starts a campaign."""
        known = {"order": "name"} | plan
        asked = MaintenancePlan(drain=DrainPlan(**(drain or {})), **known)
        return self.fact(
            MaintenanceRequested(maintenance_id=name, command_id=f"start {name}", host_ids=hosts, plan=asked)
        )

    def act(self, action: str, name: str = "kernel") -> list[Event]:
        """An operator acts on it."""
        return self.fact(MaintenanceActionRequested(maintenance_id=name, command_id=action, action=action))

    def boot(self, host: str, boot: str) -> list[Event]:
        """A host connects with this boot, and is ready."""
        session = self.sessions[host] = self.sessions.get(host, 0) + 1
        connected = HostConnected(host_id=host, session=session, gateway="g", boot=boot)
        reconciled = HostReconciled(host_id=host, session=session, kept=0, ended=0, stopped=0)
        return self.fact(connected, offered(host, session)) + self.peer("lifecycle", reconciled)

    def leave(self, *runs: Run) -> list[Event]:
        """Runs are over, as their hosts drain."""
        outcome, why, zero = (pack_ints([value] * len(runs)) for value in (Outcome.REPLACED, RunCause.DRAIN, 0))
        return self.peer("lifecycle", RunsEnded(**columns(runs), outcome=outcome, exit_code=zero, kept=zero, why=why))

    def step(self, host: str) -> Step:
        """The step in which a host is."""
        row = self.machine.campaigns.rows.members.get(host)
        return Step(row.step) if row is not None else Step.NONE

    def stage(self, host: str) -> Stage:
        """The stage in which it is."""
        return Stage(self.machine.stages.of(host).stage)

    @property
    def campaign(self) -> str:
        """The state of the campaign."""
        return self.machine.campaigns.rows.campaigns["kernel"].state


def steps(said: Sequence[Event]) -> dict[str, list[tuple[Step, str]]]:
    """The steps of each host, with their codes."""
    found: dict[str, list[tuple[Step, str]]] = {}
    for event in said:
        if isinstance(event, HostMaintenanceChanged):
            for host, step in zip(event.host_ids, event.step_array.tolist(), strict=True):
                if found.get(host, [(None, "")])[-1][0] != step:
                    found.setdefault(host, []).append((Step(step), event.code))
    return found


def answer(said: Sequence[Event]) -> HostsAnswered:
    """The only answer."""
    (answered,) = (event for event in said if isinstance(event, HostsAnswered))
    return answered


def states(said: Sequence[Event]) -> list[tuple[str, str]]:
    """What is said of campaigns."""
    return [(event.state, event.code) for event in said if isinstance(event, MaintenanceChanged)]


def cell(hosts: int = 3) -> Cell:
    """Hosts h1 and on, with 4 cores each."""
    world = Cell()
    for number in range(1, hosts + 1):
        world.boot(f"h{number}", "b1")
    return world


def test_hosts_are_drained_worked_on_checked_and_taken_back_one_at_a_time() -> None:
    world = cell()
    said = world.start("h1", "h2", "h3", work="time", work_ms=30_000)
    assert answer(said).code == Code.DONE
    assert states(said) == [("RUNNING", "ASKED")]
    assert steps(said)["h1"] == [(Step.PENDING, "CAMPAIGN"), (Step.DRAIN, "CAMPAIGN"), (Step.WORK, "EMPTY")]
    assert world.stage("h1") == Stage.DRAINED
    assert world.step("h2") == Step.PENDING
    said = world.later(30_000)
    assert steps(said)["h1"] == [(Step.CHECK, "WORK_DONE"), (Step.DONE, "CHECKED")]
    assert world.stage("h1") == Stage.UP
    assert world.step("h2") == Step.WORK
    said = world.later(30_000) + world.later(30_000)
    assert states(said) == [("DONE", "OVER")]
    assert world.campaign == "DONE"
    assert not world.machine.campaigns.rows.members


def test_a_reboot_is_another_boot_and_the_same_boot_has_failed() -> None:
    world = cell(2)
    world.start("h1", "h2", work="reboot", within_ms=10 * MINUTE, check_ms=5 * MINUTE)
    assert world.step("h1") == Step.WORK
    world.boot("h1", "b1")  # the agent alone was restarted
    assert world.step("h1") == Step.WORK
    said = world.boot("h1", "b2")
    assert steps(said)["h1"] == [(Step.CHECK, "WORK_DONE"), (Step.DONE, "CHECKED")]
    assert world.step("h2") == Step.WORK
    said = world.later(10 * MINUTE)
    assert steps(said)["h2"] == [(Step.FAILED, "SAME_BOOT")]
    assert world.stage("h2") == Stage.CORDONED
    assert "same boot" in next(e.message for e in said if isinstance(e, HostMaintenanceChanged))


def test_what_runs_on_a_host_leaves_before_it_is_worked_on() -> None:
    world = cell(2)
    where = hosts_of(world.run("web", 2, kind="stateless", max_unavailable=1))
    host = next(iter(where.values()))
    world.start(host, work="manual")
    assert world.step(host) == Step.DRAIN
    world.leave(*(run for run, at in where.items() if at == host))
    assert world.step(host) == Step.WORK
    said = world.resume(host)
    assert steps(said)[host][-1] == (Step.DONE, "CHECKED")


def test_a_host_that_is_well_again_keeps_its_place_in_a_campaign() -> None:
    world = cell(20)
    world.finds("h3")
    world.later(16 * MINUTE)
    assert world.machine.stages.of("h3").by == "health"
    world.start("h1", "h3", work="manual")
    world.finds("h3", bad=False)
    world.later(11 * MINUTE)
    assert (world.stage("h3"), world.step("h3")) == (Stage.UP, Step.PENDING)
    world.resume("h1")
    assert world.step("h3") == Step.WORK


def test_an_open_window_has_hosts_that_a_campaign_a_check_or_their_removal_gave_back() -> None:
    world = cell(21)
    set_window(world, "h1", "h2", "h3", schedule="0 0 * * *", duration_ms=6 * 60 * MINUTE, lead_ms=0)
    world.later(24 * 60 * MINUTE - world.now % (24 * 60 * MINUTE) - 20 * MINUTE)
    world.finds("h3")
    world.later(16 * MINUTE)
    world.start("h1", work="time", work_ms=30 * MINUTE)
    world.later(4 * MINUTE)
    by = {host: row.by for host, row in world.machine.stages.table.items()}
    assert by == {"h1": "campaign", "h2": "window", "h3": "health"}
    world.finds("h3", bad=False)
    world.silence("h2")
    world.confirm("h2")
    world.remove("h2")
    assert "h2" not in world.machine.stages.table
    world.boot("h2", "b2")
    assert world.machine.stages.of("h2").by == "window"
    world.later(30 * MINUTE)
    assert world.campaign == "DONE"
    assert {row.by for row in world.machine.stages.table.values()} == {"window"}
    assert set(world.stages()) == {"h1", "h2", "h3"}
    world.resume("h1")
    assert set(world.stages()) == {"h2", "h3"}, "an operator's word holds until the next time"


def test_a_campaign_pauses_goes_on_and_is_aborted() -> None:
    world = cell(4)
    hosts = ("h1", "h2", "h3", "h4")
    (busy,) = hosts_of(world.run("web", 1, kind="stateless")).values()
    assert busy == "h1"
    world.start(*hosts, work="manual", at_a_time=2)
    assert [world.step(host) for host in hosts] == [Step.DRAIN, Step.WORK, Step.PENDING, Step.PENDING]
    assert answer(world.act("pause")).code == Code.DONE
    assert steps(world.resume("h2"))["h2"][-1] == (Step.DONE, "CHECKED")
    assert [world.step(host) for host in hosts] == [Step.DRAIN, Step.NONE, Step.PENDING, Step.PENDING]
    assert answer(world.act("pause")).code == Code.REPEATED
    assert answer(world.act("resume")).code == Code.DONE
    assert [world.step(host) for host in hosts] == [Step.DRAIN, Step.NONE, Step.WORK, Step.PENDING]
    said = world.act("abort")
    assert states(said) == [("ABORTING", "ASKED")]
    assert steps(said) == {"h1": [(Step.SKIPPED, "ABORTED")], "h4": [(Step.SKIPPED, "ABORTED")]}
    assert [world.stage(host) for host in hosts] == [Stage.UP, Stage.UP, Stage.DRAINED, Stage.UP]
    assert states(world.resume("h3")) == [("ABORTED", "OVER")]
    assert answer(world.act("resume")).code == Code.WRONG_STATE
    assert answer(world.act("abort")).code == Code.REPEATED
    assert answer(world.act("abort", "other")).code == Code.NOT_FOUND
    assert answer(world.start("h1")).code == Code.REPEATED
    asked = MaintenanceRequested(maintenance_id="kernel", command_id="x", host_ids=("h1",), plan=PLAN)
    assert answer(world.fact(asked)).code == Code.WRONG_STATE


def test_a_campaign_is_refused_whole() -> None:
    world = cell(2)
    said = world.start("h1", "h9", "h2")
    assert (answer(said).code, answer(said).host_ids, answer(said).codes) == ("NOT_FOUND", ("h9",), ("NOT_FOUND",))
    assert answer(said).message == ("This cell knows no host h9; the campaign isn't started on any of its 3 hosts.")
    world.start("h1", name="other", work="manual")
    said = world.start("h1", "h2")
    assert (answer(said).code, answer(said).host_ids) == ("HOSTS_BUSY", ("h1",))
    assert world.step("h2") == Step.NONE
    assert answer(world.start("h2", drain={"deadline_ms": 1, "escalate": "force"})).code == "FORCE_NOT_ALLOWED"
    assert answer(world.start()).code == "NOT_FOUND"


def test_failures_pause_a_campaign_and_its_resumption_forgives_them() -> None:
    world = cell(4)
    hosts = ("h1", "h2", "h3", "h4")
    world.start(*hosts, work="reboot", within_ms=MINUTE, max_failed=1)
    assert states(world.later(MINUTE)) == []
    said = world.later(MINUTE)
    assert states(said) == [("PAUSED", "FAILURES")]
    assert "2 hosts have failed" in next(each.message for each in said if isinstance(each, MaintenanceChanged))
    assert world.later(10 * MINUTE) == []
    world.act("resume")
    assert world.step("h3") == Step.WORK
    assert states(world.later(MINUTE)) == []
    assert world.step("h4") == Step.WORK
    assert [world.stage(host) for host in hosts[:3]] == [Stage.CORDONED] * 3
    said = world.boot("h4", "b2")
    (over,) = (each for each in said if isinstance(each, MaintenanceChanged))
    assert (over.state, over.done, over.failed, over.skipped) == ("DONE", 1, 3, 0)


def test_a_host_that_does_not_come_back_well_has_failed_its_check() -> None:
    world = cell(1)
    world.start("h1", work="reboot", within_ms=10 * MINUTE, check_ms=2 * MINUTE)
    world.silence("h1")
    assert world.step("h1") == Step.WORK
    world.fact(*world.connecting("h1")[:1])  # it has connected and is returning
    assert world.step("h1") == Step.CHECK
    assert world.stage("h1") == Stage.CHECKING
    said = world.later(2 * MINUTE)
    assert steps(said)["h1"] == [(Step.FAILED, "CHECK_FAILED")]


def test_a_host_that_drains_for_too_long_is_put_back_and_skipped() -> None:
    world = cell(2)
    world.run("web", 1, kind="stateless")
    world.start("h1", "h2", work="manual", stuck_ms=60 * MINUTE)
    said = world.later(60 * MINUTE)
    assert steps(said)["h1"] == [(Step.SKIPPED, "STUCK")]
    assert world.stage("h1") == Stage.UP
    assert world.step("h2") == Step.WORK


def test_a_resumed_host_is_left_out() -> None:
    world = cell(3)
    world.run("web", 1, kind="stateless")
    world.start("h1", "h2", "h3", work="manual")
    assert world.step("h1") == Step.DRAIN
    assert steps(world.resume("h2"))["h2"][-1] == (Step.SKIPPED, "RESUMED")
    said = world.resume("h1")
    assert steps(said)["h1"][-1] == (Step.SKIPPED, "RESUMED")
    assert world.stage("h1") == Stage.UP
    assert world.step("h3") == Step.WORK
    assert answer(world.cordon("h3")).code == Code.HOST_IN_CAMPAIGN


def test_hosts_that_cannot_be_started_are_skipped_an_hour_after_all_others() -> None:
    world = cell(3)
    world.cordon("h1")
    world.start("h1", "h2", "h3", work="manual")
    assert (world.step("h1"), world.step("h2")) == (Step.PENDING, Step.WORK)
    world.later(120 * MINUTE)
    world.silence("h3")
    said = world.resume("h2")
    assert states(said) == [("RUNNING", "HOSTS_CANNOT_START")]
    world.hear("h3")
    assert world.step("h3") == Step.WORK
    world.resume("h3")
    assert world.later(59 * MINUTE) == []
    said = world.later(MINUTE)
    assert steps(said)["h1"] == [(Step.SKIPPED, "HOSTS_CANNOT_START")]
    assert states(said) == [("DONE", "OVER")]
    assert world.stage("h1") == Stage.CORDONED


@pytest.mark.parametrize(("step", "to"), [("PENDING", "SKIPPED"), ("DRAIN", "SKIPPED"), ("WORK", "FAILED")])
def test_a_removed_host_is_over(step: str, to: str) -> None:
    world = cell(2)
    if step != "WORK":
        world.run("web", 1, kind="stateless")
    world.start(*(("h1", "h2") if step == "PENDING" else ("h1",)), work="manual", max_failed=5)
    host = "h2" if step == "PENDING" else "h1"
    assert world.step(host).name == step
    world.silence(host)
    world.confirm(host)
    if step == "DRAIN":
        world.later(1)
        world.leave(("web", 0, 1))
        assert world.step(host) == Step.WORK  # it is empty: its runs were lost
        to = "FAILED"
    world.later(60 * MINUTE)
    said = world.remove(host)
    assert steps(said)[host] == [(Step[to], "HOST_REMOVED")]


def test_no_host_is_started_while_too_many_are_away() -> None:
    world = cell(5)
    world.silence("h4", "h5")
    said = world.start("h1", "h2", work="reboot", max_down=1)
    assert states(said) == [("RUNNING", "ASKED"), ("RUNNING", "TOO_MANY_DOWN")]
    world.hear("h5")
    assert world.step("h1") == Step.WORK
    world.silence("h1")  # it is restarted, and doesn't count
    world.hear("h4")
    world.boot("h1", "b2")
    assert world.step("h2") == Step.WORK


def test_racks_are_counted_over_all_campaigns_and_within_a_decision() -> None:
    world = Cell()
    for number in range(1, 9):
        world.host(f"h{number}", attributes={"rack": f"r{number % 2}"})
    world.start("h1", "h3", "h2", "h4", name="other", work="manual", at_a_time=1, per_rack=1)
    assert world.step("h1") == Step.WORK
    world.start("h5", "h7", "h6", "h8", work="manual", at_a_time=4, per_rack=2)
    racks = [host for host in ("h5", "h6", "h7", "h8") if world.step(host) == Step.WORK]
    assert racks == ["h5", "h6", "h8"]


def test_what_leaves_must_have_room_elsewhere() -> None:
    world = cell(3)
    where = hosts_of(world.run("web", 3, cpu=3000, kind="stateless"))
    assert len({*where.values()}) == 3
    said = world.start("h1", "h2", work="manual")
    assert states(said) == [("RUNNING", "ASKED"), ("RUNNING", "NO_ROOM_ELSEWHERE")]
    assert "a task of web finds none" in next(
        each.message for each in said if isinstance(each, MaintenanceChanged) and each.message
    )
    assert world.later(60 * MINUTE) == []
    world.boot("h9", "b1")
    assert world.step("h1") == Step.PENDING
    world.later(5_000)
    assert (world.step("h1"), world.step("h2")) == (Step.DRAIN, Step.PENDING)
    world.start("h3", name="other", work="manual")  # the room of h9 is promised to what leaves h1
    assert world.step("h3") == Step.PENDING


def test_new_tasks_go_elsewhere_while_their_hosts_are_still_to_be_emptied_but_only_if_they_can() -> None:
    world = cell(3)
    (busy,) = hosts_of(world.run("old", 1, kind="stateless")).values()
    assert busy == "h1"
    world.start("h1", "h2", work="manual")
    assert (world.step("h1"), world.step("h2")) == (Step.DRAIN, Step.PENDING)
    assert {*hosts_of(world.run("new", 4, cpu=1000)).values()} == {"h3"}
    assert {*hosts_of(world.run("more", 1, cpu=1000)).values()} == {"h2"}
    world.act("abort")
    assert not world.machine.hosts.constraints.is_leaving(world.machine.hosts.table["h2"].number)


def test_paced_no_service_leaves_more_hosts_than_twice_its_budget_and_the_tightest_is_first() -> None:
    world = cell(12)
    tight = hosts_of(world.run("tight", 6, cpu=2500, kind="stateless", max_unavailable=1))
    wide = hosts_of(world.run("wide", 6, cpu=2500, kind="stateless", max_unavailable=3))
    assert len({*tight.values(), *wide.values()}) == 12
    spare = [f"s{number}" for number in range(6)]
    for host in spare:
        world.boot(host, "b1")
    world.start(*(f"h{number}" for number in range(1, 13)), work="manual", order="paced", at_a_time=12)
    draining = {host for number in range(1, 13) if world.step(host := f"h{number}") == Step.DRAIN}
    assert len(draining & {*tight.values()}) == 2
    assert len(draining & {*wide.values()}) == 4  # the spare hosts have room for six in all
    run, host = next((run, host) for run, host in sorted(tight.items()) if host in draining)
    world.leave(run)
    assert world.step(host) == Step.WORK


def test_cheapest_begins_where_least_is_lost() -> None:
    world = cell(3)
    world.run("firm", 1, preemptible=False, cpu=3000)
    world.run("web", 1, cpu=3000, kind="stateless")
    world.run("batch", 1, cpu=3000)
    world.boot("s1", "b1")
    order: list[str] = []
    world.start("h1", "h2", "h3", work="manual", order="cheapest", at_a_time=1)
    where = {host: job for (job, _, _), host in hosts_of(world.said).items()}
    for _ in range(3):
        host = next(host for host in ("h1", "h2", "h3") if world.step(host) == Step.DRAIN)
        order.append(where[host])
        world.resume(host)
    assert order == ["batch", "web", "firm"]


@pytest.mark.parametrize("seed", range(3))
def test_a_placement_that_is_taken_over_in_each_step_takes_no_second_host(seed: int) -> None:
    """Whoever decides was restored in every step; never are two hosts between DRAIN and CHECK."""
    world = cell(6)
    source = np.random.default_rng(seed)
    hosts = [f"h{number}" for number in range(1, 7)]
    runs = hosts_of(world.run("web", 6, cpu=500, kind="stateless", max_unavailable=1))
    world.start(*hosts, work="reboot", within_ms=10 * MINUTE, check_ms=5 * MINUTE, max_failed=6)
    waiting = [run for run, _ in sorted(runs.items())]
    done: list[str] = []
    for _ in range(200):
        world.restart()
        active = [host for host in hosts if world.step(host) in (Step.DRAIN, Step.WORK, Step.CHECK)]
        assert len(active) <= 1
        if not active:
            break
        (host,) = active
        if world.step(host) == Step.DRAIN:
            there = [run for run in waiting if hosts_of(world.said).get(run) == host]
            waiting = [run for run in waiting if run not in there]
            world.leave(*there)
        elif world.step(host) == Step.WORK and source.random() < 0.5:
            world.silence(host)
            world.restart()
            assert world.step(host) == Step.WORK
            world.boot(host, "b1" if host == "h4" else "b2")
        else:
            world.later(MINUTE)
        done += [host] if world.step(host) == Step.NONE else []
    assert done == hosts
    assert world.campaign == "DONE"
    assert world.stage("h4") == Stage.CORDONED


def test_costs_that_are_kept_up_are_those_of_a_look_at_all_runs() -> None:
    world = cell(6)
    world.start("h6", work="manual", name="other")
    runs = hosts_of(world.run("batch", 5, cpu=500)) | hosts_of(world.run("gang", 4, cpu=500, gang_min=2))
    runs |= hosts_of(world.run("web", 4, cpu=500, kind="stateless", max_unavailable=1))
    world.run("firm", 3, cpu=500, preemptible=False)
    world.run("db", 2, cpu=500, kind="stateful")
    ready = [run for run in sorted(runs) if run[0] == "batch"][:3]
    world.peer("lifecycle", RunsAvailable(**columns(ready)))
    world.later(90_500)
    world.end(("web", 1, 1), ("batch", 0, 1), ("gang", 3, 1))
    machine = world.machine
    costs = drain_costs(machine.runs, machine.hosts, world.now)
    kept = [machine.campaigns.cost(number, world.now) for number in range(len(machine.hosts.ids))]
    assert kept == [tuple(column) for column in costs.T.tolist()]
    assert costs.sum(axis=1).all(), "each kind of cost is there"
