"""The GPUs of hosts as a grid: a cell a card, cards of one link group side by side, hosts by the group they are in."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import Connection, select

from events.natural_order import natural_key
from events.resources import is_gpu
from paceline.client.host_models import HostDevice
from projections.queries.devices import holders_by_host, host_devices
from projections.queries.pages import rows_of
from projections.ui.page_values import PageValues
from projections.views import tables
from projections.views.rows import HostRow

HOSTS_SHOWN = 48
CARDS_SHOWN = 64
"""The most cells of a host."""
FREE, PARTLY, USED = "free", "partly used", "used"
_WORDS = {"UNHEALTHY": "unhealthy", "DISABLED": "disabled", "EMPTYING": "disabled", "GONE": "gone"}


def card_grid(connection: Connection, host_ids: Sequence[str], groups: Sequence[str]) -> list[PageValues]:
    """The cards of hosts by the group that each host is in, in the order of the groups, then of the hosts."""
    query = select(tables.hosts).where(tables.hosts.c.host_id.in_(host_ids))
    rows = {row.host_id: row for row in rows_of(connection, HostRow, query)}
    holders = holders_by_host(connection, host_ids)
    group_of = dict(zip(host_ids, groups, strict=True))
    by_group = sorted((each for each in host_ids if each in rows), key=lambda each: natural_key(group_of[each]))
    grid = []
    for group, names in groupby(by_group, key=lambda each: group_of[each]):
        hosts = [_host(name, host_devices(rows[name], holders[name])) for name in names]
        if some := [each for each in hosts if each["cards"]]:
            grid.append({"group": group, "hosts": some})
    return grid


def _host(host_id: str, devices: Sequence[HostDevice]) -> PageValues:
    """The cells of a host, from the left, a gap between link groups."""
    cards = [each for each in devices if is_gpu(each["kind"])]
    in_use = {each["id"] for each in devices if each["used"]}
    blocked = {other for each in devices if each["id"] in in_use for other in (*each["excludes"], each["part_of"])}
    blocked |= {each["id"] for each in devices if each["part_of"] in in_use or in_use & {*each["excludes"]}}
    cells, counts, gaps, link_group = [], Counter[str](), 0, ""
    for at, card in enumerate(sorted(cards, key=lambda each: each["link_group"] or "")[:CARDS_SHOWN]):
        gaps += bool(at) and (card["link_group"] or "") != link_group
        link_group = card["link_group"] or ""
        word = _word(card, card["id"] in blocked)
        counts[word] += 1
        cells.append({"x": 12 * at + 6 * gaps, "word": word, "title": _title(card, word), "full": _tenths(card)})
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    width = 12 * len(cells) + 6 * gaps
    return {"id": host_id, "cards": cells, "words": words, "width": width, "left_out": len(cards) - len(cells)}


def _word(card: HostDevice, blocked: bool) -> str:
    """The state of a card in words: by its agent or an operator, else by what runs have of it or of its parts."""
    if card["state"] in _WORDS:
        return _WORDS[card["state"]]
    if card["used"] >= 1 or (blocked and not card["used"]):
        return USED
    return PARTLY if card["used"] else FREE


def _tenths(card: HostDevice) -> int:
    """The height in a cell of ten that is used."""
    return min(9, max(1, round(10 * card["used"]))) if card["used"] else 0


def _title(card: HostDevice, word: str) -> str:
    facts = [f"{card['kind']} {card['id']}", card["model"], card["memory"]]
    facts += [f"link group {card['link_group']}"] if card["link_group"] else []
    runs = [f"{run['job_id']}/{run['instance']}: {run['share']}" for run in card["runs"]]
    return ", ".join([*filter(None, facts), word, *runs])
