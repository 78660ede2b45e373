"""The devices and cores of hosts, and what runs have of them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from events.devices import CORE
from events.quantities import write_mib, write_milli
from events.resources import is_gpu
from paceline.client.host_models import DeviceRun, HostCores, HostDevice
from paceline.client.models import RunDevice, RunDevices
from projections.access.limits import limits
from projections.views import tables
from projections.views.rows import HostRow, amounts_in

Holders = dict[str, list[tuple[DeviceRun, int, int]]]
"""By device who has how much of it, in thousandths and MiB."""
NO_DEVICES: RunDevices = {}
SUMMED_MAX = 64
"""The most devices that are numbered of a kind of which a host tells only an amount."""
WHOLE = 1000


def task_devices(connection: Connection, job_id: str, runs: Sequence[tuple[int, int]]) -> dict[int, RunDevices]:
    """By instance the fields of a task with devices or cores: of those whose run is the last that had some."""
    rows = tables.run_devices.c
    first, last = (min(runs)[0], max(runs)[0]) if runs else (0, -1)
    query = select(rows.instance, rows.run, rows.devices).where(
        rows.job_id == job_id, rows.instance >= first, rows.instance <= last
    )
    last_runs = {*runs}
    return {
        instance: fields_of_run(msgspec.json.decode(devices))
        for instance, run, devices in connection.execute(query)
        if (instance, run) in last_runs
    }


def fields_of_run(devices: Sequence[tuple[str, int, int]]) -> RunDevices:
    """The fields of a run with devices or cores: by the id of each, thousandths and MiB of it."""
    fields: RunDevices = {}
    if others := [each for each in devices if not each[0].startswith(CORE)]:
        fields["devices"] = [_run_device(*each) for each in others]
    if cores := sorted(int(each[0].removeprefix(CORE)) for each in devices if each[0].startswith(CORE)):
        fields["cores"] = cores
    return fields


def _run_device(id_: str, milli: int, memory: int) -> RunDevice:
    return {"id": id_, "share": write_milli(milli), "memory": write_mib(memory) if memory else None}


def holders_on(connection: Connection, host_id: str) -> Holders:
    """The runs that have devices of a host."""
    return holders_by_host(connection, [host_id])[host_id]


def holders_by_host(connection: Connection, host_ids: Sequence[str]) -> dict[str, Holders]:
    """The runs that have devices of some hosts, by host."""
    rows = tables.run_devices.c
    query = select(rows.host_id, rows.job_id, rows.instance, rows.run, rows.devices)
    by_host: dict[str, Holders] = {host_id: defaultdict(list) for host_id in host_ids}
    for host_id, job_id, instance, run, devices in connection.execute(
        query.where(rows.host_id.in_(host_ids), rows.live > 0).order_by(rows.job_id, rows.instance)
    ):
        for id_, milli, memory in msgspec.json.decode(devices):
            run_row: DeviceRun = {
                "job_id": job_id,
                "instance": instance,
                "run": run,
                "share": write_milli(milli),
                "memory": write_mib(memory) if memory else None,
            }
            by_host[host_id][id_].append((run_row, milli, memory))
    return by_host


def host_devices(row: HostRow, holders: Holders) -> list[HostDevice]:
    """The devices of a host: those that it names, those of kinds of cards of which it tells an amount, and those that
    runs have which it names no more. A limited reader sees those that runs have which it may see: what others have
    would look free.
    """
    disabled = msgspec.json.decode(row.disabled)
    own = msgspec.json.decode(row.devices)
    devices = [_device(each, True, disabled, holders) for each in (*own, *_summed(row, own))]
    if limits() is not None:
        devices = [each for each in devices if each["runs"]]
    ids = {each["id"] for each in devices}
    former = sorted(id_ for id_ in holders if id_ not in ids and not id_.startswith(CORE))
    return devices + [_device({"id": id_, "kind": id_.rpartition(":")[0]}, False, disabled, holders) for id_ in former]


def _summed(row: HostRow, own: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    kinds = {each["kind"] for each in own}
    for kind, amount in amounts_in(row.capacity).items():
        if is_gpu(kind) and kind not in kinds and amount <= SUMMED_MAX * WHOLE:
            yield from ({"id": f"{kind}:{at}", "kind": kind} for at in range(-(-amount // WHOLE)))


def _device(device: dict[str, Any], listed: bool, disabled: dict[str, bool], holders: Holders) -> HostDevice:
    runs = holders.get(device["id"], [])
    memory, numa = device.get("memory", 0), device.get("numa", -1)
    used, used_mib = sum(milli for _, milli, _ in runs), sum(mib for _, _, mib in runs)
    return {
        "id": device["id"],
        "kind": device["kind"],
        "model": device.get("model") or None,
        "memory": write_mib(memory) if memory else None,
        "numa": numa if numa >= 0 else None,
        "link_group": device.get("link_group") or None,
        "part_of": device.get("of") or None,
        "excludes": list(device.get("excludes", ())),
        "state": _state(device, listed, disabled),
        "used": write_milli(used),
        "memory_used": write_mib(used_mib) if used_mib else None,
        "runs": [each for each, _, _ in runs],
    }


def _state(device: dict[str, Any], listed: bool, disabled: dict[str, bool]) -> str:
    if not listed:
        return "GONE"
    if device["id"] in disabled:
        return "EMPTYING" if disabled[device["id"]] else "DISABLED"
    return "OK" if device.get("healthy", True) else "UNHEALTHY"


def host_cores(row: HostRow, holders: Holders) -> list[HostCores]:
    """The whole cores of a host by NUMA node, and which of them no run has for itself; a limited reader sees none."""
    if limits() is not None:
        return []
    nodes: dict[int, list[int]] = defaultdict(list)
    for number, node in enumerate(msgspec.json.decode(row.cores)):
        nodes[node].append(number)
    return [
        {"numa": node, "cores": len(numbers), "free": [each for each in numbers if f"{CORE}{each}" not in holders]}
        for node, numbers in sorted(nodes.items())
    ]
