"""Overrides in records of their own, the chunks: what is in one, and what names it."""

import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache

from events.acceptance import digest
from events.codec import MARKER, CodecError, decode, encode
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.topics import FACT_BYTES_MAX

DECODED = 32
"""So many chunks are held decoded by whoever reads them."""
Chunks = Callable[[bytes], JobSubmitted]
"""The overrides in the chunk with a name, as a job has them. Raises `KeyError`."""


def upload(overrides: JobSubmitted) -> OverridesUploaded:
    """The record with the overrides of a job."""
    return OverridesUploaded(content=zlib.compress(encode(overrides)))


def name_of(upload: OverridesUploaded) -> bytes:
    """The name of a chunk."""
    return digest(upload.content)


def read(content: bytes) -> JobSubmitted | None:
    """The overrides in a chunk; None: it holds none, or more than one may."""
    unpacked = zlib.decompressobj()
    try:
        value = unpacked.decompress(content, FACT_BYTES_MAX)
        job = decode(value) if unpacked.eof and value[:2] == MARKER else None
    except (zlib.error, CodecError):
        return None
    return job if isinstance(job, JobSubmitted) else None


def reader(contents: Mapping[bytes, bytes]) -> Chunks:
    """Reads chunks whose contents are there by name, and remembers the last ones."""

    @lru_cache(DECODED)
    def found(name: bytes) -> JobSubmitted:
        overrides = read(contents[name])
        if overrides is None:
            raise KeyError(name)
        return overrides

    return found
