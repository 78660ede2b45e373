"""A bundle for who looks for a bug: what a cell and this machine tell of themselves, without secrets, in one archive.

Each part is collected by itself: one that can't be got is named with the reason, and the others are there. Nothing of a
secret is left out by luck: environments and commands of jobs are left out by the names of their fields, and the values
of tokens and passwords that this process knows are struck out of all that is written.
"""

import errno
import io
import json
import os
import platform
import re
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline import __version__
from paceline.client import cell_file
from paceline.client.client import Client
from paceline.client.errors import PacelineError
from paceline.services.settings import Settings

if TYPE_CHECKING:
    from events.log.port import Log, LogRecord

ROUNDS = 10
"""So many of the newest rounds of each machine are in a bundle."""
PART_BYTES_MAX = 1 << 20
BUNDLE_BYTES_MAX = 16 << 20
"""A longer part is cut; parts beyond all that a bundle may have, before it is compressed, are left out."""
HIDDEN = "***"
HIDDEN_FIELDS = frozenset({"env", "command", "data"})
"""Fields of records that may hold secrets of users."""
SKIPPED_SHOWN = 100
PART_S = 20.0
"""So long a part of several answers may take."""
README = "README.txt"
_URL_USER = re.compile(r"//[^\s\"']*@")
"""To the last @: a password may hold one, or a slash."""
_SECRET_NAME = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|_KEY$", re.IGNORECASE)
_SECRET_LENGTH_MIN = 4
"""A shorter value is no secret worth the name, and would be struck out of all words that hold it."""


class Part(NamedTuple):
    """A file of a bundle: its name, what it is, and what reads it: text, or a value that is written as JSON."""

    name: str
    about: str
    read: Callable[[], object]


class Entry(NamedTuple):
    """A part of a bundle that was made. `fault`: why it isn't there, or isn't whole; empty: it is."""

    name: str
    about: str
    size: int
    fault: str


def missing(name: str, error: Exception) -> Part:
    """A part that isn't there, for an error that was raised before it."""

    def read() -> object:
        raise error

    return Part(name, "", read)


def of_machine(settings: Settings) -> Iterator[Part]:
    """The parts that need no cell."""
    yield Part("versions.json", "Paceline, Python, libraries and system", versions)
    yield Part("settings.json", "settings and their origins", lambda: [each._asdict() for each in settings.origins])
    yield Part("data-folder.json", "sizes of what is in the data folder", lambda: sizes(settings.data))


def of_api(client: Client) -> Iterator[Part]:
    """The parts that the API of a cell tells. Raises `PacelineError` where it doesn't answer."""
    cell = client.cell()
    yield Part("cell.json", "machines with rounds, state hashes and lags", lambda: cell)
    yield Part("operations.json", "machines, gateways, positions, alarms", client.operations)
    yield Part("cell-settings.json", "settings of the cell", client.cell_settings)
    yield Part("skipped.json", "records that were skipped", lambda: _first(client.quarantine(), SKIPPED_SHOWN))
    yield Part("metrics.txt", "metrics of the process that answers", client.metrics)
    for machine, state in cell["machines"].items():
        last = state["round"]
        for number in range(max(1, last - ROUNDS + 1), last + 1):
            yield Part(f"rounds/{machine}-{number}.json", "", partial(client.round, machine, number))


def of_log(open_log: "Callable[[], Log]") -> Iterator[Part]:
    """The newest rounds of each machine, of a log that is there without its cell. Raises `LogError`."""
    from events.log.lookup import records
    from events.topics import ALL, MACHINES, rounds_of

    log = open_log()
    try:
        bounds = {topic.name: log.bounds(topic.name) for topic in ALL}
        yield Part("log.json", "offsets that the log has", lambda: bounds)
        for machine in MACHINES:
            start, end = bounds[rounds_of(machine)]
            for record in records(log, rounds_of(machine), max(start, end - ROUNDS), end):
                yield Part(f"rounds/{machine}-at-{record.offset}.json", "", partial(_decoded, record))
    finally:
        log.close()


def _decoded(record: "LogRecord") -> dict[str, Any]:
    from events.codec import decode
    from projections.record_json import at, whole

    place = {"position": f"{record.topic}:{record.offset}", "at": at(record.at_ms)}
    return place | whole(decode(record.value)) if record.value else place


def _first(items: Iterator[Any], count: int) -> list[Any]:
    """The first items, as many as come in time."""
    end = monotonic() + PART_S
    return [item for _, item in zip(takewhile(lambda _: monotonic() < end, range(count)), items, strict=False)]


def versions() -> dict[str, Any]:
    """The versions of all that runs here."""
    names = {re.split(r"[^A-Za-z0-9._-]", each)[0] for each in metadata.requires("paceline") or ()}
    return {
        "paceline": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "libraries": {name: version for name in sorted(names) if (version := _version(name))},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def sizes(folder: Path) -> dict[str, Any]:
    """The bytes of what lies right in a folder, and of its disk."""
    usage = shutil.disk_usage(folder)
    there = {each.name: _size(each) for each in sorted(folder.iterdir())}
    return {"folder": str(folder), "disk_total": usage.total, "disk_free": usage.free, "bytes": there}


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.lstat().st_size for each in path.rglob("*") if each.is_file())
    return path.lstat().st_size


def secrets_of(settings: Settings) -> list[str]:
    """The values of tokens and passwords that this process knows, the longest first."""
    own = [settings.token.get_secret_value()] if settings.token else []
    own += [value for name, value in settings.kafka_options.items() if any(w in name for w in ("password", "key"))]
    own += [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
    own += filter(None, [cell_file.token(settings.data)])
    return sorted({each for each in own if len(each) >= _SECRET_LENGTH_MIN}, key=len, reverse=True)


def without_secrets(value: Any) -> Any:
    """A value of JSON without what its fields may hold of secrets."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if name in HIDDEN_FIELDS and inner else without_secrets(inner) for name, inner in value.items()
        }
    return [without_secrets(each) for each in value] if isinstance(value, list | tuple) else value


def write(target: Path, parts: Iterable[Part], secrets: Iterable[str], now: datetime) -> list[Entry]:
    """Writes a bundle of parts, which only its owner may read, and returns what is in it; it is there once it is whole.
    Raises `FileExistsError`.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    try:
        opened = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            entries = _add_all(archive, target, parts, list(secrets), now)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return entries


def _add_all(
    archive: tarfile.TarFile, target: Path, parts: Iterable[Part], secrets: list[str], now: datetime
) -> list[Entry]:
    entries: list[Entry] = []
    room = BUNDLE_BYTES_MAX
    for part in parts:
        data, fault = _read(part, secrets)
        if len(data) > room:
            data, fault = b"", f"the bundle has {BUNDLE_BYTES_MAX >> 20} MiB already"
        if data:
            room -= len(data)
            _add(archive, target, part.name, data, now)
        entries.append(Entry(part.name, part.about, len(data), fault))
    _add(archive, target, README, _encoded(_strike(_readme(entries, now), secrets)), now)
    return entries


def _read(part: Part, secrets: list[str]) -> tuple[bytes, str]:
    """The bytes of a part, and why it isn't there or whole."""
    try:
        value = part.read()
        text = value if isinstance(value, str) else json.dumps(without_secrets(value), indent=1, default=str)
    except Exception as error:  # whatever is wrong with one part, the others are wanted all the more
        return b"", _strike(why(error), secrets)
    data = _encoded(_strike(text, secrets))
    if len(data) > PART_BYTES_MAX:
        return data[:PART_BYTES_MAX], f"cut after {PART_BYTES_MAX >> 20} MiB of {len(data):,} bytes"
    return data, ""


def why(error: Exception) -> str:
    """Says what an error tells, with its kind where that is none that is foreseen."""
    from events.codec import CodecError
    from events.log.port import LogError

    if isinstance(error, PacelineError | LogError | CodecError | OSError):
        return str(error) or type(error).__name__
    return repr(error)


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _strike(text: str, secrets: list[str]) -> str:
    """The text without secrets, as they are and as JSON writes them."""
    for secret in secrets:
        for written in (json.dumps(secret)[1:-1], secret):
            text = text.replace(written, HIDDEN)
    return _URL_USER.sub(f"//{HIDDEN}@", text)


def _add(archive: tarfile.TarFile, target: Path, name: str, data: bytes, now: datetime) -> None:
    folder = re.sub(r"(\.tar)?\.t?gz$", "", target.name)
    info = tarfile.TarInfo(f"{folder if folder != target.name else f'{folder}.d'}/{name}")
    info.size, info.mtime, info.mode = len(data), int(now.timestamp()), 0o600
    archive.addfile(info, io.BytesIO(data))


def _readme(entries: list[Entry], now: datetime) -> str:
    lines = [
        f"Made by `paceline debug bundle` of Paceline {__version__} at {now.isoformat(timespec='seconds')}.",
        "",
        "Left out: tokens, passwords, secrets, environments and commands of jobs, output of tasks.",
        "Names of jobs, pools, hosts, owners and labels are in it, as are the reasons that users gave.",
        "",
        *(f"{each.name}: {each.about}" for each in entries if each.size and each.about),
        f"rounds/: the newest {ROUNDS} rounds of each machine, decoded",
        "",
        *(f"not got: {each.name}: {each.fault}" for each in entries if each.fault),
        "The logs of processes aren't in it: add what `journalctl -u 'paceline-*'`, or stderr of `paceline up`, says.",
    ]
    return "\n".join(lines) + "\n"
