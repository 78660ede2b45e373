"""Who may speak for a host: the gateway and the views say the same, in whatever order removals are read."""

from pathlib import Path
from random import Random

import pytest

from events.host_certificates import Code
from events.records.hosts import HostCertified, HostInvited, HostRemovalRequested
from events.records.parts import Cause
from events.records.placement import HostRemoved
from hostagent.gateway.certificates import Certificates
from projections.queries.access import certificates
from tests.projections.views.test_access import World

LIFE_MS = 1_000_000


def certified(
    serial: str, invite_id: str = "", renews: str = "", key: str = "", life_ms: int = LIFE_MS
) -> HostCertified:
    return HostCertified(host_id="h", serial=serial, fingerprint="f", from_ms=0, until_ms=life_ms,
                         invite_id=invite_id, renews=renews, key=key or f"key of {serial}")  # fmt: skip


def code(fold: Certificates, event: HostCertified, now: int = 1) -> str:
    refused = fold.refusal(event, now)
    fold.certified(event, now)
    return "" if refused is None else refused.code


def test_a_certificate_is_renewed_with_one_key_alone() -> None:
    fold = Certificates()
    fold.invited(HostInvited(host_id="h", invite_id="i", until_ms=9), 5, 1)
    assert code(fold, certified("01", "i")) == ""
    assert code(fold, certified("02", renews="01", key="k")) == ""
    assert code(fold, certified("03", renews="01", key="thief")) == Code.CERTIFICATE_RENEWED
    assert code(fold, certified("04", renews="01", key="k")) == ""  # the answer was lost
    assert [fold.known(each, "h") is None for each in ("01", "02", "03", "04")] == [True, True, False, True]
    assert code(fold, certified("05", renews="04"), LIFE_MS) == Code.CERTIFICATE_EXPIRED
    again = Certificates()
    again.load(fold.dump())
    assert code(again, certified("06", renews="01", key="thief")) == Code.CERTIFICATE_RENEWED


@pytest.mark.parametrize("seed", range(12))
def test_gateway_and_views_agree_about_each_certificate(seed: int, tmp_path: Path) -> None:
    random, fold, world = Random(seed), Certificates(), World(tmp_path)
    serials: list[str] = []
    removals: list[HostRemoved] = []
    invitations = ["unknown"]
    for number in range(60):
        world.cell.ms += 10
        match random.choice(("invite", "join", "join", "renew", "renew", "renew", "ask", "remove")):
            case "invite":
                invited = HostInvited(host_id="h", invite_id=f"i{number}", until_ms=world.cell.ms + 100)
                fold.invited(invited, world.cell.fact(invited), world.cell.ms)
                invitations.append(invited.invite_id)
            case "join" | "renew" as how:
                old = random.choice(serials) if serials and how == "renew" else ""
                name, key = f"{number:x}", f"k{random.randrange(3)}"
                invite_id = "" if old else random.choice(invitations)
                event = certified(name, invite_id, old, key, world.cell.ms + LIFE_MS)
                world.cell.fact(event)
                fold.certified(event, world.cell.ms)
                serials.append(name)
            case "ask":
                asked = world.cell.fact(HostRemovalRequested(host_id="h", command_id="c"))
                cause = Cause(topic="paceline.hosts", offset=asked)
                removals.append(HostRemoved(host_id="h", session=1, code="ASKED", left_ms=0, cause=cause))
            case _ if removals:
                removal = removals.pop(0)
                world.cell.decide("placement", removal)
                fold.removed(removal)
    world.step()
    with world.views.views.read() as connection:
        shown = {each.serial for each in certificates(connection) if not each.is_revoked}
    assert shown == {each for each in serials if fold.known(each, "h") is None}
