"""Values of secrets don't stay in the output that is kept."""

import random
from pathlib import Path

import pytest

from hostagent.kept_output import Output
from hostagent.redaction import CoveredOutput, Hidden

VALUE = b"correct-horse"
STARS = b"*" * len(VALUE)


def kept(folder: Path, values: list[bytes], *pieces: bytes) -> bytes:
    """What is kept of output that came in pieces."""
    output = CoveredOutput(Output(str(folder), "stdout", -1), Hidden(values))
    for each in pieces:
        output.write(each)
    output.close()
    return (folder / "stdout.0").read_bytes() if (folder / "stdout.0").exists() else b""


@pytest.mark.parametrize("at", range(len(VALUE) + 1))
def test_a_value_is_covered_wherever_the_output_was_cut(tmp_path: Path, at: int) -> None:
    assert kept(tmp_path, [VALUE], b"a " + VALUE[:at], VALUE[at:] + b" z\n") == b"a " + STARS + b" z\n"


def test_output_comes_through_whole_with_stars_of_the_same_length(tmp_path: Path) -> None:
    draw = random.Random(1)
    values = [b"abcabcabc", b"abcabc", b"cabcab\nsecond line\n", b"x" * 700]
    text = b"".join(draw.choice([*values, b"ab", b"abc", b"\n", b"x" * 300, b"other"]) for _ in range(400))
    cuts = sorted(draw.randrange(len(text)) for _ in range(300))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    covered = kept(tmp_path, values, *pieces)
    assert len(covered) == len(text)
    assert all(was == now or now == ord("*") for was, now in zip(text, covered, strict=True))
    assert not any(line in covered for line in (b"abcabc", b"cabcab", b"second line", b"x" * 256))


def test_lines_of_a_value_are_covered_by_themselves_and_short_ones_are_not(tmp_path: Path) -> None:
    key = b"-----BEGIN KEY-----\nMIGHAgEA\nab\n"
    assert kept(tmp_path, [key], b"got MIGHAgEA and ab\n") == b"got ******** and ab\n"


def test_a_value_that_begins_another_is_covered_as_the_longer(tmp_path: Path) -> None:
    assert kept(tmp_path, [b"secret", b"secret-long"], b"secret", b"-long secret-lo") == b"*" * 11 + b" " + b"*" * 9


def test_the_beginning_of_a_value_at_the_end_of_the_output_is_covered(tmp_path: Path) -> None:
    assert kept(tmp_path, [VALUE], VALUE[:7]) == b"*" * 7
    assert kept(tmp_path, [], b"plain") == b"plain"
