"""The files of deploy/ fit together: names that one part of a file gives are those that another uses."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from paceline.services.processes import PROCESSES
from tests.deploy.files import (
    DEPLOY,
    KUBERNETES,
    SYSTEMD,
    compose,
    containers,
    documents,
    objects,
    of_compose,
    of_kubernetes,
    parts,
    units,
    workloads,
)
from tests.helpers import ROOT

PAGES = {"/livez", "/readyz", "/startupz"}
SERVICE_KEYS = {
    *("image", "build", "restart", "stop_grace_period", "init", "environment", "depends_on", "hostname", "command"),
    *("volumes", "ports", "healthcheck"),
}
API_VERSIONS = {
    "ConfigMap": "v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "Namespace": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Service": "v1",
    "StatefulSet": "apps/v1",
}
KINDS = {each.where: each.kind for each in (*of_compose(), *of_kubernetes())}


def labels_of(workload: dict[str, Any]) -> dict[str, str]:
    """The labels of its pods."""
    return dict(workload["spec"]["template"]["metadata"]["labels"])


def picks(selector: dict[str, str]) -> list[str]:
    """The workloads whose pods a selector takes."""
    return [each["metadata"]["name"] for each, _ in workloads() if selector.items() <= labels_of(each).items()]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yaml")), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_file_is_yaml(path: Path) -> None:
    assert all(isinstance(each, dict) for each in documents(path))


def test_the_compose_file_names_only_what_it_has() -> None:
    found = compose()
    assert {key for key in found if not key.startswith("x-")} == {"name", "services", "volumes"}
    used = set()
    for name, service in found["services"].items():
        assert service.keys() <= SERVICE_KEYS, name
        assert re.fullmatch(r"\d+s", service["stop_grace_period"])
        for other, condition in service.get("depends_on", {}).items():
            wanted = {"topics": "service_completed_successfully", "kafka": "service_healthy"}
            assert condition == {"condition": wanted[other]}
            assert other in found["services"]
        for volume in service.get("volumes", []):
            used.add(volume.partition(":")[0])
    assert used == found["volumes"].keys()


def test_the_compose_file_has_the_kafka_of_the_tests() -> None:
    [version] = re.findall(r"<kafka.version>(.*)</", (ROOT / "tests" / "helpers" / "broker" / "pom.xml").read_text())
    kafka = compose()["services"]["kafka"]
    assert kafka["image"] == f"apache/kafka:{version}"
    settings = kafka["environment"]
    assert [settings["KAFKA_LOG_DIRS"]] == [each.partition(":")[2] for each in kafka["volumes"]]
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    listeners = dict(each.split("://") for each in settings["KAFKA_LISTENERS"].split(","))
    assert set(listeners) == set(re.findall(r"(\w+):PLAINTEXT", settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]))
    for name, part in parts().items():
        assert f"PLAINTEXT://{part['environment']['PACELINE_KAFKA']}" == settings["KAFKA_ADVERTISED_LISTENERS"], name


def test_each_part_of_the_compose_file_is_looked_at_and_keeps_what_it_has() -> None:
    for name, part in parts().items():
        if name == "topics":
            continue
        port = PROCESSES[KINDS[f"compose {name}"]].port
        assert f"http://127.0.0.1:{port}/readyz" in part["healthcheck"]["test"][-1], name
        compile(part["healthcheck"]["test"][-1], name, "exec")
        assert part["hostname"] == name, "names of processes are made of it"
        assert [each.partition(":")[2] for each in part["volumes"]] == ["/var/lib/paceline"]
    assert parts()["api"]["volumes"] == parts()["projector"]["volumes"]
    volumes = [part["volumes"][0] for name, part in parts().items() if name not in ("topics", "api")]
    assert len(set(volumes)) == len(volumes)


def test_the_image_installs_what_is_locked_and_runs_as_nobody_in_particular() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert sum("--require-hashes" in line for line in lines) == 2
    assert "USER 10001:10001" in lines
    copied = [words[1] for line in lines if (words := line.split())[:1] == ["COPY"] and "--from" not in line]
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name.partition('/')[0]}" in allowed, name
    packages = re.search(r"packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text())
    assert packages is not None
    assert set(re.findall(r'"(\w+)"', packages[1])) < set(copied)


def test_units_stop_in_time_and_tasks_outlive_their_agent() -> None:
    assert len(units()) == 9
    for unit in units():
        assert int(unit.last("TimeoutStopSec")) >= 15
        assert unit.last("NoNewPrivileges") == "yes"
        agent = unit.name == "paceline-agent.service"
        assert unit.all("KillMode") == (["process"] if agent else [])
        assert unit.all("OOMPolicy") == (["continue"] if agent else [])
        assert unit.last("PrivateTmp") == ("no" if agent else "yes")
        assert unit.last("User") == ("root" if agent else "paceline")
        assert ("PACELINE_AGENT__RUN_AS=paceline-task" in unit.all("Environment")) is agent
        assert unit.last("StateDirectoryMode") == ("0711" if agent else "0700"), "tasks pass to their folders below it"
        [data] = [each for each in unit.all("Environment") if each.startswith("PACELINE_DATA=")][-1:]
        assert data == f"PACELINE_DATA=/var/lib/{unit.last('StateDirectory')}{'/data' if agent else ''}"
        if unit.name in ("paceline-witness.service", "paceline-shadow.service"):
            assert unit.all("PartOf") == [], "it is no part of the cell"
            continue
        assert unit.last("WantedBy") == unit.last("PartOf") == "paceline.target"
    assert (SYSTEMD / "paceline.target").is_file()


def test_every_file_of_the_kubernetes_set_is_in_it() -> None:
    [set_] = documents(KUBERNETES / "kustomization.yaml")
    assert set_["kind"] == "Kustomization"
    assert {path.name for path in KUBERNETES.iterdir()} == {*set_["resources"], "kustomization.yaml"}
    names = [(each["kind"], each["metadata"]["name"]) for each in objects()]
    assert len(set(names)) == len(names)
    for each in objects():
        assert each["apiVersion"] == API_VERSIONS[each["kind"]]


def test_selectors_take_the_pods_that_they_mean() -> None:
    for each in objects():
        name, kind = each["metadata"]["name"], each["kind"]
        if kind == "Service":
            [taken] = picks(each["spec"]["selector"])
            [workload] = [found for found, _ in workloads() if found["metadata"]["name"] == taken]
            ports = {port["name"] for found, one in containers() if found == workload for port in one["ports"]}
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
        elif kind in ("PodDisruptionBudget", "StatefulSet", "DaemonSet"):
            assert picks(each["spec"]["selector"]["matchLabels"]) == [name]


def test_each_replicated_part_has_a_name_a_volume_and_a_budget() -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in objects() if each["kind"] == "Service"}
    budgets = {each["metadata"]["name"] for each in objects() if each["kind"] == "PodDisruptionBudget"}
    for each, pod in workloads():
        if each["kind"] != "StatefulSet":
            continue
        spec = each["spec"]
        assert services[spec["serviceName"]]["clusterIP"] == "None"
        assert each["metadata"]["name"] in budgets
        volumes = {one["name"] for one in pod["volumes"]}
        claimed = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
        for container in pod["containers"]:
            assert {one["name"] for one in container["volumeMounts"]} == volumes | claimed
            assert "--name=$(POD_NAME)" in container["args"]


def test_pods_are_looked_at_by_pages_that_are_there_and_may_do_little() -> None:
    for each, container in containers():
        kind, where = KINDS[f"kubernetes {each['metadata']['name']} {container['name']}"], container["name"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False, where
        if kind == "log":
            continue
        [port] = container["ports"]
        assert port["containerPort"] == PROCESSES[kind].port
        probes = {name: one["httpGet"] for name, one in container.items() if name.endswith("Probe")}
        for probe in probes.values():
            assert probe["port"] == port["name"]
            assert probe["path"] in PAGES
        assert probes["readinessProbe"]["path"] == "/readyz"
        assert ("livenessProbe" in probes) is (kind != "agent"), "the end of an agent's container ends its tasks"


def test_pods_stop_in_time_and_find_their_settings() -> None:
    maps = {each["metadata"]["name"] for each in objects() if each["kind"] == "ConfigMap"}
    for each, pod in workloads():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        if each["kind"] != "Job":
            assert pod["terminationGracePeriodSeconds"] >= 15
    for _, container in containers():
        assert {one["configMapRef"]["name"] for one in container["envFrom"] if "configMapRef" in one} == maps
        secrets = {one["secretRef"]["name"] for one in container["envFrom"] if "secretRef" in one}
        assert secrets == {"paceline"}, "where passwords of Kafka are"


def test_all_files_speak_of_one_image() -> None:
    images = {part["image"] for part in parts().values()} | {container["image"] for _, container in containers()}
    assert images == {f"paceline:{_version()}"}


def test_processors_differ_in_their_names_and_ports_only() -> None:
    texts = (KUBERNETES / "processors.yaml").read_text().partition("\n")[2].split("---\n")
    assert len(texts) == 12
    shapes: Iterable[str] = (
        re.sub(r"lifecycle|entitlement|placement|sla|712[1-4]", "X", "".join(texts[at : at + 3])).strip()
        for at in range(0, 12, 3)
    )
    assert len(set(shapes)) == 1


def _version() -> str:
    [version] = re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)
    return str(version)
