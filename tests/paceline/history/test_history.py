"""Stretches of history: exported to a file, verified from it, brought to a folder, shown read-only over HTTP."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import click
import httpx2
import pytest
from msgspec.structs import replace
from sqlalchemy import select

from events.codec import decode
from events.log.archived import ArchivedLog
from events.log.memory import MemoryLog, MemoryReader
from events.log.port import LogUnavailable
from events.records.parts import Segment
from events.records.rounds import RoundCommitted
from events.rounds import sealed
from events.topics import ALL, TASKS
from paceline.cli.main import run
from paceline.client.client import Client
from paceline.client.errors import PacelineError
from paceline.history.exporter import export
from paceline.history.history_file import read, write
from paceline.history.importer import import_history, info, open_history
from paceline.history.start_state import start_of
from paceline.history.views_at import views_at
from paceline.moments.log_cut import CutLog, before, closed, first_at, read_time, up_to
from paceline.output import count_ages_to, when
from processors.cell_machines import machines
from processors.runtime.store import RocksStore
from processors.state.table import RowChange
from projections.queries.job_filter import JobFilter
from projections.queries.job_list import JobTexts
from projections.views.projector import rebuild
from projections.views.reader import Views
from projections.views.tables import chains, jobs
from tests.helpers.past import changed, past

FROM, TO = "2023-11-14T22:13:40Z", "2023-11-14T22:14:20Z"
"""From 20 s to 60 s."""


@pytest.fixture(scope="module")
def file(data, tmp_path_factory):
    """The stretch as a file."""
    out = tmp_path_factory.mktemp("out") / "stretch.avro"
    assert run(["log", "export", "--data", str(data), "--from", FROM, "--to", TO, str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def imported_history(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("brought")
    import_history(file, folder)
    return folder


def test_a_stretch_is_verified_from_its_file(cli, data, file):
    whole = json.loads(cli("log", "verify", "--data", data, "-o", "json")[1])["machines"]
    code, out, _ = cli("log", "verify", file, "-o", "json")
    part = json.loads(out)
    assert (code, part["identical"]) == (0, True)
    for each, all_ in zip(part["machines"], whole, strict=True):
        assert each["rounds"] + each["begun_after"] <= all_["rounds"]
    begun = {each["machine"]: each["begun_after"] for each in part["machines"]}
    assert begun["lifecycle"] > 20
    assert part["machines"][0]["rounds"] > 20
    assert "this is an exported log range" in cli("log", "verify", file, "--head", "head.json")[2]
    out = cli("log", "verify", file)[1]
    assert f"lifecycle began after round {begun['lifecycle']}, where this history starts" in out


def test_the_records_of_a_stretch_are_those_of_the_log(imported_history):
    log, whole = open_history(imported_history), past()
    stretch = info(imported_history)
    assert isinstance(log, ArchivedLog)
    count = 0
    for topic in ALL:
        start, end = log.bounds(topic.name)
        assert list(log.scan(topic.name, start)) == list(whole.scan(topic.name, start))[: end - start]
        count += end - start
        assert end == first_at(whole, topic.name, stretch.to_ms + 1)
    assert count == stretch.records > 100
    assert log.bounds("paceline.lifecycle")[1] < whole.bounds("paceline.lifecycle")[1]


def test_a_changed_row_of_the_start_is_found(cli, file, tmp_path):
    import_history(file, tmp_path / "d")
    store = start_of(tmp_path / "d", "lifecycle")
    progress = store.progress()
    row = next(each for each in store.rows() if each.table == "jobs")
    held = RocksStore(tmp_path / "d" / "start" / "lifecycle")
    held.commit([RowChange(row.table, row.key, row.row + b"\x00")], progress)
    held.close()
    code, _, err = cli("log", "verify", "--data", tmp_path / "d", "--machine", "lifecycle")
    assert code == 1
    assert "are not those that the history starts from" in err


def test_a_file_that_was_cut_or_changed_is_refused(file, tmp_path):
    whole = file.read_bytes()
    for number, data in enumerate((whole[:-40], whole[: len(whole) // 2], whole[:-30] + b"x" + whole[-29:], b"no")):
        bad = tmp_path / f"{number}.avro"
        bad.write_bytes(data)
        with pytest.raises(PacelineError, match="is no whole file of history"):
            import_history(bad, tmp_path / f"out-{number}")
        assert not (tmp_path / f"out-{number}").exists()
    with pytest.raises(PacelineError, match=r"is no whole file of history: it is cut off\. Write it again"):
        import_history(tmp_path / "1.avro", tmp_path / "out")
    with pytest.raises(PacelineError, match="can't be read"):
        import_history(tmp_path / "none.avro", tmp_path / "out")
    with pytest.raises(PacelineError, match="isn't empty"):
        import_history(file, tmp_path)


@pytest.mark.parametrize(
    ("day", "said"),
    [
        ("2023-11-13", "Nothing in the log is as old as 2023-11-13T23:00:00.000Z."),
        ("2023-11-15", "Nothing in the log is as new as 2023-11-15T22:00:00.000Z."),
    ],
)
def test_a_time_outside_the_log_is_refused(cli, data, tmp_path, day, said):
    given = ("--from", f"{day}T22:00Z", "--to", f"{day}T23:00Z", tmp_path / "stretch.avro")
    code, out, err = cli("log", "export", "--data", data, *given)
    assert (code, out) == (1, "")
    assert said in err
    assert not list(tmp_path.iterdir())


def test_a_log_whose_beginning_is_missing_is_not_exported(tmp_path):
    topic = past().topic("paceline.jobs")
    cut = changed(past(), "paceline.jobs", list(topic.records), topic.end)
    cut.truncate("paceline.jobs", 2)
    with pytest.raises(PacelineError, match=r"paceline\.jobs starts at 2.* a snapshot\. See `paceline log verify`\.$"):
        export(cut, machines(), read_time(FROM), read_time(TO), tmp_path / "stretch.avro", lambda line: None)


def test_a_history_in_a_folder_is_looked_at_like_a_log(cli, imported_history):
    given = (
        "log",
        "tail",
        "--data",
        imported_history,
        "--from-start",
        "--no-follow",
        "--topic",
        "lifecycle",
        "-o",
        "json",
    )
    start, end = open_history(imported_history).bounds("paceline.lifecycle")
    assert len(cli(*given)[1].splitlines()) == end - start
    code, _, err = cli("up", "--data", imported_history)
    assert (code, "add --read-only" in err) == (2, True)
    assert cli("up", "--history", "x.avro")[0] == 2
    code, _, err = cli("up", "--history", "x.avro", "--read-only", "--sim-hosts", 5)
    assert (code, "there is no use for --sim-hosts" in err) == (2, True)
    code, _, err = cli("up", "--history", "x.avro", "--read-only", "--data", "d")
    one_of = "--history shows a file, --data what `paceline log import` wrote: give one of them"
    assert (code, one_of in err) == (2, True)
    code, _, err = cli("up", "--read-only", "--data", imported_history / "nothing")
    assert (code, "holds no imported log range. `paceline log import" in err) == (1, True)


def test_the_views_of_a_stretch_are_those_of_the_log_then(file, tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    env = {**os.environ, "PACELINE_DATA": str(tmp_path / "none"), "TMPDIR": str(room)}
    command = [sys.executable, "-m", "paceline", "up", "--history", str(file), "--read-only", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    try:
        said = process.stderr.readline()
        address = said.partition("is at ")[2].partition(",")[0]
        assert "read-only" in said
        with httpx2.Client(base_url=address) as client:
            jobs = until(lambda: client.get("/v1/jobs").json()["jobs"])
            refused = client.post("/v1/jobs/huge/stops", json={})
            round_ = client.get("/v1/rounds/lifecycle/60")
            with Client(address) as user, click.Context(click.Command("x")):
                count_ages_to(lambda: user.as_of)
                [job] = [each for each in user.jobs() if each["job_id"] == "huge"]
                age, moment = when(job["submitted_at"]), user.moment
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)
    assert (code, list(room.iterdir())) == (0, [])
    cut = closed(past(), before(past(), read_time(TO) + 1))
    views = Views(rebuild(CutLog(past(), cut), tmp_path))
    with views.read() as connection:
        listed = JobTexts().page(connection, JobFilter(), 10, None).rows
        assert jobs == [json.loads(each.text) for each in listed]
    assert {job["job_id"]: job["state"] for job in jobs} == {
        "huge": "KILLED",
        "nightly": "RUNNING",
        "tiles": "SUCCEEDED",
    }
    assert round_.json()["round"] == 60
    assert moment.startswith("the end of this history, 2023-11-14T22:1")
    assert re.fullmatch(r"(\dm)?\d+s ago", age), "ages count to the end of the history"
    assert (refused.status_code, refused.json()["code"]) == (405, "READ_ONLY")
    assert "takes no commands" in refused.json()["detail"]


def until(look):
    deadline = time.monotonic() + 30
    while True:
        try:
            return look()
        except httpx2.HTTPError:
            if time.monotonic() > deadline:
                raise


def test_a_job_is_explained_as_it_was(cli, data, imported_history):
    log = past()
    at = first_at(log, "paceline.lifecycle", 1_700_000_010_000) - 1
    code, out, err = cli("job", "explain", "huge", "--data", data, "--at", f"paceline.lifecycle:{at}", "--utc")
    assert (code, f"as of 0/paceline.lifecycle:{at}, 2023-11-14T22:13:" in err) == (0, True)
    assert "NEVER_FITS" in out.splitlines()[0]
    at = first_at(log, "paceline.lifecycle", 1_700_000_045_000) - 1
    for folder in (data, imported_history):
        body = json.loads(cli("job", "explain", "huge", "--data", folder, "--at", f"lifecycle:{at}", "-o", "json")[1])
        assert body["state"] == "KILLED"
    code, _, err = cli("job", "explain", "tiles", "--data", data, "--at", "paceline.lifecycle:2")
    assert (code, "There was no job tiles at 0/paceline.lifecycle:2" in err) == (4, True)
    assert "'12' names no moment" in cli("job", "explain", "tiles", "--data", data, "--at", "12")[2]
    code, _, err = cli("job", "explain", "tiles", "--data", data, "--at", "lifecycle:100000")
    assert (code, "there is no paceline.lifecycle:100000" in err) == (1, True)


def test_blame_is_found_in_the_log_where_no_cell_runs(cli, data, imported_history):
    code, out, err = cli("log", "blame", "huge:state", "--data", data, "--utc")
    assert (code, out.splitlines()[0]) == (0, "huge:state is KILLED")
    assert "as of the end of the log, 2023-11-14T22:1" in err
    moved = out.splitlines()[1]
    at = f"paceline.lifecycle:{first_at(past(), 'paceline.lifecycle', 1_700_000_010_000) - 1}"
    assert cli("log", "blame", "huge:state", "--data", data, "--at", at)[1].startswith("huge:state is PENDING")
    assert cli("log", "blame", "huge:state", "--data", imported_history, "--utc")[1].splitlines()[1] == moved
    code, _, err = cli("log", "blame", "huge:stat", "--data", data)
    assert (code, "did you mean state?" in err) == (1, True)
    code, _, err = cli("log", "blame", "nobody:state", "--data", data)
    assert (code, "nobody" in err) == (1, True)
    code, _, err = cli("log", "blame", "huge:state", "--data", data / "start")
    assert (code, "No cell runs on" in err) == (6, True)


def test_a_position_before_an_imported_range_is_refused_with_the_time_at_which_it_starts(
    cli, imported_history, tmp_path
):
    begins = "2023-11-14T22:13:40.000Z"
    code, _, err = cli("job", "explain", "huge", "--data", imported_history, "--at", "lifecycle:3")
    assert (code, f"the log begins at {begins}; what was at 2023" in err) == (1, True)
    out = tmp_path / "smaller.avro"
    code, _, err = cli("log", "export", "--data", imported_history, "--from", FROM, "--to", TO, out)
    assert (code, f"{imported_history} begins at {begins}: export from the log that it was taken from." in err) == (
        1,
        True,
    )
    assert not out.exists()


def test_a_cut_at_a_position_has_nothing_that_came_later():
    log = past()
    for offset in (5, 60, 200):
        cut = up_to(log, next(log.scan("paceline.lifecycle", offset)))
        at_ms = next(log.scan("paceline.lifecycle", offset)).at_ms
        assert cut["paceline.lifecycle"] == offset + 1
        for topic, end in cut.items():
            held = list(log.scan(topic, 0))
            assert all(record.at_ms <= at_ms for record in held[:end])
            assert topic == "paceline.lifecycle" or all(record.at_ms > at_ms for record in held[end:])


def test_what_a_round_was_decided_on_is_there_with_it_whatever_its_clock_says(tmp_path):
    """The broker of the topic of tasks is 2 s ahead."""
    log = MemoryLog(lambda: 0)
    for topic in ALL:
        ahead_ms = 2000 if topic.name == TASKS.name else 0
        log.topic(topic.name).records = [
            record._replace(at_ms=record.at_ms + ahead_ms) for record in past().scan(topic.name, 0)
        ]
        log.topic(topic.name).end = past().bounds(topic.name)[1]
    at = up_to(log, next(log.scan("paceline.lifecycle", 200)))
    cut = closed(log, at)
    assert cut[TASKS.name] > at[TASKS.name]
    views = views_at(log, cut, tmp_path, tmp_path)
    with views.read() as connection:
        position = connection.scalar(select(chains.c.position).where(chains.c.machine == "lifecycle"))
    views.engine.dispose()
    assert position == 201


def test_a_late_round_of_an_old_epoch_does_not_hide_what_the_last_one_needs():
    first = next(
        event
        for event in map(decode, (each.value for each in past().scan("paceline.lifecycle", 0)))
        if isinstance(event, RoundCommitted)
    )
    log = MemoryLog(lambda: 0)
    for epoch, end in ((2, 9), (1, 2)):
        inputs = (Segment("paceline.jobs", 0, end),)
        log.append([sealed(replace(first, epoch=epoch, inputs=inputs, seen=()))])
    ends = {topic.name: 0 for topic in ALL} | {"paceline.lifecycle": 2}
    assert closed(log, ends)["paceline.jobs"] == 9


def test_an_export_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def away(_: object) -> None:
        raise LogUnavailable("Kafka at 127.0.0.1:9 can't be reached.")

    monkeypatch.setattr("paceline.history.exporter.of_record", away)
    with pytest.raises(LogUnavailable):
        export(past(), machines(), read_time(FROM), read_time(TO), tmp_path / "stretch.avro", lambda line: None)
    assert list(tmp_path.iterdir()) == []


def test_views_of_the_past_are_not_taken_for_whole_when_the_log_goes_away(tmp_path, monkeypatch):
    """Once it is only asked again, twice in a row it is said."""
    log, poll = past(), MemoryReader.poll
    ends = up_to(log, next(log.scan("paceline.lifecycle", 60)))
    troubles = [LogUnavailable("no answer"), []]

    def troubled(reader, limit, timeout):
        if not troubles:
            return poll(reader, limit, timeout)
        trouble = troubles.pop(0)
        if isinstance(trouble, Exception):
            raise trouble
        return trouble

    whole = views_at(log, ends, tmp_path, folder(tmp_path, "whole"))
    monkeypatch.setattr(MemoryReader, "poll", troubled)
    with whole.read() as left, views_at(log, ends, tmp_path, folder(tmp_path, "again")).read() as right:
        assert left.execute(select(jobs)).all() == right.execute(select(jobs)).all() != []
    troubles[:] = [LogUnavailable("no answer")] * 2
    with pytest.raises(LogUnavailable):
        views_at(log, ends, tmp_path, folder(tmp_path, "away"))


def folder(parent, name):
    observers = parent / name
    observers.mkdir()
    return observers


@pytest.mark.parametrize("kind", ["Head", "Progress", "Record"])
def test_a_file_writes_nowhere_but_to_its_folder(file, tmp_path, kind):
    """Names in a file become names of folders: a forged one, whose hash fits, must not lead out of there."""

    def forged(part):
        if part.kind != kind:
            return part
        if kind == "Head":
            [first, *others] = part.fields["topics"]
            return part._replace(fields={**part.fields, "topics": [{**first, "topic": "../evil"}, *others]})
        return part._replace(fields={**part.fields, "machine" if kind == "Progress" else "topic": "../../evil"})

    with (tmp_path / "forged.avro").open("wb") as out:
        write(out, [forged(part) for part in read(file)])
    (tmp_path / "to").mkdir()
    with pytest.raises(PacelineError, match="evil'"):
        import_history(tmp_path / "forged.avro", tmp_path / "to" / "brought")
    assert not [*tmp_path.rglob("evil*")]
