"""Work that fits and that a machine has forgotten is told; work that waits for a reason isn't."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest
from click.testing import CliRunner

from events.process.clock import SimulatedClock
from paceline.cli.main import cli
from paceline.simulate.play import play as simulated
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, Session, of_scenario
from paceline.simulate.world.cell import START_MS
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
end: 6m
host_pools: [{name: own}]
hosts:
  - {name: h, count: 2, resources: {cpu: 8}}
  - {name: card, resources: {cpu: 4}, devices: {gpu: {count: 2}}, attributes: {rack: a}}
  - {name: own, resources: {cpu: 4}, host_pool: own}
pools:
  - {path: /a}
  - {path: /plain}
  - {path: /gang}
  - {path: /bound}
  - {path: /card}
  - {path: /own, host_pools: [own]}
  - {path: /firm, reservation: {cpu: 2, memory: 1GiB, disk: 1GiB}}
  - {path: /updated}
  - {path: /ports}
  - {path: /fixed}
  - {path: /either}
  - {path: /everywhere}
jobs:
  - {job_id: stream, pool: /a, instances: 400, max_running: 4, resources: {cpu: 1}, sim: {draw: {uniform: [3s, 9s]}}}
"""
FORGOTTEN = {
    "plain": "{<<}, at: 70s",
    "gang": "{<<}, at: 70s, instances: 3, gang: {min: 3}",
    "bound": "{<<}, at: 70s, constraints: [{attribute: rack, values: [a]}]",
    "card": "{<<}, at: 70s, resources: {cpu: 1, gpu: 1}",
    "own": "{<<}, at: 70s",
    "firm": "{<<}, at: 70s, preemptible: false",
    "updated": "{<<}, kind: stateless",
    "ports": "{<<}, at: 70s, instances: 2, gang: {min: 2}, ports: [one, two]",
    "fixed": "{<<}, at: 70s, ports: [{name: http, port: 8080}]",
    "either": "{<<}, at: 70s, resources: {cpu: 1}, any_of: [{resources: {gpu: 1}}, {resources: {cpu: 2}}]",
    "everywhere": "{<<}, at: 70s, kind: daemon, constraints: [{attribute: rack, values: [a]}]",
}
"""Jobs of each kind that is looked at, each in a pool of its own; the updated one is started again."""
FORGET_MS = 65_000
Forgets = Callable[[], bool]
"""Whether the bug shows yet: jobs run before that."""


def queue_forgotten(patch: pytest.MonkeyPatch, forgets: Forgets) -> None:
    """Entitlement never serves the queues of some pools, nor does it lend to anybody."""
    lend, serve = Lending.decide, AdmissionPass.serve
    patch.setattr(Lending, "decide", lambda self, this: [] if forgets() else lend(self, this))
    patch.setattr(
        AdmissionPass,
        "serve",
        lambda self, pool: [] if forgets() and pool[1:] in FORGOTTEN else serve(self, pool),
    )


def claim_forgotten(patch: pytest.MonkeyPatch, forgets: Forgets) -> None:
    """Placement never serves what some jobs were admitted for."""
    in_order = Waits.in_order

    def others(self: Waits) -> Iterator[tuple[int, Range]]:
        return (each for each in in_order(self) if not forgets() or each[1].job_id not in FORGOTTEN)

    patch.setattr(Waits, "in_order", others)


def cell_in(folder: Path, *kinds: str) -> Path:
    """A cell that is never idle, with jobs of some kinds."""
    text = CELL
    for kind in kinds:
        mine = FORGOTTEN[kind].replace("{<<}", f"job_id: {kind}, pool: /{kind}, sim: {{duration: 100h}}")
        mine += "" if "resources" in mine else ", resources: {cpu: 1}"
        text += f"  - &{kind} {{{mine}}}\n"
    if "updated" in kinds:
        text += "events:\n  - {at: 20s, update: {<<: *updated, command: [newer]}}\n"
        text += "  - {at: 50s, stop: updated}\n  - {at: 70s, start: updated}\n"
    path = folder / "cell.yaml"
    path.write_text(text)
    return path


def played(path: Path, plant: Callable[[Forgets], None], options: RunOptions) -> Session:
    """The session of a scenario at its end, with a bug that shows after some time."""
    clocks: list[SimulatedClock] = []
    plant(lambda: bool(clocks) and clocks[0].ms >= START_MS + FORGET_MS)  # before machines are made
    session = of_scenario(read_scenario(str(path)), f"paceline simulate {path}", options)
    clocks.append(session.run.cell.clock)
    return session


def well(forgets: Forgets) -> None:
    """No bug."""


def found(path: Path, folder: Path, plant: Callable[[Forgets], None] = well) -> tuple[list[Stall], list[str]]:
    """The stalls at the end of a scenario, and the texts of alarms about them and about loops."""
    session = played(path, plant, RunOptions())
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


@pytest.mark.parametrize("kind", ["plain", "gang", "card", "own", "ports", "fixed", "either", "everywhere"])
def test_work_that_placement_forgets_is_told(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [stall], [text] = found(cell_in(tmp_path, kind), tmp_path, partial(claim_forgotten, monkeypatch))
    assert (stall.job_id, stall.machine) == (kind, "placement")
    assert stall.rounds >= 100
    assert stall.now_ms - stall.since_ms >= 60_000
    assert text == stall.sentence
    hosts = {"card": "card-1", "own": "own-1", "everywhere": "card-1"}
    others = " and others" if kind in ("gang", "ports") else ""
    assert f"fits on host {hosts.get(kind, stall.host_id)}{others} and is" in text


def test_work_that_entitlement_forgets_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stalled, texts = found(cell_in(tmp_path, *FORGOTTEN), tmp_path, partial(queue_forgotten, monkeypatch))
    assert [stall.job_id for stall in stalled] == sorted(FORGOTTEN)
    assert {stall.machine for stall in stalled} == {"entitlement"}
    assert sorted(texts) == sorted(stall.sentence for stall in stalled)


def test_nothing_is_told_without_a_bug(tmp_path: Path) -> None:
    assert found(cell_in(tmp_path, *FORGOTTEN), tmp_path) == ([], [])


APART = """
end: 6m
hosts:
  - {name: h, resources: {cpu: 4}}
  - {name: alone, resources: {cpu: 8}, attributes: {rack: a}}
pools: [{path: /a, preemption_delay: never}, {path: /b, preemption_delay: never}]
jobs:
  - {job_id: apart, pool: /a, exclusive: true, resources: {cpu: 1}, sim: {duration: 100h},
     constraints: &there [{attribute: rack, values: [a]}]}
  - {job_id: stream, pool: /a, at: 10s, instances: 400, max_running: 4, resources: {cpu: 1},
     sim: {draw: {uniform: [3s, 9s]}}}
  - {job_id: b, pool: /b, at: 70s, resources: {cpu: 1}, constraints: *there, sim: {duration: 100h}}
"""


def test_a_host_that_a_task_has_for_itself_is_no_room(tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml"
    path.write_text(APART)
    assert found(path, tmp_path) == ([], [])


BUSY = """
end: 6m
hosts:
  - {name: h, count: 2, resources: {cpu: 8}}
pools:
  - {path: /a, preemption_delay: never, reservation: {cpu: 4, memory: 1GiB, disk: 1GiB}}
  - {path: /b, preemption_delay: never}
jobs:
  - {job_id: web, pool: /a, kind: stateless, instances: 2, strategy: spread, preemptible: false, resources: {cpu: 1},
     ports: [{name: http, port: 8080}], sim: {duration: 100h}}
  - {job_id: stream, pool: /a, at: 10s, instances: 400, max_running: 4, resources: {cpu: 1},
     sim: {draw: {uniform: [3s, 9s]}}}
"""
WAITING = {
    "fixed": "ports: [{name: http, port: 8080}]",
    "either": "any_of: [{resources: {cpu: 9}}, {resources: {gpu: 1}}]",
    "everywhere": "kind: daemon, ports: [{name: http, port: 8080}]",
}
"""Jobs that wait as long as the cell lasts, each for a reason that amounts alone don't show."""


@pytest.mark.parametrize("kind", WAITING)
def test_work_that_waits_for_ports_or_any_of_its_requests_is_not_told(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml"
    job = f"  - {{job_id: b, pool: /b, at: 70s, resources: {{cpu: 1}}, {WAITING[kind]}, sim: {{duration: 100h}}}}\n"
    path.write_text(BUSY + job + "expect:\n  - {at: 5m, that: job b tasks RUNNING == 0}\n")
    assert found(path, tmp_path) == ([], [])


@pytest.mark.parametrize("is_planted", [True, False])
def test_cell_check_names_work_that_is_forgotten(
    is_planted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = partial(queue_forgotten, monkeypatch) if is_planted else well
    data = tmp_path / "cell"
    session = played(cell_in(tmp_path, "plain"), plant, RunOptions(data=data))
    simulated(session, as_json=False)
    end_ms = session.run.cell.clock.ms
    monkeypatch.setattr("time.time", lambda: end_ms / 1000)
    checked = ["cell", "check", "--data", str(data), "-o", "json"]
    result = CliRunner().invoke(cli, checked, standalone_mode=False)
    forgotten = [each for each in json.loads(result.output)["problems"] if "Job plain of pool /plain fits" in each]
    assert len(forgotten) == is_planted
    assert result.return_value == 1 or not is_planted


@drawn
@pytest.mark.parametrize("path", some(SCENARIOS, 10), ids=lambda path: path.stem)
def test_scenarios_of_the_suite_have_neither_stalls_nor_loops(path: Path, tmp_path: Path) -> None:
    assert found(path, tmp_path) == ([], [])
