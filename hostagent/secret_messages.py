"""Messages about secrets between gateway and agent. Values come sealed, see `hostagent.sealing`."""

from typing import Annotated

import msgspec

from events.bounds import HOST_RUNS_MAX, NAME
from hostagent.messages import Count, Session
from hostagent.run_record import RunKey


class RunName(msgspec.Struct, array_like=True, frozen=True):
    """Names a run."""

    job_id: Annotated[str, msgspec.Meta(pattern=rf"^{NAME.pattern}\Z")]
    instance: Count
    run: Count

    @property
    def key(self) -> RunKey:
        """The run."""
        return RunKey(self.job_id, self.instance, self.run)


class SecretsAsk(msgspec.Struct):
    """An agent asks for the secrets of runs that it is to start."""

    session: Session
    runs: Annotated[list[RunName], msgspec.Meta(max_length=HOST_RUNS_MAX)]


class SealedSecret(msgspec.Struct):
    """A value, sealed for host, session and run."""

    name: str
    version: int
    sealed: bytes


class SecretsOfRun(msgspec.Struct):
    """The secrets of one run: all, or none and why. `missing`: they won't come; `away`: they may come later, and both
    empty without secrets: the cell doesn't want the run on this host now.
    """

    run: RunName
    secrets: list[SealedSecret] = []
    missing: str = ""
    away: str = ""


class SecretsAnswer(msgspec.Struct):
    """The answer, in the order of the question."""

    runs: list[SecretsOfRun]
