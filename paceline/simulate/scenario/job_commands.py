"""Fields of commands about a job, beside its id."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from events.bounds import CONDITION, INSTANCES_MAX
from events.quantities import Mebibytes, Milli, Milliseconds
from events.records.hosts import HostHealthReported, HostsDrainRequested
from events.spec.host_devices import DeviceId
from events.spec.overrides import Ranges
from events.spec.parts import Int32, ShortText, Spec
from events.spec.sla import GroupBounds
from paceline.simulate.scenario.parts import Host, Job, OfferPart, TaintKey


class PriorityChange(Spec):
    """A job and the priority that it is to have."""

    job_id: Job
    priority: Int32


class BoundsOfGroup(GroupBounds):
    """A budget that jobs share by its name, and its bounds."""

    group: ShortText


class Load(Spec):
    """A host, or all of a group, and what it says of its load."""

    host: Host
    cpu_used: Milli = Field(default=0, description="CPU that its runs use, in cores.")
    memory_used: Mebibytes = Field(default=0, description="Memory that its runs use.")
    slack: Milli = Field(default=0, description="CPU that it lends to revocable runs, in cores.")

    def steps(self, cpu: int, memory: int) -> tuple[int, int, int]:
        """The sixteenths of a host of this size: CPU and memory used, slack."""
        return (_steps(self.cpu_used, cpu), _steps(self.memory_used, memory), _steps(self.slack, cpu))


class Offer(OfferPart):
    """A host, or all of a group, and what it offers until it connects again; devices and cores that it doesn't name
    stay.
    """

    host: Host


class HostTaint(Spec):
    """A host, or all of a group, and a taint that it gets, or loses with `remove`."""

    host: Host
    key: TaintKey
    value: ShortText = ""
    remove: bool = False
    effect: Literal["no_place", "evict"] = "no_place"


class HostDeviceAside(Spec):
    """A device of a host, or of all of a group, that an operator sets aside, or gives back with `disabled: false`;
    `ends`: the runs on it leave.
    """

    host: Host
    device: DeviceId
    disabled: bool = True
    ends: bool = False


class HostCheck(Spec):
    """A host, or all of a group, and the result of a check of it; `passes`: it is well."""

    host: Host
    name: Annotated[str, Field(pattern=rf"^{CONDITION.pattern}$")]
    passes: bool = False
    code: ShortText = "EXIT_1"
    text: ShortText = ""

    def to_event(self, host_id: str, session: int) -> HostHealthReported:
        """The fact of one host."""
        code = "" if self.passes else self.code
        return HostHealthReported(
            host_id=host_id, session=session, condition=self.name, bad=not self.passes, code=code, text=self.text
        )


def _or_a_host(schema: dict[str, Any]) -> None:
    fields = {**schema}
    schema.clear()
    schema["anyOf"] = [{"type": "string"}, fields]


class HostDrain(Spec):
    """A host, or all of a group, that is to be empty, and how; a text instead is its name, all else as unless said."""

    model_config = ConfigDict(json_schema_extra=_or_a_host)

    host: Host
    most: Annotated[int, Field(ge=0, description="So many of them, the cheapest to drain; 0: all.")] = 0
    batch: Literal["wait", "move"] = "wait"
    deadline: Milliseconds = 0
    escalate: Literal["wait", "preempt", "force"] = "wait"
    force_after: Milliseconds = 0
    force: bool = Field(default=False, description="All that runs there is ended at once.")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"host": value} if isinstance(value, str) else value

    def to_event(self, host_ids: Sequence[str], command_id: str) -> HostsDrainRequested:
        """The fact about these hosts."""
        return HostsDrainRequested(
            host_ids=tuple(host_ids),
            command_id=command_id,
            most=self.most,
            batch=self.batch,
            deadline_ms=self.deadline,
            escalate=self.escalate,
            force_after_ms=self.force_after,
            force=self.force,
        )


def _steps(amount: int, capacity: int) -> int:
    return min(16, 16 * amount // capacity) if capacity else 0


def _or_an_id(schema: dict[str, Any]) -> None:
    fields = {**schema}
    schema.clear()
    schema["anyOf"] = [{"type": "string"}, fields]


class OfJob(Spec):
    """A command about a job; a text instead is the id of the job, and all else as unless said."""

    model_config = ConfigDict(json_schema_extra=_or_an_id)

    job_id: Job

    @model_validator(mode="before")
    @classmethod
    def _id_alone(cls, value: Any) -> Any:
        return {"job_id": value} if isinstance(value, str) else value


class SomeInstances(OfJob):
    """A job and the instances that a command is about; none named: all."""

    instances: Ranges | None = Field(default=None, description='Which ones: "0-9,12".')


class Start(SomeInstances):
    """A job and the instances that run again: those named, with `failed` those that failed or ran for as long as they
    may, else all that failed or were stopped.
    """

    failed: bool = False


class Restart(SomeInstances):
    """A job whose instances are restarted, at most `batch` at a time; 0: all at once."""

    batch: Annotated[int, Field(ge=0, le=INSTANCES_MAX)] = 0


class Deletion(OfJob):
    """A job that is deleted; with `force` though it has not ended."""

    force: bool = False


class RoomAsked(OfJob):
    """A job that waits, for which others are moved at once: at most so many (0: as many as it takes). `by_setting`: as
    a process proposes it.
    """

    max_moves: Annotated[int, Field(ge=0, le=INSTANCES_MAX)] = 0
    by_setting: bool = False
