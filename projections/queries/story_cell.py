"""The events of pools, hosts and the cell itself, in sentences: of records that are about more than jobs."""

from collections.abc import Callable, Sequence
from typing import Any

from events.codes import Code, Hearing
from events.quantities import write_ms
from events.records.base import Event
from events.resources import Kinds
from events.taints import text_of
from events.words import plural
from projections.queries import story_access, story_maintenance
from projections.queries.sentences import amounts
from projections.queries.story_parts import NAMED, Part, because, host, job, joined, named, pool
from projections.record_json import at

HEARING = {Hearing.HEARD: "heard", Hearing.SILENT: "silent", Hearing.LOST: "lost"}
_Say = Callable[[Any, Kinds], list[Part]]


def sentence(event: Event, kinds: Kinds) -> list[Part]:
    """The sentence about a record. Raises `KeyError` for a record about jobs alone."""
    return SENTENCES[type(event).__name__](event, kinds)


_NO_SETTINGS = ("command_id", "reason", "actor")


def _defined(event: Any, kinds: Kinds) -> list[Part]:
    parts = [f"{name} {amounts(each, kinds)}" for name in ("reservation", "limit") if (each := getattr(event, name))]
    parts += ["closed"] * event.closed
    return [pool(event.path), " defined", f": {', '.join(parts)}" if parts else "", because(event, "; ")]


def _configured(event: Any, _: Kinds) -> list[Part]:
    names = [
        name for name in event.__struct_fields__ if name not in _NO_SETTINGS and getattr(event, name) not in (None, ())
    ]
    return [f"cell settings changed: {', '.join(names) or 'none'}{because(event, '; ')}"]


def _suspected(event: Any, _: Kinds) -> list[Part]:
    text = f" suspected: {event.code}, {plural(event.runs, 'run')} of {plural(event.jobs, 'job')}"
    last: list[Part] = (
        [f", at last run {event.run} of ", job(event.job_id), f"/{event.instance}"] if event.job_id else []
    )
    return [host(event.host_id), text, *last]


def _pool_answered(event: Any, _: Kinds) -> list[Part]:
    text = f" answered {event.code}" + (f": {event.message}" if event.message else "")
    return ["command about ", pool(event.path), text] if event.path else ["command about the cell", text]


def _entitled(event: Any, kinds: Kinds) -> list[Part]:
    if not event.pools:
        return ["entitlements unchanged"]
    entitlement = event.entitlement_array.tolist()
    lines: list[Sequence[Part]] = []
    for index, path in enumerate(event.pools[:NAMED]):
        mine = dict(zip(event.resources, entitlement[index], strict=False))
        lines.append([pool(path), f" {amounts(mine, kinds)}"])
    rest = len(event.pools) - len(lines)
    return ["entitlement of ", *joined(lines, "; of "), f"; and of {plural(rest, 'other pool')}" if rest else ""]


def _rights(event: Any, _: Kinds) -> list[Part]:
    if not event.job_ids:
        return ["no gang may preempt others any more"]
    return ["others may be preempted for ", *named("job", event.job_ids)]


def _capacity(event: Any, kinds: Kinds) -> list[Part]:
    return [f"capacity of the cell: {amounts(event.capacity, kinds)} on {plural(event.hosts, 'host')}"]


def _host(text: Callable[[Any], str]) -> _Say:
    return lambda event, _: [host(event.host_id), " ", text(event)]


def _asked(what: str) -> _Say:
    return _host(lambda event: what + because(event))


def _offered(event: Any, kinds: Kinds) -> list[Part]:
    return [host(event.host_id), f" offers {amounts(event.capacity, kinds)}"]


def _inventory(event: Any, _: Kinds) -> list[Part]:
    runs = plural(len(event.run_array), "run")
    return [host(event.host_id), f" has {runs}", *named("job", event.job_ids, " of ")]


def _loaded(event: Any, _: Kinds) -> list[Part]:
    columns = (event.cpu_used_array, event.memory_used_array, event.slack_array)
    rows = zip(event.host_ids, *(column.tolist() for column in columns), strict=False)
    return joined(
        (
            [
                host(host_id),
                f" uses {cpu}/16 of its CPU, {memory}/16 of its memory" + (f", slack {slack}/16" * (slack > 0)),
            ]
            for host_id, cpu, memory, slack in rows
        ),
        "; ",
    )


def _wanted(event: Any, kinds: Kinds) -> list[Part]:
    waits = [f"{each.name} {amounts(each.waiting, kinds)}" for each in event.host_pools]
    return [f"waits for host pools: {', '.join(waits) or 'nothing'}"]


def _reconciled(event: Any) -> str:
    return f"reconciled: {plural(event.kept, 'run')} kept, {event.ended} ended, {event.stopped} to be stopped"


def _hearing(event: Any, _: Kinds) -> list[Part]:
    hearing = event.hearing_array.tolist()[: len(event.host_ids)]
    by_word: dict[str, list[str]] = {}
    for host_id, hears in zip(event.host_ids, hearing, strict=True):
        by_word.setdefault(HEARING.get(hears, "otherwise"), []).append(host_id)
    return joined((named("host", host_ids, f"{word}: ") for word, host_ids in by_word.items()), "; ")


def _secret_deleted(event: Any, _: Any) -> list[Part]:
    versions = ", ".join(map(str, event.versions))
    return [f"secret {event.name} deleted, version{'s' * (len(event.versions) > 1)} {versions}"]


def _avoided(event: Any) -> str:
    until = f"until {at(event.until_ms)}" if event.until_ms else "until it is well"
    return f"avoided {until}: {event.code}"


def _trusted(event: Any) -> str:
    """A host takes tasks: again, or still, as no more hosts are avoided at a time."""
    if event.code not in (Code.TOO_MANY_UNHEALTHY, Code.TOO_MANY_SUSPECTED):
        return f"takes tasks again: {event.code}"
    what = "unhealthy" if event.code == Code.TOO_MANY_UNHEALTHY else "suspected"
    return f"not avoided: too many {what} hosts ({event.avoided} avoided, {event.most} may be): {event.code}"


def _device_asked(event: Any) -> str:
    if not event.disabled:
        return f"device {event.device} to take tasks again"
    runs = "and its runs to leave" if event.ends else "its runs go on"
    return f"device {event.device} to take no new tasks, {runs}"


def _device_changed(event: Any) -> str:
    if not event.disabled:
        return f"device {event.device} takes tasks again"
    return f"device {event.device} takes no new tasks" + (", its runs are to leave" if event.ends else "")


def _tainted(event: Any) -> str:
    taints = ", ".join(text_of(key, value) for key, value in event.taints.items())
    return f"taints by operators: {taints or 'none'}"


SENTENCES: dict[str, _Say] = {
    **story_access.SENTENCES,
    **story_maintenance.SENTENCES,
    "PoolDefined": _defined,
    "PoolRemoved": lambda event, _: [pool(event.path), f" to be removed{because(event)}"],
    "CellConfigured": _configured,
    "PoolAnswered": _pool_answered,
    "EntitlementsSet": _entitled,
    "HostPoolsWanted": _wanted,
    "CreditsSet": lambda event, _: ["credit of ", *named("pool", event.pools)],
    "RightsSet": _rights,
    "CapacityChanged": _capacity,
    "GatewayBeat": lambda event, _: [f"gateway {event.gateway} is there"],
    "HostConnected": _host(lambda event: f"connected to gateway {event.gateway}, session {event.session}"),
    "HostOffered": _offered,
    "HostVolumes": _host(lambda event: f"keeps {plural(len(event.volumes), 'volume')}"),
    "HostImages": _host(lambda event: f"has {plural(len(event.images), 'image')}"),
    "HostsLoaded": _loaded,
    "HostInventory": _inventory,
    "SecretPut": lambda event, _: [f"secret {event.name} stored, version {event.version}"],
    "SecretDeleted": _secret_deleted,
    "HostSilent": _host(lambda event: "silent"),
    "HostBack": _host(lambda event: "heard again"),
    "HostLossConfirmed": _asked("confirmed lost"),
    "HostRemovalRequested": _asked("removal requested"),
    "HostClearRequested": _asked("cleared of suspicion by request"),
    "HostTaintRequested": _host(
        lambda event: f"taint {text_of(event.key, event.value)} " + ("to be taken off" if event.remove else "requested")
    ),
    "HostDeviceRequested": _host(_device_asked),
    "HostAnswered": _host(
        lambda event: f"command answered {event.code}" + (f": {event.message}" if event.message else "")
    ),
    "HostReconciled": _host(_reconciled),
    "HostLost": _host(lambda event: f"lost: {event.code}, silent for {write_ms(event.silent_ms)}"),
    "HostHearingChanged": _hearing,
    "HostRemoved": _host(lambda event: f"removed: {event.code}"),
    "HostSuspected": _suspected,
    "HostAvoided": _host(_avoided),
    "HostTrusted": _host(_trusted),
    "HostTainted": _host(_tainted),
    "HostDeviceChanged": _host(_device_changed),
    "JobsForgotten": lambda event, _: (
        ["forgotten: ", *named("job", event.job_ids)]
        if event.job_ids
        else ["ended jobs forgotten that were kept as digests"]
    ),
    "OverridesUploaded": lambda event, _: [f"overrides uploaded, {len(event.content)} bytes"],
    "OverridesDropped": lambda event, _: [f"{plural(len(event.digests), 'upload')} of overrides dropped"],
    "EpochStarted": lambda event, _: [f"{event.claimant} takes {event.machine}, epoch {event.epoch}"],
    "RoundCommitted": lambda event, _: [
        f"round {event.round} of {event.machine}: {plural(len(event.decisions), 'decision')}"
    ],
    "TimerPassed": lambda event, _: [f"a deadline of {event.machine} passed: {at(event.due_ms)}"],
}
"""By the name of the record."""
