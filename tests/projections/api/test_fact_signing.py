"""Facts of proven actors are signed by the cell's key, which the log is told of before."""

from pathlib import Path

import msgspec

from events.actors import CERTIFICATE, HEADER, TOKEN
from events.codec import decode
from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from events.signatures import UNVERIFIED, VERIFIED, Keys
from events.signing_keys import SigningKeys
from events.topics import POOLS
from projections.api.fact_signing import FactSigning
from tests.helpers.written_cell import Cell


def stop(how: str, subject: str = "ann") -> JobStopRequested:
    return JobStopRequested(job_id="a", command_id="s", actor=Actor(subject, how, credential="t-1"))


def known(cell: Cell) -> Keys:
    keys = Keys()
    for each in cell.log.scan(POOLS.name, 0):
        keys.take(decode(each.value), 0)
    return keys


def test_who_reads_the_log_finds_proven_actors_verified_and_forged_ones_not(tmp_path: Path) -> None:
    cell = Cell()
    signed = FactSigning(SigningKeys(tmp_path / "keys"), cell.log.cell, [cell.log])(stop(TOKEN))
    assert signed.actor is not None
    forged = msgspec.structs.replace(signed, actor=msgspec.structs.replace(signed.actor, subject="ben"))
    keys = known(cell)
    assert keys.standing(signed, cell.log.cell, 0) == VERIFIED
    assert keys.standing(forged, cell.log.cell, 0) == UNVERIFIED
    assert keys.standing(stop(TOKEN), cell.log.cell, 0) == UNVERIFIED


def test_nothing_is_signed_or_made_for_a_name_that_is_only_claimed(tmp_path: Path) -> None:
    cell = Cell()
    fact = stop(HEADER)
    assert FactSigning(SigningKeys(tmp_path / "keys"), cell.log.cell, [cell.log])(fact) is fact
    assert not (tmp_path / "keys").exists()
    assert not list(cell.log.scan(POOLS.name, 0))


def test_after_a_rotation_old_facts_stay_verified_and_each_key_is_told_once(tmp_path: Path) -> None:
    cell, folder = Cell(), SigningKeys(tmp_path / "keys")
    signing = FactSigning(folder, cell.log.cell, [cell.log])
    facts = [signing(stop(TOKEN))]
    folder.rotate()
    facts += [signing(stop(CERTIFICATE)), signing(stop(TOKEN))]
    keys = known(cell)
    assert [keys.standing(each, cell.log.cell, 0) for each in facts] == [VERIFIED] * 3
    assert len(list(cell.log.scan(POOLS.name, 0))) == 2
