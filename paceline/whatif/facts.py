"""The rule of each kind of fact in a branch: it is replayed at its time, made by the branch's hosts, or left out.

A fact of a user about a run that goes on otherwise in the branch is moved with that run.
"""

from enum import StrEnum


class Rule(StrEnum):
    """The rule of a branch for a kind of fact."""

    REPLAYED = "replayed"
    """At the time at which it was recorded."""
    ANEW = "made anew"
    """Hosts say it of what runs on them, which the branch decides."""
    MOVED = "moved"
    """As long after the start of its job as in history, where it is about run time."""
    LEFT_OUT = "left out"
    """No machine decides by it."""


RULES: dict[str, Rule] = {
    "CellConfigured": Rule.REPLAYED,
    "ExecClosed": Rule.LEFT_OUT,
    "ExecOpened": Rule.LEFT_OUT,
    "GatewayBeat": Rule.REPLAYED,
    "HostBack": Rule.REPLAYED,
    "HostCertified": Rule.REPLAYED,
    "HostClearRequested": Rule.REPLAYED,
    "HostConnected": Rule.REPLAYED,
    "HostDeviceRequested": Rule.REPLAYED,
    "HostHealthReported": Rule.REPLAYED,
    "HostImages": Rule.REPLAYED,
    "HostInventory": Rule.ANEW,
    "HostInvited": Rule.REPLAYED,
    "HostLossConfirmed": Rule.REPLAYED,
    "HostOffered": Rule.REPLAYED,
    "HostPoolAssigned": Rule.REPLAYED,
    "HostPoolDefined": Rule.REPLAYED,
    "HostPoolMoveRequested": Rule.REPLAYED,
    "HostRemovalRequested": Rule.REPLAYED,
    "HostSilent": Rule.REPLAYED,
    "HostTaintRequested": Rule.REPLAYED,
    "HostVolumes": Rule.LEFT_OUT,
    "HostsCordonRequested": Rule.REPLAYED,
    "HostsDrainRequested": Rule.REPLAYED,
    "HostsLoaded": Rule.REPLAYED,
    "HostsResumeRequested": Rule.REPLAYED,
    "ImagePrefetchRequested": Rule.REPLAYED,
    "ImagePrefetched": Rule.ANEW,
    "JobActionRequested": Rule.REPLAYED,
    "JobPriorityRequested": Rule.REPLAYED,
    "JobReopenRequested": Rule.REPLAYED,
    "JobStopRequested": Rule.MOVED,
    "JobSubmitted": Rule.REPLAYED,
    "JobUpdateRequested": Rule.REPLAYED,
    "LockdownSet": Rule.REPLAYED,
    "MaintenanceActionRequested": Rule.REPLAYED,
    "MaintenanceRequested": Rule.REPLAYED,
    "MaintenanceWindowRemoved": Rule.REPLAYED,
    "MaintenanceWindowSet": Rule.REPLAYED,
    "OverridesUploaded": Rule.REPLAYED,
    "PoolDefined": Rule.REPLAYED,
    "PoolRemoved": Rule.REPLAYED,
    "RebalanceRequested": Rule.REPLAYED,
    "RoleBound": Rule.REPLAYED,
    "RoleUnbound": Rule.REPLAYED,
    "RunsReported": Rule.ANEW,
    "SecretDeleted": Rule.LEFT_OUT,
    "SecretPut": Rule.LEFT_OUT,
    "SlaGroupDefined": Rule.REPLAYED,
    "TokenIssued": Rule.REPLAYED,
    "TokenRevoked": Rule.REPLAYED,
    "TokenUsed": Rule.LEFT_OUT,
    "VolumeRemovalRequested": Rule.REPLAYED,
}
"""By the name of the record."""
