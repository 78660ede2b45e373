"""Requests for the output of runs, on their way through a gateway to the host and back."""

import secrets
from collections.abc import Callable
from concurrent.futures import Future

from hostagent.gateway.connections import AskLog, Link, LogMissing, NotHere
from hostagent.messages import LogLine, LogPage
from paceline.client.output_ask import OutputAsk

NO_OUTPUT = "the host has no output of that run, or no longer"


class OutputRequests:
    """The requests that wait for an answer, each under an id that nobody guesses, and that no other gateway gives: a
    host may have changed over when it answers. `ask` and `answer` belong to any thread.
    """

    def __init__(self) -> None:
        self._asked: dict[str, tuple[str, Future[LogPage]]] = {}
        """The host of each, and its future."""

    def ask(self, ask: OutputAsk, host_id: str | None) -> AskLog:
        """A request, to be posted to the gateway."""
        return AskLog(host_id, LogLine(secrets.token_hex(8), *ask), Future())

    def pass_on(self, post: AskLog, host_id: str | None, link_of: Callable[[str], Link | None]) -> None:
        """Hands a request to the link of a host, None: nobody knows where the run is."""
        link = link_of(host_id) if host_id is not None else None
        if host_id is None or link is None:
            host_known = host_id is not None
            why = (
                NotHere(f"host {host_id} is not connected") if host_known else LogMissing("no host of the run is known")
            )
            if post.answer.set_running_or_notify_cancel():
                post.answer.set_exception(why)
            return
        request = post.line.request
        self._asked[request] = host_id, post.answer
        post.answer.add_done_callback(lambda _: self._asked.pop(request, None))
        link.ask(host_id, post.line)

    def answer(self, host_id: str, request: str, page: LogPage | None, why: str = NO_OUTPUT) -> None:
        """The answer of a host to a request; None: there is none, for the reason `why`. Another's is dropped."""
        of_host, future = self._asked.get(request, ("", None))
        if future is None or of_host != host_id or not future.set_running_or_notify_cancel():
            return
        if page is None:
            future.set_exception(LogMissing(why))
        else:
            future.set_result(page)
