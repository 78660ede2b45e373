"""The sentences by which drains and campaigns are refused: placement's answers and dry runs have the same."""

from collections.abc import Mapping, Sequence

from events.codes import Code
from events.words import listed

NO_FORCE = "The cell doesn't let operators end runs by force: `paceline cell set drain_force=on` permits it."
NAMED = 3
"""So many hosts are named in a sentence."""
_OF_HOSTS = {
    Code.NOT_FOUND: "This cell knows no host {hosts}",
    Code.HOST_IN_CAMPAIGN: "A maintenance campaign has {hosts}: `paceline host resume` is the only command for it",
    Code.HOST_DRAINING: "A drain has {hosts}: `paceline host resume` ends drain and cordon",
}
_OF_CAMPAIGNS = {Code.NOT_FOUND: "This cell knows no host {hosts}", Code.HOSTS_BUSY: "Another campaign has {hosts}"}


def drain_refused(refused: Mapping[str, Code], hosts: int) -> tuple[Code, str]:
    """The code and the sentence of a refusal by hosts that are refused; `hosts`: so many were named."""
    code, names = _first(refused)
    why = _OF_HOSTS[code].format(hosts=names)
    return code, f"{why}; nothing was changed on any of the {hosts} hosts." if hosts > 1 else f"{why}."


def campaign_refused(refused: Mapping[str, Code], hosts: int) -> tuple[Code, str]:
    """The same of a campaign."""
    code, names = _first(refused)
    return code, f"{_OF_CAMPAIGNS[code].format(hosts=names)}; the campaign isn't started on any of its {hosts} hosts."


def window_refused(unknown: Sequence[str]) -> str:
    """That a window names hosts that aren't there."""
    return f"{_OF_HOSTS[Code.NOT_FOUND].format(hosts=listed(unknown, NAMED))}; the window isn't set."


def campaign_exists(maintenance_id: str, state: str) -> str:
    """That the id of a campaign is taken."""
    return f"A campaign {maintenance_id} exists already and is {state}: choose another id."


def no_window(window_id: str) -> str:
    """That a window isn't there, which a campaign names or an operator removes."""
    return f"There is no window {window_id}."


def _first(refused: Mapping[str, Code]) -> tuple[Code, str]:
    """The first code, and the hosts that are refused by it."""
    code = next(iter(refused.values()))
    return code, listed([host_id for host_id, each in refused.items() if each == code], NAMED)
