"""Notes and keys are those of C2SP: other tools read them."""

import os
import random
from pathlib import Path

import pytest

from paceline.client.errors import PacelineError
from paceline.witness.notes import Note, NoteFault, PrivateKey, PublicKey, make_key, read_key, signed

TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
NOTE = (
    f"{TEXT}\n\u2014 PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
"""The example of golang.org/x/mod/sumdb/note."""


def test_a_note_of_another_tool_is_read_and_the_same_is_made(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(PRIVATE)
    file.chmod(0o600)
    key = read_key(file)
    assert str(key.public) == PUBLIC
    assert signed(TEXT, key).pack().decode() == NOTE
    assert Note.parse(NOTE.encode()).is_signed_by(PublicKey.parse(PUBLIC))


def test_a_key_is_made_for_its_user_alone_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "w.key"
    public = make_key("w", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_key(file).public == public == PublicKey.parse(f"{public}\n")
    with pytest.raises(PacelineError, match="never overwritten"):
        make_key("w", file)
    file.chmod(0o640)
    with pytest.raises(PacelineError, match="chmod 600"):
        read_key(file)


@pytest.mark.parametrize(("owner", "mode", "is_taken"), [(0, 0o440, True), (0, 0o444, False), (7, 0o440, False)])
def test_the_group_of_a_witness_may_read_a_key_of_root_and_no_other(
    owner: int, mode: int, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "w.key"
    make_key("w", file)
    there = os.stat_result((mode, 0, 0, 1, owner, 10001, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda self: there)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    if is_taken:
        assert read_key(file).name == "w"
    else:
        with pytest.raises(PacelineError, match="chmod 600"):
            read_key(file)


@pytest.mark.parametrize("name", ["", "two words", "a+b", "x" * 101])
def test_a_name_that_would_spoil_a_signature_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(PacelineError, match="can't name a key"):
        make_key(name, tmp_path / "w.key")


@pytest.mark.parametrize("text", ["", "w", "w+00000000+AAAA", PUBLIC.replace("c7", "c8"), PUBLIC[:-4], PRIVATE])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(NoteFault):
        PublicKey.parse(text)


def test_no_change_of_a_text_keeps_its_signature() -> None:
    key, source = PrivateKey("w", bytes(32)), random.Random(1)
    data = signed(TEXT, key).pack()
    kept = 0
    for _ in range(300):
        changed = bytearray(data)
        changed[source.randrange(len(data))] ^= source.randrange(1, 256)
        try:
            note = Note.parse(bytes(changed))
        except NoteFault:
            continue
        kept += note.text == TEXT
        assert note.text == TEXT or not note.is_signed_by(key.public)
    assert kept < 150
