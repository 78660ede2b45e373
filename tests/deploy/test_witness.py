"""Witnesses and shadows have files of their own in deploy/: no part of the cell needs them."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import pytest

from paceline.cli.commands.shadow import LISTEN
from paceline.services.processes import PROCESSES
from tests.deploy.files import DEPLOY, Unit, documents, of_kubernetes, parts, units
from tests.deploy.files import compose as compose_of_cell
from tests.deploy.test_commands import parsed

WITNESSES = DEPLOY / "kubernetes-witness"
PORT = 7127
HEADS = "s3://heads/cell"


class Row(NamedTuple):
    """How a witness is run: its options, image, environment, and where its container keeps what."""

    where: str
    options: dict[str, Any]
    image: str
    environment: dict[str, str]
    mounts: list[str]


def compose() -> dict[str, Any]:
    """The compose file of witnesses."""
    [found] = documents(DEPLOY / "compose.witness.yaml")
    return dict(found)


def objects() -> dict[str, Any]:
    """What the Kubernetes set of witnesses makes, by kind."""
    [set_] = documents(WITNESSES / "kustomization.yaml")
    found = [each for name in set_["resources"] for each in documents(WITNESSES / name)]
    assert {path.name for path in WITNESSES.iterdir()} == {*set_["resources"], "kustomization.yaml"}
    kinds = {each["kind"]: each for each in found}
    assert len(kinds) == len(found)
    return {**kinds, "Kustomization": set_}


def unit(name: str) -> Unit:
    """A unit of systemd."""
    [found] = [each for each in units() if each.name == f"paceline-{name}.service"]
    return found


def rows() -> Iterator[Row]:
    """Every witness that a file of deploy/ runs."""
    for name, service in compose()["services"].items():
        words = [word.replace("${HEADS:-/var/lib/paceline/heads}", HEADS) for word in service["command"]]
        mounts = [each.partition(":")[2] for each in service["volumes"]]
        yield Row(f"compose {name}", options(words), service["image"], service["environment"], mounts)
    spec = objects()["StatefulSet"]["spec"]
    [container] = spec["template"]["spec"]["containers"]
    shared = objects()["ConfigMap"]["data"]
    [cell] = container["env"]
    assert cell["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    for number in range(spec["replicas"]):
        known = {**shared, cell["name"]: str(number)}
        words = [re.sub(r"\$\((\w+)\)", lambda name, known=known: known[name[1]], word) for word in container["args"]]
        mounts = [each["mountPath"] for each in container["volumeMounts"]]
        yield Row(f"kubernetes {number}", options(words), container["image"], shared, mounts)
    words = unit("witness").last("ExecStart").split()[1:]
    yield Row("systemd", options(words), "", {"PACELINE_KAFKA": "as edited"}, ["/var/lib/paceline", "/etc/paceline"])


def options(words: list[str]) -> dict[str, Any]:
    """The options of a command line as `paceline` takes them."""
    context: click.Context = parsed(words)
    assert context.info_name == words[0]
    return dict(context.params)


ROWS = list(rows())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.where)
def test_a_witness_has_a_place_for_its_key_its_state_and_its_heads(row: Row) -> None:
    assert int(row.options["listen"].rpartition(":")[2]) == PORT
    assert PORT not in {each.port for each in PROCESSES.values()}
    assert row.environment["PACELINE_KAFKA"]
    assert not row.options["once"]
    for path in (row.options["key"], row.options["state"]):
        assert any(str(path).startswith(f"{mount}/") for mount in row.mounts), path
    if row.where != "systemd":
        assert row.options["publish"].startswith("s3://")


def test_there_is_one_for_each_cell() -> None:
    for file in ("compose", "kubernetes"):
        assert [each.options["cell"] for each in ROWS if each.where.startswith(file)] == [0, 1]


def test_its_image_is_not_that_of_the_cell() -> None:
    """An upgrade of the cell must not replace the build of who looks at it."""
    images = {each.image for each in ROWS if each.image}
    [of_cell] = {part["image"] for part in parts().values()}
    assert images == {of_cell.replace("paceline:", "paceline-witness:")}
    [set_] = objects()["Kustomization"]["images"]
    assert f"{set_['name']}:{set_['newTag']}" in images


def test_nothing_of_the_cell_is_shared_with_it() -> None:
    """Neither a volume, nor a secret, nor a namespace."""
    own = compose()
    assert not {*own["services"]} & {*parts()}
    assert not {*own["volumes"]} & {*compose_of_cell()["volumes"]}
    named = [each.partition(":")[0] for service in compose()["services"].values() for each in service["volumes"]]
    assert len(set(named)) == len(named)
    assert {*named} == compose()["volumes"].keys()
    found = objects()
    assert found["Kustomization"]["namespace"] == found["Namespace"]["metadata"]["name"] == "paceline-witness"
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    assert "paceline" not in {one["secretRef"]["name"] for c in pod["containers"] for one in c["envFrom"][1:]}
    assert "PACELINE_TOKEN" not in (WITNESSES / "witness.yaml").read_text()
    assert not any("witness" in each.where for each in of_kubernetes())


def test_its_pods_are_looked_at_and_may_do_little() -> None:
    found = objects()
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [port] = container["ports"]
    assert port["containerPort"] == PORT
    assert {one["httpGet"]["port"] for name, one in container.items() if name.endswith("Probe")} == {port["name"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert found["StatefulSet"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    [monitor] = documents(DEPLOY / "prometheus" / "podmonitor.yaml")
    assert found["Kustomization"]["namespace"] in monitor["spec"]["namespaceSelector"]["matchNames"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert port["name"] in {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]}
    for service in compose()["services"].values():
        assert f"http://127.0.0.1:{PORT}/readyz" in service["healthcheck"]["test"][-1]


def test_a_shadow_listens_where_no_other_process_does() -> None:
    words = unit("shadow").last("ExecStart").split()[1:]
    taken = {each.port for each in PROCESSES.values()} | {PORT}
    assert options(words)["listen"] == LISTEN
    assert int(LISTEN.rpartition(":")[2]) not in taken
    assert f":{LISTEN.rpartition(':')[2]}" not in (DEPLOY / "Procfile").read_text()
