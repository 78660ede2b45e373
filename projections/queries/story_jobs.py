"""The events of one job, in sentences: of each kind of record from what `views.job_history` tells that job of it."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from events.codes import RunCause
from events.quantities import write_ms
from events.words import image_pulls, plural
from projections.queries.order_reasons import alternative_text
from projections.queries.story_parts import Line, Part, host, job, named, pool

Detail = Mapping[str, Any]
_Say = Callable[[Detail], list[Part]]
COMMAND_CHARACTERS = 100
"""So much of the command of a session stands in its sentence."""


def line_of(event: str, detail: Detail) -> Line:
    """The sentence about a record, by its kind and what the job was told of it. Raises `KeyError` for a record that
    tells jobs nothing.
    """
    return tuple(SENTENCES[event](detail))


def _because(detail: Detail, name: str = "reason") -> str:
    return f": {detail[name]}" if detail.get(name) else ""


def _of_instances(detail: Detail) -> str:
    return f" of instances {detail['instances']}" if detail.get("instances") else ""


def _coded(detail: Detail) -> str:
    return f": {detail['code']}" if detail.get("code") else ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _tasks(text: str) -> _Say:
    """A sentence that begins with how many tasks it is about."""
    return lambda detail: [plural(detail["tasks"], "task"), f" {text}", _coded(detail)]


def _runs(text: str) -> _Say:
    return lambda detail: [plural(detail["tasks"], "run"), f" {text}", _coded(detail)]


def _on_hosts(noun: str, text: str) -> _Say:
    def say(detail: Detail) -> list[Part]:
        return [plural(detail["tasks"], noun), f" {text}", *named("host", detail.get("hosts", ()), " on ")]

    return say


def _submitted(detail: Detail) -> list[Part]:
    owner = f" by {detail['owner']}" if detail.get("owner") else ""
    return ["submitted to ", pool(detail["pool"]), f" with {plural(detail['instances'], 'instance')}{owner}"]


def _acted(detail: Detail) -> list[Part]:
    return [f"{detail['action']} requested{_of_instances(detail)}{_because(detail)}"]


def _accepted(detail: Detail) -> list[Part]:
    return [f"accepted with {plural(detail['instances'], 'instance')} in ", pool(detail["pool"])]


def _answered(detail: Detail) -> list[Part]:
    return [f"command answered {detail['code']}{_because(detail, 'message')}"]


def _admitted(detail: Detail) -> list[Part]:
    borrowed = f", {detail['borrowed']} of them borrowed" if detail.get("borrowed") else ""
    return [f"{plural(detail['tasks'], 'task')} admitted{borrowed}"]


def _ranked(detail: Detail) -> list[Part]:
    borrowed = detail.get("borrowed", 0)
    return [f"{plural(detail['tasks'], 'admitted task')} ranked anew, {borrowed} of them borrowed"]


def _held(detail: Detail) -> list[Part]:
    return [
        f"{plural(detail['tasks'], 'task')} not admitted{_coded(detail)}",
        *named("pool", [detail["at"]] if detail.get("at") else [], " at "),
    ]


def _turn(detail: Detail) -> list[Part]:
    return [f"turn for {plural(detail['count'], 'task')}: {detail['state']}"]


def _unplaced(detail: Detail) -> list[Part]:
    return [
        f"{plural(detail['tasks'], 'task')} not placed{_coded(detail)}",
        *named("host", [detail["host_id"]] if detail.get("host_id") else [], " on "),
    ]


def _ended(detail: Detail) -> list[Part]:
    outcomes = {name.lower().replace("_", " "): count for name, count in detail.get("outcomes", {}).items()}
    how = next(iter(outcomes)) if len(outcomes) == 1 else _counts(outcomes)
    return [f"{plural(detail['tasks'], 'run')} ended{f': {how}' if how else ''}{_by(detail)}"]


def _stopping(detail: Detail) -> list[Part]:
    return [f"{plural(detail['tasks'], 'run')} told to stop{_by(detail)}"]


def _by(detail: Detail) -> str:
    """Why runs end, where the cell ends them: with numbers where it isn't the same for all."""
    led = _led(detail)
    why = {
        led.get(name, _CAUSES.get(name, name)): count for name, count in detail.get("why", {}).items() if name != "NONE"
    }
    if list(why.values()) == [detail["tasks"]]:
        return f" {next(iter(why))}"
    return f" ({_counts(why)})" if why else ""


def _led(detail: Detail) -> dict[str, str]:
    """The same of runs that leave a host, by the name of the cause, where it is known what of the host led to it."""
    led = detail.get("led")
    if led is None:
        return {}
    by, source = led["by"], led["source"]
    hosts = led["host_ids"]
    what = f"taint {source}" if by == "taint" else "drain"
    what += f" of {'host' if len(hosts) == 1 else 'hosts'} {', '.join(hosts)}"
    what += f" for {by} {source}" if by not in ("operator", "taint") else ""
    who = (f" by {led['actor']}" if led["actor"] else "") + _because(led)
    return {
        RunCause.DRAIN.name: f"for the {what}{who}",
        RunCause.EVICT.name: f"by the forced {what}{who}",
    }


_STEPS = {"now_in_flight": "under way", "now_pending": "to come"}
_CAUSES = {
    RunCause.REMOVE.name: "since the instance is removed",
    RunCause.STOP.name: "by a user",
    RunCause.JOB_END.name: "since the controller is over",
    RunCause.RUN_LIMIT.name: "at max_runtime",
    RunCause.HEALTH.name: "since the health check failed",
    RunCause.START_LATE.name: "since it wasn't ready in time",
    RunCause.PREEMPT.name: "for others",
    RunCause.GANG.name: "since a member of the gang ended",
    RunCause.DRAIN.name: "for a drain",
    RunCause.EVICT.name: "by a drain that is forced",
    RunCause.UPDATE.name: "by the update",
    RunCause.HOLD.name: "since the job is held",
}
"""Causes of runs to end, by the names of `RunCause`."""


def _ordered(detail: Detail) -> list[Part]:
    order = f"by order {detail['order']}: {detail['code']}"
    if not detail["for_job"]:
        why = "their host offers less or their device was set aside"
        return [f"{plural(detail['tasks'], 'run')} preempted, as {why}, {order}"]
    if "victims" not in detail:
        return [f"{plural(detail['tasks'], 'run')} preempted for ", job(detail["for_job"]), f" {order}"]
    victims = named("job", list(detail["from_jobs"]), " of ")
    return [plural(detail["victims"], "run"), *victims, f" preempted for it {order}"]


def _asked(detail: Detail) -> list[Part]:
    victims = named("job", detail["from_jobs"], " of ")
    where = named("host", detail["hosts"], " on ")
    which = alternative_text(detail.get("alternative"), detail.get("passed_codes", ()))
    return [f"preemption of {plural(detail['victims'], 'run')}", *victims, f" asked for{which}", *where]


def _refused(detail: Detail) -> list[Part]:
    victim = detail.get("victim_job_id")
    whose: list[Part] = [" of ", job(victim)] if victim else []
    return ["preemption", *whose, f" refused{_coded(detail)}"]


def _reserved(detail: Detail) -> list[Part]:
    where = named("host", detail.get("host_ids", ()), " on ")
    which = alternative_text(detail.get("alternative"), detail.get("passed_codes", ()))
    return [f"reservation for {plural(detail['count'], 'task')}{which}: {detail['state']}", *where]


def _changed(detail: Detail) -> list[Part]:
    counts = {name: detail[name] for name in ("succeeded", "failed", "killed") if detail.get(name)}
    return [f"the job is {detail['state']}" + (f": {_counts(counts)}" if counts else "")]


def _sla(detail: Detail) -> list[Part]:
    if "sla" in detail:
        return [f"SLA: {detail['sla']}"]
    most = detail.get("max_unavailable")
    return [f"SLA: {most} instances may be unavailable" if most is not None else "SLA removed"]


def _allowed(detail: Detail) -> list[Part]:
    waited = f" after {write_ms(detail['waited_s'] * 1000)}" if "waited_s" in detail else ""
    free = detail.get("free", 0)
    which = "unavailable already" if detail["tasks"] == 1 else f"{free} of them unavailable already"
    return [
        f"{plural(detail['tasks'], 'run')} may be disrupted{waited}"
        + (f", {which}: no budget is spent" if free else "")
    ]


def _deferred(detail: Detail) -> list[Part]:
    numbers = ""
    if "unavailable" in detail:
        group = f" in group {detail['group']}" if "group" in detail else ""
        numbers = f" ({detail['unavailable']} unavailable{group}, {detail['max_unavailable']} may be)"
    stays = "stays" if detail["tasks"] == 1 else "stay"
    return [f"{plural(detail['tasks'], 'run')} {stays} for now{_coded(detail)}{numbers}"]


def _instances(detail: Detail) -> list[Part]:
    return [f"{plural(detail['added'], 'instance')} added, {detail['removed']} removed"]


def _update_started(detail: Detail) -> list[Part]:
    counts = {name: detail[name] for name in ("added", "updated", "removed", "unchanged") if name in detail}
    way = f"version {detail.get('from_version', 0)} to {detail.get('version', 0)}"
    return [f"update {detail['number']} ({detail.get('kind', 'update')}) from {way}: {_counts(counts)} instances"]


def _steps(text: str) -> _Say:
    return lambda detail: [f"update {detail['number']}: instances {detail['instances']} {text}"]


def _progressed(detail: Detail) -> list[Part]:
    steps = [
        f"{'instance' if text.isdecimal() else 'instances'} {text} now {_STEPS.get(name, name.removeprefix('now_'))}"
        for name, text in detail.items()
        if name.startswith("now_")
    ]
    counts = detail["counts"]
    bad = f", {counts['failed']} failed" if counts["failed"] else ""
    so_far = f"{counts['done']} of {sum(counts.values())} done{bad}"
    more = f"{counts['in_flight']} under way, {counts['pending']} to come"
    return [f"update {detail['number']}: {'; '.join([*steps, so_far])}, {more}"]


def _update_ended(detail: Detail) -> list[Part]:
    return [f"update {detail['number']} {detail['state']}{_coded(detail)}{_because(detail, 'message')}"]


def _matching(detail: Detail) -> list[Part]:
    counts = f"{plural(detail['match'], 'host')} match from now on, {detail['no_longer']} no longer"
    return [counts, *named("host", detail["hosts"], ", such as ")]


def _volume(text: str) -> _Say:
    return lambda detail: [
        f"volume {detail['name']} of instance {detail['instance']} on ",
        host(detail["host_id"]),
        text,
    ]


def _prefetched(detail: Detail) -> list[Part]:
    hosts = detail.get("host_ids", ())
    return [f"image {detail['image']} to be pulled by {plural(len(hosts), 'host') if hosts else 'all hosts'}"]


def _has_image(detail: Detail) -> list[Part]:
    fault = detail.get("fault")
    return ["host ", host(detail["host_id"]), f" can't pull it: {fault}" if fault else " has the image"]


def _pulled(detail: Detail) -> list[Part]:
    pulls = image_pulls(detail["hosts"], detail["have"], detail["faults"], detail.get("fault", ""))
    return [f"image of update {detail['number']}: {pulls}{'' if detail.get('waits') else '; the update begins'}"]


def _entered(detail: Detail) -> list[Part]:
    command = shlex.join(detail["command"])[:COMMAND_CHARACTERS]
    run = f"run {detail['run']} of instance {detail['instance']}"
    return [f"a user entered {run} on ", host(detail["host_id"]), f" with {command}"]


def _suspected(detail: Detail) -> list[Part]:
    run = f" suspected, at last by run {detail['run']} of instance {detail['instance']}: {detail['code']}"
    return ["host ", host(detail["host_id"]), run]


SENTENCES: dict[str, _Say] = {
    "JobSubmitted": _submitted,
    "JobStopRequested": lambda detail: [f"stop requested{_of_instances(detail)}{_because(detail)}"],
    "JobActionRequested": _acted,
    "JobUpdateRequested": lambda detail: [f"update requested{_because(detail)}"],
    "JobReopenRequested": lambda detail: [f"another run requested{_of_instances(detail)}{_because(detail)}"],
    "JobReopened": lambda detail: ["open again"],
    "JobPriorityRequested": lambda detail: [f"priority {detail.get('priority', 0)} requested{_because(detail)}"],
    "RebalanceRequested": lambda detail: [f"room to be made for it{_because(detail)}"],
    "ImagePrefetchRequested": lambda detail: [f"image {detail['image']} wanted on hosts{_because(detail)}"],
    "ImagePrefetchOrdered": _prefetched,
    "ImagePrefetched": _has_image,
    "VolumeRemovalRequested": _volume(": removal requested"),
    "RunsReported": _on_hosts("run", "reported"),
    "ExecOpened": _entered,
    "HostSuspected": _suspected,
    "ExecClosed": lambda detail: [f"session in a run ended with exit code {detail['exit_code']}{_because(detail)}"],
    "HostInventory": _runs("found on a host that connected"),
    "JobAccepted": _accepted,
    "JobRejected": lambda detail: [f"rejected{_coded(detail)}{_because(detail, 'message')}"],
    "CommandAnswered": _answered,
    "GangsQueued": _tasks("queued"),
    "GangsAdmitted": _admitted,
    "AdmissionsRanked": _ranked,
    "GangsHeld": _held,
    "TurnSet": _turn,
    "GangsReturned": _tasks("returned to the queue"),
    "GangsUnplaced": _unplaced,
    "GangsParked": _tasks("parked: what they would hold under a limit is lent"),
    "TasksPlaced": _on_hosts("task", "placed"),
    "RunsOrdered": _on_hosts("run", "ordered"),
    "RunsAvailable": _runs("available"),
    "RunsOverdue": _runs("past a deadline"),
    "RunsStopping": _stopping,
    "RunsEnded": _ended,
    "DisruptionAsked": lambda detail: [f"asked whether {plural(detail['tasks'], 'run')} may be stopped{_by(detail)}"],
    "DisruptionAllowed": _allowed,
    "DisruptionDeferred": _deferred,
    "SurplusSet": lambda detail: [f"{plural(detail['surplus'], 'instance')} more than wanted"],
    "DisruptionWithdrawn": _runs("no longer to be disrupted"),
    "PreemptionAsked": _asked,
    "PreemptionRefused": _refused,
    "PreemptionsOrdered": _ordered,
    "PreemptionAnswered": _runs("named in the answer to an order to preempt"),
    "HostsReserved": _reserved,
    "RevocationAsked": _on_hosts("run", "to give back lent CPU"),
    "JobChanged": _changed,
    "JobHeld": lambda detail: ["held" if detail.get("held") else "released"],
    "JobPriorityChanged": lambda detail: [f"priority {detail['priority']}"],
    "JobSlaChanged": _sla,
    "InstancesWanted": lambda detail: ["instances wanted again" if detail.get("wanted") else "instances to stop"],
    "InstancesChanged": _instances,
    "InstancesTaken": _steps("taken"),
    "InstancesReturned": _steps("given back"),
    "UpdateStarted": _update_started,
    "UpdateProgressed": _progressed,
    "UpdateImagePulled": _pulled,
    "UpdatePaused": lambda detail: [f"update {detail['number']} {'paused' if detail.get('paused') else 'resumed'}"],
    "UpdatePromoted": lambda detail: [f"update {detail['number']} promoted"],
    "UpdateEnded": _update_ended,
    "MatchingHostsChanged": _matching,
    "VolumeRemovalOrdered": _volume(" to be removed"),
}
"""By the name of the record; `detail` is what `views.job_history.details` gives."""
