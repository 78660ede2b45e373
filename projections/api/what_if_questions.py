"""Questions what would have been otherwise, and how far their answers are."""

from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec


class Question(NamedTuple):
    """A stretch in milliseconds since 1970, and what is otherwise in it: texts as `paceline what-if --set` takes them,
    and a change file, empty: none. `runs`: pairs of runs.
    """

    from_ms: int
    to_ms: int
    changes: tuple[str, ...]
    change_file: str = ""
    runs: int = 5
    seed: int = 1
    conditions: tuple[str, ...] = ()
    """As `paceline what-if --fail-if` takes them."""

    @property
    def id(self) -> str:
        """The id of the answer: the same question has the same."""
        return blake2b(msgspec.json.encode(tuple(self)), digest_size=8).hexdigest()


class AskedWhatIf(NamedTuple):
    """A question and how far its answer is: `done` of 1. Once it is over `summary` is the answer, as JSON, and `page`
    the same as pages show it; or `error` says why there is none.
    """

    question: Question
    done: float = 0.0
    summary: bytes = b""
    page: bytes = b""
    error: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return bool(self.summary or self.error)


class WhatIfs(Protocol):
    """Answers questions of one cell, one at a time, by a process that decides on copies. Thread-safe."""

    def ask(self, question: Question) -> AskedWhatIf:
        """Begins with a question, unless it is at work with that or has answered it. Raises a problem while it is at
        work with another one.
        """
        ...

    def look(self, what_if_id: str) -> AskedWhatIf | None:
        """Finds how far the answer is. Who looks wants it: what nobody looks at is ended. None: it was never asked, or
        was forgotten.
        """
        ...

    def at_work(self) -> AskedWhatIf | None:
        """The question that is worked on."""
        ...
