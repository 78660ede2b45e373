"""Hosts in the order of their groups, in blocks that no two groups share: what shapes look at that are spread."""

import numpy as np

from processors.placement.engine.columns import BLOCK, Columns


class Layouts:
    """The layouts of the attributes over which something is spread."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._current: set[str] = set()

    def outdated(self, attribute: str | None = None) -> None:
        """Hosts have other values of an attribute, or there are others."""
        if attribute is None:
            self._current.clear()
        else:
            self._current.discard(attribute)

    def of(self, c: Columns, attribute: str, group: int, hosts: int) -> tuple[Columns, int, bool]:
        """The number of a layout that is up to date, in columns that may be wider, and whether it has changed."""
        number = self._numbers.get(attribute)
        if number is None:
            number = self._numbers[attribute] = len(self._numbers)
        if attribute in self._current:
            return c, number, False
        self._current.add(attribute)
        if number >= len(c.layouts):
            c = c._replace(
                layouts=np.concatenate([c.layouts, np.zeros_like(c.layouts)]),
                layout_blocks=np.append(c.layout_blocks, np.zeros_like(c.layout_blocks)),
            )
        groups = c.groups[group, :hosts]
        order = np.argsort(groups, kind="stable")
        firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        within = np.arange(hosts) - np.repeat(firsts, np.diff(np.append(firsts, hosts)))
        starts = np.flatnonzero(within % BLOCK == 0)
        blocks = len(starts)
        c.layout_blocks[number] = blocks
        layout = c.layouts[number]
        layout[0, :hosts] = order
        layout[1, order] = np.repeat(np.arange(blocks), np.diff(np.append(starts, hosts)))
        layout[2, :blocks], layout[2, blocks] = starts, hosts
        layout[3, :blocks] = groups[order[starts]]
        more = blocks - c.bounds.shape[1]
        if more > 0:
            c = c._replace(
                bounds=np.pad(c.bounds, ((0, 0), (0, more))),
                beside=np.pad(c.beside, ((0, 0), (0, more), (0, 0))),
                scratch=np.pad(c.scratch, (0, more)),
            )
        return c, number, True
