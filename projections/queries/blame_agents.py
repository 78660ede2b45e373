"""Writers of facts that no user writes: the agents of hosts, and the gateways that hear them."""

from paceline.client.models import ActorName
from projections.access.limits import limits
from projections.queries.blame_fields import Target
from projections.queries.why import Record
from projections.views.mentions import Window, mentioned

OF_AGENTS = frozenset(
    (
        *("HostConnected", "HostBack", "HostOffered", "HostHealthReported", "HostInventory", "HostImages"),
        *("HostVolumes", "HostsLoaded", "ImagePrefetched", "RunsReported"),
    )
)
OF_GATEWAYS = frozenset(("HostSilent",))


def writer(record: Record, target: Target) -> ActorName | None:
    """The agent or gateway that wrote a fact; None: somebody else did, or it is no fact of a host."""
    kind = type(record.event).__name__
    how = "agent" if kind in OF_AGENTS else "gateway" if kind in OF_GATEWAYS else ""
    if not how:
        return None
    host_id = _host(record, target)
    name = f"{how} of {host_id}" if host_id else f"{how} of a host"
    return {
        "name": name, "subject": f"host/{host_id}" if host_id else "", "how": how, "credential": "", "binding": None,
        "read_to": None, "address": "", "reason": "", "verified": False,
    }  # fmt: skip


def _host(record: Record, target: Target) -> str:
    """The host that a fact is about; empty: several, or one that who asks may not see."""
    event = record.event
    if target.kind == "host":
        return target.name
    host_ids = getattr(event, "host_ids", None) or (getattr(event, "host_id", ""),)
    if record.run is not None and hasattr(event, "host_array") and event is not None:
        job_id, instance, run = record.run
        rows = mentioned(event).rows(job_id, Window(instance, instance, run, run))
        if len(rows):
            return str(host_ids[int(event.host_array[rows[0]])])
    return str(host_ids[0]) if len(host_ids) == 1 and limits() is None else ""
