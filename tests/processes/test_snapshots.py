"""A cell of separate processes on Kafka: one has lost its disk, and the log no longer begins at its beginning."""

import json
import shutil
from itertools import count
from pathlib import Path

import pytest

from events.log.kafka.kafka_log import KafkaLog
from events.topics import rounds_of
from paceline.cli.main import run
from paceline.services.cell_log import with_archive
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty

pytestmark = pytest.mark.xdist_group("processes")
DECIDING = ("lifecycle", "entitlement", "placement")
"""The machine sla, which has no round yet here, needs all of its topics: these stay."""
PARTS = (*DECIDING, "projector", "gateway.0", "api")
PLACEMENT = rounds_of("placement")


def snapshot(site: Site, machine: str) -> int:
    """The round of the newest snapshot, as the processor says."""
    cells = (site.health(machine) or {}).get("cells", {})
    return int(cells.get("0", {}).get("snapshot", 0))


def archived(capsys: pytest.CaptureFixture[str], field: str, *more: str) -> dict[str, int]:
    """A field of each topic to be cut, as `paceline log archive` says it."""
    assert run(["log", "archive", *more, "-o", "json"]) == 0
    topics = {each["topic"]: each for each in json.loads(capsys.readouterr().out)["topics"]}
    return {topic: topics[topic][field] for topic in ("paceline.jobs", PLACEMENT)}


def folded(site: Site) -> int:
    """How far the projector has folded the rounds of placement."""
    cells = (site.health("projector") or {}).get("cells", {})
    return int(cells.get("0", {}).get("positions", {}).get(PLACEMENT, 0))


def test_a_processor_that_lost_its_disk_goes_on_from_a_snapshot_of_a_log_that_was_cut(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"PACELINE_SNAPSHOTS": str(tmp_path / "snapshots"), "PACELINE_ARCHIVE": str(tmp_path / "archive")}
    site = Site(tmp_path, empty(broker, 1), **settings, PACELINE_SNAPSHOT_EVERY="10")
    for name, value in {**settings, "PACELINE_KAFKA": broker.address, "PACELINE_DATA": str(tmp_path / "data")}.items():
        monkeypatch.setenv(name, value)
    log = KafkaLog(broker.address)
    try:
        site.start(*PARTS)
        site.until_ready(*PARTS)
        site.pool("/p")
        jobs = count()

        def covered() -> bool:
            """Runs a job; whether even the oldest of the last snapshots were taken after the first of the jobs."""
            site.submit(job_id := f"early-{next(jobs)}", 10)
            site.finish(job_id)
            return (
                all(snapshot(site, machine) > 3 for machine in DECIDING)
                and min(archived(capsys, "needed_from").values()) > 0
            )

        site.until(covered, "snapshots")
        site.stop("placement")
        shutil.rmtree(tmp_path / "data" / "cell-0" / "store" / "placement")

        def cut() -> bool:
            """Removes what nobody needs; the projector says now and then how far it is."""
            begins = archived(capsys, "log_from", "--remove")
            assert begins == {topic: log.bounds(topic)[0] for topic in begins}
            return min(begins.values()) > 0

        site.until(cut, "a log without its beginning")
        site.start("placement")
        site.submit("late", 10)
        site.finish("late")
        assert "placement has no store here: the snapshot of round " in site.said("placement")

        site.stop("projector")
        for views in (tmp_path / "data" / "cell-0").glob("views.sqlite*"):
            views.unlink()
        site.start("projector")
        site.until(lambda: folded(site) >= log.bounds(PLACEMENT)[1], "the views to be made anew from archive and log")
        site.end()
    finally:
        site.processes.stop_all()
    assert run(["log", "verify"]) == 0
    site._views_agree(with_archive(log, settings["PACELINE_ARCHIVE"]), 0)
    monkeypatch.delenv("PACELINE_ARCHIVE")
    assert run(["log", "verify"]) == 1
    assert "but offset 0 is needed" in capsys.readouterr().out
    log.close()
