"""Whether tasks of a specification would fit on no host, even an empty one: what its submitter is warned of."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from operator import itemgetter
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from sqlalchemy import Connection

from events.abilities import needed
from events.codes import Code
from events.conditions import EXCLUSIVE, MEETS, exclusive_names, first_unmet
from events.override_chunks import Chunks
from events.reasons import kind_of
from events.records.jobs import JobSubmitted
from events.records.parts import Constraint, PlacementRules
from events.resources import Kinds
from events.taints import is_tolerated, text_of
from events.task_overrides import instance_of, override_keys
from events.words import plural
from paceline.client.models import FitWarning
from projections.queries.hosts_there import OFFERS
from projections.queries.resources import kinds_of
from projections.queries.sentences import amounts
from projections.queries.unknown_attributes import attribute_warnings
from projections.queries.wanted_neighbours import affinity_warnings
from projections.views.reader import rows_as_text

LOOKED_MAX = 100
"""So many different contents of a job are looked at."""
_OFFERED = f"""
    SELECT attributes, taints, tainted, capacity, sizes, port_first, port_last, host_id, devices, cores, disabled
    FROM main.hosts WHERE {OFFERS}
"""


_PORTS = ""
"""Stands for ports among the names of resources, of which none is empty."""


class _Offer(NamedTuple):
    """The offer of a host: its attributes, amounts by resource, how many ports, and its devices and cores."""

    attributes: dict[str, str]
    taints: dict[str, str]
    amounts: Mapping[str, int]
    ports: int
    host_id: str
    devices: tuple[str, str, str]
    """As `OfferedDevices`."""


def warnings(connection: Connection, wanted: JobSubmitted, chunk: Chunks) -> list[FitWarning]:
    """A code and a sentence for each way in which instances would find no place whoever leaves; `chunk` reads the
    overrides.
    """
    kinds, found = kinds_of(connection), Counter[tuple[Code, str]]()
    counts = _counts(wanted, chunk)
    offers = _offers(connection, kinds)  # read no further than to the first where a job of one shape fits
    hosts = offers if len(counts) == 1 else list(offers)
    for key, count in counts[:LOOKED_MAX]:
        if why := _why(instance_of(wanted, key, chunk), hosts, kinds):
            found[why] += count
    tasks = "its task on each host" if wanted.kind == "daemon" else ""
    nowhere: list[FitWarning] = [
        {"code": code, "message": f"{tasks or plural(count, 'instance')} would fit on no host: {text}"}
        for (code, text), count in found.items()
    ]
    limited = [] if nowhere or len(counts) > 1 else _limit_warnings(wanted, _offers(connection, kinds), kinds)
    unknown = attribute_warnings(wanted.rules, (each.attributes for each in _offers(connection, kinds)))
    return [*nowhere, *limited, *unknown, *affinity_warnings(connection, wanted)]


def _limit_warnings(job: JobSubmitted, offers: Iterable[_Offer], kinds: Kinds) -> list[FitWarning]:
    """Warns where all hosts that match, with as many tasks of the job each as they may have, hold fewer than it has."""
    limit = job.rules.host_limit if job.rules is not None else 0
    if not limit or job.kind == "daemon":
        return []
    hosts = 0
    for offer in offers:
        hosts += _why(job, [offer], kinds) is None
        if hosts * limit >= job.instances:
            return []
    where = f"{plural(hosts, 'host')} would take {limit} each (`host_limit`)"
    text = f"{hosts * limit} of {plural(job.instances, 'instance')} would find a place: {where}"
    return [{"code": Code.HOST_LIMIT_REACHED, "message": text}] if hosts else []


def _counts(job: JobSubmitted, chunk: Chunks) -> list[tuple[int, int]]:
    """Counts the instances that have each override key."""
    if job.instances and not job.overrides and not job.chunks:
        return [(0, job.instances)]
    keys, counts = np.unique(override_keys(job, np.arange(job.instances), chunk), return_counts=True)
    return list(zip(keys.tolist(), counts.tolist(), strict=True))


def _offers(connection: Connection, kinds: Kinds) -> Iterator[_Offer]:
    """The offers of the hosts that aren't lost and have made one."""
    with closing(rows_as_text(connection, _OFFERED)) as rows:
        for attributes, own, others, capacity, sizes, first, last, host_id, *devices in rows:
            offered = kinds.offered(msgspec.json.decode(capacity), msgspec.json.decode(sizes))
            amount_of = dict(zip(kinds.names, offered, strict=True))
            taints = msgspec.json.decode(own) | msgspec.json.decode(others)
            names, cores, disabled = devices
            ports = last - first + 1
            yield _Offer(msgspec.json.decode(attributes), taints, amount_of, ports, host_id, (names, cores, disabled))


def _why(own: JobSubmitted, hosts: Iterable[_Offer], kinds: Kinds) -> tuple[Code, str] | None:
    """Why tasks fit nowhere by any of their requests; None: they fit on a host, or there is none."""
    rules = own.rules
    if rules is None or not rules.alternatives:
        return _why_not(own, hosts, kinds)
    hosts, why = list(hosts), list[tuple[Code, str]]()
    for each in rules.alternatives:
        wants = replace(rules, devices=each.devices, devices_within=each.devices_within, cores=each.cores)
        resources = {amount.name: amount.amount for amount in each.resources}
        one = _why_not(replace(own, resources=resources, rules=wants), hosts, kinds)
        if one is None:
            return None
        why.append(one)
    (code, text), *others = why
    return code, text + "; nor would it by another request of `any_of`" * bool(others)


def _why_not(own: JobSubmitted, hosts: Iterable[_Offer], kinds: Kinds) -> tuple[Code, str] | None:
    """The same for tasks that have one request."""
    conditions = [*own.constraints, *(Constraint(attribute, "exists", ()) for attribute in needed(own))]
    tolerations = own.rules.tolerations if own.rules is not None else ()
    need = {name: amount for name, amount in own.resources.items() if name not in kinds.licences}
    lacks = _device_lacks(need, own.rules)
    need |= {_PORTS: len(own.ports)} if own.ports else {}
    most = dict[str, int]()
    there, matching = False, False
    names, kept_away, exclusive = set[str](), set[str](), False
    nearest: tuple[int, str] | None = None
    for host in hosts:
        there = True
        names |= host.attributes.keys()
        if first_unmet(conditions, host.attributes) != MEETS:
            continue
        offered = {name: host.ports if name == _PORTS else host.amounts.get(name, 0) for name in need}
        if not all(amount <= offered[name] for name, amount in need.items()):
            matching = True
            most = {name: max(most.get(name, 0), amount) for name, amount in offered.items()}
        elif lack := lacks(host):
            nearest = max(nearest or (-1, ""), lack, key=itemgetter(0))
        elif taints := [each for each in host.taints.items() if not is_tolerated(*each, tolerations)]:
            kept_away.add(text_of(*min(taints)))
        elif (mark := host.attributes.get(EXCLUSIVE)) is not None and mark not in exclusive_names(conditions):
            exclusive = True
        else:
            return None
    if not there:
        return None
    if nearest is not None and not (kept_away or exclusive):
        return Code.NEVER_FITS, f"{kind_of(Code.NO_DEVICES_FIT).sentence.format(tasks='it')}; nearest {nearest[1]}"
    if kept_away or exclusive or not matching:
        return _unmatched(conditions, names, kept_away, exclusive)
    return Code.NEVER_FITS, _too_large(need, most, kinds)


def _device_lacks(need: Mapping[str, int], rules: PlacementRules | None) -> Callable[[_Offer], tuple[int, str] | None]:
    """Tells how near a host is that lacks devices for a task, and which it lacks; None: none."""
    asks_cores = rules is not None and (rules.cores or rules.devices)
    if not asks_cores and not need.keys() - {"cpu", "memory", "disk"}:
        return lambda host: None
    from projections.queries.device_fits import OfferedDevices, lack

    def lacks(host: _Offer) -> tuple[int, str] | None:
        there = lack(need, rules, OfferedDevices(*host.devices), host.amounts)
        return (there.close, f"{host.host_id}, {there.text}") if there is not None else None

    return lacks


def _too_large(need: dict[str, int], most: dict[str, int], kinds: Kinds) -> str:
    """Tells what no host has enough of. `most`: the most of each kind on a host, perhaps not the same one."""
    lacking = {name: amount for name, amount in need.items() if amount > most[name]}
    if not lacking:
        return f"it asks {_words(need, kinds)}, and none of those that match has all of that"
    there = _words({name: most[name] for name in lacking}, kinds)
    return f"it asks {_words(lacking, kinds)}, the most of those that match is {there}"


def _words(of: dict[str, int], kinds: Kinds) -> str:
    others = {name: amount for name, amount in of.items() if name != _PORTS}
    parts = [amounts(others, kinds)] if others else []
    return ", ".join(parts + ([plural(of[_PORTS], "port")] if _PORTS in of else []))


def _unmatched(conditions: list[Constraint], names: set[str], kept_away: set[str], exclusive: bool) -> tuple[Code, str]:
    """Why no host is for tasks with these conditions; `names`: the attributes that hosts have, `kept_away`: taints of
    hosts that meet all, `exclusive`: whether such are for others.
    """
    those = "those that meet its constraints and are large enough"
    if kept_away:
        which = ", ".join(sorted(kept_away)[:3])
        return (
            Code.HOSTS_TAINTED,
            f"{those} have taints that it doesn't tolerate: {which}",
        )
    if exclusive:
        return (
            Code.HOSTS_EXCLUSIVE,
            f"{those} are exclusive, and it doesn't name them",
        )
    unknown = sorted({one.attribute for one in conditions if one.attribute and one.attribute not in names})
    more = f"; no host has an attribute {', '.join(unknown)}" if unknown else ""
    return Code.CONSTRAINT_MISMATCH, f"none meets its constraints{more}"
