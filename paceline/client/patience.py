"""Patience with a cell that is away while something is followed or waited for."""

import time
from collections.abc import Collection

from paceline.client.errors import ApiError, NotAuthorised, PacelineError, Unreachable, WrongToken

PATIENCE_S = 60.0
"""So long a cell that is away is asked again and again."""
AGAIN_S = 0.5


class Patience:
    """Counts for how long there was no answer; `what` goes on meanwhile. `codes`: problems that may pass, too."""

    def __init__(self, seconds: float, what: str = "the job goes on", codes: Collection[str] = ()) -> None:
        self._seconds = seconds
        self._what = what
        self._codes = codes
        self._since: float | None = None

    @property
    def silent_s(self) -> float:
        """Seconds since the first question that had no answer; 0: the last one had."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def answered(self) -> None:
        """There was an answer."""
        self._since = None

    def missed(self, error: PacelineError) -> None:
        """There was none. Raises the error where asking again won't help, and `Unreachable` after too long."""
        if not _passes(error) and not (isinstance(error, ApiError) and error.code in self._codes):
            raise error
        if self._since is None:
            self._since = time.monotonic()
        if self.silent_s > self._seconds:
            raise Unreachable(f"{error}\nNothing was heard for {self._seconds:g} s; {self._what}.") from error


def _passes(error: PacelineError) -> bool:
    """Whether asking again may help: the cell is away, or it has too much to do."""
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status == 429
    return isinstance(error, Unreachable) and not isinstance(error, WrongToken | NotAuthorised)
