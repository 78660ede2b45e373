"""A round holds what was decided and what followed from it (decision 006)."""

import pytest

from events.codec import decode
from events.records.rounds import RoundCommitted
from processors.lifecycle.machine import Lifecycle
from processors.runtime import deciding
from tests.helpers.whole_cell import Cell


def rounds(cell: Cell) -> list[list[str]]:
    """The kinds of decisions of each of lifecycle's rounds."""
    records = [decode(record.value) for record in cell.log.scan("paceline.lifecycle", 0)]
    return [
        [type(decode(decision)).__name__ for decision in record.decisions]
        for record in records
        if isinstance(record, RoundCommitted)
    ]


def day() -> Cell:
    cell = Cell()
    cell.pool("/p")
    cell.submit("a", instances=20, resources={"cpu": 1000})
    cell.run(5000)
    assert cell.state("a") == "SUCCEEDED"
    return cell


def test_a_job_changes_in_the_round_that_changes_it() -> None:
    found = rounds(day())
    assert ["RunsAvailable", "JobChanged"] in found
    assert ["RunsEnded", "JobChanged"] in found


def test_rounds_of_one_pass_each_verify_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "PASSES_BYTES", 0)
    cell = day()
    assert ["JobChanged"] in rounds(cell)
    cell.verify()


def test_a_pass_left_out_of_a_round_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = day()
    original = Lifecycle.decide
    monkeypatch.setattr(
        Lifecycle,
        "decide",
        lambda self, *now: [each for each in original(self, *now) if type(each).__name__ != "JobChanged"],
    )
    with pytest.raises(AssertionError, match="decided otherwise"):
        cell.verify()
