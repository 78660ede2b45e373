"""The identity of the machine of an agent: of two agents with one host id a gateway tells them apart by it.

The id is drawn when an agent first uses its folder and kept there, bound to what differs where a folder is copied: the
id of the system and the folder's inode. An image of the whole machine copies those too; there the boot differs.
"""

import hashlib
import platform
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from hostagent import kernel, private_files
from hostagent.messages import MachineIdentity
from hostagent.run_record import read_json

SYSTEM_ID = Path("/etc/machine-id")


class StoredIdentity(msgspec.Struct):
    """The id, and a digest of what it is bound to."""

    id: str = ""
    bound: str = ""


def identity(folder: Path, system_id: Path = SYSTEM_ID) -> MachineIdentity:
    """The machine of the agent of a folder. A folder that was copied gets another id. Raises `OSError`."""
    path, stands = folder / "machine.json", folder.stat()
    system = ""
    with suppress(OSError):
        system = system_id.read_text().strip()
    bound = _digest(system, stands.st_ino)
    stored = read_json(path, StoredIdentity) or StoredIdentity()
    if not stored.id or stored.bound != bound:
        stored = StoredIdentity(secrets.token_hex(8), bound)
        private_files.write_durably(str(path), msgspec.json.encode(stored).decode())
    return MachineIdentity(stored.id, _digest(kernel.boot_id(), stands.st_dev), platform.node()[:100])


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
