"""Remembers answers about jobs that are alike: most differ from one before them in their names and texts alone."""

from collections.abc import Callable, Iterable
from functools import cache, wraps
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from processors.lifecycle.rows import SubmittedRow

FIELDS = tuple(each.name for each in msgspec.structs.fields(SubmittedRow))
NAMES = ("job_id", "pool", "description", "labels", "owner")
"""The fields that name or describe a job, which its tasks don't depend on."""
WORDS = (*NAMES, "command", "env")
"""All fields in words, of which jobs that are alike otherwise have their own."""
RULES = tuple(name for name in FIELDS if name not in WORDS)
KNOWN_MAX, KEY_BYTES_MAX = 4096, 1024
"""So many answers are remembered, of jobs whose fields take at most so many bytes."""
_pack = msgspec.msgpack.Encoder().encode

V = TypeVar("V")
_remembered: list[dict[bytes, Any]] = []


def forget() -> None:
    """Forgets all answers; for tests that change the rules behind them."""
    for answers in _remembered:
        answers.clear()


@cache
def _last_of(fields: tuple[str, ...]) -> list[tuple[SubmittedRow | None, bytes]]:
    """It holds the job that was asked of last, and what it says in these fields: several ask of one job in turn."""
    return [(None, b"")]


def once(fields: Iterable[str]) -> Callable[[Callable[[SubmittedRow], V]], Callable[[SubmittedRow], V]]:
    """Remembers the answers of a function that goes by these fields alone. What it returns is shared: nobody changes
    it.
    """
    values, last = attrgetter(*(names := tuple(fields))), _last_of(names)

    def remembering(find: Callable[[SubmittedRow], V]) -> Callable[[SubmittedRow], V]:
        answers: dict[bytes, V] = {}
        _remembered.append(answers)

        @wraps(find)
        def found(job: SubmittedRow) -> V:
            if job.overrides or job.override or job.chunks:
                return find(job)
            of, key = last[0]
            if of is not job:
                key = _pack(values(job))
                last[0] = job, key
            if key in answers:
                return answers[key]
            answer = find(job)
            if len(key) <= KEY_BYTES_MAX:
                if len(answers) >= KNOWN_MAX:
                    answers.clear()
                answers[key] = answer
            return answer

        return found

    return remembering
