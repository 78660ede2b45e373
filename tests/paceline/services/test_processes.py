"""The table of the kinds of processes: whoever names one of them elsewhere means the same."""

import re
from importlib import import_module

import pytest

from events.topics import MACHINES
from paceline.cli.commands import log_archive
from paceline.cli.commands import processes as commands
from paceline.services import processes
from paceline.services.processes import PROCESSES, default_listen, group_of, kind_of
from tests.helpers import ROOT


def test_each_machine_is_a_process_and_each_command_has_a_page() -> None:
    assert set(MACHINES) < PROCESSES.keys()
    assert commands.COMMAND_PAGES.keys() == processes.PROCESS_COMMANDS


def test_each_kind_that_meets_in_kafka_has_its_serve_and_those_with_positions_their_group() -> None:
    for kind, process in PROCESSES.items():
        assert not process.module or callable(import_module(f"paceline.services.{process.module}").serve), kind
    assert PROCESSES.keys() - processes.IN_KAFKA == {"agent"}
    assert log_archive.READERS == ("paceline.projector.", "paceline.fanout")


def test_no_two_kinds_share_a_port_or_a_group() -> None:
    for values in (
        [each.port for each in PROCESSES.values()],
        [each.group for each in PROCESSES.values() if each.group],
    ):
        assert len(set(values)) == len(values)


def test_the_operators_page_names_the_port_of_each_kind() -> None:
    page = " ".join((ROOT / "docs" / "operations.md").read_text().split())
    sentence = re.search(r"`--listen` sets another address: (.*?)\.", page)
    assert sentence is not None
    named = dict(each.split() for each in sentence[1].split(", "))
    assert named == {kind: str(process.port) for kind, process in PROCESSES.items()}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("processor sla --name one", "sla"),
        ("processor", ""),
        ("gateway --cell 1", "gateway"),
        ("log topics", ""),
    ],
)
def test_the_words_of_a_command_tell_the_kind(line: str, kind: str) -> None:
    assert kind_of(line.split()) == kind


def test_views_of_each_data_folder_have_a_group_of_their_own() -> None:
    assert group_of("projector", "host-data") == "paceline.projector.host-data"
    assert group_of("sla", "host-data") == "paceline.processor.sla"
    assert default_listen("api") == "127.0.0.1:7117"
