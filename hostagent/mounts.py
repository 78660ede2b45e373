"""Mounts of a process and its children alone. For agent and keepers: it imports nothing but the standard library."""

import ctypes
import os

_CLONE_NEWNS, _MS_REC, _MS_SLAVE, _MNT_DETACH = 0x0002_0000, 0x4000, 0x8_0000, 2
HYBRID = "/sys/fs/cgroup/unified"


def own_mounts() -> None:
    """Gives the calling process mounts of its own, which end with it and its children: nobody has to clear them up. A
    v2 hierarchy beside those of v1 isn't among them: crun refuses to work where that has a controller, though it is
    told to leave control groups alone. Raises `OSError`.
    """
    _checked(_libc().unshare(_CLONE_NEWNS), "mounts of its own")
    _checked(_libc().mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "/")
    if os.path.exists(f"{HYBRID}/cgroup.procs"):
        unmount(HYBRID)


def mount_overlay(lower: str, over: str, view: str) -> None:
    """Mounts at `view` a writable view of a root that stays as it is; what is written goes below the folder `over`.
    Raises `OSError`.
    """
    upper, work = f"{over}/upper", f"{over}/work"
    for folder in (over, upper, work):
        os.makedirs(folder, exist_ok=True)
    status = os.stat(lower)
    os.chown(upper, status.st_uid, status.st_gid)
    os.chmod(upper, status.st_mode & 0o7777)  # the root of the view has that of `upper`
    options_by_name = {"lowerdir": lower, "upperdir": upper, "workdir": work}
    options = ",".join(f"{name}={_escaped(path)}" for name, path in options_by_name.items())
    _checked(_libc().mount(b"overlay", view.encode(), b"overlay", 0, options.encode()), view)


def unmount(path: str) -> None:
    """Takes a mount away, at once for new users, and for the others when they end. Raises `OSError`."""
    _checked(_libc().umount2(path.encode(), _MNT_DETACH), path)


def _escaped(path: str) -> str:
    for each in ("\\", ":", ","):
        path = path.replace(each, f"\\{each}")
    return path


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, path: str) -> None:
    if result:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)
