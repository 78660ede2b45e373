"""Requests of the client for the output of runs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from paceline.client.api_requests import Requests, without_none
from paceline.client.checked_values import path_of
from paceline.client.errors import PacelineError, Unreachable
from paceline.client.models import Output
from paceline.client.patience import AGAIN_S, Patience
from paceline.client.strangers import is_of_cell, no_cell

STREAMS = ("stdout", "stderr")
WAIT_S = 20.0
"""So long a question waits at the host until there is more."""
LINE_S = 0.2
"""So long the rest of a line is waited for."""
LINE_BYTES_MAX = 65_536
TAIL_BYTES = 16_384
END = (1 << 63) - 1
NO_OUTPUT = "NO_OUTPUT"


class OutputPiece(NamedTuple):
    """Lines that a run has written to `stream`, from byte `offset` on. `missed`: so many bytes before them are not kept
    any more; `lost`: so many of all its output the disk of its host didn't take, said once, at the end.
    """

    stream: str
    data: bytes
    offset: int
    missed: int = 0
    lost: int = 0


class OutputRequests(Requests):
    """Methods about the output of runs, see `Client`."""

    def output(
        self,
        job_id: str,
        instance: int,
        run: int | None = None,
        stream: str = "stdout",
        offset: int = 0,
        limit: int | None = None,
        wait: float = 0,
        other_offset: int | None = None,
    ) -> Output:
        """A piece of the output of a run, by default the task's last; `stream` is stdout or stderr. A negative offset
        counts from the end. `wait`: where there is nothing yet, so many seconds, at most 20, until there is, or until
        the other stream has more than `other_offset` bytes.
        """
        wait_text = f"{round(wait * 1000)}ms" if wait else None
        params = {"run": run, "stream": stream, "offset": offset, "limit": limit, "wait": wait_text}
        params = without_none({**params, "other_offset": other_offset})
        response = self._send("GET", path_of("jobs", job_id, "tasks", str(instance), "log"), wait, params=params)
        headers = response.headers
        if "Log-Next-Offset" not in headers and not is_of_cell(response):
            raise no_cell(response, response.content)
        at = int(headers.get("Log-Offset", offset))
        after = int(headers.get("Log-Next-Offset", at + len(response.content)))
        if after - at != len(response.content):
            raise Unreachable(f"The answer of the cell at {self.server} was cut; trying again is safe.")
        numbers = (int(headers.get(name, -1)) for name in ("Log-End", "Log-Other-End", "Log-Lost", "Log-Run"))
        return Output(response.content, at, after, headers.get("Log-Ended") == "1", *numbers)

    def output_end(self, job_id: str, instance: int, run: int | None, stream: str, lines: int = 0) -> int:
        """Where a stream ends by now, or where its last lines begin."""
        if not lines:
            return self.output(job_id, instance, run, stream, END, 1).offset
        size = TAIL_BYTES
        while True:
            page = self.output(job_id, instance, run, stream, -size, size)
            data, before = page.data, page.offset
            while page.data and not page.ended:  # pieces end where they like
                page = self.output(job_id, instance, page.run if page.run > 0 else run, stream, page.next_offset)
                if page.offset > before + len(data):
                    data, before = b"", page.offset
                data += page.data
            ends = [at + 1 for at, byte in enumerate(data[:-1]) if byte == 10]
            if len(ends) >= lines:
                return before + ends[-lines]
            if not before or size >= END // 8:
                return before
            size *= 8

    def read_output(
        self,
        job_id: str,
        instance: int,
        run: int | None = None,
        streams: Sequence[str] = STREAMS,
        follow: bool = False,
        offsets: Mapping[str, int] | None = None,
    ) -> Iterator[OutputPiece]:
        """The output of a run, by default the task's last: to where it ends by now, with `follow` to the end of the
        run. It comes in whole lines, where none is longer than 64 KiB and none is left half for longer than 0.2 s.
        `offsets`: where each stream begins, by default with its first byte.

        Whoever follows waits for a cell that is away, for a minute; then it raises `Unreachable`. It never ends as if
        all were well before the run has.
        """
        reading = _Reading(self, job_id, instance, run, streams, offsets or {})
        return reading.follow() if follow else reading.read()


class _Stream:
    """One stream that is read."""

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        self.offset = offset
        self.end: int | None = None
        """Its size by now; None: not known."""
        self.ended = False
        self._rest = b""
        """The part of a line whose end has not come yet."""

    def take(self, page: Output) -> Iterator[OutputPiece]:
        """The lines that a page makes whole."""
        missed = 0
        if page.offset > self.offset:
            missed, self._rest = page.offset - self.offset + len(self._rest), b""
        self.offset, self.ended = page.next_offset, page.ended
        self.end = page.end if page.end >= 0 else None if page.data else self.offset
        data = self._rest + page.data
        whole = data.rfind(b"\n") + 1
        if self.ended or len(data) - whole > LINE_BYTES_MAX:
            whole = len(data)
        self._rest = data[whole:]
        if whole or missed:
            yield OutputPiece(self.name, data[:whole], self.offset - len(data), missed)

    @property
    def waits(self) -> bool:
        """Whether there is nothing to be read now."""
        return self.ended or (self.end is not None and self.end <= self.offset)

    @property
    def has_rest(self) -> bool:
        """Whether part of a line is there."""
        return bool(self._rest)

    def rest(self) -> Iterator[OutputPiece]:
        """The part of a line that is there."""
        if self._rest:
            yield OutputPiece(self.name, self._rest, self.offset - len(self._rest))
            self._rest = b""


class _Reading:
    """The reading of one run."""

    def __init__(
        self,
        client: OutputRequests,
        job_id: str,
        instance: int,
        run: int | None,
        streams: Sequence[str],
        offsets: Mapping[str, int],
    ) -> None:
        self._client = client
        self._of = job_id, instance
        self._run = run
        self._streams = [_Stream(name, offsets.get(name, 0)) for name in streams]
        self._is_heard = False
        """Whether there was an answer once."""
        self._patience = Patience(client.patience, codes=(NO_OUTPUT,))
        self._lost = 0

    def read(self) -> Iterator[OutputPiece]:
        """To where it ends now."""
        for stream in self._streams:
            page = self._ask(stream, 0)
            end = page.end
            yield from stream.take(page)
            while page.data and not 0 <= end <= stream.offset:
                page = self._ask(stream, 0)
                yield from stream.take(page)
            yield from stream.rest()
        yield from self._end()

    def follow(self) -> Iterator[OutputPiece]:
        """To its end."""
        while open_ := [stream for stream in self._streams if not stream.ended]:
            stream = next((each for each in open_ if not each.waits), open_[0])
            wait = 0.0 if not stream.waits else LINE_S if any(each.has_rest for each in open_) else WAIT_S
            others = [each for each in open_ if each is not stream]
            page = self._patiently(stream, wait, others)
            yield from stream.take(page)
            for each in others if page.other_end >= 0 else ():
                each.end = page.other_end
            if wait and not page.data and all(each.waits for each in open_):
                for each in open_:
                    yield from each.rest()
                if page.end < 0 and not page.ended:  # an agent that doesn't wait
                    time.sleep(AGAIN_S)
                    for each in open_:
                        each.end = None
        yield from self._end()

    def _end(self) -> Iterator[OutputPiece]:
        if self._lost > 0:
            yield OutputPiece(self._streams[0].name, b"", self._streams[0].offset, lost=self._lost)

    def _ask(self, stream: _Stream, wait: float, other: int | None = None) -> Output:
        page = self._client.output(*self._of, self._run, stream.name, stream.offset, None, wait, other)
        self._run = page.run if page.run > 0 else self._run  # the task may run again meanwhile
        self._lost = max(self._lost, page.lost)
        return page

    def _patiently(self, stream: _Stream, wait: float, others: Sequence[_Stream]) -> Output:
        """Asks until there is an answer."""
        while True:
            try:
                page = self._ask(stream, wait, others[0].offset if wait and others else None)
            except PacelineError as error:
                if not self._is_heard:
                    raise
                self._patience.missed(error)
                time.sleep(min(AGAIN_S, self._client.patience))
                wait = 0.0
            else:
                self._is_heard = True
                self._patience.answered()
                return page
