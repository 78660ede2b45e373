"""The problems of many jobs in one answer, within bounds: the status and the code of each are always told."""

import orjson

from paceline.client.json_type import Json
from projections.api.problems import Problem

FAULTS_MAX = 10
"""Faults of one job that are told; of the others how many there are."""
BYTES_MAX = 4 * 1024 * 1024
"""Bytes of the problems of one answer; those of further jobs are told without their faults."""
DETAIL_MAX = 500
"""Characters of the detail of a problem that is told without its faults."""
LEFT_OUT = "; the rest is left out of so long an answer: send the job alone to be told all"


class ToldProblems:
    """The problems of an answer, of which so many bytes are told in full."""

    def __init__(self) -> None:
        self._left = BYTES_MAX

    def body(self, problem: Problem) -> Json:
        """The JSON of a problem."""
        body = problem.body()
        if "errors" in body:
            body["errors"] = [{"pointer": pointer, "message": message} for pointer, message in first_faults(problem)]
        self._left -= len(orjson.dumps(body))
        if self._left < 0:
            body.pop("errors", None)
            body["detail"] = body["detail"][:DETAIL_MAX] + LEFT_OUT
        return body

    def faults(self, problem: Problem, at: str) -> list[tuple[str, str]]:
        """Tells what is wrong with a job that stands `at` a pointer, nothing where there is no room for it."""
        faults = first_faults(problem) or [("", f"{problem.detail} ({problem.code})")]
        self._left -= sum(len(at) + len(pointer) + len(message) for pointer, message in faults)
        return [(f"{at}{pointer}", message) for pointer, message in faults] if self._left >= 0 else []


def first_faults(problem: Problem) -> list[tuple[str, str]]:
    """The first faults of a problem, and how many more it has."""
    more = len(problem.errors) - FAULTS_MAX
    return [*problem.errors[:FAULTS_MAX], *([("", f"and {more} more")] if more > 0 else [])]
