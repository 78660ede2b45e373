"""A scenario: one YAML file, checked whole before anything runs, each fault with its line and column.

What a user writes about jobs and pools is what stands in job and pool files; `parts.py` has the hosts, here is what
happens at which time and what is expected. `docs/scenarios.md` explains every field.
"""

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from events.bounds import INT_MAX
from events.quantities import Milliseconds
from events.spec_parts import Spec, at
from events.topics import MACHINES
from paceline.errors import Faults
from paceline.files import Document, Fault, read_jobs, read_one
from paceline.simulate.expect import Assertion, Malformed, parse
from paceline.simulate.faults import CHANCE
from paceline.simulate.parts import Checked, Host, HostGroup, Job, Pool, ScenarioJob, ScenarioPool, Settings

DAY_MS = 86_400_000
PARTS = ("gateway", *MACHINES)
UPDATES = "Paceline can't change a job that it has; stop it and submit another"
EVENTS = (
    *("submit", "stop", "pool", "remove_pool", "cell"),
    *("fails", "silent", "returns", "leaves", "confirm_loss", "lose", "heal"),
)


class JobFile(Checked):
    """Jobs of a job file or of a folder of them, named from the folder of the scenario on."""

    file: str
    at: Milliseconds = 0


class Happening(Checked):
    """What a user, an operator or fate does at a time; exactly one thing."""

    later: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("update", "pause", "resume", "abort", "roll_back"), UPDATES),
        "start": "a stopped job can't be started again",
        "restart": "tasks can't be restarted by a user",
        **dict.fromkeys(("drain", "restore"), "hosts can't be drained"),
        "slack": "Paceline knows no slack",
    }

    at: Milliseconds
    submit: ScenarioJob | None = None
    stop: Job | None = None
    pool: ScenarioPool | None = None
    remove_pool: Pool | None = None
    cell: Settings | None = None
    fails: Host | None = Field(
        default=None, description="A host, or all of a group: it is gone with all that ran there."
    )
    silent: Host | None = Field(default=None, description="It isn't heard and hears nothing; what runs there goes on.")
    returns: Host | None = Field(default=None, description="After `fails` or `silent`.")
    leaves: Host | None = Field(default=None, description="For good.")
    confirm_loss: Host | None = Field(default=None, description="An operator says that a silent host is lost.")
    lose: Annotated[str, Field(description=f"The process of one of {', '.join(PARTS)} is gone.")] | None = None
    heal: Annotated[str, Field(description="A new process takes its place.")] | None = None

    @field_validator("lose", "heal")
    @classmethod
    def _is_a_part(cls, name: str | None) -> str | None:
        if name is not None and name not in PARTS:
            raise PydanticCustomError("part", "{message}", {"message": f"must be one of {', '.join(PARTS)}"})
        return name

    @model_validator(mode="after")
    def _one_thing(self) -> "Happening":
        if len(self.model_fields_set & set(EVENTS)) != 1:
            raise at("at", f"must stand beside exactly one of {', '.join(EVENTS)}", self.at)
        return self

    def host(self) -> str | None:
        """The host or group that it names."""
        names = (self.fails, self.silent, self.returns, self.leaves, self.confirm_loss)
        return next((name for name in names if name is not None), None)


class Expectation(Spec):
    """What must hold, in a line of plain words, and when; exactly one of at, by, always, never."""

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
        """What must hold."""
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


class Scenario(Checked):
    """A cell, its users, and what is expected of it."""

    name: str = ""
    seed: Annotated[int, Field(ge=0, le=INT_MAX)] = 0
    end: Annotated[Milliseconds, Field(ge=1)] | None = Field(
        default=None, description="When it ends; otherwise when nothing more can happen, at the latest a day after all."
    )
    cell: Settings | None = None
    hosts: list[HostGroup] = Field(default=[])
    pools: list[ScenarioPool] = Field(default=[])
    jobs: list[ScenarioJob] = Field(default=[])
    job_files: list[JobFile] = Field(default=[])
    events: list[Happening] = Field(default=[])
    expect: list[Expectation] = Field(default=[])
    faults: list[FaultAt] | None = Field(
        default=None, description="With --faults: these happen and no others; null: drawn by the seed."
    )

    def last_ms(self) -> int:
        """The time of the last thing that is named, from the start."""
        times = [job.at for job in self.jobs] + [file.at for file in self.job_files]
        times += [event.at for event in self.events]
        times += [each.time_ms() for each in self.expect]
        for group in self.hosts:
            times += [group.joins, group.fails or 0, group.returns or 0, group.leaves or 0]
        return max(times, default=0)


def read_scenario(source: str) -> Scenario:
    """The scenario of a file, with the jobs of the job files that it names in place of those. Raises `Faults`."""
    scenario, document = read_one(source, Scenario)
    folder = Path(source).parent
    jobs = list(scenario.jobs)
    for each in scenario.job_files:
        for found in read_jobs([str(folder / each.file)]):
            body = {name: value for name, value in found.body.items() if name != "job_id"}
            job_id = found.spec.job_id or Path(found.document.file).stem
            jobs.append(ScenarioJob.model_validate({**body, "job_id": job_id, "at": f"{each.at}ms"}))
    whole = scenario.model_copy(update={"jobs": jobs, "job_files": []})
    faults = sorted(_cross(whole, document), key=lambda fault: (fault.line, fault.column))
    if faults:
        raise Faults([str(fault) for fault in faults])
    return whole


def is_sound(scenario: Scenario) -> bool:
    """Whether a file with this scenario would be read."""
    return next(_cross(scenario, Document("", None, {"": (0, 0)})), None) is None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario, for editors."""
    return Scenario.model_json_schema()


def _cross(scenario: Scenario, document: Document) -> Iterator[Fault]:
    """What is wrong between the parts of a scenario."""
    groups = [group.name for group in scenario.hosts]
    hosts: set[str] = set()
    for index, group in enumerate(scenario.hosts):
        if not hosts.isdisjoint(group.names()):
            yield document.fault(f"/hosts/{index}/pattern", "names hosts that another group has")
        hosts.update(group.names())
    for index, name in enumerate(groups):
        if name in groups[:index] or name in hosts:
            yield document.fault(f"/hosts/{index}/name", "is the name of another group or host")
    submitted = [(f"/jobs/{index}", job) for index, job in enumerate(scenario.jobs)]
    submitted += [(f"/events/{index}/submit", e.submit) for index, e in enumerate(scenario.events) if e.submit]
    seen: set[str] = set()
    for place, job in submitted:
        if job.job_id in seen:
            yield document.fault(f"{place}/job_id", "is the id of another job")
        seen.add(str(job.job_id))
    for index, event in enumerate(scenario.events):
        named = event.host()
        if named is not None and named not in hosts and named not in groups:
            yield document.fault(f"/events/{index}", f"there is no host or group {named}")
        if event.submit is not None and "at" in event.submit.model_fields_set:
            yield document.fault(f"/events/{index}/submit/at", "stands beside `submit`, not in it")
        if event.stop is not None and event.stop not in seen:
            yield document.fault(f"/events/{index}/stop", f"no job {event.stop} is submitted")
    yield from _returns(scenario, document)
    yield from _named(scenario, document, seen, hosts)
    services = {job.job_id for _, job in submitted if job.kind == "stateless"} - {e.stop for e in scenario.events}
    if services and scenario.end is None:
        yield document.fault("", f"needs `end`: {', '.join(sorted(map(str, services)))} never ends by itself")


def _returns(scenario: Scenario, document: Document) -> Iterator[Fault]:
    """Only what failed or fell silent returns, and nothing that has left."""
    groups = {group.name: group.names() for group in scenario.hosts}
    happens = [
        (time, f"/hosts/{index}/{what}", what, group.name)
        for index, group in enumerate(scenario.hosts)
        for what in ("joins", "fails", "returns", "leaves")
        if (time := getattr(group, what)) is not None
    ]
    happens += [
        (event.at, f"/events/{index}/{what}", what, name)
        for index, event in enumerate(scenario.events)
        for what in ("fails", "silent", "returns", "leaves")
        if (name := getattr(event, what)) is not None
    ]
    away = dict.fromkeys((host for names in groups.values() for host in names), "joins")
    """Hosts that aren't there, and what they wait for or what has happened to them."""
    for _, place, what, name in sorted(happens, key=itemgetter(0)):
        hosts = groups.get(name, [name])
        if what in ("joins", "returns"):
            left = next((host for host in hosts if away.get(host) == "leaves"), None)
            if what == "returns" and left is not None:
                yield document.fault(place, f"{left} has left for good")
            elif what == "returns" and not any(away.get(host) in ("fails", "silent") for host in hosts):
                yield document.fault(place, f"{name} isn't away then: what failed or fell silent returns")
            for host in hosts:
                away.pop(host, None)
        else:
            away.update((host, what) for host in hosts if away.get(host) not in ("joins", "leaves"))


def _named(scenario: Scenario, document: Document, jobs: set[str], hosts: set[str]) -> Iterator[Fault]:
    """What expectations name must be there at some time, or they could hold for a slip of the pen."""
    pools = {pool.path for pool in scenario.pools} | {e.pool.path for e in scenario.events if e.pool} | {"/"}
    pairs = {f"hostname={host}" for host in hosts}
    pairs |= {f"{name}={value}" for group in scenario.hosts for name, value in group.attributes.items()}
    known = {"job": jobs, "host": hosts, "host with": pairs, "pool": pools}
    for index, expectation in enumerate(scenario.expect):
        for kind, names in expectation.assertion().names.items():
            for name in names:
                if name not in known[kind]:
                    yield document.fault(f"/expect/{index}", f"there is no {kind} {name}")
        if scenario.end is not None and expectation.time_ms() > scenario.end:
            yield document.fault(f"/expect/{index}", "is after the end")
