"""A scenario: one YAML file; `parse.py` checks it whole before anything runs.

What a user writes about jobs and pools is what stands in job and pool files; `parts.py` has the hosts, here is what
happens at which time and what is expected. `docs/scenarios.md` explains every field.
"""

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from events.bounds import INT_MAX
from events.quantities import Milliseconds, SomeMilliseconds
from events.spec.parts import Spec, at
from events.spec.settings import CellSpec
from events.topics import MACHINES
from paceline.simulate.faults.injection import CHANCE
from paceline.simulate.scenario.assertions import Assertion, Malformed
from paceline.simulate.scenario.campaigns import Campaign
from paceline.simulate.scenario.expectations import parse
from paceline.simulate.scenario.host_pools import HostAssignment, HostMove, HostPoolChange, ScenarioHostPool
from paceline.simulate.scenario.job_commands import (
    BoundsOfGroup,
    Deletion,
    HostCheck,
    HostDeviceAside,
    HostDrain,
    HostTaint,
    Load,
    Offer,
    PriorityChange,
    Restart,
    RoomAsked,
    SomeInstances,
    Start,
)
from paceline.simulate.scenario.parts import (
    Host,
    HostGroup,
    Job,
    Pool,
    ScenarioJob,
    ScenarioPart,
    ScenarioPool,
)
from paceline.simulate.scenario.windows import Window

DAY_MS = 86_400_000
PARTS = ("gateway", *MACHINES)
JOB_ACTIONS = ("start", "restart", "pause", "resume", "abort", "roll_back", "promote", "hold", "release", "delete")
"""Events that have a job do something, in the words of `JobActionRequested`."""
JOB_COMMANDS = ("stop", "priority", "update", *JOB_ACTIONS)
"""Events about a job that was submitted."""
EVENTS = (
    *("submit", *JOB_COMMANDS, "pool", "remove_pool", "cell", "sla_group", "rebalance"),
    *(
        "fails",
        "silent",
        "returns",
        "leaves",
        "confirm_loss",
        "remove",
        "clear",
        "taint",
        "device",
        "condition",
        "load",
        "offers",
    ),
    *("drain", "cordon", "restore", "campaign", "window", "host_pool", "assign", "move"),
    *("lose", "heal"),
)
JobCommand = Job | SomeInstances | Start | Restart | Deletion | PriorityChange | ScenarioJob
"""The fields of a command: a job, and what it changes."""


class JobFile(ScenarioPart):
    """Jobs of a job file or of a folder of them, named from the folder of the scenario on."""

    file: str
    at: Milliseconds = 0


class TimedAction(ScenarioPart):
    """An action of a user or an operator, or a failure, at a time; exactly one thing."""

    at: Milliseconds
    submit: ScenarioJob | None = None
    stop: SomeInstances | None = None
    start: Start | None = Field(default=None, description="What has ended or is stopped runs again.")
    hold: Job | None = Field(default=None, description="No task of a job goes to the queue.")
    release: Job | None = Field(default=None, description="A held job goes on.")
    delete: Deletion | None = Field(default=None, description="A job is stopped, if need be, and forgotten.")
    priority: PriorityChange | None = None
    update: ScenarioJob | None = Field(default=None, description="A job is to have this specification from now on.")
    restart: Restart | None = None
    pause: Job | None = Field(default=None, description="The update of a job takes no more instances.")
    resume: Job | None = Field(default=None, description="A paused update goes on.")
    abort: Job | None = Field(default=None, description="The update of a job ends where it is.")
    roll_back: Job | None = Field(default=None, description="A job goes back to the version before.")
    promote: Job | None = Field(default=None, description="The other instances follow the canary.")
    pool: ScenarioPool | None = None
    remove_pool: Pool | None = None
    cell: CellSpec | None = None
    rebalance: RoomAsked | None = Field(default=None, description="Others are moved for a job that waits.")
    sla_group: BoundsOfGroup | None = Field(default=None, description="An operator sets a budget that jobs share.")
    fails: Host | None = Field(
        default=None, description="A host, or all of a group: it is gone with all that ran there."
    )
    silent: Host | None = Field(default=None, description="It isn't heard and hears nothing; what runs there goes on.")
    returns: Host | None = Field(default=None, description="After `fails` or `silent`.")
    leaves: Host | None = Field(default=None, description="For good.")
    confirm_loss: Host | None = Field(default=None, description="An operator says that a silent host is lost.")
    remove: Host | None = Field(default=None, description="An operator removes a host that has left.")
    clear: Host | None = Field(default=None, description="An operator clears a suspected host.")
    taint: HostTaint | None = Field(default=None, description="An operator taints a host, or takes a taint off.")
    device: HostDeviceAside | None = Field(
        default=None, description="An operator sets a device aside, or gives it back."
    )
    drain: HostDrain | None = Field(default=None, description="An operator wants a host, or all of a group, empty.")
    cordon: Host | None = Field(default=None, description="An operator keeps new tasks away.")
    campaign: Campaign | None = Field(
        default=None, description="An operator starts a campaign of maintenance, or acts on one."
    )
    window: Window | None = Field(default=None, description="An operator sets a window of maintenance, or removes one.")
    host_pool: HostPoolChange | None = Field(
        default=None, description="An operator defines a host pool, or removes one."
    )
    assign: HostAssignment | None = Field(
        default=None, description="An operator puts a host, or all of a group, into a host pool."
    )
    move: HostMove | None = Field(default=None, description="An operator moves hosts to another host pool.")
    restore: Host | None = Field(default=None, description="An operator ends drain and cordon.")
    condition: HostCheck | None = Field(
        default=None, description="A check of a host, or of all of a group, has a result."
    )
    load: Load | None = Field(default=None, description="A host says what it uses, and what it lends of its CPU.")
    offers: Offer | None = Field(default=None, description="A host offers more or less than it did.")
    lose: Annotated[str, Field(description=f"The process of one of {', '.join(PARTS)} is gone.")] | None = None
    heal: Annotated[str, Field(description="A new process takes its place.")] | None = None

    @field_validator("lose", "heal")
    @classmethod
    def _is_a_part(cls, name: str | None) -> str | None:
        if name is not None and name not in PARTS:
            raise PydanticCustomError("part", "{message}", {"message": f"must be one of {', '.join(PARTS)}"})
        return name

    @model_validator(mode="after")
    def _one_thing(self) -> "TimedAction":
        if len(self.model_fields_set & set(EVENTS)) != 1:
            raise at("at", f"must stand beside exactly one of {', '.join(EVENTS)}", self.at)
        return self

    def command(self) -> tuple[str, JobCommand] | None:
        """The command and what it is about; None: it is about no job that was submitted."""
        fields = ((name, getattr(self, name)) for name in JOB_COMMANDS)
        return next((each for each in fields if each[1] is not None), None)

    def commanded(self) -> tuple[str, str] | None:
        """The command and the job that it is about."""
        if (command := self.command()) is None:
            return None
        name, about = command
        return name, about if isinstance(about, str) else str(about.job_id)

    def host(self) -> str | None:
        """The host or group that it names."""
        names = (
            *(self.fails, self.silent, self.returns, self.leaves, self.confirm_loss, self.remove, self.clear),
            *(self.cordon, self.restore, self.move.host if self.move is not None else None),
        )
        about = (self.load, self.offers, self.taint, self.device, self.condition, self.drain, self.assign)
        all_names = (*names, *(each.host for each in about if each is not None))
        return next((name for name in all_names if name is not None), None)


class Expectation(Spec):
    """An assertion, in a line of plain words, and when; exactly one of at, by, always, never."""

    at: Milliseconds | None = Field(default=None, description="Holds at this time.")
    by: Milliseconds | None = Field(default=None, description="Holds at some moment up to this time.")
    that: str | None = Field(default=None, description="What must hold, for `at` and `by`.")
    always: str | None = Field(default=None, description="Holds at every moment.")
    never: str | None = Field(default=None, description="Holds at no moment.")
    since: Milliseconds = Field(default=0, description="For `always` and `never`: from this time on.")

    @field_validator("that", "always", "never")
    @classmethod
    def _is_an_assertion(cls, text: str | None) -> str | None:
        try:
            if text is not None:
                parse(text)
        except Malformed as error:
            raise PydanticCustomError("assertion", "{message}", {"message": str(error)}) from error
        return text

    @model_validator(mode="after")
    def _one_kind(self) -> "Expectation":
        kinds = [name for name in ("at", "by", "always", "never") if name in self.model_fields_set]
        if len(kinds) != 1:
            raise at("", "must have exactly one of at, by, always, never", None)
        if (self.that is None) is (kinds[0] in ("at", "by")):
            raise at(kinds[0], "needs `that` beside it" if self.that is None else "stands without `that`", None)
        if kinds[0] in ("at", "by") and "since" in self.model_fields_set:
            raise at("since", "is for `always` and `never`", self.since)
        return self

    def time_ms(self) -> int:
        """The time that it names."""
        return max(self.at or 0, self.by or 0, self.since)

    def assertion(self) -> Assertion:
        """The assertion of the expectation."""
        return parse(self.that or self.always or self.never or "")


class FaultAt(Spec):
    """A fault of a run under faults: the n-th time that one of its kind can happen, it does."""

    kind: str = Field(json_schema_extra={"enum": list(CHANCE)})
    number: Annotated[int, Field(ge=1)]

    @field_validator("kind")
    @classmethod
    def _is_a_kind(cls, kind: str) -> str:
        if kind not in CHANCE:
            raise PydanticCustomError("fault", "{message}", {"message": f"must be one of {', '.join(CHANCE)}"})
        return kind


class Scenario(ScenarioPart):
    """A cell, its users, and what is expected of it."""

    name: str = ""
    seed: Annotated[int, Field(ge=0, le=INT_MAX)] = 0
    end: SomeMilliseconds | None = Field(
        default=None, description="When it ends; otherwise when nothing more can happen, at the latest a day after all."
    )
    cell: CellSpec | None = None
    host_pools: list[ScenarioHostPool] = Field(default=[])
    hosts: list[HostGroup] = Field(default=[])
    pools: list[ScenarioPool] = Field(default=[])
    jobs: list[ScenarioJob] = Field(default=[])
    job_files: list[JobFile] = Field(default=[])
    events: list[TimedAction] = Field(default=[])
    expect: list[Expectation] = Field(default=[])
    faults: list[FaultAt] | None = Field(
        default=None, description="With --faults: these happen and no others; null: drawn by the seed."
    )

    def last_ms(self) -> int:
        """The time of the last thing that is named, from the start."""
        times = [job.at for job in self.jobs] + [event.at for event in self.events]
        times += [each.time_ms() for each in self.expect]
        for group in self.hosts:
            times += [group.joins, group.fails or 0, group.returns or 0, group.leaves or 0]
        return max(times, default=0)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario, for editors."""
    return Scenario.model_json_schema()
