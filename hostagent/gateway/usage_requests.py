"""Requests for what the runs of a host use, on their way through a gateway to the host and back."""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import Future

from hostagent.gateway.connections import AskUsage, Link, LogMissing, NotHere
from hostagent.messages import UsageLine

LATE_S = 5.0
"""Seconds for which one waits for a host."""


class UsageRequests:
    """The requests that wait for an answer, each under an id that nobody guesses. `ask` and `answer` belong to any
    thread.
    """

    def __init__(self) -> None:
        self._asked: dict[str, tuple[str, Future[bytes]]] = {}
        """The host of each, and its future."""

    def ask(self, host_id: str, job_id: str) -> AskUsage:
        """A request, to be posted to the gateway; `job_id` empty: all runs."""
        return AskUsage(host_id, UsageLine(secrets.token_hex(8), job_id), Future())

    def pass_on(self, post: AskUsage, link_of: Callable[[str], Link | None]) -> None:
        """Hands a request to the link of its host."""
        link = link_of(post.host_id)
        if link is None:
            if post.answer.set_running_or_notify_cancel():
                post.answer.set_exception(NotHere(f"host {post.host_id} is not connected"))
            return
        request = post.line.request
        self._asked[request] = post.host_id, post.answer
        post.answer.add_done_callback(lambda _: self._asked.pop(request, None))
        link.ask(post.host_id, post.line)

    def answer(self, host_id: str, request: str, usage: bytes) -> None:
        """The answer of a host, as JSON; empty: it measures nothing. Another's is dropped."""
        of_host, future = self._asked.get(request, ("", None))
        if future is None or of_host != host_id or not future.set_running_or_notify_cancel():
            return
        if usage:
            future.set_result(usage)
        else:
            future.set_exception(LogMissing("the host doesn't measure its runs"))


async def in_time(answer: "Future[bytes]", host_id: str) -> bytes:
    """The answer, for an event loop. Raises `LogMissing`, also where the host doesn't answer in time."""
    try:
        async with asyncio.timeout(LATE_S):
            return await asyncio.wrap_future(answer)
    except TimeoutError as error:
        raise LogMissing(f"host {host_id} did not answer in time") from error
