"""Services that come back: parts with instances that were lost with their hosts and have no place yet. In their pool
they stand before all else of their priority.

The column `number` of such an instance has the run in which it comes back, negated. That of others is from 0 on, or the
negative one of a run that is over.
"""

import numpy as np

from events.columns import I64
from processors.entitlement.queues.parts import PartKey
from processors.state.arena import Arena


class Comeback:
    """Knows them; derived."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.parts: dict[PartKey, bool] = {}
        """Parts that may have such instances, and whether they stood so when they were reviewed last."""

    def has(self, part: PartKey) -> bool:
        """Whether a part stands before the others of its priority."""
        return self.parts.get(part, False)

    def turned(self, part: PartKey, tasks: I64) -> bool:
        """Whether a part, with these tasks, stands elsewhere than before; from now on it does."""
        was, comes_back = self.parts[part], len(self.among(tasks)) > 0
        if comes_back:
            self.parts[part] = True
        else:
            del self.parts[part]
        return was != comes_back

    def among(self, slots: I64) -> I64:
        """The tasks that come back."""
        arena = self._arena
        slots = slots[(arena["number"][slots] < 0) & (arena["placed"][slots] == 0)]
        run = np.maximum(arena["held"][slots], np.abs(arena["queued"][slots]))
        back: I64 = slots[(run > 0) & (arena["number"][slots] == -run)]
        return back
