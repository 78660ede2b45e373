"""GPUs as nvidia-smi lists them: on its recorded output, by a program of that name."""

import os
from pathlib import Path

import pytest

from events.host_devices import list_fault, sums
from events.records.parts import HostDevice
from hostagent import nvidia
from hostagent.hardware import HardwareFault
from paceline.services.hardware_source import hardware_source

RECORDED = Path(__file__).parent / "nvidia"
SCRIPT = """#!/bin/sh
case "$1" in
--query-gpu=*) file=query ;;
-L) file=list ;;
topo) file=topo ;;
esac
cat "{folder}/$file"
exit $(cat "{folder}/exit" 2>/dev/null || echo 0)
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of outputs that `nvidia-smi` shows."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(SCRIPT.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path


def recorded(machine: Path, name: str) -> None:
    for what in ("query", "list", "topo"):
        (machine / what).write_text((RECORDED / name / what).read_text())


def detect(machine: Path) -> tuple[HostDevice, ...]:
    devices, _ = nvidia.detect(machine / "gpus")
    assert list_fault(devices) == ""
    return devices


def test_eight_cards_with_nvlink_to_each_other_are_one_island_on_two_nodes(machine: Path) -> None:
    recorded(machine, "dgx-a100")
    cards = detect(machine)
    assert [card.id for card in cards][:2] == [
        "GPU-6a0a3f4e-1c35-7b5e-b6bb-2e2c11f0a9d0",
        "GPU-0f5e1f4a-93b7-4f0d-28f4-9b1f3a7c21d1",
    ]
    assert {(card.kind, card.model, card.memory, card.healthy) for card in cards} == {
        ("gpu", "a100-sxm4-80gb", 81920, True)
    }
    assert [card.numa for card in cards] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert {card.link_group for card in cards} == {"nvlink-0"}
    assert sums(cards) == {"gpu": 8000, "gpu_memory": 8 * 81920}


def test_cards_with_bridges_in_pairs_are_islands_of_two_and_others_are_in_none(machine: Path) -> None:
    recorded(machine, "bridged-a40")
    assert [(card.link_group, card.numa) for card in detect(machine)] == [
        ("nvlink-0", 0),
        ("nvlink-0", 0),
        ("nvlink-2", 1),
        ("nvlink-2", 1),
        ("", 1),
    ]


def test_a_card_in_parts_takes_no_tasks_itself_and_its_parts_say_whose_they_are(machine: Path) -> None:
    recorded(machine, "mig-a100")
    whole, split, *parts = detect(machine)
    assert (whole.healthy, split.healthy) == (True, False)
    assert [(part.kind, part.of, part.memory, part.healthy) for part in parts] == [
        ("gpu/3g.40gb", split.id, 38146, True),
        ("gpu/2g.20gb", split.id, 19073, True),
        ("gpu/1g.10gb-me", split.id, 9536, True),
    ]
    assert parts[0].id == "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"
    assert sums([whole, split, *parts])["gpu_memory"] == 81920 + 38146 + 19073 + 9536


def test_a_card_that_is_lost_is_there_and_not_well(machine: Path) -> None:
    recorded(machine, "lost-card")
    assert [(card.healthy, card.memory) for card in detect(machine)] == [(True, 15360), (False, 0)]


def test_files_of_cards_are_those_of_the_driver_whose_numbers_may_differ(machine: Path) -> None:
    recorded(machine, "lost-card")
    information = machine / "gpus" / "0000:00:1e.0" / "information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: \t\t Tesla T4\nIRQ:   \t\t 83\nDevice Minor: \t 3\n")
    _, paths = nvidia.detect(machine / "gpus")
    assert [files[0] for files in paths.values()] == ["/dev/nvidia3", "/dev/nvidia1"]


def test_without_cards_there_are_none(machine: Path) -> None:
    (machine / "query").write_text("No devices were found\n")
    assert nvidia.detect() == ((), {})


def test_a_driver_that_fails_is_told_with_its_words(machine: Path) -> None:
    (machine / "query").write_text("Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n")
    (machine / "exit").write_text("15")
    with pytest.raises(HardwareFault, match="ended with 15: Unable to determine the device handle"):
        nvidia.detect()


def test_without_the_program_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    source = hardware_source("nvidia", False)
    assert source is not None
    with pytest.raises(HardwareFault, match="nvidia-smi can't be run"):
        source.look()
