"""`paceline witness`: the process. It ends with 1 when it has found something, and says what."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from events.log.port import Log, LogUnavailable
from events.process.file_locks import hold
from events.process.health import Health
from paceline.client.errors import PacelineError
from paceline.history.open_log import open_log
from paceline.history.start_state import is_history
from paceline.output import note
from paceline.services.data_folder import CannotStart
from paceline.services.process_setup import on_end
from paceline.services.settings import Settings
from paceline.witness import metrics
from paceline.witness.alarms import Alarmed, Finding
from paceline.witness.notes import read_key
from paceline.witness.published import Heads
from paceline.witness.witness import EVERY_MS, Keys, Witness
from processors.cell_machines import machines
from processors.runtime.store import StoreFault

if TYPE_CHECKING:
    from starlette.applications import Starlette

PACE_S = 0.5
"""Seconds between two looks for new rounds."""
RETRY_S = 2.0
SCRAPED_S = 60.0
"""So long an alarm stays on the metrics before the process ends, unless somebody has read them."""


class Options(NamedTuple):
    """The options of the command line. `every_ms`: between two heads; `listen`: HOST:PORT of health endpoints, empty:
    none; `once`: to sign one head and end.
    """

    publish: str
    key: Path
    old_key: Path | None
    state: Path
    every_ms: int = EVERY_MS
    listen: str = ""
    once: bool = False


class Process:
    """A witness at work: where it stands for those who ask, and how it ends."""

    def __init__(self, log: Log, options: Options) -> None:
        self._log = log
        self._options = options
        self._keys = Keys(read_key(options.key), read_key(options.old_key) if options.old_key else None)
        self.stop = threading.Event()
        self.code = 0
        self._witness: Witness | None = None
        self._finding: Finding | None = None
        self._trouble = ""
        self._scraped = threading.Event()

    def run(self) -> None:
        """Works until it is stopped, or has found something."""
        try:
            self._begin()
            if self._witness is not None:
                with closing(self._witness) as witness:
                    self._follow(witness)
        except Alarmed as alarmed:
            self._alarm(alarmed.finding)

    def look(self) -> Health:
        """Its health."""
        detail: dict[str, object] = {"trouble": self._trouble} if self._trouble else {}
        if self._finding is not None:
            detail["alarm"] = str(self._finding)
        witness = self._witness
        if witness is None:
            return Health(False, False, detail)
        head = witness.last.head if witness.last else None
        detail["head"] = {"number": head.number, "at": head.time} if head else None
        detail["caught_up"] = witness.caught_up
        detail["lag"] = {each.name: each.lag for each in witness.machines}
        return Health(witness.has_signed, witness.caught_up and not self._trouble and self._finding is None, detail)

    def app(self) -> "Starlette":
        """The health endpoints and metrics."""
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        from paceline.services.health_pages import routes

        pages = routes(self.look)
        [metrics_page] = [page.endpoint for page in pages if page.path == "/metrics"]

        def scraped(request: Request) -> Response:
            response: Response = metrics_page(request)
            if self._finding is not None:
                self._scraped.set()
            return response

        return Starlette(routes=[Route("/metrics", scraped), *(page for page in pages if page.path != "/metrics")])

    def _begin(self) -> None:
        options, cell = self._options, self._log.cell
        folder = options.state / f"cell-{cell}"

        def make() -> Witness:
            heads = Heads(options.publish, cell)
            return Witness(self._log, heads, self._keys, folder, machines(cell), _now_ms, options.every_ms, note)

        self._witness = self._until_reached(make)
        if self._witness is not None and not options.once:
            last = self._witness.last
            where = f"goes on after head {last.head.number}" if last else "begins with head 1"
            note(f"witness {self._keys.key.public} of cell {cell} {where}; heads go to {options.publish}")

    def _until_reached(self, make: Callable[[], Witness]) -> Witness | None:
        while not self.stop.is_set():
            try:
                return make()
            except LogUnavailable as away:
                self._tell_trouble(away)
                self.stop.wait(RETRY_S)
        return None

    def _follow(self, witness: Witness) -> None:
        while not self.stop.is_set():
            try:
                more = witness.step()
                self._trouble = ""
            except LogUnavailable as away:
                self._tell_trouble(away)
                self.stop.wait(RETRY_S)
                continue
            finally:
                metrics.tell(witness)
            if self._options.once and witness.caught_up:
                self._end_of_once(witness)
                return
            if not more:
                self.stop.wait(PACE_S)
        witness.finish()

    def _end_of_once(self, witness: Witness) -> None:
        if witness.last is None:
            raise PacelineError(f"There is nothing to sign: the log of cell {self._log.cell} has no rounds.")
        head, rounds = witness.last.head, sum(each.decided for each in witness.machines)
        note(f"{rounds} rounds replayed: all identical, byte for byte; head {head.number} was signed")

    def _tell_trouble(self, away: LogUnavailable) -> None:
        if str(away) != self._trouble:
            note(f"paceline: {away}")
        self._trouble = str(away)
        if self._options.once:
            raise away

    def _alarm(self, finding: Finding) -> None:
        self._finding, self.code = finding, 1
        metrics.tell_alarm(self._log.cell, finding)
        note(f"the witness of cell {self._log.cell} ends with an alarm: {finding}")
        if self._options.listen:
            end = time.monotonic() + SCRAPED_S
            while not self.stop.is_set() and not self._scraped.wait(PACE_S) and time.monotonic() < end:
                pass


def run(settings: Settings, options: Options) -> int:
    """Runs a witness until a signal or an alarm; returns the exit code. Raises `PacelineError`, `LogError`."""
    if not settings.kafka and is_history(settings.data):
        raise PacelineError(f"{settings.data} is an exported log range: a witness follows the log of a cell.")
    with _held(options.state), closing(open_log(settings)) as log:
        process = Process(log, options)
        try:
            if options.listen and not options.once:
                _serve(process, options.listen)
            else:
                on_end(process.stop.set)
                process.run()
        except StoreFault as fault:
            raise CannotStart(str(fault)) from fault
    return process.code


def _serve(process: Process, listen: str) -> None:
    from hostagent.listen_address import address_of
    from paceline.services.http_serving import serve_http
    from paceline.services.startup import listening

    socket = listening(listen)
    note(f"listens at http://{address_of(socket)}")
    serve_http(process.app(), socket, process.stop, process.run)


def _held(state: Path) -> IO[str]:
    """Holds the folder of a witness. Raises `CannotStart` where another has it."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        return hold(state / "lock")
    except BlockingIOError as error:
        raise CannotStart(f"{state} is in use by another witness. Stop that one, or name another --state.") from error
    except OSError as error:
        raise CannotStart(f"{error.filename or state}: {error.strerror}. Name another folder with --state.") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
