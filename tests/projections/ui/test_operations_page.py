"""The page of operations tells what the views and this process know, and invents nothing."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from starlette.testclient import TestClient

from paceline.client.operation_models import ProcessOperations
from paceline.services.operations import OperationsOf
from paceline.services.settings import load
from projections.api.app import create_app
from projections.queries import operations, pool_metrics
from projections.queries.alarms import BEHIND_MAX, RULES, alarms
from projections.queries.machine_lag import MachineLag
from projections.ui.app import add_ui
from projections.views.projector import Projector
from tests.helpers import ROOT
from tests.helpers.past import past
from tests.projections.conftest import LISTEN, TOKEN

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"


@pytest.fixture(scope="module")
def projector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projector]:
    held = Projector(past(), tmp_path_factory.mktemp("views"))
    held.fold_whole()
    yield held
    held.close()


def known(projector: Projector, folder: Path, stores: bool = True) -> ProcessOperations:
    (folder / "store" / "sla").mkdir(parents=True)
    (folder / "store" / "sla" / "rows").write_bytes(bytes(3 << 20))
    settings = load(data=folder, archive=f"file://{folder}/archive")
    return OperationsOf(past(), projector.views, settings, folder, stores).look()


def page(projector: Projector, process: ProcessOperations | None) -> str:
    def info() -> dict[str, Any]:
        return {"machines": {"sla": {"hash": "ab" * 32, "lag": {"paceline.lifecycle": 7}}}}

    app = create_app(projector.views, past(), token=TOKEN, listen=LISTEN, cell_info=info, operations=lambda: process)
    add_ui(app, {0: app.state.context}, TOKEN)
    answer = TestClient(app, f"http://{LISTEN}").get("/ui/operations")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def test_owners_are_those_of_the_last_claims_in_the_log(projector: Projector) -> None:
    with projector.views.read() as connection:
        found = {each.machine: each for each in operations.machines(connection)}
        assert operations.gateways(connection) == [("gateway-0", 2, 1)]
    assert {name: (each.epoch, each.claimant) for name, each in found.items()} == {
        "lifecycle": (2, "lifecycle-0"),
        "entitlement": (2, "entitlement-0"),
        "placement": (1, "placement-0"),
        "sla": (1, "sla-0"),
    }
    assert found["lifecycle"].round == 332


def test_the_page_tells_what_the_process_knows(projector: Projector, tmp_path: Path) -> None:
    text = page(projector, known(projector, tmp_path))
    assert "lifecycle-0" in text
    assert "3.0 MiB" in text
    assert "7 records" in text
    assert "abababababababab" in text
    assert f"data {tmp_path} flag" in text
    assert "Every record in the log could be read." in text
    assert "being asked" not in text


def test_all_that_a_process_knows_has_the_published_type(projector: Projector, tmp_path: Path) -> None:
    answer = known(projector, tmp_path)
    assert answer["faults"] == []
    assert msgspec.to_builtins(msgspec.convert(answer, ProcessOperations)) == answer


def test_who_asks_first_is_answered(projector: Projector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.services.operations.FIRST_S", 60.0)
    ask = OperationsOf(past(), projector.views, load(data=tmp_path), tmp_path, stores=False, readers=False)
    found = ask()
    assert found is not None
    assert found["process"]["version"]
    text = page(projector, found)
    assert "being asked" not in text
    assert "not known to this process" in text


def test_what_was_not_asked_yet_or_is_known_elsewhere_is_said(projector: Projector, tmp_path: Path) -> None:
    assert "being asked" in page(projector, None)
    process = known(projector, tmp_path, stores=False)
    assert process["stores"] is None
    assert "3.0 MiB" not in page(projector, process)


def test_a_source_that_is_away_hides_no_other(
    projector: Projector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> None:
        raise OSError("the object store is away")

    monkeypatch.setattr(OperationsOf, "_archived", away)
    process = known(projector, tmp_path)
    assert process["faults"] == ["archive: the object store is away"]
    text = page(projector, process)
    assert "archive: the object store is away" in text
    assert "3.0 MiB" in text


def test_alarms_have_the_bounds_of_the_alerts_of_prometheus() -> None:
    rules = {each["alert"]: each for group in yaml.safe_load(ALERTS.read_text())["groups"] for each in group["rules"]}
    for rule in RULES:
        labels = "".join(rf'\{{\w+="{label}"\}}' for label in rule.labels)
        expr = rules[rule.name]["expr"]
        assert re.fullmatch(rf"max by \([\w, ]+\) \({rule.metric}{labels}\) > {rule.above:g}", expr), expr
        assert rules[rule.name]["labels"]["severity"] == rule.severity
    assert rules["PacelineViewsBehind"]["expr"].endswith(f"> {BEHIND_MAX}")


LAGS = [
    MachineLag("lifecycle", 1, 5, 1_700_000_000_000, 9, 0),
    MachineLag("placement", 1, 5, 1_700_000_000_000, 9, 1_700_000_060_000),
]


def test_an_alarm_holds_while_its_bound_is_passed(projector: Projector, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_: Any, cell: str, __: int, samples: Any) -> None:
        samples["paceline_pool_oldest_wait_seconds"] += [((cell, "/a", "place"), 901), ((cell, "/b", "place"), 900)]
        samples["paceline_pool_oldest_wait_seconds"] += [((cell, "/c", "admission"), 9999)]

    with projector.views.read() as connection:
        assert alarms(connection, 0, 1_700_000_100_000, {"paceline.tasks": BEHIND_MAX}, []) == []
        monkeypatch.setattr(pool_metrics, "look", look)
        found = alarms(connection, 0, 1_700_000_100_000, {"paceline.tasks": BEHIND_MAX + 1}, LAGS)
    assert [(each.name, each.severity) for each in found] == [
        ("PacelineViewsBehind", "page"),
        ("PacelineMachineStands", "page"),
        ("PacelineClaimWaits", "ticket"),
    ]
    assert found[1].text == "placement doesn't decide: the oldest record that it leaves unread has waited for 40 s"
    assert found[2].text == "entitled work of pool /a has no host for 901 s"
