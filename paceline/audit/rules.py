"""The rule of roles a second time, written from the records: what each role lets its holder write where.

It is on purpose no import of `events.roles`: what an audit is to find is a fault of the rule too. A test compares both.
"""

from typing import NamedTuple

EVERYBODY = "everybody"
ROOT = "/"

_OF_OWN = "change exec copy port-forward secrets volumes"
WRITES: dict[str, str] = {
    "viewer": "",
    "submitter": "submit",
    "pool-admin": f"submit pools {_OF_OWN}",
    "operator": "hosts settings lockdown snapshots volumes",
    "auditor": "",
    "admin": f"submit pools hosts settings lockdown snapshots access {_OF_OWN}",
}
"""The verbs of each role, of those that write."""
OWN: dict[str, str] = {"submitter": _OF_OWN}
"""The verbs that it has for its holder's own jobs and secrets alone."""


class Need(NamedTuple):
    """The need of a kind of fact: one of these verbs, `over` the whole `cell`, the `pool` that it names, the pool
    `above` that one, the pool of its `job` or `secret`, or `any` pool, where it doesn't say which.
    """

    verbs: str
    over: str


_JOB, _HOSTS, _ACCESS = Need("change", "job"), Need("hosts", "cell"), Need("access", "cell")
NEEDS: dict[str, Need] = {
    "JobSubmitted": Need("submit", "pool"),
    "JobUpdateRequested": _JOB,
    "JobActionRequested": _JOB,
    "JobStopRequested": _JOB,
    "JobPriorityRequested": _JOB,
    "JobReopenRequested": _JOB,
    "ImagePrefetchRequested": _JOB,
    "OverridesUploaded": Need("submit change", "any"),
    "SlaGroupDefined": Need("settings", "cell"),
    "VolumeRemovalRequested": Need("volumes", "job"),
    "ExecOpened": Need("exec copy port-forward", "job"),
    "SecretPut": Need("secrets", "pool"),
    "SecretDeleted": Need("secrets", "secret"),
    "PoolDefined": Need("pools", "above"),
    "PoolRemoved": Need("pools", "above"),
    "CellConfigured": Need("settings", "cell"),
    "LockdownSet": Need("lockdown", "pool"),
    "RebalanceRequested": _HOSTS,
    "RoleBound": _ACCESS,
    "RoleUnbound": _ACCESS,
    "TokenIssued": _ACCESS,
    "TokenRevoked": _ACCESS,
    "HostClearRequested": _HOSTS,
    "HostDeviceRequested": _HOSTS,
    "HostInvited": _HOSTS,
    "HostLossConfirmed": _HOSTS,
    "HostPoolAssigned": _HOSTS,
    "HostPoolDefined": _HOSTS,
    "HostPoolMoveRequested": _HOSTS,
    "HostRemovalRequested": _HOSTS,
    "HostTaintRequested": _HOSTS,
    "HostsCordonRequested": _HOSTS,
    "HostsDrainRequested": _HOSTS,
    "HostsResumeRequested": _HOSTS,
    "MaintenanceActionRequested": _HOSTS,
    "MaintenanceRequested": _HOSTS,
    "MaintenanceWindowRemoved": _HOSTS,
    "MaintenanceWindowSet": _HOSTS,
}
"""The needs of facts of users and operators, by kind."""
WITHOUT_NEED = frozenset(("TokenUsed", "HostCertified"))
"""Kinds with an actor that parts of a cell write by themselves."""
OF_RUNS = frozenset(("JobUpdateRequested", "OverridesUploaded"))
"""Kinds that the token of a run may write, about its own job."""


def lets(role: str, need: Need, own: bool) -> bool:
    """Whether a role lets its holder write a fact that has a need; `own`: it is about something of the holder's."""
    may = set(WRITES.get(role, "").split())
    if own:
        may |= set(OWN.get(role, "").split())
    return not may.isdisjoint(need.verbs.split())


def is_below(path: str, pool: str) -> bool:
    """Whether a path is that of a pool, or of one below it."""
    return pool in (ROOT, path) or path.startswith(f"{pool}/")


def above(path: str) -> str:
    """The pool above a pool."""
    return path.rpartition("/")[0] or ROOT
