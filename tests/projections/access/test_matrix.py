"""Each role is answered on each route as the table says; a route without a line fails."""

import csv
from pathlib import Path

from tests.projections.access.matrix import TABLE, Matrix


def test_each_role_is_answered_on_each_route_as_the_table_says(tmp_path: Path) -> None:
    with TABLE.open() as file:
        expected = {(method, route): answers for method, route, *answers in csv.reader(file)}
    answered = {(method, route): answers for method, route, *answers in Matrix(tmp_path).rows()}
    differing = {
        route: (answers, expected.get(route)) for route, answers in answered.items() if expected.get(route) != answers
    }
    assert not differing, "python -m tests.projections.access.matrix writes the table anew; read what changes"
    assert expected.keys() == answered.keys()
