"""The bench of plans: on a small cell, by the process that plans for a server."""

from pathlib import Path

import pytest

from bench import _plan


def test_plans_of_a_small_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in {"HOSTS": 10, "JOBS": 5, "TASKS": 50, "PLANS": 2}.items():
        monkeypatch.setattr(_plan, name, small)
    figures, references = _plan.run(tmp_path)
    assert figures["plan_s"] > 0
    assert references["plan_first_s"] >= references["plan_median_s"] > 0
