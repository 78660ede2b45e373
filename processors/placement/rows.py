"""The rows of placement's tables."""

from collections.abc import Iterable

import msgspec

from events.codes import Code, Hearing
from events.records.placement import HostAnswered
from events.sla import Bounds
from events.strategies import PACK
from events.work_classes import precedence_of
from processors.placement.devices.layouts import DeviceRow
from processors.state.causes import CauseRow
from processors.state.record_rows import ConstraintRow
from processors.state.shapes import MIXED

NEVER = -1
"""No session: those of hosts are 0 or more."""

GANG = -1
"""In place of the number of a shape: the gang of a job, whatever shapes its tasks have."""
BOUND = -2
"""And this number, less the place of the code in `BOUND_CODES`: tasks that are bound to hosts."""
BOUND_CODES = (
    *(Code.BOUND_HOST_LOST, Code.CONSTRAINT_MISMATCH, Code.NEVER_FITS, Code.BOUND_HOST_BUSY),
    Code.WAITING_FOR_PREEMPTION,
    Code.BOUND_HOST_IN_MAINTENANCE,
)
"""Why a task finds no place on its host. Their places stand in rows: a new one is the last."""


def bound_as(code: str) -> int:
    """By what a code of tasks that are bound to hosts is reported."""
    return BOUND - BOUND_CODES.index(Code(code))


class HostRow(msgspec.Struct, array_like=True):
    """A host. `number` stands in the arena, less one; `capacity` is what it offers, kinds that the cell doesn't know
    included: they may be added.
    """

    number: int
    session: int = NEVER
    offered: int = NEVER
    """Session of the last offer; NEVER: it offers nothing."""
    reconciled: int = NEVER
    """Session whose runs lifecycle has settled."""
    capacity: dict[str, int] = {}
    sizes: tuple[str, ...] = ()
    """The kinds among them that are in MiB, beside memory and disk."""
    port_first: int = 0
    port_last: int = -1
    attributes: dict[str, str] = {}
    silent_ms: int = 0
    """Logical time since when it isn't heard; 0: it is."""
    silent_by: CauseRow | None = None
    """The record of its silence."""
    lost: bool = False
    departed_ms: int = 0
    """Logical time since when nothing is expected of it: given up, or settled without ever having connected; 0: it is
    there.
    """
    departed_by: CauseRow | None = None
    """The record of its departure."""
    suspected_ms: int = 0
    """Logical time at which lifecycle suspected it, while that is to be judged; 0: it isn't."""
    suspected_code: str = ""
    suspected_by: CauseRow | None = None
    avoided_ms: int = 0
    """Logical time until which it takes no new tasks; below 0: while a condition lasts; 0: it takes them."""
    avoided_by: CauseRow | None = None
    """The record by which it is avoided."""
    reported_hearing: int = Hearing.HEARD
    """The last report of whether it is heard (`Hearing`)."""
    taints: dict[str, str] = {}
    """Those that it offers."""
    tainted: dict[str, str] = {}
    """Those by operators, which come before its own of the same key."""
    evicts: tuple[str, ...] = ()
    """The keys of those by which runs leave."""
    images: tuple[str, ...] = ()
    """The images that it has, by their first digits."""
    load: int | None = None
    """Sixteenths of its CPU or memory, whichever is more, that runs use; None: not said in this session."""
    boot: str = ""
    """Names the time since its machine was started; empty: not known."""
    devices: tuple[DeviceRow, ...] = ()
    """Those that it offers."""
    former: tuple[DeviceRow, ...] = ()
    """Those that it offers no more, which runs have."""
    cores: tuple[int, ...] = ()
    """The NUMA node of each of its cores."""
    disabled: dict[str, bool] = {}
    """The devices that operators have set aside; True: the runs there are to end."""

    @property
    def hearing(self) -> Hearing:
        """Whether it is heard."""
        return Hearing.LOST if self.lost else Hearing.SILENT if self.silent_ms else Hearing.HEARD

    @property
    def offer(self) -> tuple[object, ...]:
        """Its offer, to compare."""
        ports = self.port_first, self.port_last
        amounts = self.capacity, self.sizes, ports, self.devices, self.cores
        return self.offered != NEVER, *amounts, self.attributes, self.taints

    def in_range(self, ports: Iterable[int]) -> int:
        """Counts the numbers that are in its range: only those lessen its free ports."""
        return sum(self.port_first <= port <= self.port_last for port in ports)

    def withdraw(self) -> None:
        """From now on it offers nothing."""
        self.offered, self.capacity, self.sizes = NEVER, {}, ()
        self.port_first, self.port_last, self.attributes, self.taints = 0, -1, {}, {}
        self.devices, self.former, self.cores = (), (), ()


class LentRow(msgspec.Struct, array_like=True):
    """The slack of a host: `steps` of its CPU; `over_ms`: since when revocable runs hold more, 0: they don't; `ending`:
    those that were asked to end and aren't over; `by`: what said it last.
    """

    steps: int = 0
    over_ms: int = 0
    ending: list[tuple[str, int, int]] = []
    by: CauseRow | None = None


class DaemonRow(msgspec.Struct, frozen=True, array_like=True):
    """A daemon: its conditions on hosts, and the taints that it tolerates."""

    conditions: tuple[ConstraintRow, ...]
    tolerations: tuple[str, ...] = ()


class JobRow(msgspec.Struct, array_like=True):
    """A job. `number` counts arrivals; `base` is its first slot, `instances` its highest instance plus 1; `shapes` says
    how many of its tasks have which shape.
    """

    number: int
    base: int
    instances: int
    shapes: dict[int, int]
    pool: str
    priority: int
    preemptible: bool = True
    service: bool = False
    """Whether it is a service, which sla may keep from leaving; else batch work."""
    sla: bool = False
    """Whether it has an objective of availability."""
    controller: bool = False
    """Whether instance 0 is the controller of the job."""
    gang_first: int = 0
    """First instance of its gang."""
    gang: int = 0
    """Size of its gang; 0: none was admitted yet."""
    reported: dict[int, str] = {}
    """The code last given for tasks that wait now, by their shape, `GANG`, or of those that are bound to hosts `BOUND`
    and below."""
    daemon: bool = False
    """Whether it has a task on each host that matches, ahead of other work."""
    bound: bool = False
    """Whether tasks of it are bound to hosts."""
    labels: dict[str, str] = {}
    strategy: int = PACK
    """The strategy of its pool when tasks of it were admitted last."""
    stays: bool = False
    """Whether its tasks stay on their hosts: it is stateful, or a daemon."""
    bounds: Bounds | None = None
    """The bounds of its SLA; None: it has none, or they aren't known."""
    surge: int = 0
    """So many are replaced before they leave; 0: none are."""
    longest_ms: int = 0
    """The time that a run of it may last, if it isn't to be disturbed; -1: nobody knows, 0: it may be disturbed."""

    @property
    def precedence(self) -> int:
        """Its priority; that of daemons is above all others."""
        return precedence_of(self.priority, self.daemon)

    @property
    def shape(self) -> int:
        """The number of the shape that all its tasks have, or `MIXED`."""
        return next(iter(self.shapes)) if len(self.shapes) == 1 else MIXED

    def in_gang(self, instance: int) -> bool:
        """Whether an instance is a member of the gang."""
        return self.gang_first <= instance < self.gang_first + self.gang


class CellRow(msgspec.Struct, array_like=True):
    """Facts about the whole cell."""

    jobs: int = 0
    """Jobs ever accepted."""
    admissions: int = 0
    """The number last given to an admission."""
    version: int = 0
    """The number of the capacity that was last reported."""
    changed_by: list[CauseRow] = []
    """The changes of hosts since then."""
    beat_ms: int = 0
    """When a gateway was last heard."""
    beats_since_ms: int = 0
    """Since when beats have come without a break; 0: they have stopped."""
    window_ms: int = 0
    """When the present minute of losses began."""
    losses: int = 0
    """Hosts lost in it by silence."""
    last_by: CauseRow | None = None
    """The last change of hosts or runs."""
    passed_ms: int = 0
    """The last deadline that passed; what was to be done then is done."""
    matching_by: CauseRow | None = None
    """The last change of daemons, or of what hosts offer."""
    daemons: dict[str, dict[str, int]] = {}
    """By host pool what was said last that daemons hold there; of those where they do."""


class TaintRow(msgspec.Struct, array_like=True):
    """A request of an operator to give a host a taint or to take one off, while it waits for its answer."""

    ask: "AskRow"
    key: str
    value: str
    remove: bool
    evicts: bool = False
    """Whether what runs there and doesn't tolerate it leaves."""


class AskRow(msgspec.Struct, array_like=True):
    """A request of an operator about a host, while it waits for its answer."""

    host_id: str
    command_id: str
    at_ms: int

    def answer(self, offset: int, code: Code, message: str) -> HostAnswered:
        """The answer to it; `offset`: where it stands in the topic of hosts."""
        return HostAnswered(
            host_id=self.host_id, hosts_offset=offset, command_id=self.command_id, code=code, message=message
        )
