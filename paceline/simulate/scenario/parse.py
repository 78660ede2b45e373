"""Reads a scenario: its parts together must make sense; each fault is named with its line and column."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from events.resources import REVOCABLE, STANDARD
from events.yaml_documents import Document, Fault
from paceline.client.errors import Faults
from paceline.job_files import read_jobs, read_one, stem
from paceline.simulate.scenario.job_commands import Deletion, SomeInstances
from paceline.simulate.scenario.parts import ScenarioJob
from paceline.simulate.scenario.scenario import Scenario, TimedAction


def read_scenario(source: str) -> Scenario:
    """The scenario of a file, with the jobs of the job files that it names in place of those. Raises `Faults`."""
    if Path(source).is_dir():
        raise Faults([f"{source} is a folder; name the file of a scenario"])
    scenario, document = read_one(source, Scenario)
    from_files, errors = _jobs_from_files(scenario, Path(source).parent)
    jobs = [*scenario.jobs, *(job for _, job in from_files)]
    complete = scenario.model_copy(update={"jobs": jobs})
    faults = list(_check_references(complete, document, [document for document, _ in from_files]))
    faults.sort(key=lambda fault: (fault.file != source, fault.file, fault.line, fault.column))
    if faults or errors:
        raise Faults([*map(str, faults), *errors])
    return complete.model_copy(update={"job_files": []})


def _jobs_from_files(scenario: Scenario, folder: Path) -> tuple[list[tuple[Document, ScenarioJob]], list[str]]:
    """The jobs of its job files, each with where it stands, and what is wrong with those files."""
    jobs: list[tuple[Document, ScenarioJob]] = []
    errors: list[str] = []
    for each in scenario.job_files:
        try:
            for job_file in read_jobs([str(folder / each.file)]):
                body = {name: value for name, value in job_file.body.items() if name != "job_id"}
                job_id = job_file.document.value.get("job_id") or stem(job_file.document.file)
                job = ScenarioJob.model_validate({**body, "job_id": job_id, "at": f"{each.at}ms"})
                jobs.append((job_file.document, job))
        except Faults as faults:
            errors += faults.lines
    return jobs, errors


def is_sound(scenario: Scenario) -> bool:
    """Whether a file with this scenario would be read."""
    return next(_check_references(scenario, Document("", None, {"": (0, 0)})), None) is None


def _check_references(scenario: Scenario, document: Document, from_files: Sequence[Document] = ()) -> Iterator[Fault]:
    """Faults between the parts of a scenario; its last jobs were `brought` from those documents."""
    own = len(scenario.jobs) - len(from_files)
    groups = [group.name for group in scenario.hosts]
    hosts: set[str] = set()
    for index, group in enumerate(scenario.hosts):
        if not hosts.isdisjoint(group.names()):
            yield document.fault(f"/hosts/{index}/pattern", "names hosts that another group has")
        hosts.update(group.names())
    for index, name in enumerate(groups):
        if name in groups[:index] or name in hosts:
            yield document.fault(f"/hosts/{index}/name", "is the name of another group or host")
    submitted = [(document, f"/jobs/{index}", job) for index, job in enumerate(scenario.jobs[:own])]
    submitted += [
        (document, f"/events/{index}/submit", e.submit) for index, e in enumerate(scenario.events) if e.submit
    ]
    submitted += [(file, "", job) for file, job in zip(from_files, scenario.jobs[own:], strict=True)]
    seen: set[str] = set()
    for where, place, job in submitted:
        if job.job_id in seen:
            yield where.fault(f"{place}/job_id", f"{job.job_id} is the id of another job")
        seen.add(str(job.job_id))
    paths = [pool.path for pool in scenario.pools]
    for index, path in enumerate(paths):
        if path in paths[:index]:
            yield document.fault(f"/pools/{index}/path", "is the path of another pool; change a pool by an event")
    for index, event in enumerate(scenario.events):
        host = event.host()
        if host is not None and host not in hosts and host not in groups:
            yield document.fault(f"/events/{index}", f"there is no host or group {host}")
        for name in event.campaign.names() if event.campaign is not None else ():
            if name not in hosts and name not in groups:
                yield document.fault(f"/events/{index}/campaign", f"there is no host or group {name}")
        for name in event.window.names() if event.window is not None else ():
            if name not in hosts and name not in groups:
                yield document.fault(f"/events/{index}/window", f"there is no host or group {name}")
        if event.submit is not None and "at" in event.submit.model_fields_set:
            yield document.fault(f"/events/{index}/submit/at", "stands beside `submit`, not in it")
        if event.update is not None and "at" in event.update.model_fields_set:
            yield document.fault(f"/events/{index}/update/at", "stands beside `update`, not in it")
        if (commanded := event.commanded()) is not None and commanded[1] not in seen:
            yield document.fault(f"/events/{index}/{commanded[0]}", f"no job {commanded[1]} is submitted")
    yield from _check_returns(scenario, document)
    yield from _check_losses(scenario, document)
    yield from _check_names(scenario, document, seen, hosts)
    yield from _check_times(scenario, document, own)
    if scenario.end is None and (lasting := _lasting(scenario, [job for *_, job in submitted])):
        yield document.fault("", f"needs `end`: {', '.join(lasting)} never ends by itself")


def _lasting(scenario: Scenario, jobs: Sequence[ScenarioJob]) -> list[str]:
    """The services that nobody stops, or that are started after that."""
    services = {str(job.job_id) for job in jobs if job.kind != "batch"}
    lasting = set(services)
    for event in sorted(scenario.events, key=lambda event: event.at):
        match event:
            case TimedAction(stop=SomeInstances(job_id=job_id, instances=None)):
                lasting.discard(job_id)
            case TimedAction(delete=Deletion(job_id=job_id, force=True)):
                lasting.discard(job_id)
            case TimedAction(start=SomeInstances(job_id=job_id)):
                lasting |= {job_id} & services
    return sorted(lasting)


def _check_times(scenario: Scenario, document: Document, own: int) -> Iterator[Fault]:
    """Faults of times: what is after the end never happens; its first `own` jobs are in the file."""
    times = [(f"/jobs/{index}/at", job.at) for index, job in enumerate(scenario.jobs[:own])]
    times += [(f"/job_files/{index}/at", file.at) for index, file in enumerate(scenario.job_files)]
    times += [(f"/events/{index}/at", event.at) for index, event in enumerate(scenario.events)]
    times += [(f"/expect/{index}", each.time_ms()) for index, each in enumerate(scenario.expect)]
    for index, group in enumerate(scenario.hosts):
        times += [
            (f"/hosts/{index}/{what}", getattr(group, what) or 0) for what in ("joins", "fails", "returns", "leaves")
        ]
    for place, at_ms in times:
        if scenario.end is not None and at_ms > scenario.end:
            yield document.fault(place, "is after the end")


def _check_losses(scenario: Scenario, document: Document) -> Iterator[Fault]:
    """Only what is there is lost, and only what was lost is healed."""
    lost: set[str] = set()
    for index, event in sorted(enumerate(scenario.events), key=lambda each: each[1].at):
        if event.lose is not None:
            if event.lose in lost:
                yield document.fault(f"/events/{index}/lose", f"{event.lose} is lost then already")
            lost.add(event.lose)
        elif event.heal is not None:
            if event.heal not in lost:
                yield document.fault(f"/events/{index}/heal", f"{event.heal} isn't lost then")
            lost.discard(event.heal)


def _check_returns(scenario: Scenario, document: Document) -> Iterator[Fault]:
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
    absent = dict.fromkeys((host for names in groups.values() for host in names), "joins")
    """Hosts that aren't there, and what they wait for or what has happened to them."""
    for _, place, what, name in sorted(happens, key=itemgetter(0)):
        hosts = groups.get(name, [name])
        if what in ("joins", "returns"):
            leaving = next((host for host in hosts if absent.get(host) == "leaves"), None)
            if what == "returns" and leaving is not None:
                yield document.fault(place, f"{leaving} has left for good")
            elif what == "returns" and not any(absent.get(host) in ("fails", "silent") for host in hosts):
                yield document.fault(place, f"{name} isn't away then: what failed or fell silent returns")
            for host in hosts:
                absent.pop(host, None)
        else:
            absent.update((host, what) for host in hosts if absent.get(host) not in ("joins", "leaves"))


def _check_names(scenario: Scenario, document: Document, jobs: set[str], hosts: set[str]) -> Iterator[Fault]:
    """Faults of names in expectations: each must exist at some time, or a typo would make them hold."""
    pools = {pool.path for pool in scenario.pools} | {e.pool.path for e in scenario.events if e.pool} | {"/"}
    pairs = {f"hostname={host}" for host in hosts}
    pairs |= {f"{name}={value}" for group in scenario.hosts for name, value in group.attributes.items()}
    resources = {*STANDARD, REVOCABLE} | {kind.name for kind in (scenario.cell.resources if scenario.cell else ())}
    campaigns = {str(e.campaign.start.maintenance_id) for e in scenario.events if e.campaign and e.campaign.start}
    existing = {
        "campaign": campaigns,
        "window": {str(e.window.set.window_id) for e in scenario.events if e.window and e.window.set},
        "job": jobs,
        "host": hosts,
        "host with": pairs,
        "pool": pools,
        "resource": resources,
    }
    for index, expectation in enumerate(scenario.expect):
        for kind, names in expectation.assertion().names.items():
            for name in names:
                if name not in existing[kind]:
                    yield document.fault(f"/expect/{index}", f"there is no {kind} {name}")
