"""Work that fits and that a machine has forgotten is told; work that waits for a reason isn't."""

from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from processors.entitlement.admission.admit import AdmissionPass
from processors.entitlement.admission.lend import Lending
from processors.placement.waits import Range, Waits
from projections.queries.alarms import alarms
from projections.queries.preemption_loops import loops
from projections.queries.stalls import Stall, stalls
from projections.views.projector import rebuild
from tests.helpers.drawn import drawn, some

SCENARIOS = sorted(
    (Path(__file__).parents[2] / "scenarios").glob("*/*.yaml"), key=lambda path: crc32(path.stem.encode())
)
CELL = """
end: 12m
hosts: [{name: h, count: 2, resources: {cpu: 4}}]
pools: [{path: /a}, {path: /b}]
jobs:
  - {job_id: stream, pool: /a, instances: 900, max_running: 4, resources: {cpu: 1}, sim: {draw: {uniform: [3s, 9s]}}}
  - {job_id: b, pool: /b, at: 1m, resources: {cpu: 1}, sim: {duration: 100h}}
"""


def queue_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Entitlement never serves the queue of a pool, nor does it lend to it."""
    patch.setattr(Lending, "decide", lambda self, this: [])
    serve = AdmissionPass.serve
    patch.setattr(AdmissionPass, "serve", lambda self, pool: [] if pool == "/b" else serve(self, pool))


def claim_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Placement never serves what a job was admitted for."""
    in_order = Waits.in_order

    def others(self: Waits) -> Iterator[tuple[int, Range]]:
        return (each for each in in_order(self) if each[1].job_id != "b")

    patch.setattr(Waits, "in_order", others)


def cell_in(folder: Path) -> Path:
    path = folder / "cell.yaml"
    path.write_text(CELL)
    return path


def found(path: Path, folder: Path) -> tuple[list[Stall], list[str]]:
    """The stalls at the end of a scenario, and the texts of alarms about them and about loops."""
    session = of_scenario(read_scenario(str(path)), f"paceline simulate {path}", RunOptions())
    session.run.run_to_end()
    session.finish()
    engine = rebuild(session.run.cell.log, folder)
    now_ms = session.run.cell.clock.ms
    with engine.connect() as connection:
        circles = [loop.sentence for loop in loops(connection, now_ms)]
        told = [each.text for each in alarms(connection, 0, now_ms, {}, []) if each.name == "PacelineWorkStalls"]
        out = stalls(connection)
    engine.dispose()
    session.run.cell.close()
    return out, told + circles


@pytest.mark.parametrize(("plant", "machine"), [(queue_forgotten, "entitlement"), (claim_forgotten, "placement")])
def test_work_that_a_machine_forgets_is_told(
    plant: Callable[[pytest.MonkeyPatch], None], machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    [stall], [text] = found(cell_in(tmp_path), tmp_path)
    assert (stall.job_id, stall.machine) == ("b", machine)
    assert stall.rounds >= 100
    assert stall.now_ms - stall.since_ms >= 60_000
    assert text == stall.sentence


def test_nothing_is_told_without_a_bug(tmp_path: Path) -> None:
    assert found(cell_in(tmp_path), tmp_path) == ([], [])


@drawn
@pytest.mark.parametrize("path", some(SCENARIOS, 10), ids=lambda path: path.stem)
def test_scenarios_of_the_suite_have_neither_stalls_nor_loops(path: Path, tmp_path: Path) -> None:
    assert found(path, tmp_path) == ([], [])
