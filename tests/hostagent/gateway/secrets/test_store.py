"""What every store of secrets keeps to, and what the one in a folder keeps to beside that."""

import base64
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from events.bounds import SECRET_BYTES_MAX
from hostagent.gateway.secrets.folder import SecretFolder
from hostagent.gateway.secrets.store import NoSuchSecret, SecretStore, StoreAway

Open = Callable[[], SecretStore]
"""Opens the store of one cell as another process would."""


@pytest.fixture(params=[SecretFolder])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return lambda: request.param(tmp_path / "secrets")  # type: ignore[no-any-return]


def test_a_value_is_read_as_it_was_put_by_any_process(opened: Open) -> None:
    value = bytes(range(256)) + b"\n"
    put = opened().put("db", value)
    assert (put.name, put.version) == ("db", 1)
    assert opened().read("db", 1) == value
    assert opened().read("db", 1, put.digest) == value
    assert opened().versions() == [put]


def test_versions_count_and_the_newest_is_found(opened: Open) -> None:
    store = opened()
    puts = [store.put("db", value) for value in (b"one", b"two", b"three")]
    store.put("a", b"other")
    assert [each.version for each in puts] == [1, 2, 3]
    assert store.find("db") == puts[2]
    assert store.find("db", 2) == puts[1]
    assert [(each.name, each.version) for each in store.versions()] == [("a", 1), ("db", 1), ("db", 2), ("db", 3)]
    assert store.read("db", 1) == b"one"


def test_a_deleted_version_is_gone_and_its_number_is_not_given_again(opened: Open) -> None:
    store = opened()
    for value in (b"one", b"two", b"three"):
        store.put("db", value)
    assert store.delete("db", 3) == [3]
    assert store.find("db").version == 2
    with pytest.raises(NoSuchSecret, match="no version 3; there is 1, 2"):
        store.read("db", 3)
    assert store.put("db", b"four").version == 4
    assert store.delete("db") == [1, 2, 4]
    assert opened().versions() == []
    assert opened().put("db", b"five").version == 5


def test_what_is_not_there_is_said(opened: Open) -> None:
    store = opened()
    for ask in (lambda: store.find("db"), lambda: store.delete("db")):
        with pytest.raises(NoSuchSecret, match="paceline secret put db"):
            ask()
    for name in ("../db", "", "DB", "x" * 65, "a/b"):
        with pytest.raises(NoSuchSecret, match="no name"):
            store.find(name)
        with pytest.raises(ValueError, match="no name"):
            store.put(name, b"value")


@pytest.mark.parametrize("value", [b"", b"x" * (SECRET_BYTES_MAX + 1)])
def test_a_value_has_a_byte_and_no_more_than_the_most(opened: Open, value: bytes) -> None:
    with pytest.raises(ValueError, match="it must be 1 to 65536"):
        opened().put("db", value)


def test_a_digest_tells_of_another_value_and_nothing_of_the_value(opened: Open) -> None:
    store = opened()
    first, second = store.put("db", b"same"), store.put("db", b"same")
    assert first.digest != second.digest
    with pytest.raises(NoSuchSecret, match="isn't the one that the job was submitted with"):
        store.read("db", 2, first.digest)


def test_a_version_that_never_was_here_is_looked_for_elsewhere(opened: Open) -> None:
    for version in (1, 2):
        with pytest.raises(StoreAway, match=f"secret db version {version} never was in .*: do all gateways"):
            opened().read("db", version)
        opened().put("db", b"value")


def test_those_who_put_at_once_get_versions_of_their_own(opened: Open) -> None:
    versions: list[int] = []
    stores = [opened() for _ in range(4)]

    def put(store: SecretStore) -> None:
        versions.extend(store.put("db", b"value").version for _ in range(5))

    threads = [threading.Thread(target=put, args=(store,)) for store in stores]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(versions) == list(range(1, 21))
    assert {opened().read("db", version) for version in versions} == {b"value"}


def test_the_folder_holds_no_value_and_is_for_its_user_alone(tmp_path: Path) -> None:
    value = b"correct horse battery staple"
    SecretFolder(tmp_path / "secrets").put("db", value)
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert sorted(str(each.relative_to(tmp_path)) for each in files) == ["secrets.key", "secrets/db/1"]
    for each in files:
        assert each.stat().st_mode & 0o777 == 0o600
        content = each.read_bytes()
        assert value not in content
        assert base64.b64encode(value)[:20] not in content
    assert (tmp_path / "secrets" / "db").stat().st_mode & 0o777 == 0o700


def test_a_key_that_is_missing_wrong_or_open_to_others_is_said(tmp_path: Path) -> None:
    folder, key = tmp_path / "secrets", tmp_path / "secrets.key"
    SecretFolder(folder).put("db", b"value")
    whole = key.read_bytes()
    key.write_bytes(bytes(32))
    with pytest.raises(StoreAway, match=r"secret db version 1 can't be decrypted: .*secrets\.key is another key"):
        SecretFolder(folder).read("db", 1)
    key.write_bytes(whole)
    key.chmod(0o644)
    with pytest.raises(StoreAway, match="others may read the key of the secrets: chmod 600"):
        SecretFolder(folder).read("db", 1)
    key.unlink()
    for ask in (lambda: SecretFolder(folder).read("db", 1), lambda: SecretFolder(folder).put("db", b"value")):
        with pytest.raises(StoreAway, match="can't be read: No such file"):
            ask()
    assert not key.exists(), "another key would hide that this one is lost"


def test_a_version_that_was_moved_to_another_name_is_not_read(tmp_path: Path) -> None:
    store = SecretFolder(tmp_path / "secrets")
    store.put("db", b"value")
    store.put("web", b"other")
    os.replace(tmp_path / "secrets" / "db" / "1", tmp_path / "secrets" / "web" / "1")
    with pytest.raises(StoreAway, match="can't be decrypted"):
        store.read("web", 1)
