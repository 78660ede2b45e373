"""docs/replay.md shows what its commands print."""

from tests.paceline.history.page import PAGE, rendered


def test_the_page_shows_what_its_commands_print(tmp_path):
    assert rendered(tmp_path) == PAGE.read_text(), "write it anew with `python -m tests.paceline.history.page`"
