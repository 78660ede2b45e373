"""The parts of a spec, and what they have in common."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from events.bounds import (
    EXIT_CODE_MAX,
    GANG_MAX,
    INSTANCES_MAX,
    INT_MAX,
    KINDS_MAX,
    LABELS_MAX,
    OUTPUT_KIB,
    PORTS_MAX,
    RETRIES_MAX,
    STRING_BYTES_MAX,
    STRINGS_MAX,
    WORD_MAX,
)
from events.port_names import sharing
from events.quantities import Mebibytes, Milli, Milliseconds, OtherAmount, OutputKib, Size, SomeMilli, write_ms
from events.records.parts import Simulated, UpdatePolicy
from events.resources import Unit, name_fault, typo_of

Word = Annotated[str, StringConstraints(min_length=1, max_length=WORD_MAX)]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[^=\x00]+$")]
ShortText = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=WORD_MAX)]
Instances = Annotated[int, Field(ge=0, le=INSTANCES_MAX)]
Int32 = Annotated[int, Field(ge=-INT_MAX, le=INT_MAX)]


def _short(strings: list[str]) -> None:
    """Raises an error where a program can't be started with the strings."""
    size = max((len(string.encode()) for string in strings), default=0)
    if size > STRING_BYTES_MAX:
        raise PydanticCustomError(
            "too_long",
            "has an item of {size} bytes, at most {most} are allowed",
            {"size": size, "most": STRING_BYTES_MAX},
        )


def _command(command: list[str]) -> list[str]:
    _short(command)
    return command


def _env(env: dict[str, str]) -> dict[str, str]:
    _short([f"{name}={value}" for name, value in env.items()])
    return env


def _ports(ports: list[str]) -> list[str]:
    if len(set(ports)) != len(ports):
        raise PydanticCustomError("ports", "must be different names")
    if shared := sharing(ports):
        raise PydanticCustomError("ports", "must differ in their letters and digits: {shared}", {"shared": shared})
    return ports


Command = Annotated[list[Text], Field(max_length=STRINGS_MAX), AfterValidator(_command)]
Env = Annotated[dict[EnvName, Text], Field(max_length=STRINGS_MAX), AfterValidator(_env)]
Ports = Annotated[list[Word], Field(max_length=PORTS_MAX), AfterValidator(_ports)]
Labels = Annotated[dict[Word, ShortText], Field(max_length=LABELS_MAX)]


class Spec(BaseModel):
    """The base of all parts of a spec."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _name(name: str) -> str:
    near = typo_of(name)
    if fault := f"is not a known field; did you mean {near}?" if near else name_fault(name):
        raise PydanticCustomError("resource", "{what}", {"what": fault})
    return name


ResourceName = Annotated[str, AfterValidator(_name)]


class Amounts(BaseModel):
    """Amounts by name of the resource. Beside the four, names are those that the cell defines, such as gpu/a100."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    @model_validator(mode="after")
    def _few(self) -> Self:
        if len(names := dict(self)) > KINDS_MAX:
            raise PydanticCustomError("resources", "{what}", {"what": f"names {len(names)}, at most {KINDS_MAX}"})
        return self

    @property
    def are_standard(self) -> bool:
        """Whether all are of the kinds that every cell knows."""
        return not self.__pydantic_extra__

    def misfits(self, units: Mapping[str, Unit]) -> Iterator[tuple[str, str]]:
        """Amounts that are written in another unit than the cell has for the resource: name and message."""
        for name, value in (self.__pydantic_extra__ or {}).items():
            if value and name in units and isinstance(value, Size) != (units[name] is Unit.MIB):
                expected = 'a size, such as "2GiB"' if units[name] is Unit.MIB else "a number, such as 2 or 0.5"
                yield name, f"{name} is counted otherwise: write {expected}"

    def sizes(self) -> tuple[str, ...]:
        """The names beside the four whose amounts are sizes in MiB."""
        return tuple(sorted(name for name, value in (self.__pydantic_extra__ or {}).items() if isinstance(value, Size)))

    def named(self) -> dict[str, int]:
        """The amounts that were given or have a default, by name."""
        return {name: int(value) for name, value in self if value is not None}


class Resources(Amounts):
    """What one task needs; at least some CPU."""

    __pydantic_extra__: dict[ResourceName, OtherAmount]
    cpu: SomeMilli = Field(default=100, json_schema_extra={"default": 0.1}, description="CPU in cores.")
    memory: Mebibytes = Field(default=64, json_schema_extra={"default": "64MiB"}, description="Memory.")
    disk: Mebibytes = Field(default=0, json_schema_extra={"default": "0MiB"}, description="Disk.")
    gpu: Milli = Field(default=0, description="GPU in devices.")


class SomeResources(Amounts):
    """Amounts of some resources."""

    __pydantic_extra__: dict[ResourceName, OtherAmount]
    cpu: SomeMilli | None = Field(default=None, description="CPU in cores.")
    memory: Mebibytes | None = Field(default=None, description="Memory.")
    disk: Mebibytes | None = Field(default=None, description="Disk.")
    gpu: Milli | None = Field(default=None, description="GPU in devices.")


class HostResources(SomeResources):
    """What a host offers; what is left out is detected, or nothing."""


class Gang(Spec):
    """Instances 0 to min - 1 are admitted, placed, preempted and failed as one. Each starts when all have hosts. In its
    environment it finds PACELINE_RANK, PACELINE_SIZE, PACELINE_MASTER_HOST and PACELINE_MASTER_PORT (of instance 0, the
    first port), PACELINE_ADDRESSES (HOST:PORT of each by rank, up to 64 KiB), and in PACELINE_MEMBERS the path of a
    JSON file with the task, host and ports of each. The host is the attribute `hostname`.
    """

    min: Annotated[int, Field(ge=0, le=GANG_MAX)] = Field(default=0, description="Size of the gang; 0 and 1: none.")


class Controller(Spec):
    """Instance 0 leads a batch job."""

    on_end: Literal["end", "wait"] = Field(
        default="end",
        description="end: with it the job ends, and the other tasks are stopped; wait: the job ends when all have "
        "ended. Either way the outcome of the controller is that of the job.",
    )


class Retries(Spec):
    """Further runs of tasks of a batch job that fail, by whose failure it is."""

    max: Annotated[int, Field(ge=0, le=RETRIES_MAX)] = Field(default=0, description="Of failures of its own.")
    system: Annotated[int, Field(ge=0, le=RETRIES_MAX)] = Field(
        default=10,
        description="Of failures of its hosts: they can't start it, or lose track of it. It waits longer after each. "
        "What three hosts can't start, or two where no further try can help (no such program), has failed itself.",
    )


class OutputKept(Spec):
    """The part of each stream of a run's output that its host keeps."""

    head: OutputKib = Field(default=OUTPUT_KIB, json_schema_extra={"default": "5MiB"}, description="Of its beginning.")
    tail: OutputKib = Field(
        default=OUTPUT_KIB,
        json_schema_extra={"default": "5MiB"},
        description="Of the rest, the newest: at most so much, at least half of it.",
    )


class Update(Spec):
    """How updates of a job go through its instances; also restarts and roll-backs."""

    batch: Instances = Field(
        default=0, description="Most instances that are updated at a time; 0: all; of a stateful job one."
    )
    max_failures: Instances = Field(
        default=0, description="The update fails when so many instances have failed; 0: however many."
    )
    max_attempts: Annotated[int, Field(ge=1, le=INT_MAX)] = Field(
        default=3, description="An instance has failed when so many of its runs of the new version have."
    )
    roll_back: bool = Field(
        default=False,
        description="Whether an update that fails goes back to the newest version that an update completed, or the "
        "first.",
    )
    healthy: Milliseconds = Field(
        default=10_000,
        json_schema_extra={"default": "10s"},
        description="How long an instance must be available to count as done.",
    )
    canary: Instances = Field(default=0, description="So many instances first; then it waits to be promoted; 0: none.")
    promote_after: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="Promotes itself when the canary was healthy for so long; 0: by hand.",
    )
    start_paused: bool = Field(default=False, description="Whether it waits for resume before it takes an instance.")
    blocked_after: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="The update fails when the SLA lets nothing go on for so long; 0: however long.",
    )
    progress_deadline: Milliseconds = Field(
        default=600_000,
        json_schema_extra={"default": "10m"},
        description="An instance has failed when it found no place for so long; 0: never for that. Waits for the share "
        "or a limit of its pool, a hold or a pause don't count.",
    )
    prefetch: bool = Field(
        default=False,
        description="Whether the hosts of the instances that change pull the new image first; the update begins when "
        "all have answered, or after 10 minutes. Roll-backs and restarts don't wait.",
    )
    creation: bool = Field(
        default=False,
        description="Whether the job is created by it too, as its first update: in batches, or paused at first; "
        "otherwise all instances are queued at once.",
    )

    def to_part(self) -> UpdatePolicy | None:
        """The part of the fact; None: it says nothing."""
        if self == Update():
            return None
        return UpdatePolicy(
            batch=self.batch,
            max_failures=self.max_failures,
            max_attempts=self.max_attempts,
            roll_back=self.roll_back,
            healthy_ms=self.healthy,
            canary=self.canary,
            promote_after_ms=self.promote_after,
            start_paused=self.start_paused,
            blocked_after_ms=self.blocked_after,
            progress_deadline_ms=self.progress_deadline,
            prefetch=self.prefetch,
            creation=self.creation,
        )


def update_body(policy: UpdatePolicy | None) -> dict[str, Any]:
    """The JSON of a policy of updates."""
    policy = policy or UpdatePolicy()
    return {
        "batch": policy.batch,
        "max_failures": policy.max_failures,
        "max_attempts": policy.max_attempts,
        "roll_back": policy.roll_back,
        "healthy": write_ms(policy.healthy_ms),
        "canary": policy.canary,
        "promote_after": write_ms(policy.promote_after_ms),
        "start_paused": policy.start_paused,
        "blocked_after": write_ms(policy.blocked_after_ms),
        "progress_deadline": write_ms(policy.progress_deadline_ms),
        "prefetch": policy.prefetch,
        "creation": policy.creation,
    }


class OnSilence(Spec):
    """What the agent does when it has lost the cell."""

    action: Literal["keep", "stop_after"] = Field(
        default="keep", description="keep: they go on; stop_after: they are stopped."
    )
    after: Milliseconds = Field(
        default=0, json_schema_extra={"default": "0s"}, validate_default=True, description="For stop_after: how long."
    )

    @field_validator("after")
    @classmethod
    def _fits(cls, after: int, info: ValidationInfo) -> int:
        action = info.data.get("action")
        if action == "stop_after" and not after:
            raise PydanticCustomError("after", "must be longer than 0 with the action stop_after")
        if action == "keep" and after:
            raise PydanticCustomError("after", "is only for the action stop_after")
        return after


def on_silence_body(action: str, after_ms: int) -> dict[str, str]:
    """The JSON of what an agent does that has lost the cell."""
    return {"action": action, "after": write_ms(after_ms)}


class SimHealth(Spec):
    """When the health check of a simulated run fails."""

    bad_at: Milliseconds = Field(description="So long after its start, for good.")
    runs: Annotated[int, Field(ge=0, le=INT_MAX)] = Field(default=0, description="Of the first so many runs; 0: all.")


class Sim(Spec):
    """How simulated agents play a task; real agents ignore it."""

    duration: Milliseconds = Field(
        default=1000, json_schema_extra={"default": "1s"}, description="How long a run takes."
    )
    exit_code: Annotated[int, Field(ge=0, le=EXIT_CODE_MAX, description="Of runs that don't fail on purpose.")] = 0
    fail_runs: Annotated[int, Field(ge=0, le=INT_MAX, description="The first so many runs exit with 1.")] = 0
    fail_run: Annotated[int, Field(ge=0, le=INT_MAX, description="The run of this number exits with 1 too.")] = 0
    durations: list[Milliseconds] = Field(
        default=[], description="Of each instance, over and over where there are fewer, instead of `duration`."
    )
    ready: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="Time from its order until it counts as started; with a health check, until it is healthy.",
    )
    ignores_stop: bool = Field(default=False, description="Goes on after the stop signal until it is killed.")
    health: SimHealth | None = Field(default=None, description="When its health check fails; it passes unless said.")

    @model_validator(mode="after")
    def _one_length(self) -> "Sim":
        if self.durations and "duration" in self.model_fields_set:
            raise at("duration", "stands without `durations`", self.duration)
        return self

    def to_part(self) -> Simulated:
        """The part of the fact."""
        return Simulated(
            duration_ms=self.duration,
            exit_code=self.exit_code,
            fail_runs=self.fail_runs,
            durations_ms=tuple(self.durations),
            ready_ms=self.ready,
            ignores_stop=self.ignores_stop,
            fail_run=self.fail_run,
            unhealthy_ms=self.health.bad_at if self.health else None,
            unhealthy_runs=self.health.runs if self.health else 0,
        )


def sim_body(sim: Simulated) -> dict[str, Any]:
    """The JSON of a simulated part; what was added later only where it says something."""
    each = [write_ms(each) for each in sim.durations_ms]
    length = {"durations": each} if each else {"duration": write_ms(sim.duration_ms)}
    body: dict[str, Any] = {**length, "exit_code": sim.exit_code, "fail_runs": sim.fail_runs}
    if sim.fail_run:
        body["fail_run"] = sim.fail_run
    if sim.ready_ms:
        body["ready"] = write_ms(sim.ready_ms)
    if sim.ignores_stop:
        body["ignores_stop"] = True
    if sim.unhealthy_ms is not None:
        body["health"] = {"bad_at": write_ms(sim.unhealthy_ms), "runs": sim.unhealthy_runs}
    return body


def at(field: str, message: str, value: Any) -> ValidationError:
    """A problem with one field of a part."""
    return at_path((field,), message, value)


def at_path(path: tuple[int | str, ...], message: str, value: Any) -> ValidationError:
    """A problem with something inside a part."""
    problem = PydanticCustomError("spec", "{message}", {"message": message})
    return ValidationError.from_exception_data("spec", [InitErrorDetails(type=problem, loc=path, input=value)])
