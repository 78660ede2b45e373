"""The files that pages load: held in memory, compressed once, under a path that changes with their content."""

import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """A file, as it is and compressed."""

    kind: str
    content: bytes
    packed: bytes


def _found(folder: Traversable, prefix: str = "") -> dict[str, Asset]:
    out: dict[str, Asset] = {}
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        name = prefix + entry.name
        kind = KINDS.get(name.rpartition(".")[2])
        if entry.is_dir():
            out |= _found(entry, name + "/")
        elif kind:
            content = entry.read_bytes()
            out[name] = Asset(kind, content, gzip.compress(content, 9, mtime=0))
    return out


@lru_cache(1)
def assets() -> dict[str, Asset]:
    """All files by their path below static/."""
    return _found(files("projections.ui") / "static")


@lru_cache(1)
def digest() -> str:
    """The digest that tells these files from those of another version."""
    hasher = hashlib.sha256()
    for name, asset in assets().items():
        hasher.update(name.encode() + b"\0" + asset.content)
    return hasher.hexdigest()[:12]


def href(name: str) -> str:
    """The address of a file."""
    if name not in assets():
        raise KeyError(name)
    return f"/ui/static/{digest()}/{name}"


async def serve(request: Request) -> Response:
    """The file that a path names; an old digest gets today's, and may not keep it."""
    asset = assets().get(request.path_params["name"])
    if asset is None:
        raise HTTPException(404, "there is no such file")
    fresh = request.path_params["digest"] == digest()
    headers = {"Cache-Control": FOREVER if fresh else "no-store", "Vary": "Accept-Encoding"}
    headers["X-Content-Type-Options"] = "nosniff"
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.content, headers=headers, media_type=asset.kind)
    return Response(asset.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.kind)
