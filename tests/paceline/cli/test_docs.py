"""What users read is true: the reference is that of the commands, every code is explained, examples are well formed."""

import io
import re
import runpy
import sys

import pytest

from events.codec import decode
from events.codes import Code
from events.reasons import REASONS, Tier
from events.records.jobs import JobSubmitted
from events.spec.pool import PoolSpec
from paceline.cli.main import cli as command
from paceline.job_files import read_jobs, read_pools
from paceline.services.settings import ViewsPart
from tests.helpers import ROOT
from tools.cli_page import reference

PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))))


def test_the_reference_is_that_of_the_commands():
    assert (ROOT / "docs" / "cli.md").read_text() == reference()


def test_every_reason_code_is_explained():
    explained = re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "reasons.md").read_text(), re.M)
    assert explained == [code.value for code in Code]


def test_the_page_of_reasons_says_of_each_code_whose_matter_it_is_and_who_can_act():
    sections = re.split(r"^## .*$", (ROOT / "docs" / "reasons.md").read_text(), flags=re.M)[1:]
    for tier, section in zip(Tier, sections, strict=True):
        for code, who in re.findall(r"^\| `([A-Z_]+)` \| .*? \| ?(.*?) \| .*\|$", section, re.M):
            kind = REASONS[code]
            assert kind.tier == tier
            assert who == kind.actor or (kind.actor and who.startswith((f"{kind.actor}; ", f"{kind.actor}, operator")))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert link.startswith("https://") or (path.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_pages_name_are_there(page):
    for words in re.findall(r"(?:^|[`(&] ?)paceline ((?:[a-z][a-z-]* ?)+)", (ROOT / page).read_text(), re.M):
        found = command
        for word in words.split():
            inner = found.get_command(None, word) if hasattr(found, "get_command") else None
            assert inner is not None or not hasattr(found, "get_command"), f"paceline {words}"
            found = inner or found


def test_the_examples_are_well_formed():
    jobs = {job.job_id.rpartition("-")[0]: job.spec for job in read_jobs([str(ROOT / "examples" / "jobs")])}
    pools = [pool.path for pool in read_pools([str(ROOT / "examples" / "pools.yaml")])]
    assert sorted(jobs) == ["routes", "tiles", "web"]
    assert {spec.pool for spec in jobs.values()} < set(pools)
    assert jobs["tiles"].instances + jobs["routes"].instances == 20


def test_the_page_on_sharing_shows_every_field_of_a_pool_as_files_have_them(tmp_path):
    text = (ROOT / "docs" / "sharing.md").read_text()
    files = re.findall(r"```yaml\n(.*?)```", text, re.S)
    for name, content in zip(("pools.yaml", "jobs.yaml"), files, strict=True):
        (tmp_path / name).write_text(content)
    pools, jobs = read_pools([str(tmp_path / "pools.yaml")]), read_jobs([str(tmp_path / "jobs.yaml")])
    assert set(pools[0].body) == set(PoolSpec.model_fields)
    assert [job.job_id for job in jobs] == ["train", "sweep"]


def test_a_job_of_a_foreign_producer_is_a_record_of_ours(monkeypatch):
    sent = {}

    class Producer:
        def __init__(self, settings: dict[str, object]) -> None:
            sent["to"] = settings["bootstrap.servers"]

        def produce(self, topic: str, **record: object) -> None:
            sent.update(record, topic=topic)

        def flush(self, timeout: float) -> int:
            return 0

    monkeypatch.setattr("confluent_kafka.Producer", Producer)
    monkeypatch.setattr(sys, "argv", ["foreign_producer.py", "broker:9092", "from-afar"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "examples" / "foreign_producer.py"))
    assert end.value.code == 0
    assert (sent["to"], sent["topic"], sent["key"], sent["partition"]) == (
        "broker:9092",
        "paceline.jobs",
        "from-afar",
        0,
    )
    job = decode(sent["value"])
    assert isinstance(job, JobSubmitted)
    assert (job.job_id, job.instances) == ("from-afar", 2)


@pytest.mark.parametrize("arguments", [[], ["broker:9092"], ["broker:9092", "a", "cell-1"]])
def test_the_foreign_producer_tells_how_it_is_used(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "argv", ["foreign_producer.py", *arguments])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "examples" / "foreign_producer.py"))
    assert end.value.code == 2
    assert "Usage: foreign_producer.py HOST:PORT JOB_ID [CELL]" in capsys.readouterr().err


def test_standard_input_of_the_tour_is_a_job(monkeypatch):
    [text] = re.findall(r"<<'JOB'\n(.*?)JOB\n", (ROOT / "docs" / "tour.md").read_text(), re.S)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert [job.job_id for job in read_jobs(["-"])] == ["too-much"]


def test_the_settings_of_views_are_those_of_the_page():
    rows = re.findall(r"^\| `views\.(\w+)` \| ([\d,]+) \|", (ROOT / "docs" / "operations.md").read_text(), re.M)
    shown = {name: float(default.replace(",", "")) for name, default in rows}
    assert shown == ViewsPart().model_dump()
