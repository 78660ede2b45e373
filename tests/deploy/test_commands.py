"""Each command line that deploy/ and the operator's page hold is one that Paceline takes."""

import re
import shlex
from pathlib import Path

import click
import pytest

from deploy.processes import listens
from paceline.cli.main import cli, run
from paceline.services.processes import PROCESSES
from tests.deploy.files import OPERATIONS, Command, commands, of_procfile, parts, units

ALL = commands()
SERVICES = [each for each in ALL if each.kind in PROCESSES]


def parsed(words: list[str]) -> click.Context:
    """The context of the innermost command; what it doesn't take is a `UsageError`."""
    command: click.Command = cli
    context: click.Context | None = None
    name: str | None = "paceline"
    while True:
        context = command.make_context(name, list(words), parent=context)
        left = [*context._protected_args, *context.args]
        if not isinstance(command, click.Group) or (command.invoke_without_command and not left):
            return context
        name, inner, words = command.resolve_command(context, left)
        assert inner is not None
        command = inner


def settings_of(
    each: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, tuple[str, str]]:
    """The settings that a process would have: value and origin by name, as it says itself."""
    for name, value in each.environment.items():
        monkeypatch.setenv(name, value)
    assert run([*each.words, "--show-config"]) == 0, capsys.readouterr().err
    rows = [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()[1:]]
    return {name: (value, origin) for name, value, origin in rows}


@pytest.mark.parametrize("each", ALL, ids=str)
def test_it_is_a_command(each: Command) -> None:
    parsed(each.words)


@pytest.mark.parametrize("each", SERVICES, ids=str)
def test_its_settings_are_taken(
    each: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = settings_of(each, monkeypatch, capsys)
    assert found["kafka"][0] == each.environment["PACELINE_KAFKA"]
    assert found["token"] == ("***", "PACELINE_TOKEN")
    if each.kind in ("api", "agent"):
        assert "http://" in found["service.gateways"][0], "whom to ask"
    listen = found["service.listen"][0]
    own_port = each.where.startswith("Procfile") and each.where.split()[-1][-1].isdigit()
    if listen != "-" and not own_port:
        assert int(listen.rpartition(":")[2]) == PROCESSES[each.kind].port


def test_each_kind_of_process_is_everywhere() -> None:
    for file in ("Procfile", "compose", "systemd", "kubernetes"):
        kinds = {each.kind for each in SERVICES if each.where.startswith(file)}
        assert kinds == PROCESSES.keys(), file


def test_processes_of_one_machine_are_not_in_each_others_way() -> None:
    addresses = listens({each.where: each.words for each in of_procfile()})
    assert len(set(addresses.values())) == len(addresses) == len(list(of_procfile()))
    names = [tuple(each.words) for each in of_procfile()]
    assert len(set(names)) == len(names)


def test_two_cells_are_served() -> None:
    for file in ("Procfile", "compose", "systemd", "kubernetes"):
        gateways = [each for each in SERVICES if each.kind == "gateway" and each.where.startswith(file)]
        assert {parsed(each.words).params["cell"] for each in gateways} == {0, 1}, file
        made = [each for each in ALL if each.words[:2] == ["log", "topics"] and each.where.startswith(file)]
        assert [parsed(each.words).params["partitions"] for each in made] in ([2], []), file


def test_who_is_named_as_a_gateway_is_one() -> None:
    for name, service in parts().items():
        for host in re.findall(r"http://([\w-]+):7118", " ".join(service["command"])):
            assert parts()[host]["command"][0] == "gateway", name
    gateways = {each.where.split()[1]: each for each in ALL if each.kind == "gateway"}
    for each in (each for each in ALL if each.where.startswith("kubernetes") and each.kind in ("api", "agent")):
        hosts = re.findall(r"http://([\w-]+)-(\d)\.([\w-]+):7118", " ".join(each.words))
        assert len(hosts) == (4 if each.kind == "api" else 2)
        for pods, number, service_ in hosts:
            assert pods == service_
            assert pods in gateways
            assert int(number) < 2


@pytest.mark.parametrize("line", re.findall(r"(?:^|`|\$ )(paceline [^`|\n]*)", OPERATIONS.read_text(), re.M))
def test_the_operators_page_names_commands_that_are_there(line: str) -> None:
    words = shlex.split(line.partition(" <<")[0].replace("MACHINE", "sla").replace("--cell N", "--cell 1"))[1:]
    if words[-1:] == ["processor"] or words == ["gateway", "--cell"]:
        return
    parsed(words)


def test_wrong_usage_is_not_started_again() -> None:
    code = run(["processor", "weather"])
    for unit in units():
        assert unit.last("Restart") == "always"
        assert unit.last("RestartPreventExitStatus") == str(code)


def test_links_of_the_operators_page_lead_somewhere() -> None:
    for path, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", OPERATIONS.read_text()):
        target = OPERATIONS.parent / path if path else OPERATIONS
        assert target.exists(), path
        assert not anchor or anchor in _headings(target), anchor


def _headings(page: Path) -> set[str]:
    """The names that links to headings of a page have."""
    found = re.findall(r"^#+ (.*)", page.read_text(), re.M)
    return {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in found}
