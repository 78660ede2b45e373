"""A shape as one decision sees it: which hosts its tasks may use, in which order, and which had no room for them."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from events.columns import I64
from events.strategies import BALANCED, LOAD_AWARE, SPREAD
from processors.placement.constraints import order_of
from processors.placement.devices.board import DeviceBoard
from processors.placement.devices.expected import CardChooser
from processors.placement.devices.needs import DeviceNeed
from processors.placement.gang_search import Part, ranked
from processors.placement.host_order import HostOrder
from processors.placement.hosts import Hosts
from processors.placement.packing import MANY, Mask, Scales, Scoring, score_of
from processors.placement.room.kept import OwnRoom
from processors.state.alternatives import NONE
from processors.state.shapes import Shape

SCORE_MAX = 1 << 45
"""More than what fits on a host adds up to: the score of a task that fits on none is of no use."""


Key = tuple[int, int, tuple[str, ...], int | None]
"""A shape by number, and by their job the strategy, the host pools (none: any) and the host of its tasks."""


class View(Protocol):
    """The cluster as the decision sees it (`ClusterView`)."""

    hosts: Hosts
    scales: Scales
    devices: DeviceBoard | None
    closed: Mask | None
    free: I64
    score: I64
    touched: list[int]
    epoch: int

    def without(self, ports: Sequence[int], or_kept: bool = True) -> Mask:
        """The hosts on which nobody has any of these ports."""

    def chooser(self, shape: Shape, devices: DeviceNeed | None, strategy: int) -> CardChooser | None:
        """The way to the hosts of a shape by their cards."""

    def take(self, host: int, count: int, shape: "ShapeView") -> None:
        """Puts tasks on one host."""


class ShapeView:
    """A shape on the view: what its tasks ask of hosts, ports behind the kinds; `open` says which may be used now.
    `host`: the only one that may be, where a task is bound to it.
    """

    def __init__(self, view: View, shape: Shape, key: Key) -> None:
        self.key = key
        self.number, strategy, host_pools, host = key
        self.need = need = (*shape.need, shape.ports)
        self.ports = shape.ports
        self.strategy = strategy
        self.spread = strategy == SPREAD
        self.scoring: Scoring | None = None
        """The scores of hosts, where what is free alone isn't."""
        if strategy in (BALANCED, LOAD_AWARE):
            columns = view.hosts.capacity, view.hosts.load, view.scales.weight, view.scales.shifts
            self.scoring = Scoring(strategy, need, *columns)
        self.constraints = shape.constraints
        self.meeting = meeting = view.hosts.condition_set(shape, host_pools)
        self.unmet = meeting.unmet if host is None else view.hosts.constraints.column(shape.constraints)
        """A task that is bound to a host goes there whatever its taints."""
        self.order = order_of(meeting.rank) if host is None else None
        """Goes before the score of each host; None: the same for all."""
        self.host = host
        self.port_numbers = shape.port_numbers
        self.fixed_ports = shape.fixed_ports
        self.most = 1 if self.fixed_ports else MANY
        """So many of its tasks a host holds at most."""
        self.ports_free = view.without(self.fixed_ports)
        """Where no other task has one of its fixed ports."""
        self.meets: Mask = (view.hosts.up if host is None else view.hosts.heard) & (self.unmet < 0)
        """Where only a port may be missing, and amounts."""
        if host is not None:
            self.meets &= np.arange(len(self.meets)) == host
        self.rules = shape.rules
        self.devices = view.hosts.device_need(shape) if view.devices is not None else None
        """The devices and cores that each task takes; None: none."""
        rules = shape.rules
        self.alternative = NONE if rules is None or not rules.alternatives else max(rules.took, 0)
        """The alternative that its tasks take; NONE: they have only one request."""
        self.has_others = rules is not None and rules.took == NONE and bool(rules.alternatives)
        """Whether its tasks may take others."""
        self.others: list[ShapeView] | None = None if self.has_others else []
        """The alternatives behind it; None: they are looked up when asked for."""
        if self.devices is not None and view.devices is not None:
            self.meets &= view.devices.could(self.devices)
        self.cards = view.chooser(shape, self.devices, strategy)
        """The way to its hosts, where the strategy looks at cards; None: it looks at what is free."""
        self.exclusive = shape.rules is not None and shape.rules.exclusive
        self.open: Mask = self.meets & self.ports_free
        self.shut_off: Mask | None = None
        """Where it might be but for tasks that want their hosts for themselves; None: nowhere."""
        self.is_told = False  # whether the engine knows which hosts may be used
        if view.closed is not None:
            self.shut(view.closed)
        self.column = np.array(need, dtype=np.int64)[:, None]
        self.score = min(score_of(need, view.scales.plain), SCORE_MAX)
        self.feasible: int | None = None  # hosts that had room when the first of its tasks was put; None: none was
        self.too_many = 1 << 62
        """So many at once found no place, nor will as many, or more, later: what is free only shrinks."""
        self._order = HostOrder(self)

    def takes_bound(self, hosts: Hosts) -> Mask:
        """The hosts that take such tasks if these are bound to them."""
        return hosts.heard & ~self.mismatch & self.ports_free

    @property
    def looks_at_devices(self) -> bool:
        """Whether its hosts depend on which devices are free there."""
        return self.devices is not None or self.cards is not None

    @property
    def mismatch(self) -> Mask:
        """The hosts that don't meet the conditions, whatever their taints: tasks that are bound to a host go there."""
        return (self.unmet >= 0) & (self.unmet < len(self.constraints))

    def shut(self, closed: Mask) -> None:
        """Hosts are closed by tasks that want them for themselves; whose those are, its own rules say."""
        if self.host is None and not self.exclusive:
            self.is_told = False
            shut_off = self.meets & closed
            self.shut_off = shut_off if self.shut_off is None else self.shut_off | shut_off
            self.open &= ~closed
            self.meets &= ~closed

    def part(self, size: int) -> Part:
        """So many of its tasks that belong together."""
        return Part(
            self.need, self.open, self.score, self.spread, size, self.most, scoring=self.scoring, order=self.order
        )

    def scores(self, score: I64) -> I64:
        """The score of each host with its rank before it, which comes first whichever way hosts are chosen."""
        return ranked(score, self.order, self.spread)

    def open_to(self, view: View, own: OwnRoom) -> Mask:
        """The hosts that a unit may use for which room is kept: its ports are kept there for it."""
        if not self.fixed_ports:
            return self.open
        open_ = self.open.copy()
        open_[own.hosts] |= (self.meets & view.without(self.fixed_ports, or_kept=False))[own.hosts]
        return open_

    def taken(self, hosts: I64) -> None:
        """Other tasks have one of its fixed ports on hosts now."""
        self.ports_free[hosts] = self.open[hosts] = self.is_told = False

    def few(self, view: View, most: int) -> I64:
        """As `packing.pack`, and puts the tasks on the view."""
        self._order.refresh(view)
        hosts: list[int] = []
        while len(hosts) < most:
            host, fit = self._order.next(view, most - len(hosts))
            if not fit:
                break
            hosts += [host] * fit
            view.take(host, fit, self)
            self._order.took(view, host)
        return np.array(hosts, dtype=np.int64)

    def next(self, view: View) -> int | None:
        """The host that takes the next task, if any does; nothing is put there."""
        self._order.refresh(view)
        host, fit = self._order.next(view, 1)
        return host if fit else None


Parts = tuple[tuple[ShapeView, int], ...]
"""The tasks that must fit together: so many of each shape."""
