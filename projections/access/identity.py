"""The identity of a request, kept in its context: who asks, how that is known, and what they may read."""

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Identity:
    """The actor of a request. `how` and `credential`: see the record `Actor`."""

    subject: str = ""
    groups: frozenset[str] = frozenset()
    how: str = ""
    credential: str = ""
    is_cell: bool = False
    """Whether it showed the token of the cell, with which all is allowed."""
    run: tuple[str, int, int] | None = None
    """The job, instance and run whose token it showed."""
    reads: tuple[str, ...] | None = None
    """The topmost pools that it may read; None: all of the cell."""
    reads_job: str = ""
    """The one job that it may read: that of its run."""

    @property
    def is_nobody(self) -> bool:
        """Whether it showed nothing that proves who asks."""
        return not (self.is_cell or self.subject or self.run)

    @property
    def is_limited(self) -> bool:
        """Whether there may be things that it can't see."""
        return self.reads is not None


T = TypeVar("T")
NOBODY = Identity()
EVERYTHING = Identity(is_cell=True)
_present: ContextVar[Identity] = ContextVar("identity", default=EVERYTHING)
"""The identity of the request that is answered; a thread that works for a request has a copy of its context. Where
there is no request, the process itself looks.
"""


def present() -> Identity:
    """The identity of the request that is answered."""
    return _present.get()


def begin(identity: Identity) -> None:
    """Notes who asks, for the rest of the request."""
    _present.set(identity)


def as_asked(look: Callable[[], T]) -> Callable[[], T]:
    """The look for later, in work that is done for several, as who asks now."""
    context = copy_context()
    return lambda: context.copy().run(look)
