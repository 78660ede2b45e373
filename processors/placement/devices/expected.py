"""The mix of tasks that a cell has seen, as a row, and the board that scores hosts by it (decision 106)."""

from collections.abc import Iterable

from events.columns import I32, I64
from processors.placement.devices.board import DeviceBoard
from processors.placement.devices.cards import CardBoard
from processors.placement.devices.mix import Mix, MixRow, TaskShape
from processors.placement.devices.states import States
from processors.placement.devices.strategies import ScoreParts
from processors.state.table import Table, struct_table

ROW = "mix"


class ExpectedTasks:
    """The mix, which is there from the first task on that comes when hosts have GPUs."""

    def __init__(self) -> None:
        self.table: Table[str, MixRow] = struct_table("mix", MixRow)
        self._mix: Mix | None = None
        self._board: CardBoard | None = None

    def restored(self) -> None:
        """Another row was loaded."""
        self._mix = self._board = None

    def board(self, cpu: I64, memory: I64, column: I32, states: States) -> CardBoard:
        """The board with so much free; `column`: the state of the devices of each host."""
        if self._board is None or len(column) > self._board.width:
            self._board = CardBoard(len(column))
        self._board.synchronise(cpu, memory, column, states)
        if (mix := self._now()) is not None:
            self._board.learn(mix)
        return self._board

    def arrived(self, tasks: Iterable[tuple[TaskShape, int]]) -> bool:
        """Tasks of some shapes have come, so many of each; whether the mix is to be refreshed."""
        if ROW not in self.table:
            self.table.put(ROW, MixRow())
        self.table.change(ROW)
        mix = self._now()
        assert mix is not None
        for shape, count in tasks:
            mix.seen(shape, count)
        return mix.is_due

    def refresh(self, cpu: I64, memory: I64, column: I32, states: States) -> None:
        """Refreshes the mix by what is free."""
        self.table.change(ROW)
        mix = self._now()
        assert mix is not None
        self.board(cpu, memory, column, states).refresh(mix)

    def _now(self) -> Mix | None:
        """The mix of the row as it is."""
        row = self.table.get(ROW)
        if row is not None and (self._mix is None or self._mix.row is not row):
            self._mix = Mix(row)
        return self._mix if row is not None else None


class CardChooser:
    """Chooses the hosts of tasks of one shape in a decision."""

    def __init__(self, expected: ExpectedTasks, devices: DeviceBoard, task: TaskShape, rule: int) -> None:
        self.task = task
        self._expected, self._devices, self._rule = expected, devices, rule

    def best(self, hosts: I64, cpu: I64, memory: I64) -> int | None:
        """The best of some hosts with room, where so much is free of all; None: none is, as far as the board knows. The
        device that a share shall have is noted.
        """
        choice = self._board(cpu, memory).best(self.task, self._rule, hosts)
        if choice is None:
            return None
        if choice.card >= 0:
            self._devices.prefer(*choice)
        return choice.host

    def scores(self, cpu: I64, memory: I64) -> I64:
        """The score of each host, where so much is free; `NONE`: it has no room as far as the board knows."""
        return self._board(cpu, memory).board.scores(self.task, self._rule)[: len(cpu)]

    def parts(self, host: int, score: int, cpu: I64, memory: I64) -> ScoreParts:
        """The parts of the score of a host."""
        return self._board(cpu, memory).board.parts(self._rule, host, score)

    def _board(self, cpu: I64, memory: I64) -> CardBoard:
        return self._expected.board(cpu, memory, self._devices.column, self._devices.devices.states)
