"""The numbers of docs/limits.md are those of the code."""

import re

from events import bounds
from events.cell_settings import Settings
from events.spec.job import JobSpec
from events.time_units import span_s
from hostagent.execs import IDLE_S
from hostagent.gateway.liveness import SILENT_MS
from paceline.services.settings import AgentPart
from processors.runtime.snapshots import KEPT_SNAPSHOTS
from projections.api.guards import BODY_BYTES_MAX
from tests.helpers import ROOT

AGENT, CELL = AgentPart(), Settings()
ASKED = {
    "tasks of a job": bounds.INSTANCES_MAX,
    "tasks of a gang": bounds.GANG_MAX,
    "ports of a task": bounds.PORTS_MAX,
    "labels of a job": bounds.LABELS_MAX,
    "constraints of a job": bounds.CONSTRAINTS_MAX,
    "volumes of a job": bounds.VOLUMES_MAX,
    "secrets of a job": bounds.SECRETS_MAX,
    "KiB of a secret": bounds.SECRET_BYTES_MAX >> 10,
    "different shapes of tasks in a job": bounds.TASK_SHAPES_MAX,
    "kinds of resources of a cell": bounds.KINDS_MAX,
    "pools of a cell": bounds.POOLS_MAX,
    "MiB of a job or an update over HTTP": bounds.SPEC_BYTES_MAX >> 20,
    "MiB of any other request": BODY_BYTES_MAX >> 20,
    "ended runs kept on a host": AGENT.output_runs,
    "MiB of them all": AGENT.output_mib,
    "how many of them": CELL.ended_jobs_max,
}
SECONDS = {
    "output of ended runs on a host": AGENT.output_age,
    "of failed runs": AGENT.failed_output_age,
    "images that no run uses": AGENT.images_unused / 1000,
    "ended jobs in lists and pages": CELL.forget_after_ms / 1000,
    "a host that stays lost": CELL.host_removed_after_ms / 1000,
    "a host is silent": SILENT_MS / 1000,
    "it is lost, and its tasks run elsewhere": CELL.host_lost_after_ms / 1000,
    "a run that isn't ready is stopped": JobSpec.model_fields["start_deadline"].default / 1000,
    "a run that was told to stop is killed": JobSpec.model_fields["stop_grace"].default / 1000,
    "a claim may have others preempted": CELL.preemption_delay_ms / 1000,
    "a command in a run without input or output ends": IDLE_S,
}
IN_WORDS = {
    "output of a run, each stream": f"first {bounds.OUTPUT_KIB >> 10} MiB, newest {bounds.OUTPUT_KIB >> 10} MiB",
    "snapshots of a machine": str(KEPT_SNAPSHOTS),
    "the log: every fact and decision": "for ever",
    "volumes": "until somebody removes them",
    "secrets": "until somebody deletes them",
    "hosts declared lost a minute": f"{CELL.host_lost_percent_per_minute} %",
}


def test_each_number_of_the_page_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "limits.md").read_text().partition("## What may be asked for")[2]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text, re.M))
    for heading in ("at most", "what", "---"):
        del rows[heading]
    assert {name: rows.pop(name) for name in ASKED} == {name: f"{number:,}" for name, number in ASKED.items()}
    assert {name: span_s(rows.pop(name)) for name in SECONDS} == SECONDS
    assert rows == IN_WORDS


def test_each_setting_that_the_page_names_is_there() -> None:
    text = (ROOT / "docs" / "limits.md").read_text()
    assert {name for name in re.findall(r"\[agent\] (\w+)", text) if name not in AgentPart.model_fields} == set()
    cell = {name.removesuffix("_ms") for name in Settings.__struct_fields__}
    assert {name for name in re.findall(r"cell set (\w+)", text) if name not in cell} == set()
