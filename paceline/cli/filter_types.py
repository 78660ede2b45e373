"""Values of options that filter lists: states by their names, and pairs of a key and a value."""

from collections.abc import Sequence
from typing import Any

import click

from events.nearest import meant


class States(click.ParamType):
    """States of a kind of thing, separated by commas, in any case: PENDING,RUNNING."""

    name = "states"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is."""
        states = self._states()
        for each in filter(None, str(value).upper().split(",")):
            if each not in states:
                near = meant(each, states) or f"; there are {', '.join(states)}"
                raise click.BadParameter(f"{each[:40]} is no state of a {self._kind}{near}", ctx, param)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The states that begin as the last one does."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.upper().rpartition(",")
        return [CompletionItem(before + comma + each) for each in self._states() if each.startswith(last)]

    def _states(self) -> Sequence[str]:
        if self._kind == "task":
            from events.codes import TaskState

            return list(TaskState.__members__)
        if self._kind == "host":
            from projections.host_states import STAGES, HostState

            return [*HostState, *STAGES]
        from projections.views.job_states import JOB_STATES

        return JOB_STATES


class Pair(click.ParamType):
    """A key and a value: team:maps."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The pair as it is."""
        if ":" not in str(value):
            raise click.BadParameter(f"{value!r} has no value; write KEY:VALUE", ctx, param)
        return str(value)
