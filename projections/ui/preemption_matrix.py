"""Preemptions between pools as a matrix: from whom in rows, for whom in columns."""

from collections import Counter

from projections.queries.preemption_flows import Flows
from projections.ui.page_values import PageValues

HOUR_MS = 3_600_000
HOURS = {1: "1 h", 24: "24 h", 168: "7 d"}
SIDE_MAX = 12
"""Pools on each side; the rest stands together."""
OTHERS = "others"
HEATS = (50, 200, 500)


def hours_of(text: str) -> int:
    """The time that is asked for, a day where none is."""
    return int(text) if text in map(str, HOURS) else 24


def matrix(flows: Flows) -> PageValues | None:
    """Rows and columns by how many runs they gave or got; None: there was no preemption."""
    if not flows:
        return None
    gave, got = Counter[str](), Counter[str]()
    for (loser, winner), runs in flows.items():
        gave[loser] += runs
        got[winner] += runs
    losers, winners = _side(gave), _side(got)
    cells = Counter[tuple[str, str]]()
    for (loser, winner), runs in flows.items():
        cells[loser if loser in losers else OTHERS, winner if winner in winners else OTHERS] += runs
    rows = [
        {
            "name": loser,
            "cells": [(cells[loser, winner], _heat(cells[loser, winner])) for winner in winners],
            "sum": sum(cells[loser, winner] for winner in winners),
        }
        for loser in losers
    ]
    return {"heads": winners, "rows": rows, "sum": sum(flows.values())}


def _side(sums: Counter[str]) -> list[str]:
    most = [name for name, _ in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))]
    return most if len(most) <= SIDE_MAX else [*most[: SIDE_MAX - 1], OTHERS]


def _heat(runs: int) -> int:
    return 0 if not runs else 1 + sum(runs >= step for step in HEATS)
