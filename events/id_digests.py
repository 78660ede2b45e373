"""Digests that stand for ids of jobs, where the ids themselves need not be read again."""

from functools import lru_cache

from events.acceptance import digest

DIGEST_BYTES = 16
KNOWN = 4096
"""So many are remembered: that of a job is asked for several times while it is submitted."""


@lru_cache(KNOWN)
def job_digest(job_id: str) -> bytes:
    """The first 16 bytes of the BLAKE2b-256 of an id, as JobsForgotten names it."""
    return digest(job_id.encode())[:DIGEST_BYTES]


def split(digests: bytes) -> list[bytes]:
    """The digests that stand one after another, as in JobsForgotten."""
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
