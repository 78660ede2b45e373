"""From a scenario that fails under faults to the smallest that still does, as a file that fails again."""

import io
from collections.abc import Callable, Iterator, Sequence

from events.spec.parts import Gang
from paceline.output import write_yaml
from paceline.simulate.faults.injection import InjectedFault
from paceline.simulate.scenario.parse import is_sound
from paceline.simulate.scenario.parts import HostGroup, ScenarioJob
from paceline.simulate.scenario.scenario import FaultAt, Scenario

Fails = Callable[[Scenario], bool]
TRIES_MAX = 400


class Shrink:
    """Leaves out what isn't needed: faults, events, jobs, pools, hosts, tasks. `fails` runs a scenario under just the
    faults that it names; after `TRIES_MAX` runs it takes what it has.
    """

    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._tries_left = TRIES_MAX

    def smallest(self, scenario: Scenario, hits: Sequence[InjectedFault]) -> Scenario:
        """The smallest scenario found; the one given has failed with these faults. It expects nothing, as what it
        expects may be about what was left out.
        """
        faults = [FaultAt(kind=hit.kind, number=hit.number) for hit in hits]
        smaller = scenario.model_copy(update={"faults": faults, "expect": []})
        size = None
        while size != (size := _size(smaller)):
            for field in ("faults", "events", "jobs", "pools", "hosts"):
                smaller = self._without(smaller, field)
            smaller = self._fewer_tasks(smaller)
        return smaller

    def _still_fails(self, scenario: Scenario) -> bool:
        if not is_sound(scenario):
            return False
        self._tries_left -= 1
        return self._tries_left >= 0 and self._fails(scenario)

    def _without(self, scenario: Scenario, field: str) -> Scenario:
        """Fewer parts of a list: halves first, then quarters, down to one by one."""
        parts = list(getattr(scenario, field))
        size = max(1, len(parts) // 2)
        while size and parts:
            at = 0
            while at < len(parts):
                smaller = scenario.model_copy(update={field: parts[:at] + parts[at + size :]})
                if self._still_fails(smaller):
                    scenario, parts = smaller, list(getattr(smaller, field))
                else:
                    at += size
            size //= 2
        return scenario

    def _fewer_tasks(self, scenario: Scenario) -> Scenario:
        """One task instead of many, or half as many, and so with the hosts of a group, wherever that is enough."""
        for field in ("jobs", "hosts"):
            for at in range(len(getattr(scenario, field))):
                for part in _smaller(getattr(scenario, field)[at]):
                    parts = list(getattr(scenario, field))
                    parts[at] = part
                    smaller = scenario.model_copy(update={field: parts})
                    if self._still_fails(smaller):
                        scenario = smaller
                        break
        return scenario


def _smaller(part: ScenarioJob | HostGroup) -> Iterator[ScenarioJob | HostGroup]:
    many = part.instances if isinstance(part, ScenarioJob) else part.count
    for few in sorted({1, many // 2} - {0, many}):
        if isinstance(part, HostGroup):
            yield part.model_copy(update={"count": few})
            continue
        gang = Gang(min=min(part.gang.min, few) if few > 1 else 0)
        most = part.sla.max_unavailable
        sla = part.sla.model_copy(update={"max_unavailable": min(most, few) if isinstance(most, int) else most})
        yield part.model_copy(update={"instances": few, "gang": gang, "sla": sla})


def _size(scenario: Scenario) -> int:
    parts = sum(len(getattr(scenario, field) or ()) for field in ("faults", "events", "jobs", "pools", "hosts"))
    return parts + sum(job.instances for job in scenario.jobs) + sum(group.count for group in scenario.hosts)


def as_yaml(scenario: Scenario) -> str:
    """The scenario as a file; defaults are left out."""
    body = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    out = io.StringIO()
    write_yaml(body, out)
    return out.getvalue()
