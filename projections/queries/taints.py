"""The taint that keeps tasks of a job away: on which host it is, and who takes it off."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, text

from events.conditions import MEETS, first_unmet
from events.records.jobs import JobSubmitted
from events.taints import is_tolerated, text_of
from projections.access.limits import Names, limits
from projections.queries.hosts_there import OFFERS
from projections.queries.versions import submissions

_TAINTED = text(
    f"SELECT host_id, attributes, taints, tainted FROM main.hosts WHERE {OFFERS} "
    "AND (taints <> '{}' OR tainted <> '{}') ORDER BY host_id"
)


def taints_of(connection: Connection, offsets: Sequence[int]) -> dict[str, str]:
    """By job the first matching host with a taint that it doesn't tolerate, of the submissions at some offsets."""
    return {job_id: _first(connection, job) for job_id, job in submissions(connection, offsets).items()}


def _first(connection: Connection, job: JobSubmitted) -> str:
    names = Names(connection, of) if (of := limits()) is not None else None
    tolerations = job.rules.tolerations if job.rules is not None else ()
    for host_id, attributes, own, others in connection.execute(_TAINTED):
        if first_unmet(job.constraints, msgspec.json.decode(attributes)) != MEETS:
            continue
        by_operators: dict[str, str] = msgspec.json.decode(others)
        every = msgspec.json.decode(own) | by_operators
        for key, value in sorted(every.items()):
            if not is_tolerated(key, value, tolerations):
                name = names.host(host_id) if names else host_id
                where = f"host {host_id}" if name == host_id else name
                off = f"`paceline host taint {host_id} {key} --remove` takes it off"
                off = off if name == host_id else "an operator takes it off"
                way = off if key in by_operators else "its agent's settings give it"
                return f"{where} has the taint {text_of(key, value)}, {way}"
    return ""
