"""Whether another build would decide recorded rounds as they were: the gate of a release."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from threading import Lock

from msgspec.structs import replace

from events.log.port import Log
from paceline.history.build_protocol import PROTOCOL, Differs, Hello, Message, Order, Reached, Span
from paceline.history.findings import Findings
from paceline.history.other_build import Worker, address_of, ask_build
from paceline.history.own_passes import OwnPasses, begin
from paceline.services.settings import Settings

Say = Callable[[Reached], None]


@dataclass(slots=True)
class BuildResult:
    """The findings about a build of a `version`, where it decides otherwise than was recorded."""

    findings: Findings
    version: str = ""


def verify_by_build(
    log: Log, settings: Settings, python: str, spans: Mapping[str, Span], jobs: int, say: Say
) -> BuildResult:
    """Lets the Paceline of an interpreter decide the rounds of some machines, in so many processes at once. Raises
    `InvalidValue` where it can't be asked, `Unreachable`, `WorkerEnded`.
    """
    result, lock = BuildResult(Findings()), Lock()
    address = address_of(settings, log)
    passes = OwnPasses(log, partial(begin, log, address, ""))
    names = list(spans)
    groups = [names[at :: min(jobs, len(names))] for at in range(min(jobs, len(names)))]

    def take(message: Message) -> None:
        with lock:
            if isinstance(message, Hello):
                result.version = message.build
            elif isinstance(message, Reached):
                say(message)
            elif isinstance(message, Differs):
                message = replace(message, parts=passes.of_the_pass(message))
            result.findings.take(message)

    workers = [ask_build(python, Order(PROTOCOL, address, {name: spans[name] for name in group})) for group in groups]
    try:
        _read_all(workers, take)
    finally:
        for worker in workers:
            worker.close()
    return result


def _read_all(workers: Iterable[Worker], take: Callable[[Message], None]) -> None:
    def read(worker: Worker) -> None:
        for message in worker.messages():
            take(message)

    waiting = list(workers)
    with ThreadPoolExecutor(len(waiting)) as pool:
        futures: list[Future[None]] = [pool.submit(read, worker) for worker in waiting]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:  # Ctrl-C, or one has failed: the others end, and with them their threads
            if not all(each.done() for each in futures):
                for worker in waiting:
                    worker.process.kill()
        for each in done:
            each.result()
