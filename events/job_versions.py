"""The specification in a JobUpdateRequested or a JobReopenRequested."""

from events.actors import body_without_actor
from events.codec import MARKER, CodecError, body, decode
from events.records.jobs import JobReopenRequested, JobSubmitted, JobUpdateRequested


def wanted_spec(event: JobUpdateRequested | JobReopenRequested) -> JobSubmitted | None:
    """The specification that a user wants a job to have; None: the bytes hold none. It is read like the record that it
    stands in: by the schema that wrote it.
    """
    try:
        spec = decode(event.spec) if event.spec[:2] == MARKER else None
    except CodecError:
        return None
    return spec if isinstance(spec, JobSubmitted) else None


def wanted_content(event: JobUpdateRequested | JobReopenRequested, spec: JobSubmitted | None) -> bytes:
    """The bytes by which two specifications are equal where their clients give no hash; `spec`: what they hold."""
    return body(event.spec) if spec is None else body_without_actor(event.spec, spec.actor)
