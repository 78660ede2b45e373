"""The table of `docs/security.md` is what attacks do, at each level that this machine has: all but the slow ones."""

import pytest

from tests.hostile.suite import ATTACKS, LEVELS, Level, measured, refused
from tests.hostile.table import told, word

pytestmark = pytest.mark.outside


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name.replace("`", "").replace(" ", "-"))
def test_what_is_told_to_be_stopped_is_stopped(level: Level) -> None:
    if why := refused(level):
        pytest.skip(why)
    cells = told()
    for name, stopped in measured(level, short=True).items():
        title = ATTACKS[name].title
        assert (title, word(stopped)) == (title, cells[level.name, title])


def test_the_table_has_all_attacks() -> None:
    assert {title for _, title in told()} >= {attack.title for attack in ATTACKS.values()}
    assert len(ATTACKS) >= 45
