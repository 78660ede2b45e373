"""The hosts: what they offer, in which phase they are, what runs hold of them.

A row per host in the table; beside it columns over hosts for deciding, kept up with each change and rebuilt from the
rows. A column of amounts has a row for each kind that the cell knows, in their order, and one for ports behind them.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from events.abilities import VALUE, image_attribute
from events.arrays.reused_numbers import ReusedNumbers
from events.bounds import IMAGES_MAX, LOAD_STEPS
from events.codes import Stage
from events.columns import I64
from events.host_offers import offer_fault
from events.host_pools import SHARED
from events.records.hosts import HostBack, HostConnected, HostImages, HostOffered, HostSilent, HostsLoaded
from events.records.lifecycle import HostReconciled
from events.records.placement import (
    HostDeviceChanged,
    HostHearingChanged,
    HostLost,
    HostPoolChanged,
    HostRemoved,
    HostsPooled,
    HostTainted,
)
from events.resources import GPU, GPU_MEMORY, REVOCABLE, Kinds, in_order, is_gpu
from events.topology import HOST, LINK_GROUP
from processors.placement.constraints import ConditionSet, Constraints, request_of
from processors.placement.devices.expected import ExpectedTasks
from processors.placement.devices.host_devices import HostDevices
from processors.placement.devices.layouts import EMPTY, device_rows, layout_of, vanished
from processors.placement.devices.needs import DeviceNeed, device_need
from processors.placement.engine.engine import Engine
from processors.placement.host_pools import HostPools
from processors.placement.host_ports import HostPorts
from processors.placement.packing import Mask, Scales, scales_of
from processors.placement.rows import NEVER, CellRow, HostRow, LentRow
from processors.placement.shrunken import Shrunken
from processors.placement.states import LEAVING, STAGES, TAKES, TAKES_BOUND, Phase, phase_of
from processors.state.causes import CurrentInput, newest
from processors.state.shapes import Shape
from processors.state.table import Table, struct_table

PLAIN = ("cpu", "memory", "disk", REVOCABLE)
"""Kinds that any work asks for. All others are scarce: what doesn't ask for them goes last where there are some."""
HALF_LOAD = LOAD_STEPS // 2
WIDTH_MIN = 16
"""Columns have room for so many hosts at least."""


class Hosts:
    """Table and columns. Columns have exactly one item per host."""

    def __init__(self, cell: Table[str, CellRow], current: CurrentInput) -> None:
        self.table: Table[str, HostRow] = struct_table("hosts", HostRow)
        self.expected = ExpectedTasks()
        self.lent: Table[str, LentRow] = struct_table("lent", LentRow)
        """The hosts that lend slack, or did."""
        self._cell = cell
        self._input = current
        self.kinds = Kinds()
        self.topology: tuple[str, ...] = ()
        """The levels of the cell's tree of hosts, the highest first."""
        self.pools = HostPools()
        self._clear()

    def _clear(self) -> None:
        self.places = ReusedNumbers()
        self.untold: dict[str, None] = {}
        """Hosts of which something else was said last than whether they are heard now."""
        self.in_maintenance: dict[int, bool] = {}
        """The hosts that aren't wanted to be UP, by number; True: what runs there leaves, or has left."""
        self.shrunken = Shrunken(self.kinds)
        self.constraints = Constraints()
        self.offers = 0
        """The version of what hosts offer, and of which count: it grows when that changes."""
        self._scales: tuple[int, Scales] | None = None
        """The scales, and for which version they are."""
        self.engine: Engine | None = None
        """The board of many hosts, derived, and kept from one decision to the next."""
        self.ports = HostPorts()
        self.devices = HostDevices()
        self._set_aside: dict[int, I64] = {}
        """By host the amounts of its devices that take no tasks, by kind."""
        self.vacated: dict[int, frozenset[str]] = {}
        """By host the devices that its runs are to leave."""
        self._columns = np.zeros((2 * (len(self.kinds) + 1) + 9, WIDTH_MIN), dtype=np.int64)
        self._point()

    def _point(self) -> None:
        """Lets the columns be views of what is in use."""
        columns, amounts = self._columns[:, : len(self.ids)], len(self.kinds) + 1
        self.capacity: I64 = columns[:amounts]
        self.used: I64 = columns[amounts : 2 * amounts]
        """Invariant: of each host and kind the sum over its runs (`runs`) and what is kept for others (`homes.py`); so
        it is never below 0, and 0 where there is neither.
        """
        self.stage: I64 = columns[-9]
        """The stage of its maintenance (`Stage`)."""
        self.barred: I64 = columns[-8]
        """By its stage: 0: it takes tasks; 1: those that are bound to it; 2: none."""
        self.load: I64 = columns[-7]
        """In `LOAD_STEPS`; half of them where it isn't known."""
        self.phase: I64 = columns[-6]
        self.counting: I64 = columns[-5]
        """1: its capacity counts for the cell: it has offered something and isn't lost."""
        self.silent_ms: I64 = columns[-4]
        self.departed_ms: I64 = columns[-3]
        self.runs: I64 = columns[-2]
        """Runs that have a place there."""
        self.present: I64 = columns[-1]
        """0: the number is free, and nothing is there; its phase is LOST."""

    @property
    def ids(self) -> list[str]:
        """The host of each number, "" where that is free."""
        return self.places.ids

    @property
    def up(self) -> Mask:
        """The hosts that tasks may be put on."""
        mask = self.are(TAKES)
        return mask & (self.barred == 0) if self.in_maintenance else mask

    @property
    def heard(self) -> Mask:
        """The hosts that take tasks, if only those that are bound to them."""
        mask = self.are(TAKES_BOUND)
        return mask & (self.barred < 2) if self.in_maintenance else mask

    def are(self, phases: Sequence[Phase]) -> Mask:
        """The hosts that are in one of some states."""
        mask: Mask = np.equal(self.phase, phases[0])
        for phase in phases[1:]:
            mask |= self.phase == phase
        return mask

    @property
    def counts(self) -> Mask:
        """The hosts that count for the capacity of the cell."""
        return np.equal(self.counting, 1)

    def restored(self, kinds: Kinds) -> None:
        """Rebuilds the columns, over the kinds that the cell knows, but for what runs hold; whoever knows the runs says
        it with `hold`.
        """
        self.kinds = kinds
        self._clear()
        self.places.restored({host_id: row.number for host_id, row in self.table.items()})
        self._grow()
        self.phase[:] = Phase.LOST
        self.expected.restored()
        self.devices.kinds = {each.kind: None for row in self.table.values() for each in row.devices}
        for row in self.table.values():
            self._offer(row)
            self._vacate(row)
            self._derive(row)
        self.pools.restored()
        for host_id, host_pool in self.pools.of_host.items():
            if host_id in self.table:
                self.constraints.pooled(self.table[host_id].number, host_pool)

    def hold(self, numbers: I64, needs: I64, sign: int = 1) -> None:
        """Runs take what they need (`needs` is [kinds, runs]) from hosts, or (`sign` -1) give it back."""
        np.add.at(self.runs, numbers, sign)
        assert sign > 0 or self.runs[numbers].min(initial=0) >= 0, "a run gave its place back twice"
        self.keep(numbers, needs, sign)
        if (staged := self.in_maintenance) and any(staged.get(number) for number in numbers.tolist()):
            self.changed()

    def keep(self, numbers: I64, needs: I64, sign: int = 1) -> None:
        """The same for what is kept for runs to come."""
        for row, need in zip(self.used, sign * needs, strict=False):
            np.add.at(row, numbers, need)
            assert sign > 0 or row[numbers].min(initial=0) >= 0, "more was given back than was taken"
        if watched := self.shrunken.watched:
            for number in [number for number in dict.fromkeys(numbers.tolist()) if number in watched]:
                self._derive(self.table[self.ids[number]])

    def watch_shrunk(self) -> None:
        """Finds the hosts that offer less than is held there; to be called once that is known of all."""
        for number in self.shrunken.short(self.used, self.capacity):
            row = self.table[self.ids[number]]
            self.shrunken.watch(number, not row.lost)
            self._derive(row)

    def surplus(self, number: int) -> I64:
        """The amounts that are held on a host beyond what it offers, by kind."""
        return self.shrunken.surplus(self.used[:, number], self.capacity[:, number])

    def are_balanced(self, numbers: I64) -> bool:
        """Whether those of some hosts that have no runs have nothing in use, ports left out; nothing is kept there."""
        empty = numbers[self.runs[numbers] == 0]
        return not len(empty) or not self.used[:-1, empty].any()

    def hold_ports(self, number: int, ports: Sequence[int]) -> None:
        """A run takes port numbers of a host."""
        self.ports.take(number, ports)
        self.used[-1, number] += self.table[self.ids[number]].in_range(ports)

    def free_ports(self, number: int, ports: Sequence[int]) -> None:
        """A run gives its port numbers back."""
        self.ports.give_back(number, ports)
        self.used[-1, number] -= self.table[self.ids[number]].in_range(ports)

    def condition_set(self, shape: Shape, host_pools: tuple[str, ...]) -> ConditionSet:
        """The columns over hosts of what tasks of a shape ask of attributes, taints and devices, in the host pools that
        they may use.
        """
        rules = shape.rules
        return self.constraints.of(
            request_of(shape.constraints, rules.tolerations if rules else (), self._devices(shape.need), host_pools)
        )

    @property
    def have_cards(self) -> bool:
        """Whether some host has GPUs."""
        return self.devices.any and bool(self.capacity[self.kinds.names.index(GPU)].any())

    def _devices(self, amounts: Iterable[int]) -> list[str]:
        """The scarce kinds among amounts of all kinds."""
        return [name for name, amount in zip(self.kinds.names, amounts, strict=True) if amount and name not in PLAIN]

    @property
    def whole(self) -> I64:
        """The capacity that hosts may have: as if each lent all of its CPU."""
        at = self.kinds.revocable
        if at < 0:
            return self.capacity
        capacity = self.capacity.copy()
        capacity[at] = capacity[self.kinds.names.index("cpu")]
        return capacity

    def may_fit(self, need: Sequence[int], tasks: int) -> bool:
        """Whether hosts that count could hold so many tasks that need so much each, were they empty."""
        if not self.counting.any():
            return True
        largest, whole = (self.capacity[:-1] * self.counts).max(axis=1), self.counted.sum(axis=1)
        pairs = zip(need, largest.tolist(), whole.tolist(), strict=True)
        return all(not each or (each <= most and each * tasks <= all_) for each, most, all_ in pairs)

    def scales(self) -> Scales:
        """The weights by the largest hosts that count."""
        if self._scales is None or self._scales[0] != self.offers:
            largest = np.max(self.capacity * self.counts, axis=1, initial=0)
            self._scales = self.offers, scales_of(largest, self.kinds.revocable)
        return self._scales[1]

    # What is said of hosts.

    def connected(self, event: HostConnected, now: int) -> None:
        """A session begins; the offer of an earlier one counts until there is another."""
        if event.session < 0:
            return
        row = self._known(event.host_id)
        if event.session <= row.session:
            return
        row.session, row.lost, row.boot = event.session, False, event.boot
        row.silent_ms, row.silent_by, row.departed_ms, row.departed_by, row.load = 0, None, 0, None, None
        self._derive(row)

    def offered(self, event: HostOffered, now: int) -> None:
        """A host says what it has. Nonsense counts as nothing offered."""
        row = self.table.get(event.host_id)
        if row is None or event.session != row.session or row.lost:
            return
        row = self.table.change(event.host_id)
        before = row.offer
        if not offer_fault(event):
            row.offered = event.session
            row.capacity, row.sizes = in_order(event.capacity), tuple(sorted({*event.sizes}))
            row.port_first, row.port_last = event.port_first, event.port_last
            row.attributes = dict(sorted(event.attributes.items()))
            row.taints = dict(sorted(event.taints.items()))
            self._has_devices(row, event)
        else:
            row.withdraw()
        if before != row.offer:
            self.changed()
        self._offer(row)
        self.shrunken.watch(row.number, bool(self.surplus(row.number).any()))
        self._derive(row)

    def loaded(self, event: HostsLoaded, now: int) -> None:
        """So much of hosts is used."""
        used = np.clip(np.maximum(event.cpu_used_array, event.memory_used_array), 0, LOAD_STEPS).tolist()
        for host_id, session, load in zip(event.host_ids, event.host_session_array.tolist(), used, strict=False):
            row = self.table.get(host_id)
            if row is not None and row.session == session and row.load != load:
                self.table.change(host_id).load = load
                self.load[row.number] = load

    def silent(self, event: HostSilent, now: int) -> None:
        """The agent isn't heard any more."""
        row = self.table.get(event.host_id)
        if row is not None and row.session == event.session and not row.silent_ms and not row.lost:
            row = self.table.change(event.host_id)
            row.silent_ms, row.silent_by = max(1, now), self._input.cause
            self._derive(row)

    def back(self, event: HostBack, now: int) -> None:
        """The agent is heard again. A host that was given up stays lost until it connects again: its runs are over."""
        row = self.table.get(event.host_id)
        if row is not None and row.session == event.session and row.silent_ms:
            row = self.table.change(event.host_id)
            row.silent_ms, row.silent_by = 0, None
            self._derive(row)

    def reconciled(self, event: HostReconciled, now: int) -> None:
        """Lifecycle has settled the runs of a session; this may be heard before the session itself."""
        row = self._known(event.host_id)
        row.reconciled = max(row.reconciled, event.session)
        if row.session == NEVER or (row.lost and row.reconciled > row.session):  # it is about to be heard of
            row.departed_ms, row.departed_by = max(1, now), self._input.cause
        self._derive(row)

    def lose(self, event: HostLost, now: int) -> None:
        """A host is given up. Its runs go on holding their places until lifecycle ends them."""
        row = self.table.change(event.host_id)
        row.lost, row.departed_ms, row.departed_by = True, max(1, now), self._input.cause
        if row.offered != NEVER:
            self.changed()
        row.withdraw()
        self._offer(row)
        self.shrunken.forget(row.number)
        self._derive(row)

    def avoid(self, host_id: str, until_ms: int) -> HostRow:
        """A host takes no new tasks until then, or while it isn't well; 0: it takes them. Returns its row."""
        row = self.table.change(host_id)
        row.avoided_ms = until_ms
        self._derive(row)
        return row

    def staged(self, host_id: str, stage: Stage, bound_left: bool) -> None:
        """A host is wanted to be in a stage; `bound_left`: not even tasks that are bound to it are put there."""
        number, rules = self.table[host_id].number, STAGES[stage]
        self.stage[number] = stage
        self.barred[number] = 0 if rules.takes else 1 if rules.takes_bound and not bound_left else 2
        if stage == Stage.UP:
            self.in_maintenance.pop(number, None)
        else:
            self.in_maintenance[number] = stage in LEAVING

    @property
    def counted(self) -> I64:
        """The amounts of each host that count for the cell, [kinds, hosts]; of those in maintenance what runs hold."""
        amounts = self.capacity[:-1] * self.counts
        leaving = [number for number, leaves in self.in_maintenance.items() if leaves]
        if leaving:
            amounts[:, leaving] = np.minimum(amounts[:, leaving], self.used[:-1, leaving])
        for number, aside in self._set_aside.items():  # what runs have of such devices still counts
            amounts[:, number] = np.maximum(
                amounts[:, number] - aside, np.minimum(amounts[:, number], self.used[:-1, number])
            )
        return amounts

    def taint(self, event: HostTainted, now: int) -> None:
        """A host has these taints by operators."""
        row = self.table.change(event.host_id)
        row.tainted = dict(sorted(event.taints.items()))
        row.evicts = event.evicts
        self.changed()
        self._offer(row)

    def device_changed(self, event: HostDeviceChanged, now: int) -> None:
        """An operator sets a device aside, or gives it back."""
        row = self.table.change(event.host_id)
        others = {name: ends for name, ends in row.disabled.items() if name != event.device}
        row.disabled = dict(sorted((others | ({event.device: event.ends} if event.disabled else {})).items()))
        self.changed()
        self._vacate(row)
        self._offer(row)

    def _vacate(self, row: HostRow) -> None:
        """Brings the devices that runs are to leave up to the row."""
        if ends := frozenset(device for device, ends in row.disabled.items() if ends):
            self.vacated[row.number] = ends
        else:
            self.vacated.pop(row.number, None)

    def pool_changed(self, event: HostPoolChanged, now: int) -> None:
        """A host pool is so now: jobs of some kinds may use other hosts."""
        self.pools.changed(event)
        self.changed()

    def pooled(self, event: HostsPooled, now: int) -> None:
        """Hosts are in another host pool; tasks that found no place are tried again."""
        for host_id in event.host_ids:
            self._pool(host_id, event.host_pool)
        self.changed()

    def _pool(self, host_id: str, host_pool: str) -> None:
        if host_pool != SHARED:
            self.pools.of_host.put(host_id, host_pool)
        elif host_id in self.pools.of_host:
            self.pools.of_host.remove(host_id)
        if host_id in self.table:
            self.constraints.pooled(self.table[host_id].number, host_pool)

    def images(self, event: HostImages, now: int) -> None:
        """A host has these images. No task waits for one, so nothing is tried again."""
        images, row = tuple(sorted({*event.images}))[:IMAGES_MAX], self.table.get(event.host_id)
        if row is not None and event.session == row.session and images != row.images:
            row = self.table.change(event.host_id)
            row.images = images
            self._describe(row)

    def remove(self, event: HostRemoved, now: int) -> None:
        """A host has left and holds no runs: its number is free for another."""
        row = self.table[event.host_id]
        if row.offered != NEVER:
            self.changed()
        if event.host_id in self.pools.of_host:
            self._pool(event.host_id, SHARED)
        self.table.remove(event.host_id)
        self.untold.pop(event.host_id, None)
        self.shrunken.forget(row.number)
        self._columns[:, row.number] = 0
        self.devices.offer(row.number, EMPTY)
        self._set_aside.pop(row.number, None)
        self.vacated.pop(row.number, None)
        self.offers += 1
        self.phase[row.number] = Phase.LOST
        self.constraints.changed(row.number, {}, {}, {})
        self.constraints.leaves(row.number, False)
        self.places.give_back(row.number)
        self.ports.cut(len(self.ids))
        self.devices.cut(len(self.ids))
        self.constraints.cut(len(self.ids))
        width = self._columns.shape[1]
        while len(self.ids) <= width // 4 and width > WIDTH_MIN:
            width //= 2
        if width < self._columns.shape[1]:
            self._columns = self._columns[:, :width].copy()
        self._point()

    def groups(self, over: str) -> I64:
        """The number of each host's group: those that have the same value of an attribute, or each `host` by itself, as
        also for groups within hosts; 0: those without the attribute.
        """
        return np.arange(len(self.ids)) if over in (HOST, LINK_GROUP) else self.constraints.groups(over)

    def know(self, kinds: Kinds) -> None:
        """The cell has more kinds, for which there are columns already, or other amounts of licences."""
        self.kinds = kinds
        self.changed()

    def hearing_said(self, event: HostHearingChanged, now: int) -> None:
        """It was said."""
        for host_id, hearing in zip(event.host_ids, event.hearing_array.tolist(), strict=True):
            if host_id in self.table:  # it may be removed in the same round
                row = self.table.change(host_id)
                row.reported_hearing = hearing
                self._derive(row)

    def _known(self, host_id: str) -> HostRow:
        """The row, to change; made when a host is first heard of."""
        if host_id in self.table:
            return self.table.change(host_id)
        row = self.table.put(host_id, HostRow(self.places.take(host_id)))
        self._grow()
        if host_id in self.pools.of_host:
            self.constraints.pooled(row.number, self.pools.of_host[host_id])
        self._offer(row)
        self._derive(row)
        return row

    def changed(self) -> None:
        """Notes that hosts offer something else, or to others: tasks that found no place are tried again."""
        row = self._cell.change("cell")
        row.changed_by = newest(row.changed_by, self._input.cause)

    def _grow(self) -> None:
        """Makes room in the columns for all numbers."""
        while len(self.ids) > self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
        for number in range(len(self.ports.taken), len(self.ids)):
            self.constraints.changed(number, {}, {}, {})
        self.ports.grow(len(self.ids))
        self.devices.grow(len(self.ids))
        self._point()

    def _offer(self, row: HostRow) -> None:
        """Brings capacity, ports and attributes up to the row."""
        number = row.number
        self.capacity[:, number] = [*self.kinds.offered(row.capacity, row.sizes), row.port_last - row.port_first + 1]
        self.offers += 1
        self._lay_out(row)
        if self.kinds.revocable >= 0:
            self.lends(self.ids[number])
        self.used[-1, number] = row.in_range(self.ports.taken[number])
        self._describe(row)

    def _describe(self, row: HostRow) -> None:
        """Brings what conditions look at up to the row."""
        devices = dict.fromkeys(self._devices(self.capacity[:-1, row.number].tolist()), "")
        attributes = row.attributes | {image_attribute(digits): VALUE for digits in row.images}
        self.constraints.changed(row.number, attributes, row.taints | row.tainted, devices)

    def _has_devices(self, row: HostRow, event: HostOffered) -> None:
        """An offer names devices, or none any more. What runs have stays, as devices that take no tasks."""
        now = device_rows(event.devices)
        if now or row.devices or row.former:
            row.former = vanished((*row.devices, *row.former), now, {*self.devices.ids_held(row.number)})
        row.devices, row.cores = now, tuple(event.cores_array.tolist())
        if new := {each.kind: None for each in now if each.kind not in self.devices.kinds}:
            self.devices.kinds |= new
            for other in self.table.values():
                self._lay_out(other)

    def _lay_out(self, row: HostRow) -> None:
        """Brings devices up to the row, and the amounts that follow from them."""
        number, kinds = row.number, self.devices.kinds
        layout = layout_of(row.devices, row.former, row.cores, row.capacity, kinds, row.disabled)
        self.devices.offer(number, layout)
        self._set_aside.pop(number, None)
        if not row.devices and not row.former:
            return
        aside = np.zeros(len(self.kinds), dtype=np.int64)
        names = {name: at for at, name in enumerate(self.kinds.names)}
        amounts = self.capacity[:-1, number]
        for at in dict.fromkeys(
            names.get(each, -1) for each in (GPU_MEMORY, *(one.kind for one in layout.layout.devices))
        ):
            if at >= 0:
                amounts[at] = 0
        healthy = {each.id for each in row.devices if each.healthy}
        parts = {each.id for each in row.devices if each.of in healthy}  # the memory of their cards is theirs too
        for device_id, device in zip(layout.ids, layout.layout.devices, strict=True):
            of_card = is_gpu(device.kind) and device_id not in parts
            has = [(device.kind, device.share)] + [(GPU_MEMORY, device.memory)] * of_card
            for name, amount in has:
                if name in names:
                    amounts[names[name]] += amount
                    aside[names[name]] += 0 if device.usable else amount
        if aside.any():
            self._set_aside[number] = aside

    def freed(self, number: int) -> None:
        """Runs on a host have ended: a device that it doesn't offer any more is forgotten with the last who had it."""
        row = self.table[self.ids[number]]
        in_use = {*self.devices.ids_held(number)}
        if any(each.id not in in_use for each in row.former):
            row = self.table.change(self.ids[number])
            row.former = tuple(each for each in row.former if each.id in in_use)
            self._offer(row)
            self.changed()

    def device_need(self, shape: Shape) -> DeviceNeed | None:
        """The devices and cores that a task of a shape asks; None: none."""
        return device_need(self.kinds.names, shape.need, shape.rules, self.devices.kinds)

    def lends(self, host_id: str) -> None:
        """Brings the capacity of what a host lends up to the rows."""
        row, lent = self.table[host_id], self.lent.get(host_id)
        lends = row.capacity.get("cpu", 0) * lent.steps // LOAD_STEPS if lent is not None else 0
        self.capacity[self.kinds.revocable, row.number] = lends
        self.offers += 1

    def _derive(self, row: HostRow) -> None:
        """Brings phase, counting and silence up to the row."""
        number = row.number
        self.phase[number] = phase_of(
            lost=row.lost,
            silent=row.silent_ms > 0,
            settled=row.session != NEVER and row.session == row.offered == row.reconciled,
            shrunk=number in self.shrunken.watched and bool(self.surplus(number).any()),
            avoided=row.avoided_ms != 0,
        )
        if self.counting[number] != (row.offered != NEVER):
            self.counting[number] = row.offered != NEVER
            self.offers += 1
        self.silent_ms[number] = 0 if row.lost else row.silent_ms
        self.departed_ms[number], self.present[number] = row.departed_ms, 1
        self.load[number] = HALF_LOAD if row.load is None else row.load
        if row.hearing == row.reported_hearing:
            self.untold.pop(self.ids[number], None)
        else:
            self.untold[self.ids[number]] = None
