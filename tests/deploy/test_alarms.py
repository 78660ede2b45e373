"""Alarms speak of metrics that are there, and the operator's page explains each."""

import json
import re
from typing import Any

import pytest
from prometheus_client import REGISTRY

import events.log.kafka.transactions
import events.process.cell_failures
import hostagent.gateway.metrics
import paceline.forecast.component
import paceline.services.agent
import paceline.shadow.follower
import paceline.witness.metrics
import processors.runtime.metrics
import processors.runtime.run_metrics
import projections.fanout.component
import projections.fanout.follower
import projections.queries.view_metrics
import projections.views.projector
from deploy.processes import listens
from tests.deploy.files import DEPLOY, OPERATIONS, containers, documents, of_procfile, workloads

SOURCES = (
    events.process.cell_failures,
    events.log.kafka.transactions,
    hostagent.gateway.metrics,
    paceline.forecast.component,
    paceline.services.agent,
    paceline.shadow.follower,
    paceline.witness.metrics,
    processors.runtime.metrics,
    processors.runtime.run_metrics,
    projections.fanout.component,
    projections.fanout.follower,
    projections.queries.view_metrics,
    projections.views.projector,
)
"""Whose import registers the metrics."""
FUNCTIONS = {
    *(
        "changes",
        "deriv",
        "group",
        "histogram_quantile",
        "increase",
        "max",
        "max_over_time",
        "min_over_time",
        "rate",
        "sum",
        "time",
    ),
    *("by", "and", "unless", "offset", "on"),
}
AGGREGATED = re.compile(r"(changes\(\()?(sum|group|max|histogram_quantile)\b")
"""What begins so has the labels of its first grouping; anything else those of its first metric."""
OF_PROMETHEUS = {"up": {"job", "instance"}}
OF_TARGETS = {"instance", "job"}


def rules() -> list[dict[str, Any]]:
    [file] = documents(DEPLOY / "prometheus" / "alerts.yaml")
    return [rule for group in file["groups"] for rule in group["rules"]]


def labels_of(metric: str) -> set[str]:
    """The labels of a metric of ours; a name that nobody registers is a `KeyError`."""
    if metric in OF_PROMETHEUS:
        return OF_PROMETHEUS[metric]
    collector = REGISTRY._names_to_collectors[metric]
    le = {"le"} if metric.endswith("_bucket") else set()
    return {*getattr(collector, "_labelnames", ()), *OF_TARGETS, *le}


def assert_of_metrics(expression: str) -> None:
    """That it is about metrics that are there, grouped by labels that they have."""
    assert expression.count("(") == expression.count(")")
    groupings = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
    bare = re.sub(r'(?:by|on) \([^)]*\)|\{[^}]*\}|\[[^]]*\]|offset \w+|"[^"]*"', " ", expression)
    words = [word for word in re.findall(r"[a-z_]{2,}", bare) if word not in FUNCTIONS]
    known = set.intersection(*map(labels_of, words))
    for grouping in groupings:
        assert set(re.split(r",\s*", grouping)) <= known, grouping


def panels() -> list[dict[str, Any]]:
    board: dict[str, Any] = json.loads((DEPLOY / "prometheus" / "grafana.json").read_text())
    return board["panels"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_the_dashboard_shows_metrics_that_are_there(panel: dict[str, Any]) -> None:
    [target] = panel["targets"]
    expression = target["expr"]
    assert_of_metrics(expression)
    [labels] = re.findall(r"by \(([^)]*)\)", expression)
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(re.split(r",\s*", labels))
    for label in re.findall(r"(\w+)=", expression):
        assert label in labels_of(re.findall(r"paceline_\w+", expression)[0])


def test_the_pods_that_prometheus_looks_at_have_the_ports() -> None:
    [monitor] = documents(DEPLOY / "prometheus" / "podmonitor.yaml")
    ports = {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]}
    assert ports == {port["name"] for _, container in containers() for port in container.get("ports", ())}
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    for each, _ in workloads():
        if each["kind"] != "Job":
            assert selected <= each["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alarm_speaks_of_metrics_that_are_there(rule: dict[str, Any]) -> None:
    expression = rule["expr"]
    assert_of_metrics(expression)
    groupings = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
    bare = re.sub(r'(?:by|on) \([^)]*\)|\{[^}]*\}|\[[^]]*\]|offset \w+|"[^"]*"', " ", expression)
    words = [word for word in re.findall(r"[a-z_]{2,}", bare) if word not in FUNCTIONS]
    said = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    left = set(re.split(r",\s*", groupings[0])) if AGGREGATED.match(expression) else labels_of(words[0])
    assert said <= left
    assert rule["labels"]["severity"] in ("page", "ticket")


def test_the_operators_page_explains_every_alarm_and_no_other() -> None:
    alarms = [rule["alert"] for rule in rules()]
    text = OPERATIONS.read_text()
    assert re.findall(r"^### (Paceline\w+)$", text, re.M) == alarms
    for rule in rules():
        assert re.search(rf"^### {rule['alert']}\n\n\*{rule['labels']['severity']}\.\*", text, re.M), rule["alert"]
    assert set(re.findall(r"Paceline[A-Z]\w+", text)) == set(alarms)


def test_prometheus_looks_at_every_process_of_make_cell() -> None:
    [file] = documents(DEPLOY / "prometheus" / "prometheus.yaml")
    [job] = file["scrape_configs"]
    assert job["job_name"] == "paceline"
    assert all((DEPLOY / "prometheus" / name).is_file() for name in file["rule_files"])
    targets = [target for each in job["static_configs"] for target in each["targets"]]
    assert sorted(targets) == sorted(listens({each.where: each.words for each in of_procfile()}).values())
