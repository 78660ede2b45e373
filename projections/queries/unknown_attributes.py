"""Whether rules of a job about other tasks name attributes, or values of them, that no host has: what its submitter is
warned of. Such a rule doesn't do what it says: all hosts count as one group.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from events.abilities import is_own
from events.codes import Code
from events.records.parts import PlacementRules
from events.resources import hint_of
from events.topology import HOST, LINK_GROUP
from paceline.client.models import FitWarning

VALUES_MAX = 10
"""So many values are listed."""


def attribute_warnings(rules: PlacementRules | None, hosts: Iterable[Mapping[str, str]]) -> Iterator[FitWarning]:
    """A sentence for each attribute and each target that no host has; `hosts` are their attributes, none where no host
    is there.
    """
    over = () if rules is None else _named(rules)
    values_of: dict[str, set[str]] = {}
    for host in hosts if over else ():
        for name, value in host.items():
            values_of.setdefault(name, set()).add(value)
    if rules is None or not values_of:
        return
    for field, name in over:
        if name not in values_of:
            near = hint_of(name, sorted(each for each in values_of if not is_own(each)))
            yield _warning(f"{field}: no host has an attribute {name}{near}")
    there = sorted(values_of.get(rules.spread_over, ()))
    for value in (each.value for each in rules.targets if there and each.value not in there):
        near = next(iter(get_close_matches(value, there, n=1)), "")
        hint = f" (did you mean {near}?)" if near else ""
        values = ", ".join(there[:VALUES_MAX]) + f" and {len(there) - VALUES_MAX} more" * (len(there) > VALUES_MAX)
        yield _warning(f"spread.targets: no host has {rules.spread_over} {value}{hint}; hosts have {values}")


def _named(rules: PlacementRules) -> dict[tuple[str, str], None]:
    """The attributes that rules name, each with the field that does."""
    rules_over = [("spread.over", rules.spread_over), ("within", rules.within), ("near", rules.near)]
    rules_over += [(f"{'anti_' * each.apart}affinity.within", each.over) for each in rules.affinity]
    return dict.fromkeys((field, name) for field, name in rules_over if name not in ("", HOST, LINK_GROUP))


def _warning(message: str) -> FitWarning:
    return {"code": Code.CONSTRAINT_MISMATCH, "message": message}
