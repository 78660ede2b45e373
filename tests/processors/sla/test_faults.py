"""Each fault that budgets could have is found: a twin, or what the machine asserts of itself, tells it."""

from collections.abc import Callable, Iterable
from inspect import signature
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from events import sla as bounds
from events.records.lifecycle import InstancesChanged
from processors.sla import asks, availability, decisions, hosts, machine, surplus, verdicts, waiting
from processors.sla.availability import OUT, RIPE, SURPLUS, Availability
from processors.sla.budgets import Budgets
from processors.sla.machine import Sla
from processors.state.seconds import second
from tests.processors.sla import test_budgets
from tests.processors.sla.test_twin import WHAT, Play

Patch = pytest.MonkeyPatch
FAULTS: dict[str, Callable[[Patch], object]] = {}
SEEDS, STEPS = 30, 50
CASES = [
    case for name, case in vars(test_budgets).items() if name.startswith("test_") and not signature(case).parameters
]
"""What users may rely on, in their words; histories reach some of it too rarely."""


def fault(plant: Callable[[Patch], object]) -> Callable[[Patch], object]:
    """A fault by its name."""
    FAULTS[plant.__name__] = plant
    return plant


def change(patch: Patch, owner: Any, name: str, new: Callable[..., Any]) -> None:
    """Replaces a function by one that is called with the old one first."""
    old = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kwargs: new(old, *args, **kwargs))


def histories() -> None:
    """The cases, and random histories."""
    for case in CASES:
        case()
    for seed in range(SEEDS):
        draw = Random(seed)
        play = Play([draw.randint(0, 11) for _ in range(3)])
        for _ in range(STEPS):
            play.do(draw.choice(WHAT), draw.randint(0, 11), draw.randint(0, 11), draw.randint(0, 11))


@fault
def the_last_room_is_given_twice(patch: Patch) -> None:
    patch.setattr(verdicts.Room, "take", lambda self, unit: None)


@fault
def budget_is_not_held_after_the_verdict(patch: Patch) -> None:
    change(patch, availability, "is_healthy", lambda old, available, allowed, flags: old(available, allowed * 0, flags))


@fault
def budget_is_free_when_the_run_ends(patch: Patch) -> None:
    def ended(old: Any, self: Sla, event: Any, now: int) -> None:
        old(self, event, now)
        slots, runs, _ = self._locate(event)
        self.available.change(slots, allowed=0, available=runs, flags=self.arena["flags"][slots] | RIPE)

    change(patch, Sla, "_ended", ended)


@fault
def budget_is_kept_after_a_withdrawal(patch: Patch) -> None:
    def withdrawn(self: Sla, event: Any, now: int) -> None:
        slots, runs, _ = self._locate(event)
        self._answer(slots[self.arena["asked"][slots] == runs])
        self._touch(slots)

    patch.setattr(Sla, "_withdrawn", withdrawn)


@fault
def the_lowest_number_goes_first(patch: Patch) -> None:
    patch.setattr(asks.Unit, "order", property(lambda unit: (0, 0, unit.asks[0].job_id, unit.asks[0].slot)))


@fault
def jobs_that_wait_are_not_looked_at_again(patch: Patch) -> None:
    def touch(old: Any, self: waiting.Waiting, job_ids: Iterable[str]) -> None:
        old(self, [job_id for job_id in job_ids if not self._available.counts[job_id].missing])

    change(patch, waiting.Waiting, "touch", touch)


@fault
def what_may_be_unavailable_is_rounded_up(patch: Patch) -> None:
    patch.setattr(bounds, "part_of", lambda percent, instances: -(-percent * instances // 100))


@fault
def what_must_be_available_is_rounded_down(patch: Patch) -> None:
    def limit(old: Any, self: bounds.Bounds, instances: int) -> int:
        if self.min_available_percent is None:
            return int(old(self, instances))
        return max(0, instances - self.min_available_percent * instances // 100)

    change(patch, bounds.Bounds, "limit", limit)


@fault
def stopped_instances_count(patch: Patch) -> None:
    patch.setattr(availability, "ORDINARY", SURPLUS)


@fault
def groups_are_ignored(patch: Patch) -> None:
    patch.setattr(Budgets, "group_of", lambda self, job_id: "")


@fault
def other_jobs_of_a_group_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(waiting.Waiting, "touch_group", lambda self, group: None)


@fault
def the_hour_counts_half(patch: Patch) -> None:
    change(patch, Budgets, "used", lambda old, self, job_id: old(self, job_id) // 2)


@fault
def the_hour_counts_updates(patch: Patch) -> None:
    patch.setattr(asks, "_UPDATE", -1)


@fault
def silent_hosts_are_available(patch: Patch) -> None:
    patch.setattr(hosts.Hosts, "miss", lambda self, event, now: np.zeros(0, dtype=np.int64))


@fault
def the_healthy_time_is_ignored(patch: Patch) -> None:
    patch.setattr(machine, "ripe_at", lambda now, wait_ms: second(now))


@fault
def what_is_not_healthy_yet_goes_for_nothing(patch: Patch) -> None:
    for module in (asks, verdicts, decisions):
        patch.setattr(module, "is_ready", availability.is_healthy)


@fault
def what_a_work_limit_cut_is_forgotten(patch: Patch) -> None:
    patch.setattr(verdicts.Verdicts, "size", property(lambda self: 2))


@fault
def members_of_units_leave_one_by_one(patch: Patch) -> None:
    def units(*args: Any) -> list[asks.Unit]:
        whole = asks.units_of(*args)
        return [asks.Unit(ask.since, unit.priority, (ask,)) for unit in whole for ask in unit.asks]

    patch.setattr(verdicts, "units_of", units)


@fault
def members_of_a_unit_are_not_looked_at_together(patch: Patch) -> None:
    patch.setattr(waiting.Waiting, "related", lambda self, job_ids: sorted(job_ids))


@fault
def younger_runs_take_what_a_unit_waits_for(patch: Patch) -> None:
    patch.setattr(verdicts.Room, "leave_to", lambda self, unit, is_oldest, code: None)


@fault
def no_unit_reserves_what_it_needs(patch: Patch) -> None:
    change(patch, verdicts.Room, "leave_to", lambda old, self, unit, is_oldest, code: old(self, unit, False, code))


@fault
def surplus_counts_as_wanted(patch: Patch) -> None:
    patch.setattr(availability, "ORDINARY", OUT)


@fault
def surplus_is_kept_for_ever(patch: Patch) -> None:
    change(
        patch,
        surplus.Surplus,
        "wanted",
        lambda old, self, job_id: max(self._jobs[job_id].surplus, old(self, job_id)),
    )


@fault
def surplus_is_given_up_as_it_is_spent(patch: Patch) -> None:
    change(patch, Sla, "__init__", lambda old, self: (old(self), setattr(self, "_steps", self._steps[::-1]))[0])


@fault
def surplus_that_is_to_go_counts(patch: Patch) -> None:
    patch.setattr(availability, "_EXTRA", OUT | SURPLUS)


@fault
def replacements_are_not_waited_for(patch: Patch) -> None:
    patch.setattr(Sla, "_is_patient", lambda self, job_id, slots, now: np.zeros(len(slots), dtype=np.bool_))


@fault
def an_adopted_instance_stays_surplus(patch: Patch) -> None:
    def changed(old: Any, self: Sla, event: InstancesChanged, now: int) -> None:
        old(self, msgspec.structs.replace(event, adopted=0), now)

    change(patch, Sla, "_instances_changed", changed)


@fault
def counts_are_not_kept_when_instances_come_and_go(patch: Patch) -> None:
    def resize(old: Any, self: Availability, job_id: str, base: int, instances: int) -> None:
        counts = self.counts[job_id]
        old(self, job_id, base, instances)
        self.counts[job_id] = counts

    change(patch, Availability, "resize", resize)


@fault
def the_first_reason_is_kept(patch: Patch) -> None:
    def given(
        old: Any, self: decisions.Decisions, job_ids: Any, found: verdicts.Verdicts, *rest: Any, **more: Any
    ) -> Any:
        told = self._available.arena["told"]
        for code, slots in found.wait.items():
            found.wait[code] = [slot for slot in slots if not told[slot]]
        return old(self, job_ids, found, *rest, **more)

    change(patch, decisions.Decisions, "_given", given)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: Patch) -> None:
    FAULTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        histories()
