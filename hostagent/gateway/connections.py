"""The interface between the gateway and those who report for hosts: posts and their answers."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

import numpy as np

from events.columns import I32, I64
from events.host_certificates import Refusal
from events.records.hosts import HostCertified
from events.records.parts import Actor
from events.records.tasks import ExecClosed, SecretDeleted, SecretPut
from hostagent.gateway.secrets.sealer import Grant
from hostagent.messages import (
    Asked,
    ConditionState,
    ExecEnd,
    ExecLine,
    Hello,
    HostLoad,
    ImageState,
    LogLine,
    LogPage,
    Orders,
    Reports,
    SessionRefused,
    UsageLine,
    VolumeState,
    Welcome,
)
from hostagent.run_record import RunKey


class LogMissing(LookupError):
    """The output of a run can't be had: the message says why."""


class NotHere(LogMissing):
    """The host of the run is not connected to this gateway; another one may have it."""


class Link(Protocol):
    """One who follows orders for one host or for many. Called on the gateway's thread; must not wait."""

    @property
    def heard_ms(self) -> int:
        """When it was last known to live, on the gateway's clock; 0 where its hosts say so themselves, by reports."""
        ...

    def deliver(self, orders: Orders) -> None:
        """Takes orders for some of its hosts."""
        ...

    def ask(self, host_id: str, line: Asked) -> None:
        """Passes on a request: for output, answered by `Gateway.answer`; for a command; for the end of volumes."""
        ...

    def cut(self, host_id: str) -> None:
        """A host has another link or session now, or this one's session isn't known."""
        ...


class Connect(NamedTuple):
    """An agent opens a session. `done` is called when the facts are durable, or the session is refused."""

    host_id: str
    hello: Hello
    done: Callable[[Welcome | SessionRefused], None]


class Attach(NamedTuple):
    """A link follows orders for these sessions, from the whole wanted set on."""

    sessions: dict[str, int]
    link: Link


class Detach(NamedTuple):
    """A link follows no more."""

    link: Link


class Report(NamedTuple):
    """Reports of runs, with the session of each of `reports.host_ids`. `done(True)` is called when they are durable,
    `done(False)` where a session is not the current one. `volumes`, `held_images`: all of the only host, None: as they
    were; `execs`: commands that ended there while it had no gateway; `offer`: of the only host, where that has changed;
    `loads`, `images`, `conditions`: of some of the hosts, by their place in `reports.host_ids`.
    """

    sessions: tuple[int, ...]
    reports: Reports
    done: Callable[[bool], None]
    volumes: Sequence[VolumeState] | None = None
    held_images: Sequence[str] | None = None
    execs: Sequence[ExecEnd] = ()
    loads: Sequence[tuple[int, HostLoad]] = ()
    images: Sequence[tuple[int, ImageState]] = ()
    conditions: Sequence[tuple[int, ConditionState]] = ()
    offer: Hello | None = None


class AskLog(NamedTuple):
    """A piece of a run's output; `host_id` None: wherever the newest run of the task was ordered."""

    host_id: str | None
    line: LogLine
    answer: "Future[LogPage]"


class AskExec(NamedTuple):
    """A command inside a run; `host_id` None: wherever the run was ordered. `host` becomes the id of its host, once it
    is in the log that `actor` enters the run.
    """

    host_id: str | None
    line: ExecLine
    actor: Actor | None
    host: "Future[str]"


class AskUsage(NamedTuple):
    """The use of a host by its runs; the answer is JSON of a `HostUsage`."""

    host_id: str
    line: UsageLine
    answer: "Future[bytes]"


class CloseExec(NamedTuple):
    """The end of a command inside a run, to be written."""

    event: ExecClosed


class TellSecret(NamedTuple):
    """A secret was put or deleted, which is to be written. `done(True)` is called when that is durable."""

    event: SecretPut | SecretDeleted
    done: Callable[[bool], None]


class AskSecrets(NamedTuple):
    """A host asks for the secrets of runs. `done` gets what it may have; None: this isn't its session, or it has no
    key.
    """

    host_id: str
    session: int
    runs: tuple[RunKey, ...]
    done: Callable[[Grant | None], None]


class Certify(NamedTuple):
    """A host is to get a certificate, now by the wall clock. `done` is called when that is in the log, or with why it
    isn't given.
    """

    event: HostCertified
    now_ms: int
    done: Callable[[Refusal | None], None]


Other = Connect | Attach | Detach | AskLog | AskExec | AskUsage | CloseExec | TellSecret | AskSecrets | Certify
Post = Report | Other


def refuse(post: Post, why: str) -> bool:
    """Tells who posted something that it can't be written; False: nothing of it is ever written, so that isn't why."""
    match post:
        case Connect():
            post.done(SessionRefused(post.hello.session, why))
        case Report() | TellSecret():
            post.done(False)
        case AskExec():
            if post.host.set_running_or_notify_cancel():
                post.host.set_exception(LogMissing(why))
        case _:
            return isinstance(post, CloseExec)
    return True


def split(orders: Orders, links: list[Link | None]) -> list[tuple[Link | None, Orders]]:
    """Orders by link, where `links` names that of each host of the orders."""
    if all(link is links[0] for link in links):
        return [(links[0], orders)]
    by_host = np.argsort(orders.host, kind="stable")
    columns = [column[by_host] for column in (orders.host, orders.kind, orders.job, orders.instance, orders.run)]
    ports = orders.ports[by_host]
    devices = [orders.devices[at] for at in by_host.tolist()] if orders.devices else []
    ends = np.searchsorted(columns[0], np.arange(len(links)), side="right").tolist()
    mine: dict[int, list[int]] = {}
    for host, link in enumerate(links):
        mine.setdefault(id(link), []).append(host)
    parts: list[tuple[Link | None, Orders]] = []
    for hosts in mine.values():
        ranges = [(ends[host - 1] if host else 0, ends[host]) for host in hosts]
        if len(hosts) == 1:
            items: slice | I64 = slice(*ranges[0])
        else:
            items = np.concatenate([np.arange(*bounds) for bounds in ranges])
        kind, job, instance, run = (column[items] for column in columns[1:])
        place: I32 = np.repeat(np.arange(len(hosts), dtype=np.int32), [end - start for start, end in ranges])
        part = orders._replace(
            host_ids=tuple(orders.host_ids[host] for host in hosts),
            host=place,
            kind=kind,
            job=job,
            instance=instance,
            run=run,
            ports=ports[items],
            devices=tuple(devices[at] for start, end in ranges for at in range(start, end)) if devices else (),
        )
        parts.append((links[hosts[0]], part))
    return parts
