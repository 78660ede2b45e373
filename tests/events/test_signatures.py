"""Signatures of facts, and the keys that vouch for them."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from events.codec import decode, encode
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.parts import Actor
from events.records.pools import LockdownSet, PoolDefined, TokenIssued, TokenRevoked
from events.signatures import CELL, UNVERIFIED, VERIFIED, Keys, content, is_genuine, sign

KEY, OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32)), Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ANN = Actor("ann", "oidc", "10.0.0.1", 3, 7, "https://issuer", "for the release")


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def stop(actor: Actor = ANN) -> JobStopRequested:
    return JobStopRequested(job_id="a", command_id="c", reason="done", actor=actor)


def of_key(
    key: Ed25519PrivateKey, token_id: str, subject: str = CELL, by: Ed25519PrivateKey | None = None
) -> TokenIssued:
    issued = TokenIssued(
        command_id=token_id, token_id=token_id, subject=subject, public_key=public(key), actor=Actor(CELL, CELL)
    )
    return sign(issued, 0, by or key)


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3),
    st.lists(st.text(max_size=9), max_size=3),
    st.integers(1, 1000),
)
def test_a_signature_survives_the_log(labels, command, instances):
    event = JobSubmitted(
        job_id="a", pool="/maps", command=tuple(command), labels=labels, instances=instances, kind="batch", actor=ANN
    )
    read = decode(encode(sign(event, 2, KEY)))
    assert is_genuine(read, 2)
    assert not is_genuine(read, 3), "a fact of one cell is none of another"
    assert not is_genuine(msgspec.structs.replace(read, instances=instances + 1), 2)


@pytest.mark.parametrize("field", [name for name in Actor.__struct_fields__ if name != "signature"])
def test_who_did_it_is_signed_too(field):
    signed = sign(stop(), 0, KEY)
    assert signed.actor is not None
    changed = 99 if isinstance(getattr(ANN, field), int) else "bob"
    forged = msgspec.structs.replace(signed, actor=msgspec.structs.replace(signed.actor, **{field: changed}))
    assert is_genuine(signed, 0)
    assert not is_genuine(forged, 0)


def test_a_field_that_a_later_schema_adds_leaves_signatures_genuine():
    earlier = msgspec.defstruct(
        "JobStopRequested", [("job_id", str), ("command_id", str), ("actor", Actor | None, None)]
    )
    earlier.topic = JobStopRequested.topic
    assert content(earlier("a", "c", ANN), 0) == content(JobStopRequested(job_id="a", command_id="c", actor=ANN), 0)


def test_a_fact_of_all_cells_is_signed_once_and_one_of_a_cell_for_that_alone():
    pool, lock = PoolDefined(path="/a", command_id="c"), LockdownSet(command_id="c", pool="/", locked=True)
    assert content(pool, 0) == content(pool, 1)
    assert content(lock, 0) != content(lock, 1)


def test_the_cell_vouches_for_those_that_its_server_knows_and_for_no_claimed_name():
    keys = Keys()
    keys.take(of_key(KEY, "key-1"), 0)
    assert keys.standing(sign(stop(), 0, KEY), 0, 0) == VERIFIED
    assert keys.standing(stop(), 0, 0) == UNVERIFIED, "without a signature"
    assert keys.standing(sign(stop(), 0, OTHER), 0, 0) == UNVERIFIED, "by a key that nobody knows"
    assert keys.standing(sign(stop(Actor("ann", "header")), 0, KEY), 0, 0) == UNVERIFIED, "that name was claimed"


def test_a_producer_vouches_for_its_own_subject_until_its_key_ends():
    keys = Keys()
    keys.take(of_key(KEY, "key-1"), 0)
    keys.take(msgspec.structs.replace(of_key(OTHER, "t-1", "ci"), until_ms=50), 0)
    own, others = Actor("ci", "token", credential="t-1"), Actor("root", "token", credential="t-1")
    assert keys.standing(sign(stop(own), 0, OTHER), 0, 49) == VERIFIED
    assert keys.standing(sign(stop(own), 0, OTHER), 0, 50) == UNVERIFIED
    assert keys.standing(sign(stop(others), 0, OTHER), 0, 49) == UNVERIFIED
    keys.take(TokenRevoked(command_id="r", token_id="t-1"), 0)
    assert keys.standing(sign(stop(own), 0, OTHER), 0, 49) == UNVERIFIED


def test_nobody_becomes_a_key_of_the_cell_but_by_one_of_its_keys():
    keys = Keys()
    keys.take(msgspec.structs.replace(of_key(OTHER, "key-0"), subject=CELL, public_key=public(KEY)), 0)
    assert not keys.has_root, "it is not signed by itself"
    keys.take(of_key(KEY, "key-1"), 0)
    keys.take(of_key(OTHER, "key-2"), 0)
    assert keys.standing(sign(stop(), 0, OTHER), 0, 0) == UNVERIFIED
    keys.take(of_key(OTHER, "key-2", by=KEY), 0)
    assert keys.standing(sign(stop(), 0, OTHER), 0, 0) == VERIFIED


def test_what_has_no_actor_is_not_signed():
    with pytest.raises(ValueError, match="has no actor"):
        sign(TokenRevoked(command_id="r", token_id="t"), 0, KEY)
