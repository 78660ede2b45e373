"""NVIDIA's GPUs one by one, as nvidia-smi lists them: models, memory, NUMA nodes, islands of NVLink, parts (MIG)."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from events.host_devices import NUMA_MAX
from events.records.parts import HostDevice
from events.resources import name_fault
from hostagent.capacity import GPUS, model_name
from hostagent.hardware import HardwareFault

LOOK_S = 30.0
"""So often it is asked: without its daemon each question initialises the driver."""
TIMEOUT_S = 20.0
FIELDS = ("index", "uuid", "name", "memory.total", "pci.bus_id", "mig.mode.current")
COMMON_PATHS = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""Whoever uses any GPU opens these."""
_CARD = re.compile(r"GPU \d+: .*\(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)")
_PART = re.compile(r"\s+MIG (?P<profile>\S+)\s+Device\s+\d+: \(UUID: (?P<uuid>MIG-[0-9a-f-]+)\)")
_COLUMN = re.compile(r"GPU\d+")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_GIGABYTES = re.compile(r"\.(\d+)gb")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


class Card(NamedTuple):
    """A row of `--query-gpu`. `number`: its index."""

    number: int
    uuid: str
    model: str
    memory: int
    """MiB; 0: it doesn't say, as a card that is lost."""
    bus: str
    has_parts: bool


def detect(gpus: Path = GPUS) -> tuple[tuple[HostDevice, ...], dict[str, tuple[str, ...]]]:
    """The cards and their parts, and the files of cards by their ids. `gpus`: where the driver lists them. Raises
    `HardwareFault`.
    """
    cards = list(cards_of(_ask(f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")))
    parts = parts_of(_ask("-L")) if any(card.has_parts for card in cards) else {}
    topology = _ask("topo", "-m") if cards else ""
    nodes, islands = numa_of(topology), islands_of(topology)
    devices: list[HostDevice] = []
    for card in cards:
        numa, island = nodes.get(card.number, -1), islands.get(card.number, "")
        whole = HostDevice(
            id=card.uuid,
            kind="gpu",
            model=card.model,
            memory=card.memory,
            numa=numa,
            link_group=island,
            healthy=card.memory > 0 and not card.has_parts,  # a card in parts runs nothing as a whole
        )
        devices.append(whole)
        for uuid, profile in parts.get(card.uuid, {}).items():
            memory = _GIGABYTES.search(profile)
            devices.append(
                HostDevice(
                    id=uuid,
                    kind=kind_of(profile),
                    model=card.model,
                    memory=int(memory[1]) * 10**9 // 2**20 if memory else 0,  # parts have no less than that
                    numa=numa,
                    of=card.uuid,
                    healthy=card.memory > 0,
                )
            )
    return tuple(devices), {card.uuid: _paths(card, gpus) for card in cards}


def cards_of(text: str) -> Iterator[Card]:
    """The rows of `--query-gpu`."""
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(FIELDS) or not fields[0].isdecimal():
            continue
        memory = int(fields[3]) if fields[3].isdecimal() else 0
        yield Card(int(fields[0]), fields[1], model_name(fields[2]), memory, fields[4], fields[5] == "Enabled")


def parts_of(text: str) -> dict[str, dict[str, str]]:
    """The profiles of parts by their UUIDs, by the UUIDs of their cards, of `-L`."""
    parts: dict[str, dict[str, str]] = {}
    card = ""
    for line in text.splitlines():
        if (match := _CARD.match(line)) is not None:
            card = match["uuid"]
        elif (match := _PART.match(line)) is not None:
            parts.setdefault(card, {})[match["uuid"]] = match["profile"]
    return parts


def kind_of(profile: str) -> str:
    """The kind of a part, such as gpu/1g.10gb."""
    kind = "gpu/" + re.sub(r"[^a-z0-9._-]+", "-", profile.lower()).strip("-._")
    return "gpu/part" if name_fault(kind) else kind


def numa_of(text: str) -> dict[int, int]:
    """The NUMA node of each card that says one, by its index, of `topo -m`."""
    return {
        card: int(fields["NUMA Affinity"])
        for card, fields in _matrix(text)
        if fields.get("NUMA Affinity", "").isdecimal() and int(fields["NUMA Affinity"]) <= NUMA_MAX
    }


def islands_of(text: str) -> dict[int, str]:
    """The island of each card that has NVLinks to others, by its index, of `topo -m`: cards that links join, directly
    or by others.
    """
    links = {
        card: {
            int(name[3:]) for name, link in fields.items() if re.fullmatch(r"GPU\d+", name) and link.startswith("NV")
        }
        for card, fields in _matrix(text)
    }
    islands: dict[int, str] = {}
    for first in links:
        waiting = [first] if links[first] and first not in islands else []
        while waiting:
            card = waiting.pop()
            islands[card] = f"nvlink-{first}"
            waiting += [other for other in links.get(card, ()) if other not in islands]
    return islands


def _matrix(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of cards of `topo -m`: index, and fields by the names of columns."""
    rows: list[Sequence[str]] = [
        [field.strip() for field in line.split("\t")] for line in _COLOURS.sub("", text).splitlines()
    ]
    heads = next((row for row in rows if "GPU0" in row[1:]), ())
    for row in rows:
        if _COLUMN.fullmatch(row[0]):
            yield int(row[0][3:]), dict(zip(heads[1:], row[1:], strict=False))


def _paths(card: Card, gpus: Path) -> tuple[str, ...]:
    """The files of a card. Its number there is that of the driver, mostly its index."""
    number = card.number
    try:
        information = (gpus / card.bus.lower()[-12:] / "information").read_text()
        number = int(match[1]) if (match := _MINOR.search(information)) else number
    except OSError:
        pass
    return (f"/dev/nvidia{number}", *(path for path in COMMON_PATHS if Path(path).exists()))


def _ask(*words: str) -> str:
    """The output of nvidia-smi. Raises `HardwareFault`."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HardwareFault(f"nvidia-smi can't be run: {error}") from error
    if done.returncode:
        message = (done.stderr or done.stdout).strip()[-300:]
        raise HardwareFault(f"nvidia-smi {' '.join(words)} ended with {done.returncode}: {message}")
    return done.stdout
