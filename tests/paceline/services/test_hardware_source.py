"""The devices and cores that settings name, from a file, from nvidia-smi, from Linux."""

from pathlib import Path

import pytest

from events.host_devices import Core
from hostagent.hardware import HardwareFault
from paceline.services.hardware_source import hardware_source

FULL = """
devices:
- {id: GPU-1, kind: gpu, model: a100, memory: 80GiB, numa: 0, link_group: nv, paths: [/dev/nvidia0, /dev/nvidiactl]}
- {id: MIG-2, kind: gpu/3g.40gb, of: GPU-1, excludes: [MIG-3]}
- {id: MIG-3, kind: gpu/4g.40gb, of: GPU-1, healthy: false}
cores: [{numa: 0, threads: [0, 2]}, {numa: 1, threads: [1, 3]}]
"""


def test_without_any_setting_there_is_no_source() -> None:
    assert hardware_source("", False) is None


def test_a_file_says_devices_their_files_and_cores(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(FULL)
    source = hardware_source(str(tmp_path / "devices.yaml"), False)
    assert source is not None
    card, *parts = source.look().devices
    assert (card.id, card.kind, card.model, card.memory, card.numa, card.link_group) == (
        *("GPU-1", "gpu", "a100", 81_920),
        *(0, "nv"),
    )
    assert [(each.id, each.of, each.excludes, each.healthy) for each in parts] == [
        ("MIG-2", "GPU-1", ("MIG-3",), True),
        ("MIG-3", "GPU-1", (), False),
    ]
    assert source.look().paths == {"GPU-1": ("/dev/nvidia0", "/dev/nvidiactl")}
    assert source.look().cores == (Core(0, (0, 2)), Core(1, (1, 3)))


def test_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text('{"devices": {"gpu": {"count": 4, "memory": "24GiB", "numa": 2, "link_groups": 2}}}')
    source = hardware_source(str(path), False)
    assert source is not None
    assert [(each.id, each.numa, each.link_group) for each in source.look().devices] == [
        ("gpu-0", 0, "gpu-0"),
        ("gpu-1", 0, "gpu-0"),
        ("gpu-2", 1, "gpu-1"),
        ("gpu-3", 1, "gpu-1"),
    ]
    path.write_text('{"devices": {"gpu": {"count": 1}}, "cores": {"nodes": 2, "cores": 2}}')
    assert [(each.id, each.numa, each.link_group) for each in source.look().devices] == [("gpu-0", -1, "")]
    assert source.look().cores == (Core(0), Core(0), Core(1), Core(1))


def test_cores_of_this_machine_are_those_of_linux_unless_the_file_says_others(tmp_path: Path) -> None:
    path = tmp_path / "devices.yaml"
    path.write_text("devices: {nic: {count: 1}}\n")
    of_linux, with_file = hardware_source("", True), hardware_source(str(path), True)
    assert of_linux is not None
    assert with_file is not None
    assert of_linux.look().cores
    assert with_file.look().cores == of_linux.look().cores
    path.write_text("cores: {cores: 3}\n")
    assert with_file.look().cores == (Core(0), Core(0), Core(0))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("devices: [{id: a, kind: gpu}, {id: a, kind: gpu}]", "more than one device has the id 'a'"),
        ("devices: [{id: a, kind: gpu, of: b}]", "of names 'b', which the host hasn't"),
        ("devices: [{id: core/1, kind: gpu}]", "doesn't begin with core/"),
        ("devices: [{id: a, kind: gpu, memry: 3GiB}]", "memry"),
        ("cores: [{threads: [0]}, {threads: [0, 1]}]", "a thread is of one core alone"),
        ("cores: {nodes: 1000, cores: 1000}", "makes 1000000 cores, at most 4096"),
    ],
)
def test_a_file_that_is_wrong_is_told_with_its_name(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "devices.yaml"
    path.write_text(text)
    source = hardware_source(str(path), False)
    assert source is not None
    with pytest.raises(HardwareFault) as fault:
        source.look()
    assert wanted in str(fault.value)
    assert str(path) in str(fault.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    source = hardware_source(str(tmp_path / "none.yaml"), False)
    assert source is not None
    with pytest.raises(HardwareFault, match=r"none\.yaml"):
        source.look()
