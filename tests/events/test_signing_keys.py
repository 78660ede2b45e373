"""The folder of the cell's signing keys."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from events.signatures import Keys, is_genuine, signer_of
from events.signing_keys import PUBLISHED_S, KeysUnfit, SigningKeys


def test_nothing_is_made_before_something_is_signed(tmp_path: Path):
    keys = SigningKeys(tmp_path / "keys")
    assert keys.published() == []
    assert not (tmp_path / "keys").exists()


def test_a_key_is_for_its_user_alone_and_stays_over_restarts(tmp_path: Path):
    first = SigningKeys(tmp_path / "keys").current()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()] == [0o600]
    assert SigningKeys(tmp_path / "keys").current().private == first.private


def test_processes_that_start_at_once_have_one_key(tmp_path: Path):
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: SigningKeys(tmp_path / "keys").current().name, range(32)))
    assert len(set(made)) == 1


def test_others_that_have_the_folder_open_sign_with_the_next_key_at_once(tmp_path: Path):
    here, there = SigningKeys(tmp_path / "keys"), SigningKeys(tmp_path / "keys")
    assert here.current().name == there.current().name
    assert there.rotate().name == here.current().name


def test_a_key_stays_published_as_long_as_something_it_signed_may_be_valid_and_cannot_sign(tmp_path: Path):
    now = [1000.0]
    keys = SigningKeys(tmp_path / "keys", lambda: now[0])
    old = keys.current()
    new = keys.rotate()
    assert [each.name for each in keys.published()] == [old.name, new.name]
    assert [each.private for each in keys.published()] == [b"", new.private]
    now[0] += PUBLISHED_S
    assert [each.name for each in keys.published()] == [new.name]


def test_readers_of_the_log_follow_from_the_first_key_to_the_present_one(tmp_path: Path):
    keys = SigningKeys(tmp_path / "keys")
    facts = [keys.current().announcement, keys.rotate().announcement, keys.rotate().announcement]
    known = Keys()
    for fact in facts:
        known.take(fact, 0)
    assert [each.token_id for each in known.by_key.values()] == [fact.token_id for fact in facts]
    assert is_genuine(facts[2], 0)
    assert signer_of(facts[2].actor) == facts[1].public_key


def test_a_key_that_others_may_read_is_refused(tmp_path: Path):
    SigningKeys(tmp_path / "keys").current()
    (tmp_path / "keys" / "1.json").chmod(0o644)
    with pytest.raises(KeysUnfit, match="chmod 600"):
        SigningKeys(tmp_path / "keys").current()
