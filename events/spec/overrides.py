"""Overrides in the spec of a job: what some of its instances have instead of what the job says."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from events.bounds import GANG_PORTS_MAX, INSTANCES_MAX, LABELS_MAX, OVERRIDDEN_MAX, STRINGS_MAX
from events.instance_ranges import PATTERN, read_ranges, write_ranges
from events.override_chunks import name_of, upload
from events.quantities import Milliseconds, write_amounts, write_ms
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.parts import OverrideChunk, PlacementRules, TaskOverride
from events.resources import Unit
from events.spec.conditions import Constraints, Tolerations, constraint_parts, constraints_body
from events.spec.devices import Cores, Devices, Numa, SomeTaskResources
from events.spec.neighbours import TaskLabels, overridden_body, overridden_rules
from events.spec.parts import (
    Command,
    Env,
    Labels,
    OnSilence,
    Ports,
    Sim,
    SomeResources,
    Spec,
    at_path,
    on_silence_body,
    sim_body,
)
from events.strategies import Strategy
from events.task_overrides import Resolved, parts_of, ranges_of, resolved

CHUNK_BYTES = 256 * 1024
"""The most bytes of the overrides in one record, decoded: a reader decodes all of them for one instance."""


def _forward(instances: str) -> str:
    try:
        read_ranges(instances)
    except ValueError as error:
        raise PydanticCustomError("instances", "{what}", {"what": str(error)}) from error
    return instances


Ranges = Annotated[str, StringConstraints(pattern=PATTERN), AfterValidator(_forward)]
"""Instances as people write them."""


class Override(Spec):
    """What some instances have instead. `env`, `resources` and `labels` are merged by key; all else replaces what the
    job says, lists as a whole. Where several name an instance, each applies on top of those before it.
    """

    instances: Ranges = Field(description='Which ones: "0-9,12".')
    command: Command | None = Field(default=None, description="Program and arguments.")
    env: Env = Field(default={}, description="Merged into the environment.")
    cores: Cores | None = Field(default=None, description="Whole cores, with as much cpu.")
    resources: SomeTaskResources = Field(
        default=SomeResources(), validate_default=True, description="Merged into what one task needs."
    )
    devices: Devices = None
    numa: Numa = None
    ports: Ports | None = Field(default=None, description="Names of the ports.")
    constraints: Constraints | None = Field(default=None, description="Conditions on the attributes of a host.")
    strategy: Strategy | None = Field(default=None, description="How hosts are chosen.")
    tolerations: Tolerations | None = Field(default=None, description="Taints that don't keep them away.")
    host_limit: Annotated[int, Field(ge=0, le=INSTANCES_MAX)] | None = Field(
        default=None, description="They go to no host with so many tasks of the job, of all its instances; 0: to any."
    )
    exclusive: bool | None = Field(default=None, description="Whether their hosts take no task of another job.")
    affinity: TaskLabels | None = Field(default=None, description="Labels of tasks beside which they run.")
    anti_affinity: TaskLabels | None = Field(
        default=None,
        description="Labels of tasks from which they are kept apart. Of an override that has one of these five, or "
        "cores, devices or numa, the others are those of the job, whatever overrides before it say.",
    )
    stop_grace: Milliseconds | None = Field(default=None, description="Between the stop signal and the kill.")
    on_silence: OnSilence | None = Field(default=None, description="What the agent does when it has lost the cell.")
    labels: Labels = Field(default={}, description="Merged into the labels.")
    sim: Sim | None = Field(default=None, description="How simulated agents play the tasks.")

    @field_validator("command")
    @classmethod
    def _says_what_runs(cls, command: list[str] | None) -> list[str] | None:
        if command is not None and not (command and command[0]):
            raise PydanticCustomError("command", "must name a program")
        return command

    def to_part(self, rules: PlacementRules | None = None) -> TaskOverride:
        """The part of the fact; `rules`: those of the job."""
        silence = self.on_silence
        return TaskOverride(
            command=None if self.command is None else tuple(self.command),
            env=self.env,
            resources=self.resources.named(),
            ports=None if self.ports is None else tuple(self.ports),
            constraints=None if self.constraints is None else constraint_parts(self.constraints),
            strategy=self.strategy,
            stop_grace_ms=self.stop_grace,
            on_silence=None if silence is None else silence.action,
            stop_after_ms=0 if silence is None else silence.after,
            labels=self.labels,
            simulated=None if self.sim is None else self.sim.to_part(),
            rules=overridden_rules(rules, self),
        )


def check_overrides(overrides: list[Override], job: Mapping[str, Any]) -> None:
    """Raises an error where an override doesn't fit the other fields of its job; a field that has a problem of its own
    is missing.
    """
    instances, gang, total = job.get("instances"), job.get("gang"), 0
    for number, each in enumerate(overrides):
        ranges = read_ranges(each.instances)
        total += sum(count for _, count in ranges)
        last = max(first + count for first, count in ranges) - 1
        if instances is not None and last >= instances:
            message = f"names instance {last}, the job has {instances}: 0 to {instances - 1}"
            raise at_path((number, "instances"), message, each.instances)
        if gang is not None and gang.min * len(each.ports or ()) > GANG_PORTS_MAX:
            message = (
                f"takes {gang.min * len(each.ports or ())} ports for the gang, at most {GANG_PORTS_MAX} are placed"
            )
            raise at_path((number, "ports"), message, each.ports)
        for name, most in (("env", STRINGS_MAX), ("labels", LABELS_MAX)):
            together = len(job.get(name, {}).keys() | getattr(each, name).keys())
            if together > most:
                message = f"makes {together} together with those of the job, at most {most} are allowed"
                raise at_path((number, name), message, getattr(each, name))
    if total > OVERRIDDEN_MAX:
        message = f"name {total} instances, each as often as it is named; at most {OVERRIDDEN_MAX} are allowed"
        raise PydanticCustomError("overrides", "{what}", {"what": message})


class Placed(NamedTuple):
    """Resolved overrides as facts hold them: what stands in the record of the job, and chunks that are uploaded before
    it. Few overrides stand in the job, many in chunks.
    """

    own: dict[str, Any]
    """Fields of the job."""
    chunks: tuple[OverridesUploaded, ...]


def placed(own: Resolved) -> Placed:
    """The overrides of a job, as few or many."""
    parts = parts_of(own, CHUNK_BYTES)
    if len(parts) <= 1:
        return Placed({"overrides": own.overrides, **own.columns()}, ())
    chunks = tuple(
        upload(JobSubmitted(job_id="", pool="", overrides=part.overrides, **part.columns())) for part in parts
    )
    spans = ((int(part.first[0]), int(part.first[-1] + part.count[-1])) for part in parts)
    chunk_refs = (
        OverrideChunk(name_of(chunk), first, end - first) for chunk, (first, end) in zip(chunks, spans, strict=True)
    )
    return Placed({"chunks": tuple(chunk_refs)}, chunks)


def resolve(overrides: Iterable[Override], instances: int, rules: PlacementRules | None = None) -> Placed:
    """The overrides of the instances of a job with some `rules` after merging."""
    return placed(resolved(((read_ranges(each.instances), each.to_part(rules)) for each in overrides), instances))


def overrides_body(job: JobSubmitted, units: Mapping[str, Unit]) -> list[dict[str, Any]]:
    """The JSON of the overrides that stand in the record of a job; `units`: those of the cell's resources."""
    ranges_at: dict[int, list[tuple[int, int]]] = {}
    for first, count, at in zip(*(column.tolist() for column in ranges_of(job)), strict=True):
        ranges_at.setdefault(at, []).append((first, count))
    return [{"instances": write_ranges(ranges), **_body(job.overrides[at], units)} for at, ranges in ranges_at.items()]


def _body(override: TaskOverride, units: Mapping[str, Unit]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "command": None if override.command is None else list(override.command),
        "env": dict(override.env) or None,
        "resources": write_amounts(override.resources, units) or None,
        "ports": None if override.ports is None else list(override.ports),
        "constraints": None if override.constraints is None else constraints_body(override.constraints),
        "strategy": override.strategy,
        "stop_grace": None if override.stop_grace_ms is None else write_ms(override.stop_grace_ms),
        "on_silence": override.on_silence and on_silence_body(override.on_silence, override.stop_after_ms),
        "labels": dict(override.labels) or None,
        "sim": override.simulated and sim_body(override.simulated),
        **(overridden_body(override.rules) if override.rules else {}),
    }
    return {name: value for name, value in fields.items() if value is not None}
