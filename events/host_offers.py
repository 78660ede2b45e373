"""Judges the offers of hosts, alike for the gateway, all readers of the log, and the views.

Decision 021.
"""

from events.bounds import ATTRIBUTES_MAX, NAME, PORT_MAX, SESSION_MAX, WORD_MAX
from events.host_devices import devices_fault
from events.records.base import Event
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent
from events.records.tasks import HostInventory
from events.resources import STANDARD, Unit, amounts_fault
from events.taints import taints_fault


def offer_fault(offer: HostOffered) -> str:
    """Why an offer counts as nothing; empty: it can be taken at its word."""
    units = dict.fromkeys(offer.capacity, Unit.MILLI) | dict.fromkeys(offer.sizes, Unit.MIB) | STANDARD
    if fault := amounts_fault(offer.capacity, units):
        return fault
    if not {*offer.sizes} <= offer.capacity.keys():
        return "sizes names what capacity doesn't"
    if not 0 < offer.port_first <= offer.port_last <= PORT_MAX:
        return f"ports are {offer.port_first} to {offer.port_last}, must be a range from 1 to {PORT_MAX}"
    if len(offer.attributes) > ATTRIBUTES_MAX:
        return f"{len(offer.attributes)} attributes, at most {ATTRIBUTES_MAX}"
    for name, value in offer.attributes.items():
        if not 0 < len(name) <= WORD_MAX or len(value) > WORD_MAX:
            return f"attribute {name[:WORD_MAX]!r}: name and value have at most {WORD_MAX} characters"
    return taints_fault(offer.taints) or devices_fault(offer)


def host_fault(event: Event) -> str:
    """Why what is said for a host is no fact: nobody may be called so, or count so; empty: it is one."""
    if not isinstance(event, HostConnected | HostOffered | HostSilent | HostBack | HostInventory):
        return ""
    if not NAME.fullmatch(event.host_id):
        return "BAD_HOST_ID"
    return "" if 0 <= event.session <= SESSION_MAX else "SESSION_OUT_OF_BOUNDS"
