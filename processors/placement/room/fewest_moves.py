"""The fewest tasks that must be moved from a host so that another fits there (decision 112).

All sets of units are tried, those with the fewest tasks first, of equally many those that leave first by the order of
preemption. That is exact as far as it goes: after `SETS_MAX` sets the search by cost is left to find victims.
"""

from collections.abc import Callable, Iterator, Sequence

from processors.placement.room.board import Draft, Pick

SETS_MAX = 2_000
"""The most sets that are tried for one host: all pairs of 60 tasks."""


def fewest_moves(
    draft: Draft, host: int, picks: Sequence[Pick], fits: Callable[[Sequence[Pick]], bool]
) -> list[Pick] | None:
    """Units that are moved for a task on a host, with their new places; None: no set does, or not one of those that
    were tried. `picks`: those that could be moved; `fits`: whether the task fits where some have left.
    """
    may = [pick for pick in picks if not draft.is_gone(pick.unit) and draft.verdict(pick.unit, pick.way).goes]
    tried = 0
    for tasks in range(1, sum(len(pick.unit.slots) for pick in may) + 1):
        for some in _sets(draft, may, tasks):
            tried += 1
            if tried > SETS_MAX:
                return None
            draft.board.work += 1
            if fits(some) and (moved := _moved(draft, host, some)) is not None and draft.may_take(moved):
                return moved
    return None


def _sets(draft: Draft, picks: Sequence[Pick], tasks: int, start: int = 0) -> Iterator[list[Pick]]:
    """The sets of units with so many tasks together; of units that are alike the first stand for the others."""
    if tasks == 0:
        yield []
        return
    seen: set[tuple[object, ...]] = set()
    for at in range(start, len(picks)):
        unit = picks[at].unit
        alike = draft.board.alike(unit)
        if len(unit.slots) > tasks or alike in seen:
            continue
        seen.add(alike)
        for rest in _sets(draft, picks, tasks - len(unit.slots), at + 1):
            yield [picks[at], *rest]


def _moved(draft: Draft, host: int, picks: Sequence[Pick]) -> list[Pick] | None:
    """The same with their places elsewhere, all beside one another; None: there isn't room for all."""
    mark, moved = draft.mark, list[Pick]()
    for pick in picks:
        places = draft.destination(pick.unit, host)
        if not places:
            break
        moved.append(pick._replace(places=places))
        draft.move(moved[-1])
    draft.back(mark)
    return moved if len(moved) == len(picks) else None
