"""The needs of facts: for each kind that users and operators write through the API, the verb that lets somebody write
it, and what it is about.

`paceline/audit/rules.py` has the same a second time, on purpose; a test compares both.
"""

from enum import StrEnum
from typing import NamedTuple

from events.records import jobs, pools
from events.records.base import Event
from events.records.hosts import (
    HostClearRequested,
    HostDeviceRequested,
    HostInvited,
    HostLossConfirmed,
    HostPoolAssigned,
    HostPoolDefined,
    HostPoolMoveRequested,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsDrainRequested,
    HostsResumeRequested,
    HostTaintRequested,
    MaintenanceActionRequested,
    MaintenanceRequested,
    MaintenanceWindowRemoved,
    MaintenanceWindowSet,
)
from events.roles import Verb


class Over(StrEnum):
    """The thing that a fact is about, in whose pool a role is needed."""

    CELL = "cell"
    """All of the cell: the pool `/`."""
    POOL = "pool"
    """The pool that the fact names."""
    ABOVE = "above"
    """The pool above that one."""
    JOB = "job"
    """The job that it names, in its pool; it may be one's own."""


class Need(NamedTuple):
    """The verb that a fact needs, and over what."""

    verb: Verb
    over: Over


_CHANGES, _HOSTS, _ACCESS = Need(Verb.CHANGE, Over.JOB), Need(Verb.HOSTS, Over.CELL), Need(Verb.ACCESS, Over.CELL)
_SETTINGS, _POOLS = Need(Verb.SETTINGS, Over.CELL), Need(Verb.POOLS, Over.ABOVE)
NEEDS: dict[type[Event], Need] = {
    jobs.JobSubmitted: Need(Verb.SUBMIT, Over.POOL),
    jobs.JobUpdateRequested: _CHANGES,
    jobs.JobActionRequested: _CHANGES,
    jobs.JobStopRequested: _CHANGES,
    jobs.JobPriorityRequested: _CHANGES,
    jobs.JobReopenRequested: _CHANGES,
    jobs.ImagePrefetchRequested: _CHANGES,
    jobs.OverridesUploaded: _CHANGES,
    jobs.VolumeRemovalRequested: Need(Verb.VOLUMES, Over.JOB),
    jobs.SlaGroupDefined: _SETTINGS,
    pools.PoolDefined: _POOLS,
    pools.PoolRemoved: _POOLS,
    pools.CellConfigured: _SETTINGS,
    pools.LockdownSet: Need(Verb.LOCKDOWN, Over.POOL),
    pools.RebalanceRequested: _HOSTS,
    pools.RoleBound: _ACCESS,
    pools.RoleUnbound: _ACCESS,
    pools.TokenIssued: _ACCESS,
    pools.TokenRevoked: _ACCESS,
    **dict.fromkeys(
        (
            *(HostClearRequested, HostInvited, HostLossConfirmed, HostRemovalRequested, HostTaintRequested),
            *(HostsCordonRequested, HostsDrainRequested, HostsResumeRequested),
            *(MaintenanceActionRequested, MaintenanceRequested, MaintenanceWindowRemoved, MaintenanceWindowSet),
            *(HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested, HostDeviceRequested),
        ),
        _HOSTS,
    ),
}
"""The needs by kind of fact."""
