"""The pools of the cell: facts about them are answered, and followed once they are."""

from events.cell_settings import SettingsChange
from events.codes import Code
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from processors.entitlement.pools.rules import answer
from processors.entitlement.pools.tree import Entry, Tree, pool_row
from processors.entitlement.rows import AskRow, ConfiguredRow, DefinedRow, PoolFact, RemovedRow
from processors.entitlement.state import State
from processors.state.table import Table, struct_table

COMMANDS_KEPT = 1000
"""So many of the newest commands about pools are known again when they are repeated."""


class Pools:
    """Answers facts about pools, and follows what was answered. `number`: that of the cell."""

    def __init__(self, number: int, state: State) -> None:
        self._number = number
        self._state = state
        self._pools = state.pools
        self._queues = state.queues
        self.foreign: Table[str, int] = struct_table("foreign", int)
        """The pools of other cells: the cell of each."""
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self.done: Table[str, int] = struct_table("commands", int)
        """Commands that were done: where they stand in the topic of pools."""
        self._tree = self._new_tree()

    def restored(self) -> None:
        """The tables were loaded."""
        self._tree = self._new_tree()

    def answers(self, budget: int) -> list[Event]:
        """Answers to facts about pools, each as the tree is after the ones before."""
        tree, done, cell = self._tree, dict(self.done.items()), self._state.cell
        capacity = cell.capacity if cell.hosts else ()
        before: list[Entry] = []
        out: list[Event] = []
        for offset in sorted(self.asks)[:budget]:
            fact = self.asks[offset].fact
            repeated = fact.command_id in done
            answered = answer(offset, fact, tree, self._queues.open_jobs, repeated, cell.settings, capacity)
            if answered.code == Code.DONE:
                done[fact.command_id] = offset
                was = tree.take(fact)
                before += [was] if was else []
            out.append(answered)
            if answered.code == Code.DONE and isinstance(fact, ConfiguredRow):
                break  # what comes after it is judged by the new settings
        for entry in reversed(before):
            tree.put(entry)
        return out

    def answered(self, event: PoolAnswered) -> PoolFact | None:
        """A fact was answered; one that is done is followed. Returns it if it changed something of this cell."""
        fact = self.asks[event.pools_offset].fact
        self.asks.remove(event.pools_offset)
        if event.code != Code.DONE:
            return None
        self._tree.take(fact)
        self.done.put(event.command_id, event.pools_offset)
        if len(self.done) > COMMANDS_KEPT:
            self.done.remove(min(self.done, key=self.done.__getitem__))
        if self._is_foreign(fact):
            return None
        if isinstance(fact, DefinedRow):
            pool, old = pool_row(fact, self._queues.kinds), self._pools.get(fact.path)
            if old is not None:
                pool.served, pool.credit, pool.turn, pool.goes_on = old.served, old.credit, old.turn, old.goes_on
            self._pools.put(fact.path, pool)
        elif isinstance(fact, RemovedRow):
            self._pools.remove(fact.path)
        else:
            self._configured(fact.change)
        return fact

    def _new_tree(self) -> Tree:
        """The pools as the rows have them."""
        own = [Entry(path, row=row) for path, row in self._pools.items()]
        foreign = [Entry(path, cell=cell) for path, cell in self.foreign.items()]
        return Tree(self._number, self._queues.kinds, own + foreign)

    def _configured(self, change: SettingsChange) -> None:
        """The cell has other settings, and may know more kinds."""
        kinds = self._state.change_cell().configure(change)
        if len(kinds) > len(self._queues.kinds):
            for path, pool in list(self._pools.items()):
                self._pools.put(path, pool.widened(kinds))
            self._queues.widen(kinds)
            self._tree = self._new_tree()
        self._queues.kinds = kinds

    def _is_foreign(self, fact: PoolFact) -> bool:
        """Notes what was done to a pool of another cell; False: it is one of this cell, or none."""
        if isinstance(fact, DefinedRow) and fact.cell != self._number:
            self.foreign.put(fact.path, fact.cell)
            return True
        if isinstance(fact, RemovedRow) and fact.path in self.foreign:
            self.foreign.remove(fact.path)
            return True
        return False
