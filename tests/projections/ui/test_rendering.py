import hashlib
from importlib.resources import files

import pytest
from markupsafe import Markup

from events.resources import Unit
from projections.ui import assets, format, rendering
from projections.ui.format import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-1", "web-1"),
        ("a\u202eb", r"a\u202eb"),
        ("a\x1b[31m", r"a\u001b[31m"),
        ("a\ud800", r"a\ud800"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        *((f"a{chr(each)}b", f"a\\u{each:04x}b") for each in (0xAD, 0x180E, 0x3164, 0xFFF9, 0xE0041)),
        ("two\nlines", "two\nlines"),
        (Markup("<b>\u202e</b>"), Markup("<b>\u202e</b>")),
        (7, 7),
    ],
)
def test_text_of_users_can_turn_nothing_around(text: object, shown: object) -> None:
    assert plain(text) == shown


def test_templates_escape_what_users_name() -> None:
    shown = rendering.environment().from_string("<p>{{ name }}</p>").render(name="<script>\u202e</script>")
    assert shown == r"<p>&lt;script&gt;\u202e&lt;/script&gt;</p>"


def test_links_keep_the_moment_and_quote_names() -> None:
    assert rendering.link("", "/jobs") == "/ui/jobs"
    assert rendering.link("0/placement/round/8", "/jobs", state=["RUNNING", "PENDING"], pool=None) == (
        "/ui/jobs?state=RUNNING&state=PENDING&at=0%2Fplacement%2Fround%2F8"
    )


@pytest.mark.parametrize("name", ["uplot", "idiomorph"])
def test_vendored_files_are_what_their_hashes_say(name: str) -> None:
    folder = files("projections.ui") / "static" / "vendor" / name
    assert (folder / "LICENSE").is_file()
    assert (folder / "VERSION").is_file()
    for line in (folder / "SHA256").read_text().splitlines():
        digest, file = line.split()
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest


def test_a_file_that_is_not_there_is_found_when_a_page_is_rendered() -> None:
    assert assets.href("page.js").endswith("/page.js")
    with pytest.raises(KeyError):
        assets.href("nope.js")


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 s"), (59_999, "59 s"), (3_600_000, "1 h 00 min"), (12_360_000, "3 h 26 min"), (3e8, "3 d")]
)
def test_how_long_something_takes(ms: float, text: str) -> None:
    assert format.lasts(ms) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5_448_625, Unit.MILLI, "5,448.6"),
        (999_125, Unit.MILLI, "999.125"),
        (1500, Unit.MILLI, "1.5"),
        (102_450, Unit.MIB, "100"),
    ],
)
def test_large_amounts_have_one_decimal(value: int, unit: Unit, text: str) -> None:
    assert format.amount(value, unit) == text
