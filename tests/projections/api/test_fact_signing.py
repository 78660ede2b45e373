"""Facts of proven actors are signed by the cell's key, which the log is told of before."""

from hashlib import sha256
from pathlib import Path

import msgspec

from events.actors import CERTIFICATE, HEADER, TOKEN
from events.codec import decode
from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from events.records.pools import RoleBound, TokenIssued
from events.signatures import UNVERIFIED, VERIFIED, Keys
from events.signing_keys import SigningKeys
from events.topics import POOLS
from projections.api.fact_signing import FactSigning
from tests.helpers.written_cell import Cell
from tests.projections.conftest import Api


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


def test_histories_lists_and_the_log_show_who_is_known_by_proof(tmp_path: Path) -> None:
    keys = SigningKeys(tmp_path / "keys")
    api = Api(tmp_path, keys=keys)
    token = f"pct_t-ci_{'x' * 43}"
    digest = sha256(token.encode()).digest()
    api.pool()
    api.granted(
        keys.current().announcement,
        RoleBound(command_id="b", binding_id="b", subject="ci", role="submitter", pool="/p"),
        TokenIssued(command_id="i", token_id="t-ci", subject="ci", token_hash=digest),
    )
    spec = {"job_id": "a", "pool": "/p", "command": ["true"]}
    assert api.client.post("/v1/jobs", json=spec, headers={"Authorization": f"Bearer {token}"}).status_code == 202
    [record] = api.cell.log.scan("paceline.jobs", 0)
    fact = decode(record.value)
    api.cell.accept("a", record.offset, pool="/p")
    forged = msgspec.structs.replace(fact, job_id="b")
    api.cell.accept("b", api.cell.fact(forged), pool="/p")
    api.fold()
    for job_id, name in (("a", "ci (token t-ci)"), ("b", "ci (unverified)")):
        entries = api.client.get(f"/v1/jobs/{job_id}/history").json()["events"]
        actors = [each["actor"] for each in entries if each["actor"]]
        actors += [each["actor"] for each in api.client.get(f"/v1/audit?job={job_id}").json()["facts"]]
        assert [(each["name"], each["verified"]) for each in actors] == [(name, job_id == "a")] * 2
        assert name in api.client.get(f"/v1/log?job={job_id}").text
    api.close()
