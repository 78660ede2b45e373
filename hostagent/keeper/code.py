"""The digest of the code that keepers are made of: agent and keepers of one digest understand each other."""

import hashlib
from pathlib import Path

BESIDE = (
    *("folders.py", "groups.py", "kernel.py", "kept_output.py", "mounts.py", "port_locks.py", "private_files.py"),
    "redaction.py",
)


def digest() -> str:
    """Reads it from the files as they are now."""
    own = Path(__file__).parent
    files = [*sorted(own.glob("*.py")), *(own.parent / name for name in BESIDE)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
