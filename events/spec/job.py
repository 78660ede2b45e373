"""The spec of a job as users write it, in JSON and YAML, checked before anything is appended.

All problems of a spec are found in one go; `problems` names each by a JSON pointer. What lifecycle checks of facts that
came another way stands there.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from pydantic import Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from events.bounds import (
    CONTAINER_USER,
    DESCRIPTION_MAX,
    DEVICE,
    DEVICES_MAX,
    DIGEST,
    GANG_PORTS_MAX,
    IMAGE,
    INSTANCES_MAX,
    OPEN_FILES_MAX,
    OUTPUT_KIB,
    PROCESSES_MAX,
    USER_NUMBER_MAX,
    WORD_MAX,
)
from events.codec import encode
from events.instance_ranges import write_ranges
from events.quantities import Milliseconds, SomeMilli, SomeMilliseconds, write_amounts, write_kib, write_milli, write_ms
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.parts import Isolation, PlacementRules
from events.resources import STANDARD, Unit, in_order
from events.spec import neighbours
from events.spec.alternatives import AnyOf, amounts_asked, any_of_body, check_alternatives
from events.spec.conditions import Constraints, Tolerations, constraint_parts, constraints_body, tolerations_body
from events.spec.devices import Cores, Devices, Numa, TaskResources, check_devices, with_one_form
from events.spec.health import Health, health_body
from events.spec.overrides import Override, Placed, check_overrides, overrides_body, resolve
from events.spec.parts import (
    Command,
    Controller,
    Env,
    Gang,
    Int32,
    Labels,
    OnSilence,
    OutputKept,
    Resources,
    Retries,
    Sim,
    Spec,
    Update,
    at,
    on_silence_body,
    sim_body,
    update_body,
)
from events.spec.ports import PortList, port_names, port_numbers, ports_body
from events.spec.secrets import Secrets, secrets_body
from events.spec.sla import Sla, check_sla, number, sla_body
from events.spec.volumes import Volumes
from events.strategies import Strategy
from events.topics import FACT_BYTES_MAX

T = TypeVar("T")
STATEFUL_SILENCE: Final = OnSilence.model_validate({"action": "stop_after", "after": "30s"})
"""The action of agents on tasks of a stateful job unless it says for how long they go on."""
NOT_OF_A_DAEMON: Final = {
    "instances": "is not for daemons: one task runs on every host that matches",
    "preemptible": "must be false: a daemon is never preempted",
    "strategy": "is not for daemons: one task runs on every host that matches",
    "overrides": "are not for daemons: their tasks are all alike",
}
IMAGE_PATTERN: Final = rf"^{IMAGE.pattern}(@{DIGEST.pattern})?$"
USER_PATTERN: Final = rf"^{CONTAINER_USER.pattern}$"
DEVICE_PATTERN: Final = rf"^{DEVICE.pattern}$"
ID_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,127}$"
POOL_PATTERN: Final = r"^(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){1,8}$"


class JobSpec(Spec):
    """A job as users write it. Fields that a check compares with others stand after those others."""

    job_id: Annotated[str, StringConstraints(pattern=ID_PATTERN)] | None = Field(
        default=None,
        description="1 to 128 of a-z, 0-9, dot, dash, underscore; free again once a job that ended is forgotten.",
    )
    pool: Annotated[str, StringConstraints(pattern=POOL_PATTERN, max_length=WORD_MAX)] = Field(
        description="Path of the pool, a leaf: /maps/tiles."
    )
    kind: Literal["batch", "stateless", "stateful", "daemon"] = Field(
        default="batch",
        description="A batch job ends by itself; a stateless one, a service, runs until it is stopped; a stateful one "
        "is a service whose tasks start one after another and stay on their hosts; a daemon is a service with one task "
        "on every host that meets its constraints.",
    )
    instances: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] = Field(
        default=1, description="Number of tasks; a daemon has one on every host that matches."
    )
    sim: Sim | None = Field(default=None, description="How simulated agents play the tasks; real agents ignore it.")
    image: Annotated[str, StringConstraints(pattern=IMAGE_PATTERN)] | None = Field(
        default=None,
        description="Image of the container that runs the tasks, registry.example/app:1.2, or NAME@sha256:HEX. What "
        "a tag stands for is looked up when the job is submitted, and all its runs use that.",
    )
    command: Command = Field(
        default=[],
        validate_default=True,
        description="Program and arguments, run without a shell; with an image in place of what that runs.",
    )
    env: Env = Field(default={}, description="Environment of the process.")
    cores: Cores = 0
    resources: TaskResources = Field(default=Resources(), validate_default=True, description="What one task needs.")
    devices: Devices = None
    numa: Numa = None
    any_of: AnyOf = Field(default=[])
    ports: PortList = Field(
        default=[], description="Names of the ports of one task; a number is chosen for each that has none."
    )
    volumes: Volumes = Field(
        default=[], description="Names of folders that a task of a stateful job keeps on its host."
    )
    secrets: Secrets = Field(
        default=[],
        description="Names of secrets whose values a run finds in files, or {name, version}; without a version the "
        "newest one when the job is submitted.",
    )
    run_token: bool = Field(
        default=False,
        description="Whether each run finds in PACELINE_TOKEN_FILE the path of a token with which it may read its own "
        "job and add instances to it.",
    )
    open_files: Annotated[int, Field(ge=1, le=OPEN_FILES_MAX)] | None = Field(
        default=None, description="Files and connections that a run may have open; none: as many as its agent."
    )
    isolation: Literal["none", "cgroup", "container"] | None = Field(
        default=None,
        validate_default=True,
        description="The least that keeps a run apart: none; cgroup: memory, CPU and processes are limited; container: "
        "its own files and processes too. none unless given, container with an image.",
    )
    network: Literal["host", "none"] = Field(
        default="host", validate_default=True, description="Of a container: that of the host, or none."
    )
    root: Literal["read-only", "writable"] = Field(
        default="read-only",
        validate_default=True,
        description="Whether a container may write to its root; each run has a copy of its own, gone with it.",
    )
    user: Annotated[str, StringConstraints(pattern=USER_PATTERN)] | None = Field(
        default=None,
        validate_default=True,
        description="As whom the program of a container runs: USER or USER:GROUP, names of the image or numbers; none: "
        "as the image says.",
    )
    device_files: Annotated[
        list[Annotated[str, StringConstraints(pattern=DEVICE_PATTERN)]], Field(max_length=DEVICES_MAX)
    ] = Field(
        default=[],
        validate_default=True,
        description="Files of devices that a container has too, /dev/fuse; only of hosts that offer them.",
    )
    cpu_limit: SomeMilli | None = Field(
        default=None,
        validate_default=True,
        description="CPU in cores that a run never goes beyond, even on an idle host; none: what the host has.",
    )
    processes: Annotated[int, Field(ge=1, le=PROCESSES_MAX)] | None = Field(
        default=None,
        description="Processes and threads that a run may have at once; none: as many as its agent lets it.",
    )
    output: OutputKept = Field(default=OutputKept(), description="How much of its output is kept.")
    priority: Int32 = Field(default=0, description="Higher is admitted first within a pool.")
    preemptible: bool = Field(
        default=True,
        description="Whether tasks may be preempted; if not, they are held within the reservation of the pool, but for "
        "daemons, which are never preempted.",
    )
    revocable: bool = Field(
        default=False,
        validate_default=True,
        description="Tasks run on CPU that others have reserved and don't use (the slack of hosts): they may be ended "
        "at any time, and are queued again. For a cell with slack=on.",
    )
    gang: Gang = Field(default=Gang(), description="Tasks that run together or not at all.")
    controller: bool | Controller = Field(
        default=False,
        validate_default=True,
        description="Instance 0 is the controller of a batch job: it is admitted alone, asked to leave last, and the "
        "job ends with it.",
    )
    on_preempt: Literal["requeue", "fail"] = Field(
        default="requeue",
        validate_default=True,
        description="What becomes of a task of a batch job that is preempted, and of its gang.",
    )
    retries: Retries = Field(default=Retries(), description="Further runs of tasks of a batch job that fail.")
    max_runtime: SomeMilliseconds | None = Field(
        default=None,
        validate_default=True,
        description="How long a task of a batch job may run; it is stopped then, and not run again.",
    )
    max_running: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] | None = Field(
        default=None,
        validate_default=True,
        description="So many tasks of a batch job are queued or run at a time; the others wait, by instance.",
    )
    start_deadline: SomeMilliseconds = Field(
        default=600_000,
        json_schema_extra={"default": "10m"},
        description="A run that isn't ready so long after its order is stopped, and has failed.",
    )
    constraints: Constraints = Field(
        default=[], description="Conditions on the attributes of a host; all must hold that have no weight."
    )
    tolerations: Tolerations = Field(
        default=[],
        description="Taints of hosts that don't keep its tasks away: KEY, or KEY=VALUE. With a time, "
        "`{taint: KEY, tolerate: 5m}`, they do, and what runs there stays for so long once the taint is set.",
    )
    strategy: Strategy | None = Field(
        default=None,
        description="pack: fill hosts one after another; spread: use as many as there are; balanced: use CPU, memory "
        "and what else it asks for evenly; load-aware: the least used hosts first; "
        "fragmentation: keep GPUs usable for typical tasks; adaptive: and for those that are expected next; "
        "null: as the pool has it.",
    )
    host_limit: neighbours.HostLimit = None
    exclusive: neighbours.Exclusive = False
    affinity: neighbours.Affinity = Field(default=[])
    anti_affinity: neighbours.AntiAffinity = Field(default=[])
    spread: neighbours.Spread = None
    within: neighbours.Within = None
    near: neighbours.Near = None
    segments: neighbours.Segments = None
    sla: Sla = Field(default=Sla(), description="How much of it may be unavailable on purpose.")
    health: Health | None = Field(
        default=None, validate_default=True, description="Health check of a run; none: it is available once started."
    )
    update: Update = Field(default=Update(), description="How updates go through the instances.")
    stop_signal: Literal["TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "KILL"] = Field(
        default="TERM", description="The signal that asks a run to end."
    )
    stop_grace: Milliseconds = Field(
        default=10_000, json_schema_extra={"default": "10s"}, description="Between the stop signal and the kill."
    )
    on_silence: OnSilence = Field(
        default=OnSilence(),
        description="What the agent does with tasks when it has lost the cell. Those of a stateful job are stopped, "
        "after 30s unless given, so that none ever runs twice.",
    )
    description: Annotated[str, StringConstraints(max_length=DESCRIPTION_MAX)] = Field(
        default="", description="What the job is for, in your words."
    )
    labels: Labels = Field(default={}, description="Free labels, to list jobs by.")
    owner: Annotated[str, StringConstraints(max_length=WORD_MAX)] = Field(default="", description="Who submits.")
    overrides: list[Override] = Field(
        default=[],
        max_length=INSTANCES_MAX,
        description="What some instances have instead; a later one applies on top of those before it.",
    )

    @field_validator("instances", "preemptible", "strategy", "overrides")
    @classmethod
    def _not_of_a_daemon(cls, value: T, info: ValidationInfo) -> T:
        """None of these may be given for a daemon, but that it isn't preemptible."""
        if info.data.get("kind") == "daemon" and value not in (False, None, "pack", []):
            raise PydanticCustomError("daemon", "{why}", {"why": NOT_OF_A_DAEMON[info.field_name or ""]})
        return value

    @field_validator("command")
    @classmethod
    def _says_what_runs(cls, command: list[str], info: ValidationInfo) -> list[str]:
        plays = info.data.get("sim") is not None or info.data.get("image") is not None
        if not plays and "sim" in info.data and not (command and command[0]):
            raise PydanticCustomError("command", "must name a program")
        return command

    @field_validator("isolation")
    @classmethod
    def _as_the_image_needs(cls, isolation: str | None, info: ValidationInfo) -> str | None:
        image = info.data.get("image")
        if image is None and isolation == "container":
            raise PydanticCustomError("isolation", "container is for jobs with an image")
        if image is not None and isolation not in (None, "container"):
            raise PydanticCustomError("isolation", "must be container for a job with an image")
        return None if isolation == _implied(image) else isolation

    @field_validator("network", "root", "user", "device_files")
    @classmethod
    def _of_a_container(cls, value: T, info: ValidationInfo) -> T:
        if value not in ("host", "read-only", None, []) and "image" in info.data and info.data["image"] is None:
            raise PydanticCustomError("container", "is for jobs with an image")
        return value

    @field_validator("user")
    @classmethod
    def _has_numbers_of_linux(cls, user: str | None) -> str | None:
        if any(each.isdecimal() and int(each) > USER_NUMBER_MAX for each in (user or "").split(":")):
            raise PydanticCustomError("user", "has a number beyond {most}, the highest", {"most": USER_NUMBER_MAX})
        return user

    @field_validator("cpu_limit")
    @classmethod
    def _covers_the_request(cls, limit: int | None, info: ValidationInfo) -> int | None:
        resources = info.data.get("resources")
        if limit is not None and resources is not None and limit < resources.cpu:
            raise PydanticCustomError(
                "cpu_limit", "is less than the cpu that a task asks for, {cpu}", {"cpu": write_milli(resources.cpu)}
            )
        return limit

    @field_validator("revocable")
    @classmethod
    def _may_be_ended(cls, revocable: bool, info: ValidationInfo) -> bool:
        if revocable and (info.data.get("kind") == "daemon" or not info.data.get("preemptible", True)):
            raise PydanticCustomError("revocable", "is for preemptible jobs: such tasks are ended at any time")
        resources = info.data.get("resources")
        if revocable and resources is not None and not resources.cpu:
            raise PydanticCustomError("revocable", "is for tasks that ask for some cpu: only CPU is lent")
        return revocable

    @field_validator("gang")
    @classmethod
    def _within_job(cls, gang: Gang, info: ValidationInfo) -> Gang:
        instances = info.data.get("instances", INSTANCES_MAX)
        if gang.min > instances:
            raise at("min", f"is {gang.min}, the job has {instances} instances", gang.min)
        ports = gang.min * len(info.data.get("ports", ()))
        if ports > GANG_PORTS_MAX:
            raise at("min", f"needs {ports} ports for the gang, at most {GANG_PORTS_MAX} are placed at once", gang.min)
        if gang.min > 1 and info.data.get("kind", "batch") != "batch":
            raise at("min", "is for batch jobs only", gang.min)
        return gang

    @field_validator("controller")
    @classmethod
    def _alone(cls, controller: bool | Controller, info: ValidationInfo) -> bool | Controller:
        if controller and info.data.get("kind", "batch") != "batch":
            raise PydanticCustomError("controller", "is for batch jobs only")
        if controller and info.data.get("revocable"):
            raise PydanticCustomError("controller", "excludes revocable: a controller isn't ended at any time")
        if controller and "gang" in info.data and info.data["gang"].min > 1:
            raise PydanticCustomError("controller", "excludes a gang: a controller is admitted alone")
        return True if controller == Controller() else controller

    @field_validator("on_preempt")
    @classmethod
    def _ends(cls, on_preempt: str, info: ValidationInfo) -> str:
        if on_preempt == "fail" and info.data.get("kind", "batch") != "batch":
            raise PydanticCustomError("on_preempt", "fail is for batch jobs only: a service is queued again")
        return on_preempt

    @field_validator("max_running")
    @classmethod
    def _for_batch(cls, max_running: int | None, info: ValidationInfo) -> int | None:
        if max_running is None:
            return None
        if info.data.get("kind", "batch") != "batch":
            raise PydanticCustomError("max_running", "is for batch jobs only")
        if "gang" in info.data and max_running < (members := info.data["gang"].min):
            raise PydanticCustomError("max_running", "is less than the {members} of the gang", {"members": members})
        return max_running

    @field_validator("max_runtime", "retries")
    @classmethod
    def _ends_some_time(cls, value: Any, info: ValidationInfo) -> Any:
        is_set = value.max > 0 if isinstance(value, Retries) else value is not None
        if is_set and info.data.get("kind", "batch") != "batch":
            raise PydanticCustomError("batch_only", "is for batch jobs only: a service runs until it is stopped")
        return value

    @field_validator("on_silence")
    @classmethod
    def _never_twice(cls, on_silence: OnSilence, info: ValidationInfo) -> OnSilence:
        if info.data.get("kind") == "stateful" and on_silence.action == "keep":
            raise at("action", "must be stop_after for a stateful job, so that a task never runs twice", "keep")
        return on_silence

    @field_validator("sla")
    @classmethod
    def _fits_the_job(cls, sla: Sla, info: ValidationInfo) -> Sla:
        return check_sla(sla, info.data)

    @field_validator("overrides")
    @classmethod
    def _fit_the_job(cls, overrides: list[Override], info: ValidationInfo) -> list[Override]:
        check_overrides(overrides, info.data)
        return overrides

    @field_validator("health")
    @classmethod
    def _asks_a_port(cls, health: Health | None, info: ValidationInfo) -> Health | None:
        if health is not None and health.port and health.port not in port_names(info.data.get("ports", [health.port])):
            raise at("tcp" if health.tcp else "http", f"names no port of the job: {health.port}", health.port)
        sim = info.data.get("sim")
        if health is None and sim is not None and sim.health is not None:
            raise PydanticCustomError("health", "is missing: `health` of `sim` plays a health check")
        return health

    @model_validator(mode="after")
    def _fits_a_record(self) -> "JobSpec":
        neighbours.check_neighbours(self)
        check_devices(self)
        check_alternatives(self)
        size = max(len(self.encoded), *(len(encode(chunk)) for chunk in self.chunks), 0)
        if size > FACT_BYTES_MAX:
            raise PydanticCustomError(
                "too_large",
                "the job takes {size} bytes, at most {most} are allowed",
                {"size": size, "most": FACT_BYTES_MAX},
            )
        return self

    @property
    def chunks(self) -> tuple[OverridesUploaded, ...]:
        """The facts to append before `to_event`: overrides that are too many for it."""
        return self._placed.chunks

    def to_event(self, job_id: str | None = None) -> JobSubmitted:
        """The fact to append. Raises `ValueError` where neither the spec nor the caller names the job."""
        job_id = job_id or self.job_id
        if not job_id:
            raise ValueError("the job has no id")
        return self._event if job_id == self._event.job_id else msgspec.structs.replace(self._event, job_id=job_id)

    @cached_property
    def encoded(self) -> bytes:
        """The record of `to_event` where the job has an id."""
        return encode(self._event)

    @cached_property
    def _event(self) -> JobSubmitted:
        """The fact, under the longest id where the job has none."""
        silence = self.on_silence if self.kind != "stateful" or self.on_silence.after else STATEFUL_SILENCE
        return JobSubmitted(
            job_id=self.job_id or "x" * 128,
            pool=self.pool,
            kind=self.kind,
            instances=self.instances if self.kind != "daemon" else 0,
            command=tuple(self.command),
            env=self.env,
            isolation=self._apart,
            resources=amounts_asked(self),
            ports=tuple(port_names(self.ports)),
            port_numbers=port_numbers(self.ports),
            volumes=tuple(self.volumes),
            secrets=tuple(each.to_part() for each in self.secrets),
            run_token=self.run_token,
            priority=self.priority,
            preemptible=self.preemptible and self.kind != "daemon",
            revocable=self.revocable,
            controller=self.controller is not False,
            on_controller_end=self.controller.on_end if isinstance(self.controller, Controller) else "end",
            on_preempt=self.on_preempt,
            gang_min=self.gang.min,
            retries_max=self.retries.max,
            retries_system=self.retries.system,
            max_runtime_ms=self.max_runtime or 0,
            max_running=self.max_running or 0,
            start_deadline_ms=self.start_deadline,
            constraints=constraint_parts(self.constraints),
            strategy=self.strategy or "",
            rules=neighbours.neighbours_rules(self),
            max_unavailable=number(self.sla.max_unavailable),
            sla=self.sla.to_part(),
            health=self.health.to_part() if self.health else None,
            update=self.update.to_part(),
            stop_signal=self.stop_signal,
            open_files=self.open_files or 0,
            stop_grace_ms=self.stop_grace,
            on_silence=silence.action,
            stop_after_ms=silence.after,
            description=self.description,
            labels=self.labels,
            owner=self.owner,
            simulated=self.sim.to_part() if self.sim else None,
            **self._placed.own,
            spec_hash=self._hash,
        )

    @property
    def _apart(self) -> Isolation | None:
        """The part about what keeps its runs apart; None: there is nothing to say."""
        own = self.image or self.isolation or self.cpu_limit or self.processes or self.output != OutputKept()
        if not own:
            return None
        name, _, digest = (self.image or "").partition("@")
        return Isolation(
            level=self.isolation or _implied(self.image),
            image=name,
            image_digest=digest,
            network=self.network,
            writable_root=self.root == "writable",
            cpu_limit=self.cpu_limit or 0,
            processes=self.processes or 0,
            output_head=self.output.head if self.output.head != OUTPUT_KIB else 0,
            output_tail=self.output.tail if self.output.tail != OUTPUT_KIB else 0,
            user=self.user or "",
            devices=tuple(self.device_files),
        )

    @cached_property
    def _placed(self) -> Placed:
        rules = neighbours.neighbours_rules(self)
        return resolve(self.overrides, self.instances, rules) if self.overrides else Placed({}, ())

    @cached_property
    def _hash(self) -> bytes:
        """BLAKE2b-256 of the canonical JSON without the id. Defaults are left out, so that a field that a later release
        adds doesn't turn a repeat into another job.
        """
        spec = self.model_dump(mode="json", exclude={"job_id"}, exclude_defaults=True)
        text = json.dumps(with_one_form(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return blake2b(text.encode(), digest_size=32).digest()


def from_event(event: JobSubmitted, units: Mapping[str, Unit]) -> dict[str, Any]:
    """The JSON of a submitted job, normalised, defaults written out; `units`: those of the cell's resources. It may
    break the rules of `JobSpec` where the fact came another way. Overrides in chunks aren't read, it says which
    instances they are of.
    """
    sim, apart, rules = event.simulated, event.isolation or Isolation(), event.rules or PlacementRules()
    spec: dict[str, Any] = {
        "job_id": event.job_id,
        "pool": event.pool,
        "kind": event.kind,
        "instances": event.instances,
        "command": list(event.command),
        "env": dict(event.env),
        "image": f"{apart.image}@{apart.image_digest}".rstrip("@") if apart.image else None,
        "isolation": None if apart.level == _implied(apart.image) else apart.level,
        "network": apart.network,
        "root": "writable" if apart.writable_root else "read-only",
        "user": apart.user or None,
        "device_files": list(apart.devices),
        "cpu_limit": write_milli(apart.cpu_limit) if apart.cpu_limit else None,
        "processes": apart.processes or None,
        "output": {
            "head": write_kib(apart.output_head or OUTPUT_KIB),
            "tail": write_kib(apart.output_tail or OUTPUT_KIB),
        },
        "resources": write_amounts(dict.fromkeys(STANDARD, 0) | in_order(event.resources), units),
        "ports": ports_body(event.ports, event.port_numbers),
        "volumes": list(event.volumes),
        "secrets": secrets_body(event.secrets),
        "run_token": event.run_token,
        "priority": event.priority,
        "preemptible": event.preemptible,
        "revocable": event.revocable,
        "gang": {"min": event.gang_min},
        "controller": {"on_end": event.on_controller_end} if event.on_controller_end != "end" else event.controller,
        "on_preempt": event.on_preempt,
        "retries": {"max": event.retries_max, "system": event.retries_system},
        "max_running": event.max_running or None,
        "start_deadline": write_ms(event.start_deadline_ms),
        "max_runtime": write_ms(event.max_runtime_ms) if event.max_runtime_ms else None,
        "constraints": constraints_body(event.constraints),
        "tolerations": tolerations_body(rules),
        **neighbours.neighbours_body(rules),
        **({"any_of": any_of_body(rules, units)} if rules.alternatives else {}),
        "strategy": event.strategy or None,
        "sla": sla_body(event.max_unavailable, event.sla),
        "health": health_body(event.health) if event.health else None,
        "update": update_body(event.update),
        "stop_signal": event.stop_signal,
        "open_files": event.open_files or None,
        "stop_grace": write_ms(event.stop_grace_ms),
        "on_silence": on_silence_body(event.on_silence, event.stop_after_ms),
        "description": event.description,
        "labels": dict(event.labels),
        "owner": event.owner,
    }
    if sim is not None:
        spec["sim"] = sim_body(sim)
    if event.overrides:
        spec["overrides"] = overrides_body(event, units)
    if event.kind == "daemon":
        del spec["instances"]
    if event.chunks:
        spec["overrides_of"] = write_ranges((chunk.first, chunk.count) for chunk in event.chunks)
    return spec


def _implied(image: str | None) -> str:
    """The isolation of a job that names none."""
    return "container" if image else "none"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a job spec, for editors."""
    return JobSpec.model_json_schema()
