"""Containers of runs: OCI bundles for crun, with a root of their own, no capabilities and a filter of system calls.

The control group of a run is the agent's affair (see `groups`), so crun is told to leave those alone. It creates the
namespaces, mounts and the first process, and ends; the process belongs to whoever called it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from events.bounds import USER_NUMBER_MAX

OCI_VERSION = "1.0.2"
INIT = "/dev/init"
"""The first process of a container: it passes signals on and reaps orphans, which a program needn't know how to."""
INITS = ("/usr/bin/tini-static", "/sbin/tini-static")
SECCOMP_PROFILES = ("/usr/share/containers/seccomp.json", "/etc/containers/seccomp.json")
HOME = "/paceline"
"""In the container: `work` is the working folder of the run, `volumes/NAME` its volumes, `secrets/NAME` its secrets."""
TMP_BYTES = 64 << 20
"""The room of /tmp and /dev/shm, each: memory of the run."""
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MASKED = (
    *("/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware"),
)
_READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_NEVER = (
    *("add_key", "keyctl", "request_key", "io_uring_enter", "io_uring_register", "io_uring_setup", "ptrace"),
    *("mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "pivot_root", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "setns", "unshare", "userfaultfd", "process_vm_readv", "process_vm_writev"),
)
"""The common profile allows these; each was the way out of a container once, and batch and services do without."""
_CLONE_NEWUSER = 0x1000_0000
WORD_BYTES_MAX = 32 * os.sysconf("SC_PAGE_SIZE") - 1
"""The longest argument or variable that Linux gives to a program."""
ROWS_MAX = 1 << 20
"""Characters that are read of an image's file of users or groups."""
_FIELDS = 4
"""The fields that a row of users and one of groups have at least."""


class ContainerFault(Exception):
    """A container can't be made; the message says why."""


class User(NamedTuple):
    """Numbers inside the container."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class Container(NamedTuple):
    """All that a bundle is made of."""

    root: Path
    image: Mapping[str, Any]
    """The `config` of its image."""
    command: Sequence[str]
    """In place of what the image runs; empty: that."""
    env: Mapping[str, str]
    """Beside the image's, and before it."""
    user: str
    """NAME or UID, with :GROUP or :GID; empty: the image's."""
    work: Path
    volumes: Mapping[str, Path]
    hostname: str
    writable: bool
    own_network: bool
    """Without any interface but its own loopback; otherwise the host's."""
    devices: Sequence[str]
    open_files: int
    uid_map: tuple[int, int] | None
    """(first, number) of the host's uids and gids that a user namespace maps from 0 on; None: no such namespace."""
    seccomp: Mapping[str, Any]
    init: str
    secrets: str = ""
    """The folder of its secrets; empty: it has none."""
    view: Path | None = None
    """Where its root is mounted, once it starts, for it to write to; None: it has the one that all share."""


def bundle(container: Container) -> dict[str, Any]:
    """The `config.json` of a bundle. Raises `ContainerFault`."""
    image = container.image
    user = find_user(container.root, container.user or image.get("User") or "0")
    if container.uid_map is not None and max(user.uid, user.gid, *user.groups) >= container.uid_map[1]:
        raise ContainerFault(f"user {user.uid}:{user.gid} is beyond the {container.uid_map[1]} that this host maps")
    command = list(container.command) or [*(image.get("Entrypoint") or ()), *(image.get("Cmd") or ())]
    if not command:
        raise ContainerFault("the image says no command to run; give the job one")
    env = {**_parsed([PATH, f"HOME={HOME}/work", *(image.get("Env") or ())]), **container.env}
    variables = [f"{name}={value}" for name, value in env.items()]
    if (longest := max(len(os.fsencode(word)) for word in (*command, *variables))) > WORD_BYTES_MAX:
        raise ContainerFault(f"an argument or a variable of {longest} bytes; Linux takes {WORD_BYTES_MAX} at most")
    files = max(container.open_files, 1)
    return {
        "ociVersion": OCI_VERSION,
        "hostname": container.hostname,
        "process": {
            "args": [INIT, "-g", "--", *command],
            "env": variables,
            "cwd": image.get("WorkingDir") or f"{HOME}/work",
            "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups), "umask": 0o22},
            "noNewPrivileges": True,
            "capabilities": {},
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": files, "hard": files}] if container.open_files else [],
        },
        "root": {"path": str(container.view or container.root), "readonly": not container.writable},
        "mounts": [*_mounts(container)],
        "linux": {
            "namespaces": [{"type": each} for each in _namespaces(container)],
            **_maps(container.uid_map),
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READONLY),
            "devices": [_device(path) for path in container.devices],
            "seccomp": dict(container.seccomp),
        },
    }


def seccomp(path: str, machine: str) -> dict[str, Any]:
    """The filter of system calls for a process without capabilities, from the profile that podman and docker share.
    `machine`: as `os.uname` says. Raises `ContainerFault`.
    """
    try:
        profile = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise ContainerFault(f"there is no filter of system calls in {path}: {error}") from None
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    rules = []
    for rule in profile["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        if includes.get("caps") or arch not in includes.get("arches", [arch]) or arch in excludes.get("arches", ()):
            continue
        allows = rule["action"] == "SCMP_ACT_ALLOW"
        names = [name for name in rule["names"] if not (allows and (name in _NEVER or name in ("clone", "clone3")))]
        if names:
            rules.append(_rule(rule["action"], names, rule.get("args") or (), rule.get("errnoRet")))
    without_user = {"index": 0, "value": _CLONE_NEWUSER, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    rules.append(_rule("SCMP_ACT_ALLOW", ["clone"], [without_user], None))
    rules.append(
        _rule("SCMP_ACT_ERRNO", ["clone3"], (), 38)
    )  # its flags can't be looked into: libc falls back to clone
    kinds = [
        name
        for each in profile.get("archMap", ())
        if each["architecture"] == f"SCMP_ARCH_{machine.upper()}"
        for name in (each["architecture"], *(each.get("subArchitectures") or ()))
    ]
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 38),
        "architectures": kinds,
        "syscalls": rules,
    }


def find_user(root: Path, text: str) -> User:
    """The numbers of a user of an image, `USER[:GROUP]`, each a name or a number. Raises `ContainerFault`."""
    name, _, group = text.partition(":")
    groups = _rows(root, "etc/group", numbers=(2,))
    users = _rows(root, "etc/passwd", numbers=(2, 3))
    entry = next((each for each in users if name in (each[0], each[2])), None)
    if entry is None and not name.isdecimal():
        raise ContainerFault(f"the image knows no user {name!r}; name it by its number")
    faults = [number for number in (name, group) if number.isdecimal() and not is_user_number(number)]
    if faults:
        raise ContainerFault(f"the user {text!r} has a number beyond {USER_NUMBER_MAX}, which no host has")
    login, uid, gid = (entry[0], int(entry[2]), int(entry[3])) if entry else ("", int(name), 0)
    if not group:
        return User(uid, gid, tuple(int(each[2]) for each in groups if login and login in each[3].split(",")))
    row = next((each for each in groups if group in (each[0], each[2])), None)
    if row is None and not group.isdecimal():
        raise ContainerFault(f"the image knows no group {group!r}; name it by its number")
    return User(uid, int(row[2] if row else group))


def is_user_number(text: str) -> bool:
    """Whether it is the number of a user or a group."""
    return text.isdecimal() and len(text) <= len(str(USER_NUMBER_MAX)) and int(text) <= USER_NUMBER_MAX


def _rows(root: Path, name: str, numbers: Iterable[int]) -> list[list[str]]:
    """The whole rows of a file of users or groups; in an image it may be a link, which never leads out of its root."""
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        rows = [line.split(":") for line in file.read(ROWS_MAX).splitlines()]
    return [row for row in rows if len(row) >= _FIELDS and all(is_user_number(row[each]) for each in numbers)]


def _mounts(container: Container) -> Iterator[dict[str, Any]]:
    plain = ["nosuid", "nodev"]
    yield _mount("/proc", "proc", "proc", ["nosuid", "noexec", "nodev"])
    yield _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "noexec", "strictatime", "mode=755", "size=65536k"])
    pts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]
    yield _mount("/dev/pts", "devpts", "devpts", pts)
    yield _mount("/dev/shm", "tmpfs", "shm", [*plain, "noexec", "mode=1777", f"size={TMP_BYTES}"])
    yield _mount("/dev/mqueue", "mqueue", "mqueue", [*plain, "noexec"])
    yield _mount("/tmp", "tmpfs", "tmpfs", [*plain, "mode=1777", f"size={TMP_BYTES}"])
    yield _mount(HOME, "tmpfs", "tmpfs", [*plain, "noexec", "mode=755", "size=64k"])
    yield _mount(f"{HOME}/work", "bind", str(container.work), ["rbind", "rw", *plain])
    for name, folder in container.volumes.items():
        yield _mount(f"{HOME}/volumes/{name}", "bind", str(folder), ["rbind", "rw", *plain])
    if container.secrets:
        yield _mount(f"{HOME}/secrets", "bind", container.secrets, ["rbind", "ro", *plain, "noexec"])
    yield _mount(INIT, "bind", container.init, ["bind", "ro", *plain])
    if not container.own_network:
        for path in ("/etc/resolv.conf", "/etc/hosts"):
            if os.path.isfile(path) and (container.root / path[1:]).exists():
                yield _mount(path, "bind", path, ["bind", "ro", *plain, "noexec"])


def _mount(target: str, kind: str, source: str, options: Iterable[str]) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def _namespaces(container: Container) -> Iterator[str]:
    yield from ("pid", "ipc", "uts", "mount")
    if container.own_network:
        yield "network"
    if container.uid_map is not None:
        yield "user"


def _maps(uid_map: tuple[int, int] | None) -> dict[str, Any]:
    if uid_map is None:
        return {}
    first, number = uid_map
    one = [{"containerID": 0, "hostID": first, "size": number}]
    return {"uidMappings": one, "gidMappings": one}


def _device(path: str) -> dict[str, Any]:
    """A device of the host for the container. Raises `ContainerFault`."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ContainerFault(f"{path}: {error.strerror}") from None
    kind = {0o020000: "c", 0o060000: "b"}.get(status.st_mode & 0o170000)
    if kind is None:
        raise ContainerFault(f"{path} is no device")
    number = status.st_rdev
    return {
        "path": path,
        "type": kind,
        "major": os.major(number),
        "minor": os.minor(number),
        "fileMode": status.st_mode & 0o777,
        "uid": status.st_uid,
        "gid": status.st_gid,
    }


def _rule(action: str, names: Sequence[str], args: Iterable[Any], errno: int | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": list(names), "action": action}
    if args := list(args):
        rule["args"] = args
    if errno is not None:
        rule["errnoRet"] = errno
    return rule


def _parsed(env: Iterable[str]) -> dict[str, str]:
    return {name: value for name, _, value in (each.partition("=") for each in env)}
