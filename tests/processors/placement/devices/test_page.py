"""docs/gpus.md shows which cards tasks get."""

from tests.processors.placement.devices.pictures import PAGE, rendered


def test_the_pictures_of_cards_are_those_of_two_runs() -> None:
    text = "placement decides otherwise: python -m tests.processors.placement.devices.pictures"
    assert PAGE.read_text() == rendered(), text
