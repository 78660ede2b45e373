"""Requests of the client for the stream of events (decision 085)."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import TypedDict, Unpack

from paceline.client.api_requests import Requests, error_of, without_none
from paceline.client.errors import PacelineError, Refused, Unreachable
from paceline.client.lines import Lines
from paceline.client.models import BOOKMARK, GONE, StreamEvent
from paceline.client.patience import AGAIN_S, Patience
from paceline.client.strangers import is_of_cell, no_cell

STREAM_SILENCE_S = 40.0
"""A stream that says nothing for so long is broken: an idle one says something each 15 s."""


class EventCriteria(TypedDict, total=False):
    """A filter of events; all that is given must hold. `about`: jobs, pools or hosts, several with commas; `job`,
    `host`: by name; `pool`: with all below it; `state`: a job has come into one of these; `owner`, `label` (KEY:VALUE)
    and `text` as in lists of jobs; `actor`: facts that this user wrote; `since`: an RFC 3339 time; `at`: begin at a
    moment of the past.
    """

    about: str | None
    job: Sequence[str]
    host: Sequence[str]
    pool: Sequence[str]
    state: str | None
    owner: Sequence[str]
    label: Sequence[str]
    text: str | None
    actor: str | None
    since: str | None
    at: str | None


class EventRequests(Requests):
    """Methods about events, see `Client`."""

    def events(
        self, after: str | None = None, *, bookmarks: bool = False, **criteria: Unpack[EventCriteria]
    ) -> Iterator[StreamEvent]:
        """The stream of events, from now or after the event with that id; ends when the cell or something between ends
        it, however that was: `watch` goes on then. `bookmarks`: also the events that say only how far the stream is,
        the first of which comes at once.

            for event in client.events(pool=["/maps"], state="FAILED"):
                print(event.data["at"], event.data["data"]["job_id"])
        """
        import httpx2

        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        timeout = httpx2.Timeout(self._timeout, read=STREAM_SILENCE_S)
        params = without_none(criteria)
        try:
            with self._http.stream("GET", "/v1/events", headers=headers, params=params, timeout=timeout) as response:
                self._heard(response)
                if response.is_error:
                    response.read()
                    raise error_of(response)
                if "event-stream" not in response.headers.get("Content-Type", "") and not is_of_cell(response):
                    raise no_cell(response)
                for event in _stream(response.iter_bytes()):
                    if bookmarks or event.event != BOOKMARK:
                        yield event
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error

    def watch(
        self, after: str | None = None, *, bookmarks: bool = False, **criteria: Unpack[EventCriteria]
    ) -> Iterator[StreamEvent]:
        """The stream of events without end: where it is cut, it goes on after the last event that came whole, so that
        none is lost or comes twice. Each has its `id`, after which another `watch` may go on.

            for event in client.watch(about="jobs", owner=["ann"]):
                print(event.id, event.event, list(event.data["about"]["jobs"]))

        A cell that is away is waited for, by default for a minute; then it raises `Unreachable`. Raises `Refused`
        (GONE) where the log no longer holds what comes next.
        """
        patience = Patience(self.patience, "the jobs go on")
        begun = False
        while True:
            start = after
            try:
                for event in self.events(after, bookmarks=True, **criteria):
                    patience.answered()
                    if event.event == GONE:
                        raise Refused(
                            410, {"code": "GONE", "detail": f"the log no longer holds what comes after {after}"}
                        )
                    after, begun = event.id or after, True
                    if bookmarks or event.event != BOOKMARK:
                        yield event
                raise Unreachable(f"The stream of the cell at {self.server} has ended.")
            except PacelineError as error:
                if not begun:
                    raise
                patience.missed(error)
            if after == start:  # it gets no further
                time.sleep(min(AGAIN_S, self.patience))


def _stream(chunks: Iterator[bytes]) -> Iterator[StreamEvent]:
    """The events of a `text/event-stream`. One that was cut is none."""
    last, kind, data = "", "message", list[str]()
    lines = Lines()
    for line in (each.decode().removesuffix("\r") for chunk in chunks for each in lines.feed(chunk)):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield StreamEvent(last, kind, json.loads("\n".join(data)))
            kind, data = "message", []
        elif name == "data":
            data.append(value)
        elif name == "id":
            last = value
        elif name == "event":
            kind = value
