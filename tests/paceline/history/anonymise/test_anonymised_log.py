"""A log with other names verifies, decides alike but for the names, and holds no text that a user wrote."""

import json
import random
import re
import tarfile
import zlib

import msgspec
import pytest

from events.codec import CodecError, decode, encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.entitlement import GangsHeld
from events.records.jobs import OverridesUploaded
from events.records.lifecycle import JobAccepted
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from events.topics import FACTS, JOBS, MACHINES, VIEWED, rounds_of
from paceline.client.errors import PacelineError
from paceline.history.anonymise.anonymised_log import anonymised
from paceline.history.exporter import export, up_to
from paceline.history.history_file import read
from paceline.history.importer import import_history, open_history
from paceline.history.start_state import start_of
from paceline.history.verify import verify
from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.scenario.random_scenario import draw_scenario
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, of_scenario
from processors.cell_machines import machines
from tests.helpers import ROOT
from tests.helpers.drawn import seeds, some
from tests.helpers.past import changed, kept, past
from tests.paceline.history.anonymise.canaries import CANARY, Canaries, kinds

SCENARIOS = sorted((ROOT / "tests" / "scenarios").glob("*/*.yaml"))
random.Random(1).shuffle(SCENARIOS)
OF_MACHINES = ("message", "devices", "hosts_by_reason")
"""Fields with sentences, and with names of conditions."""
END_MS = 1 << 42


def silent(_: str) -> None:
    """Says nothing."""


def played(scenario: Scenario) -> MemoryLog:
    session = of_scenario(scenario, "", RunOptions())
    session.run.run_to_end()
    return session.run.cell.log


def rounds(log, machine):
    """The rounds of a machine, as the log has them."""
    for record in log.scan(rounds_of(machine), 0):
        try:
            event = decode(record.value)
        except CodecError:
            continue
        if isinstance(event, RoundCommitted):
            yield event


class Likeness:
    """Compares records of two logs: they differ in texts alone, and each text is another one everywhere."""

    def __init__(self):
        self.new = {}

    def compare(self, old, new, field):
        if field in OF_MACHINES:
            return
        assert type(old) is type(new)
        if isinstance(old, dict):
            assert len(old) == len(new)
            for (one, value), (other, new_value) in zip(old.items(), new.items(), strict=True):
                self.compare(one, other, field)
                self.compare(value, new_value, one if one == other else field)
        elif isinstance(old, list | tuple):
            assert len(old) == len(new)
            for one, other in zip(old, new, strict=True):
                self.compare(one, other, field)
        elif isinstance(old, str):
            assert self.new.setdefault((field, old), new) == new
        elif field != "spec_hash" and field != "digests":
            assert old == new

    def injective(self):
        back = {}
        for (field, old), new in self.new.items():
            assert back.setdefault((field, new), old) == old


def check(log):
    """Everything that is promised of a log with other names."""
    factories, likeness = machines(log.cell), Likeness()
    with anonymised(log, factories, silent) as renamed:
        assert renamed.copies == 0
        assert [each.result.difference for each in verify(renamed.log, factories)] == [None] * len(MACHINES)
        for topic in VIEWED:
            old, new = ([*each.scan(topic.name, 0)] for each in (log, renamed.log))
            assert [(each.offset, each.at_ms) for each in old] == [(each.offset, each.at_ms) for each in new]
            assert log.bounds(topic.name) == renamed.log.bounds(topic.name)
        for machine in MACHINES:
            new_rounds = {(each.epoch, each.round): each for each in rounds(renamed.log, machine)}
            for old in rounds(log, machine):
                new = new_rounds.get((old.epoch, old.round))
                if new is None:  # a late one, which nobody takes
                    continue
                assert (old.now, old.inputs, old.seen) == (new.now, new.inputs, new.seen)
                both = zip(decode_decisions(old), decode_decisions(new), strict=True)
                for one, other in both:
                    assert type(one) is type(other)
                    parts = (msgspec.to_builtins(each, builtin_types=(bytes,)) for each in (one, other))
                    likeness.compare(*parts, "")
    likeness.injective()
    return renamed


@pytest.mark.drawn
@pytest.mark.parametrize("path", some(SCENARIOS, 12), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_scenario_is_decided_alike_but_for_the_names(path):
    check(played(read_scenario(str(path))))


@seeds(40, 3)
def test_a_drawn_cell_is_decided_alike_but_for_the_names(seed):
    trial = Trial(draw_scenario(seed, 40), Faults(seed))
    trial.run()
    check(trial.log)


def test_jobs_of_a_cell_that_forgets_begin_with_the_runs_with_which_they_began(tmp_path, monkeypatch):
    """So few buckets that every third job falls into one that a forgotten job has left; ten ids come back."""
    monkeypatch.setattr("processors.lifecycle.ended_jobs.BUCKETS", 256)
    draw = random.Random(3)
    job = {"pool": "/a", "resources": {"cpu": 1, "memory": "1GiB"}, "retries": {"max": 3}, "sim": {"duration": "2s"}}
    fails = [draw.choice([0, 0, 0, 1, 2]) for _ in range(200)]
    jobs = [
        {**job, "job_id": f"of-ann-{number}", "at": f"{number}s", "sim": {"duration": "2s", "fail_runs": runs}}
        for number, runs in enumerate(fails)
    ]
    hosts = [{"name": "h", "count": 2, "resources": {"cpu": 8, "memory": "16GiB"}}]
    scenario = {
        "name": "forgets",
        "seed": 1,
        "cell": {"forget_after": "30s"},
        "hosts": hosts,
        "pools": [{"path": "/a"}],
    }
    file = tmp_path / "forgets.yaml"
    file.write_text(json.dumps({**scenario, "jobs": jobs}))
    drawn = read_scenario(str(file))
    back = [each.model_copy(update={"job_id": f"of-ann-{number}"}) for number, each in enumerate(drawn.jobs[190:])]
    log = played(drawn.model_copy(update={"jobs": [*drawn.jobs[:190], *back]}))
    accepted = [event for round_ in rounds(log, "lifecycle") for event in decode_decisions(round_)]
    first = [event.first_run for event in accepted if isinstance(event, JobAccepted)]
    assert len(first) == 200
    assert len({*first}) > 2
    assert sum(run > 1 for run in first) > 40
    check(log)


def contents(file):
    """All bytes of a file of history, blocks and compressed records decoded."""
    parts = [file.read_bytes()]
    for part in read(file):
        for value in part.fields.values():
            parts.append(value if isinstance(value, bytes) else repr(value).encode())
        if part.kind == "Record":
            try:
                event = decode(part.fields["value"])
            except CodecError:
                continue
            if isinstance(event, OverridesUploaded) and event.content:
                parts.append(zlib.decompress(event.content))
    whole = b"".join(parts)
    views = b"".join(part.fields["chunk"] for part in read(file) if part.kind == "Views")
    return whole + views


NAMED = {
    "seed": 5,
    "hosts": [
        {
            "name": f"{CANARY}host",
            "count": 3,
            "resources": {"cpu": 4, "memory": "16GiB"},
            "attributes": {f"{CANARY}rack": f"{CANARY}value", "disk": f"9{CANARY}"},
            "taints": {f"{CANARY}taint": f"{CANARY}of"},
            "fails": "25s",
            "returns": "30s",
        },
    ],
    "pools": [{"path": f"/{CANARY}a"}, {"path": f"/{CANARY}a/{CANARY}b", "description": f"{CANARY} pool"}],
    "jobs": [
        {
            "job_id": f"{CANARY}-{number}",
            "pool": f"/{CANARY}a/{CANARY}b",
            "instances": 8,
            "resources": {"cpu": 1, "memory": "1GiB"},
            "env": {f"{CANARY}ENV": f"{CANARY} env"},
            "labels": {f"{CANARY}label": f"{CANARY} label"},
            "description": f"{CANARY} job",
            "ports": [f"{CANARY}port"],
            "tolerations": [f"{CANARY}taint"],
            "constraints": [{"attribute": "disk", "operator": operator, "values": [value]}],
            "sim": {"duration": "20s"},
        }
        for number, (operator, value) in enumerate([("glob", f"*{CANARY}"), ("in", f"{CANARY}no"), ("greater", "1")])
    ],
    "end": "60s",
}


def test_no_text_of_a_user_is_found_in_the_file(tmp_path):
    (tmp_path / "named.yaml").write_text(json.dumps(NAMED))
    session = of_scenario(read_scenario(str(tmp_path / "named.yaml")), "", RunOptions())
    cell, canaries = session.run.cell, Canaries()
    for kind in kinds():
        if kind.topic in FACTS:
            fact = canaries.record(kind)
            cell.log.append([NewRecord(kind.topic, CANARY.encode(), encode(fact))])
    cell.log.append([NewRecord(JOBS.name, b"", f"{CANARY} isn't a record".encode())])
    session.run.run_to_end()
    log, file = cell.log, tmp_path / "file.avro"
    plain = tmp_path / "plain.avro"
    export(log, machines(log.cell), 0, END_MS, plain, silent)
    assert contents(plain).count(CANARY.encode()) > 1000
    with anonymised(up_to(log, 0, END_MS), machines(log.cell), silent) as renamed:
        export(renamed.log, machines(log.cell), 0, END_MS, file, silent)
    data = contents(file)
    left = [place for canary, place in canaries.places.items() if canary.encode() in data]
    assert left == []
    assert CANARY.encode() not in data
    import_history(file, tmp_path / "imported")
    results = verify(open_history(tmp_path / "imported"), machines(log.cell))
    assert [each.result.difference for each in results] == [None] * len(MACHINES)


def test_a_stretch_that_starts_later_has_its_states_in_other_names_too(tmp_path):
    log, file = past(), tmp_path / "later.avro"
    start = next(log.scan(JOBS.name, 0)).at_ms
    with anonymised(up_to(log, start + 20_000, start + 60_000), machines(0), silent) as renamed:
        export(renamed.log, machines(0), start + 20_000, start + 60_000, file, silent)
    data = contents(file)
    assert not any(name in data for name in (b"nightly", b"tiles", b"/batch", b"/maps", b"large-", b"small-", b"ssd"))
    assert b"job-1" in data
    import_history(file, tmp_path / "imported")
    starts = {name: start_of(tmp_path / "imported", name) for name in MACHINES}
    assert starts["lifecycle"] is not None
    results = verify(open_history(tmp_path / "imported"), machines(0), starts={k: v for k, v in starts.items() if v})
    assert [each.result.difference for each in results] == [None] * len(MACHINES)


def test_a_record_that_was_changed_is_told_and_not_made_good():
    records = [*past().scan(JOBS.name, 0)]
    fact = decode(records[0].value)
    records[0] = records[0]._replace(value=encode(msgspec.structs.replace(fact, priority=7)))
    log = changed(past(), JOBS.name, records, len(records))
    with pytest.raises(PacelineError, match="log verify"), anonymised(log, machines(0), silent):
        pass


def test_the_command_writes_a_file_that_verifies_and_says_how_much_was_replayed(cli, data, tmp_path):
    file = tmp_path / "shared.avro"
    span = ("--from", "2023-11-14T22:13:20Z", "--to", "2023-11-14T22:15Z")
    code, out, err = cli("log", "export", "--data", data, *span, "--anonymise", file)
    assert code == 0
    assert "records; it starts with lifecycle after round 0" in out
    said = re.search(r"(\d+) of (\d+) rounds replayed with the new names", err)
    assert said is not None
    assert said[1] == said[2]
    code, out, _ = cli("log", "verify", file, "-o", "json")
    assert (code, json.loads(out)["identical"]) == (0, True)
    assert cli("log", "bisect", file, "--expect", "job job-1 tasks RUNNING >= 1")[0] in (0, 1)
    assert (
        cli(
            "log",
            "export",
            "--data",
            data,
            "--from",
            "2033-11-14T22:13Z",
            "--to",
            "2034-01-01T00:00Z",
            "--anonymise",
            file,
        )[0]
        == 1
    )


def test_rounds_of_an_earlier_release_are_written_as_they_were_recorded(tmp_path):
    with tarfile.open(ROOT / "tests" / "upgrade" / "cell-0.3.0.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    log = kept(tmp_path / "data")
    with anonymised(log, machines(log.cell), silent) as renamed:
        assert renamed.copies == renamed.rounds > 200
        results = [each.result for each in verify(renamed.log, machines(log.cell))]
        assert [each.difference for each in results] == [None] * len(MACHINES)
        assert sum(each.folded for each in results) == renamed.rounds


def test_a_round_that_is_decided_otherwise_stays_so_under_other_names(monkeypatch):
    """What the log shows of a fault is shown to whom it is given too, at the same place."""
    log, machine = past(), machines(0)["entitlement"]
    decide = type(machine()).decide

    def faulty(self, now, caught_up, budget):
        return [each for each in decide(self, now, caught_up, budget) if not isinstance(each, GangsHeld)]

    monkeypatch.setattr(type(machine()), "decide", faulty)
    plain = verify(log, {"entitlement": machine})[0].result.difference
    assert plain is not None
    with anonymised(log, machines(0), silent) as renamed:
        assert renamed.copies > 0
        new = verify(renamed.log, {"entitlement": machine})[0].result.difference
    assert new is not None
    assert (new.round, new.index) == (plain.round, plain.index)
