"""Common steps at the start of all processes: a name, a data folder, a broker that answers, topics that are right."""

import os
import socket
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from events.log.port import LogFault, LogUnavailable
from events.signing_keys import FOLDER, SigningKeys
from events.topics import MACHINES
from hostagent.gateway.host_ca import HostCa
from hostagent.listen_address import bound
from hostagent.tls import ServerContext
from paceline.services.data_folder import CannotStart, fit, prepare
from paceline.services.process_logs import configure, logger
from paceline.services.process_setup import end_at_once
from paceline.services.processes import PROCESSES, default_listen
from paceline.services.server_tls import server_context, url
from paceline.services.settings import Settings, WrongSettings
from paceline.services.waiting_pages import WaitingPages

KAFKA_RETRY_S = 2.0
PORT_MAX = 65_535
TLS_KINDS = frozenset(("api", "gateway"))
"""The processes that others than their machine's supervisors ask."""

T = TypeVar("T")


class Say(Protocol):
    """Writes a line about the process, or about one of its cells, with what is known of it."""

    def __call__(self, cell: int | None, text: str, **fields: Any) -> None: ...  # noqa: D102 - the class says it


class Start(NamedTuple):
    """The result of a process's start: its kind, its name, that of its data folder (`instance`), the socket on which it
    listens and the address of that as HOST:PORT, the token of its cells; `tls`: the context of its server, None: it
    speaks plain HTTP.
    """

    kind: str
    name: str
    instance: str
    listening: socket.socket
    address: str
    token: str
    say: Say
    tls: ServerContext | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        return url(self.tls, self.address)


def run_process(kind: str, settings: Settings) -> int:
    """Runs a process of a kind that meets the others in Kafka until SIGTERM or SIGINT; returns its exit code. Raises
    `CannotStart`, `WrongSettings`.
    """
    process = PROCESSES[kind]
    service = import_module(f"paceline.services.{process.module}")
    start = begin(settings, kind)
    service.serve(settings, start)
    start.say(settings.cell if process.of_cell else None, "stopped")
    return 0


def begin(settings: Settings, kind: str) -> Start:
    """Prepares the data folder and the logs, whose every line names the process, waits for the broker, checks the
    topics, and registers the schemas where there is a registry. Raises `CannotStart`, `WrongSettings`.
    """
    fields: dict[str, Any] = {"machine": kind} if kind in MACHINES else {"process": kind}
    if PROCESSES[kind].of_cell:
        fields["cell"] = settings.cell
    configure(settings.logs.form, settings.logs.level, **fields)
    log = logger()
    if not settings.kafka:
        raise CannotStart(
            "processes of their own meet in Kafka: name it with --kafka HOST:PORT. For one process: paceline up"
        )
    token = _prepared(settings)
    socket_, address = _listening(settings, kind)
    end_at_once()
    ca = host_ca(settings) if kind == "gateway" else None
    tls = server_context(settings.tls, log.warning, ca) if kind in TLS_KINDS else None
    with WaitingPages(socket_.dup, log.warning, tls) as pages:
        _await_topics(settings, pages.wait_for)
        _use_registry(settings.schema_registry_url, pages.wait_for)

    def say(cell: int | None, text: str, **fields: Any) -> None:
        log.info(text, **({} if cell is None else {"cell": cell}), **fields)

    say(None, f"listens at {url(tls, address)}")
    instance = instance_of(settings.data)
    return Start(kind, settings.service.name or instance, instance, socket_, address, token, say, tls)


def instance_of(data: Path) -> str:
    """The name of a data folder among all on the machines of a cell."""
    return f"{socket.gethostname()}-{data.resolve()}".replace("/", "_")[:200]


def listening(listen: str) -> socket.socket:
    """A socket that listens on HOST:PORT, 0 for any port. Raises `CannotStart`, `WrongSettings`."""
    if int(listen.rpartition(":")[2]) > PORT_MAX:
        raise WrongSettings([f"setting listen: {listen} has no such port"])
    try:
        return bound(listen)
    except OSError as error:
        raise CannotStart(str(error)) from error


def process_labels(socket_: socket.socket, listen: str) -> str:
    """The address of a socket under the name that it was asked for by, HOST:PORT."""
    return f"{listen.rpartition(':')[0]}:{socket_.getsockname()[1]}"


def retry_until_reachable(ask: Callable[[], T], warn: Callable[[str], None]) -> T:
    """Returns the answer of the broker, once it is there; warns once why it isn't."""
    last_error = ""
    while True:
        try:
            return ask()
        except LogUnavailable as away:
            if str(away) != last_error:
                warn(str(away))
            last_error = str(away)
            time.sleep(KAFKA_RETRY_S)


def folder_of(settings: Settings, cell: int) -> Path:
    """Where a process keeps what it has of a cell."""
    folder = settings.data / f"cell-{cell}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def host_ca(settings: Settings) -> HostCa:
    """The cell's own CA."""
    return HostCa(settings.service.host_ca or folder_of(settings, settings.cell))


def signing_keys(data: Path, folder: Path | None) -> SigningKeys:
    """The keys by which a cell signs: in a folder of their own, or in that of its data."""
    return SigningKeys(folder or data / FOLDER)


def _prepared(settings: Settings) -> str:
    try:
        token = prepare(settings.data)
    except OSError as error:
        where = error.filename or settings.data
        raise CannotStart(f"{where}: {error.strerror}. Choose another folder with --data.") from error
    return fit(settings.token.get_secret_value(), "the token in the settings") if settings.token else token


def _listening(settings: Settings, kind: str) -> tuple[socket.socket, str]:
    """The socket of a process, and its address, which is in the file for it from now on."""
    listen = settings.service.listen or default_listen(kind)
    socket_ = listening(listen)
    address = process_labels(socket_, listen)
    file = settings.service.address_file
    if file is not None:
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            draft.write_text(f"{address}\n")
            draft.replace(file)
        except OSError as error:
            raise CannotStart(f"{file}: {error.strerror}. Choose another file with --address-file.") from error
    return socket_, address


def _use_registry(url: str, warn: Callable[[str], None]) -> None:
    if not url:
        return
    from events.log.kafka import schema_registry as registry

    try:
        registry.use(url, warn)
    except LogFault as fault:
        raise CannotStart(str(fault)) from fault


def _await_topics(settings: Settings, warn: Callable[[str], None]) -> None:
    from events.log.kafka.topics import check

    differences = retry_until_reachable(lambda: check(settings.kafka, settings.cell + 1, settings.kafka_options), warn)
    if differences:
        raise CannotStart("the topics on Kafka are not as they must be:\n  " + "\n  ".join(differences))
