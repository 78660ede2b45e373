"""The parts of a scenario: hosts, jobs and how their tasks are played, pools, settings of the cell."""

import math
import random
from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints, model_validator

from events.host_devices import sums
from events.quantities import Mebibytes, Milli, Milliseconds, OtherAmount, SomeMilli, SomeMilliseconds
from events.records.jobs import JobSubmitted
from events.records.parts import HostDevice
from events.resources import GPU_MEMORY, Amounts, in_order
from events.spec import parts as spec_parts
from events.spec.host_devices import HostHardware
from events.spec.host_pool_name import HostPoolName
from events.spec.job import ID_PATTERN, POOL_PATTERN, JobSpec
from events.spec.parts import ResourceName, ShortText, Sim, Spec, Text, Word, at
from events.spec.pool import PoolSpec
from events.taints import KEY, TAINTS_MAX
from hostagent.fleet import SimHost

DRAWN_MAX = 1000
"""So many durations are drawn for a job; instances beyond take them over again."""
HOST_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,100}$"
Host = Annotated[str, StringConstraints(pattern=HOST_PATTERN)]
Pattern = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,90}#{1,6}[a-z0-9._-]{0,90}$")]
TaintKey = Annotated[str, StringConstraints(pattern=rf"^{KEY.pattern}$")]
Pool = Annotated[str, StringConstraints(pattern=POOL_PATTERN)]
Job = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
_NORMAL = NormalDist()


class ScenarioPart(Spec):
    """A part of a scenario. `later`: fields that the machines can't follow yet, and what is missing."""

    later: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _not_yet(cls, value: Any) -> Any:
        for field in value if isinstance(value, dict) else ():
            if field in cls.later:
                raise at(field, f"can't be simulated yet: {cls.later[field]}", value[field])
        return value


class HostResources(spec_parts.Amounts):
    """The amounts that a host offers to tasks."""

    __pydantic_extra__: dict[ResourceName, OtherAmount]
    cpu: SomeMilli
    memory: Mebibytes = 65_536
    disk: Mebibytes = 1_000_000
    gpu: Milli = 0


class OfferPart(HostHardware, ScenarioPart):
    """The amounts, devices and cores that hosts offer."""

    resources: HostResources

    @model_validator(mode="after")
    def _said_once(self) -> "OfferPart":
        own = sums(self.host_devices()).keys() | {each.kind for each in self.host_devices()}
        if twice := sorted(name for name, amount in self.resources.named().items() if amount and name in own):
            raise at("resources", f"{twice[0]} is what `devices` make", None)
        return self

    def offered(self, devices: Sequence[HostDevice]) -> tuple[Amounts, tuple[str, ...]]:
        """The capacity of a host with these devices, and the names beside the usual ones that are sizes."""
        own = sums(devices)
        sizes = (*self.resources.sizes(), *({GPU_MEMORY} & own.keys()))
        return in_order(self.resources.named() | own), sizes


class HostGroup(OfferPart):
    """So many hosts of a kind, called NAME-1, NAME-2 and so on or by a pattern, and when all of them come and go."""

    name: Host
    pattern: Pattern | None = None
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    attributes: dict[Word, Text] = Field(default={})
    taints: Annotated[dict[TaintKey, ShortText], Field(max_length=TAINTS_MAX)] = Field(default={})
    host_pool: HostPoolName | None = Field(
        default=None, description="The host pool that they are put into before they join."
    )
    starts_per_second: Annotated[int, Field(ge=0, le=100_000)] = 0
    joins: Milliseconds = 0
    fails: Milliseconds | None = None
    returns: Milliseconds | None = None
    leaves: Milliseconds | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "HostGroup":
        times = [("joins", self.joins), ("fails", self.fails), ("returns", self.returns), ("leaves", self.leaves)]
        if self.returns is not None and self.fails is None:
            raise at("returns", "is for hosts that fail", self.returns)
        before = times[0]
        for name, time in times[1:]:
            if time is not None:
                if time <= (before[1] or 0):
                    raise at(name, f"must be after `{before[0]}`", time)
                before = (name, time)
        return self

    def names(self) -> list[str]:
        """The ids of its hosts."""
        return list(self.sim_host(1, self.count).host_ids())

    def sim_host(self, first: int, count: int) -> SimHost:
        """Some of its hosts."""
        pattern = self.pattern or f"{self.name}-#"
        devices = self.host_devices()
        amounts, sizes = self.offered(devices)
        return SimHost(
            count,
            amounts,
            dict(self.attributes),
            pattern,
            first,
            sizes,
            dict(self.taints),
            self.starts_per_second,
            tuple(devices),
            tuple(self.host_cores()),
        )


class LogNormal(Spec):
    """Most are near the median, some far above; a tenth is longer than `p90`."""

    median: SomeMilliseconds
    p90: SomeMilliseconds


class Draw(Spec):
    """The distribution of durations, drawn by the seed of the scenario and the id of the job; exactly one."""

    uniform: Annotated[list[Milliseconds], Field(min_length=2, max_length=2)] | None = None
    exponential: Milliseconds | None = None
    lognormal: LogNormal | None = None

    @model_validator(mode="after")
    def _one(self) -> "Draw":
        if sum(each is not None for each in (self.uniform, self.exponential, self.lognormal)) != 1:
            raise at("", "must say exactly one of uniform, exponential, lognormal", None)
        if self.uniform is not None and self.uniform[0] > self.uniform[1]:
            raise at("uniform", "must be the shortest and the longest", self.uniform)
        if self.lognormal is not None and self.lognormal.p90 < self.lognormal.median:
            raise at("lognormal", "p90 must not be below the median", self.lognormal)
        return self

    def durations(self, count: int, source: random.Random) -> list[int]:
        """So many durations in milliseconds."""
        return [max(0, round(self._one_duration(source.random()))) for _ in range(count)]

    def _one_duration(self, part: float) -> float:
        if self.uniform is not None:
            low, high = self.uniform
            return low + (high - low) * part
        if self.exponential is not None:
            return -self.exponential * math.log1p(-part)
        assert self.lognormal is not None
        ratio = self.lognormal.p90 / self.lognormal.median
        return float(self.lognormal.median * ratio ** (_NORMAL.inv_cdf(max(part, 1e-12)) / _NORMAL.inv_cdf(0.9)))


class ScenarioSim(Sim, ScenarioPart):
    """The simulation of tasks."""

    later: ClassVar[dict[str, str]] = {
        "usage": "Paceline doesn't follow what tasks use",
    }

    draw: Draw | None = None

    @model_validator(mode="after")
    def _drawn_alone(self) -> "ScenarioSim":
        for name in sorted(self.model_fields_set & {"duration", "durations"}) if self.draw else ():
            raise at(name, "stands without `draw`", None)
        return self


class ScenarioJob(JobSpec):
    """A job as job files have it, and when it is submitted."""

    at: Milliseconds = 0
    sim: ScenarioSim = ScenarioSim()

    @model_validator(mode="after")
    def _has_an_id(self) -> "ScenarioJob":
        if self.job_id is None:
            raise at("job_id", "is missing", None)
        return self

    def fact(self, seed: int) -> JobSubmitted:
        """The fact to append."""
        spec = self.model_dump(mode="json", by_alias=True, exclude={"at"}, exclude_defaults=True)
        sim = spec.setdefault("sim", {})
        if self.sim.draw is not None:
            del sim["draw"]
            source = random.Random(f"{seed}/{self.job_id}")
            drawn = self.sim.draw.durations(min(self.instances, DRAWN_MAX), source)
            sim["durations"] = [f"{each}ms" for each in drawn]
        return JobSpec.model_validate(spec).to_event()


class ScenarioPool(PoolSpec):
    """A pool as pool files have it."""

    path: Pool
