"""Whole cores, on folders that look as those of Linux do."""

from pathlib import Path

import pytest

from events.host_devices import Core
from hostagent.cores import detect, listed, numbers
from hostagent.hardware import HardwareFault


def machine(folder: Path, cores: list[tuple[int, int, str]], nodes: dict[int, str]) -> Path:
    """Cores (socket, number in it, threads) and the threads of NUMA nodes."""
    for socket, number, threads in cores:
        for thread in numbers(threads):
            topology = folder / "cpu" / f"cpu{thread}" / "topology"
            topology.mkdir(parents=True)
            (topology / "physical_package_id").write_text(f"{socket}\n")
            (topology / "core_id").write_text(f"{number}\n")
            (topology / "thread_siblings_list").write_text(f"{threads}\n")
    for node, threads in nodes.items():
        (folder / "node" / f"node{node}").mkdir(parents=True)
        (folder / "node" / f"node{node}" / "cpulist").write_text(f"{threads}\n")
    (folder / "cpu" / "cpufreq").mkdir(exist_ok=True)
    return folder


def test_two_sockets_of_two_cores_with_two_threads_each(tmp_path: Path) -> None:
    sockets = [(0, 0, "0,4"), (1, 0, "1,5"), (0, 1, "2,6"), (1, 1, "3,7")]
    system = machine(tmp_path, sockets, {0: "0,2,4,6", 1: "1,3,5,7"})
    assert detect(system, {*range(8)}) == [Core(0, (0, 4)), Core(0, (2, 6)), Core(1, (1, 5)), Core(1, (3, 7))]


def test_a_core_of_which_the_agent_may_not_use_all_threads_is_not_offered(tmp_path: Path) -> None:
    system = machine(tmp_path, [(0, 0, "0-1"), (0, 1, "2-3"), (0, 2, "4-5")], {0: "0-5"})
    assert detect(system, {2, 3, 4}) == [Core(0, (2, 3))]


def test_a_thread_that_is_offline_and_has_no_topology_is_left_out(tmp_path: Path) -> None:
    system = machine(tmp_path, [(0, 0, "0"), (0, 1, "1")], {0: "0-1"})
    (system / "cpu" / "cpu2").mkdir()
    assert detect(system, {0, 1, 2}) == [Core(0, (0,)), Core(0, (1,))]


def test_without_nodes_all_cores_are_in_the_first(tmp_path: Path) -> None:
    assert detect(machine(tmp_path, [(0, 0, "0"), (1, 0, "1")], {}), {0, 1}) == [Core(0, (0,)), Core(0, (1,))]


def test_where_linux_does_not_say_that_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(HardwareFault, match="doesn't say which threads make a core"):
        detect(tmp_path, {0})


@pytest.mark.parametrize(("text", "values"), [("", []), ("3", [3]), ("0-2,5,7-8", [0, 1, 2, 5, 7, 8])])
def test_lists_of_linux_are_read_and_written(text: str, values: list[int]) -> None:
    assert numbers(f"{text}\n") == values
    assert listed(reversed(values)) == text
