"""The files of deploy/ as data, and every `paceline ...` that they run."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from deploy.processes import procfile
from events.topics import MACHINES
from paceline.services.processes import kind_of
from tests.helpers import ROOT

DEPLOY = ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
KUBERNETES = DEPLOY / "kubernetes"
OPERATIONS = ROOT / "docs" / "operations.md"


class Command(NamedTuple):
    """A command line of a file, without the word `paceline`, and the environment that it finds."""

    where: str
    words: list[str]
    environment: dict[str, str]

    @property
    def kind(self) -> str:
        """As `PROCESSES` names it; the command itself for what is no process."""
        return kind_of(self.words) or self.words[0]

    def __str__(self) -> str:
        return self.where


@cache
def documents(path: Path) -> list[Any]:
    """The documents of a YAML file, to be read; a name that comes twice in a mapping is an error."""
    return list(YAML(typ="safe", pure=True).load_all(path.read_text()))


def compose() -> dict[str, Any]:
    """The compose file."""
    [found] = documents(DEPLOY / "compose.yaml")
    return dict(found)


def parts() -> dict[str, Any]:
    """The services of the compose file that are Paceline."""
    return {name: service for name, service in compose()["services"].items() if name != "kafka"}


def objects() -> list[dict[str, Any]]:
    """Everything that the Kubernetes set makes."""
    [set_] = documents(KUBERNETES / "kustomization.yaml")
    return [each for name in set_["resources"] for each in documents(KUBERNETES / name)]


def workloads() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What runs pods, with the specification of its pods."""
    for each in objects():
        if "template" in each.get("spec", {}):
            yield each, each["spec"]["template"]["spec"]


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What runs pods, with each of its containers."""
    for each, pod in workloads():
        for container in pod["containers"]:
            yield each, container


class Unit(NamedTuple):
    """A systemd unit with the drop-ins that it gets, in their order: (section, name, value)."""

    name: str
    lines: list[tuple[str, str, str]]

    def all(self, name: str) -> list[str]:
        """The values of a setting; an empty one takes back those before it."""
        values: list[str] = []
        for _, each, value in self.lines:
            if each == name:
                values = [*values, value] if value else []
        return values

    def last(self, name: str) -> str:
        """The value that counts."""
        return self.all(name)[-1]


def units() -> list[Unit]:
    """All services of systemd."""
    shared = _lines(SYSTEMD / "paceline-.service.d" / "10-part.conf")
    found = []
    for path in sorted(SYSTEMD.glob("*.service")):
        own = [line for more in sorted((SYSTEMD / f"{path.name}.d").glob("*.conf")) for line in _lines(more)]
        found.append(Unit(path.name, [*_lines(path), *shared, *own]))
    return found


def _lines(path: Path) -> list[tuple[str, str, str]]:
    section, found = "", []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert section, f"{path}: {line}"
            assert equals, f"{path}: {line}"
            found.append((section, name, value))
    return found


def commands() -> list[Command]:
    """Every command of Paceline that a file of deploy/ runs."""
    return [*of_procfile(), *of_compose(), *of_systemd(), *of_kubernetes()]


def of_procfile() -> Iterator[Command]:
    """Those of `make cell`."""
    environment = {"PACELINE_KAFKA": "127.0.0.1:9092", "PACELINE_TOKEN": "t"}
    for name, words in procfile(DEPLOY / "Procfile").items():
        assert words[0] == "paceline"
        yield Command(f"Procfile {name}", words[1:], environment)


def of_compose() -> Iterator[Command]:
    """Those of the compose file."""
    for name, service in parts().items():
        yield Command(f"compose {name}", list(service["command"]), dict(service["environment"]))


def of_systemd() -> Iterator[Command]:
    """Those of the units; of templates an instance for each machine, and for two cells."""
    environment = {**_env_file(), "PACELINE_SERVICE__GATEWAYS": '["http://gw:7118"]'}
    for unit in units():
        instances = MACHINES if "processor" in unit.name else ("0", "1") if "@" in unit.name else ("",)
        told = dict(each.partition("=")[::2] for each in unit.all("Environment"))
        for instance in instances:
            program, *words = shlex.split(unit.last("ExecStart").replace("%i", instance))
            assert program == "/opt/paceline/bin/paceline"
            yield Command(f"systemd {unit.name} {instance}", words, {**told, **environment})


def _env_file() -> dict[str, str]:
    lines = [line for line in (SYSTEMD / "paceline.env").read_text().splitlines() if not line.startswith("# ")]
    return {**dict(line.partition("=")[::2] for line in lines), "PACELINE_TOKEN": "as edited"}


def of_kubernetes() -> Iterator[Command]:
    """Those of the pods."""
    [shared] = [each["data"] for each in objects() if each["kind"] == "ConfigMap"]
    for each, container in containers():
        own: dict[str, str] = {}
        for one in container.get("env", []):
            own[one["name"]] = _value(one, own)
        words = [_expanded(word, own) for word in container["args"]]
        told = {name: value for name, value in own.items() if name.startswith("PACELINE_")}
        where = f"kubernetes {each['metadata']['name']} {container['name']}"
        yield Command(where, words, {**shared, **told, "PACELINE_TOKEN": "t"})


def _expanded(word: str, variables: dict[str, str]) -> str:
    """As Kubernetes does it."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)


def _value(variable: dict[str, Any], before: dict[str, str]) -> str:
    """What a variable may come to, where those before it are known."""
    if "value" in variable:
        return _expanded(variable["value"], before)
    given: dict[str, Any] = variable["valueFrom"]
    return "4000" if "resourceFieldRef" in given else "pod-0"
