"""Versions: what a specification says, in digests, and what may differ from one version to the next."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from events.acceptance import digest
from events.bounds import INSTANCES_MAX
from events.columns import I64, ints, longs, pack_ints, pack_longs, spread
from events.records.parts import TaskShape
from events.resources import in_order
from events.strategies import PACK, STRATEGIES
from events.task_overrides import JOB_FIELDS, changes_of
from processors.lifecycle.alike import FIELDS, NAMES, once
from processors.lifecycle.job_rules import run_rules
from processors.lifecycle.rows import OverrideRow, SubmittedRow
from processors.lifecycle.shapes import all_constraints, constraint_parts, fixed_ports, rules_part
from processors.lifecycle.stateful import STATEFUL
from processors.lifecycle.updates.rows import PROGRESS_DEADLINE_MS, AskedRow, PolicyRow, VersionRow
from processors.state.record_rows import ConstraintRow

KEPT = 10
"""So many newest versions are kept, and those that runs are of."""
FIXED = ("pool", "kind", "preemptible", "revocable", "controller", "on_preempt", "gang_min")
"""Fields that no update changes."""
OF_DAEMON = ("constraints", "rules")
"""Nor of a daemon: placement keeps who matches it."""
OVERRIDES = ("overrides", "override_first", "override_count", "override")
CONDITIONED = ("constraints", "overrides")
"""Fields that hold conditions."""
OF_BATCH = (
    *("instances", "priority", "max_runtime_ms", "max_running", "update", "description", "labels", "owner"),
    *OVERRIDES,
)
"""Fields that an update of a batch job may change; overrides only of instances that haven't begun."""
PINNED = ("isolation", "secrets")
"""Fields of which the API says more than the user: what a tag stood for, which version was the newest."""
CONTENT = frozenset(FIELDS) - JOB_FIELDS
"""Fields whose change needs another run."""
ASKED = frozenset({"resources", "ports", "constraints", "strategy", "rules"})
"""Fields that pool and host hear of."""
UNNAMED = tuple(name for name in FIELDS if name not in NAMES)
_pack = msgspec.msgpack.Encoder(order="sorted").encode


def version_row(job: SubmittedRow, spec_hash: bytes, completed: bool = False) -> VersionRow:
    """The version that a specification makes."""
    alike = _alike(job)
    digests = alike.fields | _digests(job, NAMES)
    return VersionRow(
        {name: digests[name] for name in FIELDS if name in digests},
        alike.contents,
        alike.asks,
        alike.ask_index,
        alike.first,
        alike.count,
        alike.override,
        alike.rules,
        alike.instances,
        alike.priority,
        alike.max_unavailable,
        alike.policy,
        spec_hash,
        completed,
        alike.sla,
    )


@once(UNNAMED)
def _alike(job: SubmittedRow) -> VersionRow:
    """The version of all jobs whose tasks are alike, without what each says."""
    plain = msgspec.structs.replace(job, resources=in_order(job.resources))
    values = _values(plain, FIELDS)
    asks = {_asked(plain): 0}
    contents, ask_index = [_content(values)], [0]
    for override in job.overrides:
        changes = changes_of(plain, override)
        if "resources" in changes:
            changes["resources"] = in_order(changes["resources"])
        contents.append(_content({**values, **changes}))
        other = ASKED & changes.keys()
        ask_index.append(asks.setdefault(_asked(msgspec.structs.replace(plain, **changes)), len(asks)) if other else 0)
    return VersionRow(
        fields=_digests(job),
        contents=pack_longs(contents),
        asks=tuple(asks),
        ask_index=pack_ints(ask_index),
        first=job.override_first,
        count=job.override_count,
        override=job.override,
        rules=run_rules(job),
        instances=INSTANCES_MAX if job.kind == "daemon" else job.instances,
        priority=job.priority,
        max_unavailable=job.max_unavailable,
        policy=policy_for(job.kind, job.update or PolicyRow()),
        spec_hash=b"",
        sla=job.sla,
    )


def policy_for(kind: str, policy: PolicyRow) -> PolicyRow:
    """The policy of an update of a job of a kind: instances of a stateful one are updated one after another."""
    return msgspec.structs.replace(policy, batch=1) if kind == STATEFUL else policy


def pinned_anew(before: VersionRow, after: VersionRow) -> bool:
    """Whether what users said alike stands for something else now."""
    return any(before.fields.get(name) != after.fields.get(name) for name in PINNED)


def contents(version: VersionRow, instances: int) -> I64:
    """For each instance a digest of all that its runs are made from."""
    digests: I64 = longs(version.contents)[_variants(version, instances)]
    return digests


def asks_of(version: VersionRow, instances: int) -> I64:
    """For each instance which of `asks` it has."""
    index: I64 = ints(version.ask_index)[_variants(version, instances)].astype(np.int64)
    return index


def _variants(version: VersionRow, instances: int) -> I64:
    """For each instance the number of its override plus 1; 0: it has none."""
    variants = np.zeros(instances, dtype=np.int64)
    first, count, override = ints(version.first), ints(version.count), ints(version.override)
    if len(first):
        instances_named = spread(first, count)
        there = instances_named < instances
        variants[instances_named[there]] = np.repeat(override.astype(np.int64), count)[there] + 1
    return variants


def asks_more(before: AskedRow, after: AskedRow) -> bool:
    """Whether an admission for what was asked before doesn't suffice."""
    had = dict(before.resources)
    return any(amount > had.get(name, 0) for name, amount in after.resources)


def task_shape(asks: AskedRow) -> TaskShape:
    """The shape of a task, as records have it."""
    amounts, constraints = in_order(dict(asks.resources)), constraint_parts(asks.constraints)
    return TaskShape(amounts, asks.ports, constraints, asks.strategy, asks.port_numbers, rules_part(asks.rules))


def fixed_change(before: VersionRow, after: VersionRow, kind: str) -> str:
    """The first field that differs and must not; empty: there is none."""
    changed = [name for name in FIELDS if before.fields.get(name) != after.fields.get(name)]
    fixed = FIXED + OF_DAEMON if kind == "daemon" else FIXED
    allowed = OF_BATCH if kind == "batch" else [name for name in FIELDS if name not in fixed]
    return next((name for name in changed if name not in allowed), "")


def _digests(job: SubmittedRow, names: Iterable[str] = UNNAMED) -> dict[str, bytes]:
    """A digest of each field that isn't empty, 0, false or null: one that a later release adds changes no version."""
    values = _values(job, names)
    if (policy := values.get("update")) and not policy.prefetch:  # as before there were these fields, the last two
        until = -2 if policy.progress_deadline_ms == PROGRESS_DEADLINE_MS else -1
        values["update"] = msgspec.structs.astuple(policy)[:until]
    return {
        name: digest(_pack(_as_before(value) if name in CONDITIONED else value))[:8]
        for name, value in values.items()
        if value
    }


def _values(job: SubmittedRow, names: Iterable[str]) -> dict[str, Any]:
    """The values of fields as versions compare them. Before 0.4 a job that named no strategy said that it packs: so no
    run ends where one version says so and another names none.
    """
    values = {name: getattr(job, name) for name in names}
    if "strategy" in values:
        values["strategy"] = job.strategy or STRATEGIES[PACK]
    return values


def _content(values: Mapping[str, Any]) -> int:
    content = {
        name: _as_before(value) if name == "constraints" else value
        for name, value in values.items()
        if value and name in CONTENT
    }
    return int.from_bytes(digest(_pack(content))[:8], "little", signed=True)


def _as_before(value: Any) -> Any:
    """Conditions as they were before they had parts and weights, where they have none, and overrides before they had
    rules; any other value as it is.
    """
    if isinstance(value, ConstraintRow):
        return msgspec.structs.astuple(value)[: None if value.parts or value.weight else 3]
    if isinstance(value, OverrideRow):
        value = msgspec.structs.astuple(value)[: None if value.rules else -1]
    return tuple(map(_as_before, value)) if isinstance(value, tuple) else value


def _asked(job: SubmittedRow) -> AskedRow:
    amounts = tuple(sorted(job.resources.items()))
    return AskedRow(amounts, len(job.ports), all_constraints(job), job.strategy, fixed_ports(job), job.rules)
