"""Processes that share work, one for each task. Ctrl-C is for the process that started them, which kills them at once:
nobody wants what they would still find.

Not `concurrent.futures`: an interrupt that meets it while it takes its locks leaves them taken, and a worker that is
killed while it writes leaves half a message for which a thread of it waits for ever. Here each worker writes to a pipe
of its own, which ends with it, and the one who waits holds nothing.
"""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Say = Callable[[Any], None]
"""Tells the process that started a worker how far it is."""


class WorkerError(RuntimeError):
    """A worker ended without a result."""


class Workers(Generic[Result]):
    """Started and waited for in the main thread. At the end of its `with` no worker is left."""

    def __init__(self, context: BaseContext, say: Say | None = None) -> None:
        self._context: Any = context
        self._say = say
        self._running: dict[Connection, tuple[Any, str]] = {}

    def __len__(self) -> int:
        """The number of tasks at work."""
        return len(self._running)

    def __enter__(self) -> "Workers[Result]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker, _ in self._running.values():
            worker.kill()
        for connection in list(self._running):
            self._join(connection)

    def start(self, name: str, task: Callable[..., Result], *args: Any) -> None:
        """Lets a process of its own do `task(say, *args)`."""
        mine, its = self._context.Pipe(duplex=False)
        worker = self._context.Process(target=_work, args=(its, task, args), daemon=True)
        with _starting():
            worker.start()
            self._running[mine] = (worker, name)
        its.close()

    def results(self) -> Iterator[tuple[str, Result]]:
        """Yields the results of the tasks that end next, by their names; waits for one where some are at work. Raises
        what a task raised, `WorkerError` where a process ended without a word.
        """
        results: list[tuple[str, Result]] = []
        while self._running and not results:
            for ready in wait(list(self._running)):
                assert isinstance(ready, Connection)
                message = self._message(ready)
                if message is not None:
                    results.append(message)
        yield from results

    def _message(self, connection: Connection) -> tuple[str, Result] | None:
        try:
            kind, value = connection.recv()
        except (EOFError, OSError):
            worker, name = self._join(connection)
            raise WorkerError(f"the process for {name} ended with {worker.exitcode} and without a result") from None
        if kind == "progress":
            if self._say:
                self._say(value)
            return None
        _, name = self._join(connection)
        if kind == "error":
            raise value
        return name, value

    def _join(self, connection: Connection) -> tuple[Any, str]:
        worker, name = self._running.pop(connection)
        worker.join()
        connection.close()
        return worker, name


def _work(connection: Connection, task: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """In the worker."""
    try:
        result = task(lambda progress: connection.send(("progress", progress)), *args)
    except BaseException as error:
        error.add_note(traceback.format_exc())
        with suppress(OSError):
            connection.send(("error", error))
    else:
        connection.send(("result", result))


@contextmanager
def _starting() -> Iterator[None]:
    """A process that is started meanwhile never hears a Ctrl-C; here it is heard afterwards, as half of a process could
    not be ended.
    """
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))  # other threads may be told
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
        if interrupts:
            signal.raise_signal(signal.SIGINT)
