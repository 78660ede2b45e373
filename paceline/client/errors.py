"""Errors for users of the CLI and the client, each with the exit code of the command."""

from typing import ClassVar

from paceline.client.json_type import Json


class PacelineError(Exception):
    """Asked and refused, or failed; the message says what failed and what to do."""

    exit_code: ClassVar[int] = 1


class Faults(PacelineError):
    """Files or settings are wrong; one line each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class InvalidValue(PacelineError, ValueError):
    """An id, an address or a token can be none; nothing was sent."""

    exit_code = 2


class TimedOut(PacelineError):
    """A condition was not met in time."""

    exit_code = 124


class Unreachable(PacelineError):
    """The cell does not answer. Trying again is safe."""

    exit_code = 6


class WrongToken(PacelineError):
    """The server has another token."""

    exit_code = 9


class ApiError(PacelineError):
    """The cell answered with a problem (RFC 9457). `errors`: pairs of JSON pointer and message; `position`: where in
    the log the answer stands, empty where it stands nowhere; `progress`: how much of how much is done of what the
    answer waits for.
    """

    def __init__(self, status: int, problem: Json) -> None:
        self.status = status
        self.code = str(problem.get("code") or "")
        self.title = str(problem.get("title") or f"HTTP status {status}")
        self.detail = str(problem.get("detail") or "")
        self.errors = [
            (str(each.get("pointer", "")), str(each.get("message", ""))) for each in problem.get("errors") or ()
        ]
        self.position = str(problem.get("position") or "")
        self.progress = (int(problem.get("done") or 0), int(problem.get("of") or 0))
        code = f" ({self.code})" if self.code else ""
        lines = [f"{self.detail or self.title}{code}"]
        lines += [f"  {pointer}: {message}" for pointer, message in self.errors if message != self.detail]
        super().__init__("\n".join(lines))


class Refused(ApiError):
    """The scheduler does not do what was asked."""


class Conflict(Refused):
    """The job has another version than the one that was expected."""

    exit_code = 5


class NotFound(ApiError):
    """There is no such thing."""

    exit_code = 4


class NotAuthorised(ApiError):
    """The token is missing or wrong, or doesn't permit it."""

    exit_code = 9


class Unavailable(ApiError):
    """The cell can't answer now. Trying again is safe."""

    exit_code = 6
