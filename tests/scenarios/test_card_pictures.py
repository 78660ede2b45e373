"""The pictures of cards in the pages are those of a run."""

import pytest

from tests.scenarios.card_pictures import PAGES, cards, rendered


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pictures_are_those_of_a_run(page) -> None:
    assert rendered() in page.read_text(), "decided otherwise: python -m tests.scenarios.card_pictures"


def test_all_cards_of_a_host_are_of_one_job_afterwards_and_nobody_lost_any() -> None:
    before, after = cards(65), cards(300)
    assert not any("w" in row for row in before.values())
    assert "w w w w w w w w" in after.values()
    assert "".join(before.values()).count("p") == "".join(after.values()).count("p") == 8
