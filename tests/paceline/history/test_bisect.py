"""`paceline log bisect`: the first round after which something holds, or fails."""

import json
from functools import cache

import pytest

from events.codec import decode
from events.records.hosts import HostSilent
from events.records.jobs import JobStopRequested
from events.topics import ALL
from paceline.history.bisection import HistorySearch, find_first
from paceline.moments.log_cut import before, closed
from paceline.simulate.scenario.expectations import parse
from processors.cell_machines import machines
from processors.runtime.replay import replay
from tests.helpers.past import past, played, written


@cache
def ends():
    return {topic.name: past().bounds(topic.name)[1] for topic in ALL}


def find(text, wanted=None, since_ms=0):
    return find_first(HistorySearch(past(), machines()), parse(text), wanted, ends(), since_ms)


def test_all_machines_come_to_the_state_that_their_replay_comes_to():
    seeker = HistorySearch(past(), machines())
    seen = [event.machine for _, event in seeker.rounds(ends())]
    for name, make in machines().items():
        alone = replay(make(), past())
        assert seen.count(name) == alone.rounds
        assert seeker._folds[name].state.hash == alone.hash


def test_the_first_round_after_which_it_holds():
    found = find("job tiles is SUCCEEDED")
    assert (found.machine, found.before.what, found.after.what) == (
        "lifecycle",
        "job tiles is RUNNING",
        "job tiles is SUCCEEDED",
    )
    before = [record for record in past().scan("paceline.lifecycle", 0) if record.offset < found.offset]
    assert all(record.at_ms <= found.at_ms for record in before)
    assert past().topic("paceline.lifecycle").records[found.offset].at_ms == found.at_ms


def test_the_first_round_after_which_it_fails_and_changes_before_a_time_are_passed_over():
    up = find("host small-1 is UP")
    assert up.after.holds
    failed = find("host small-1 is UP", wanted=False)
    assert (failed.before.holds, failed.after.what) == (True, "host small-1 is SILENT")
    assert find("host small-1 is UP", since_ms=up.at_ms + 1) == failed
    assert find("job tiles preempted > 0") is None


def test_what_is_found_is_told_with_round_position_time_and_what_was_seen(cli, data):
    code, out, err = cli("log", "bisect", "--data", data, "--expect", "job huge waits for NEVER_FITS")
    lines = dict(line.split("  ", 1) for line in out.splitlines())
    assert code == 0
    assert lines["first holds"].strip() == "job huge waits for NEVER_FITS"
    assert lines["before it"].strip() == "job huge waits for nothing"
    assert lines["after it"].strip() == "job huge waits for NEVER_FITS"
    assert lines["at"].strip() == "2023-11-14T22:13:25.000Z"
    given = ("log", "bisect", "--data", data, "--expect", "job huge waits for NEVER_FITS", "-o", "json")
    body = json.loads(cli(*given)[1])
    assert f"{body['machine']} round {body['round']}" == lines["after"].strip()
    assert cli(*given, "--since", "2023-11-14T22:14:10Z")[0] == 1
    code, _, err = cli("log", "bisect", "--data", data, "--expect", "job huge hums")
    assert (code, "must go on with" in err) == (2, True)


STRETCH = {
    "cell": {"preemption_delay": "2s"},
    "hosts": [{"name": "h", "resources": {"cpu": 4}}],
    "pools": [{"path": "/p"}, {"path": "/q", "reservation": {"cpu": 2}}],
    "jobs": [
        {"job_id": "low", "pool": "/p", "instances": 4, "resources": {"cpu": 1}, "sim": {"duration": "5m"}},
        {"job_id": "high", "at": "1m", "pool": "/q", "instances": 2, "resources": {"cpu": 1}},
        {"job_id": "late", "at": "40s", "pool": "/new", "resources": {"cpu": 1}},
    ],
    "events": [
        {"at": "39s", "lose": "entitlement"},
        {"at": "39500ms", "pool": {"path": "/new"}},
        {"at": "50s", "heal": "entitlement"},
    ],
    "end": "3m",
}
"""`late` is submitted before its pool is answered: lifecycle accepts it 10 s later."""


@pytest.mark.parametrize(
    "expected", ["job low preempted > 0", "cell preempted > 0", "job late is RUNNING", "job late ran on h-1"]
)
def test_a_stretch_is_searched_like_the_whole_log(cli, tmp_path, expected):
    written(played(STRETCH), tmp_path / "data")
    stretch = tmp_path / "stretch.avro"
    times = ("--from", "2023-11-14T22:14:05Z", "--to", "2023-11-14T22:16:10Z")
    assert cli("log", "export", "--data", tmp_path / "data", *times, stretch)[0] == 0
    whole = cli("log", "bisect", "--data", tmp_path / "data", "--expect", expected)
    assert whole[0] == 0
    assert cli("log", "bisect", stretch, "--expect", expected) == whole


def test_a_fact_is_told_with_the_first_round_that_was_decided_on_it():
    [asked] = [record for record in past().scan("paceline.jobs", 0) if type(decode(record.value)) is JobStopRequested]
    for text in ("events JobStopRequested", "events JobAccepted, JobStopRequested, JobChanged"):
        found = find(text)
        assert found.at_ms == asked.at_ms, text
    assert find("events JobStopRequested, JobAccepted") is None
    lost = find("events HostSilent")
    silent = next(record for record in past().scan("paceline.hosts", 0) if type(decode(record.value)) is HostSilent)
    assert 0 <= lost.at_ms - silent.at_ms < 60_000


def test_a_search_goes_no_further_than_it_is_told():
    ends = closed(past(), before(past(), 1_700_000_030_000))
    offsets = [
        (delivered.record.topic, delivered.record.offset)
        for delivered, _ in HistorySearch(past(), machines()).rounds(ends)
    ]
    assert offsets
    assert all(offset < ends[topic] for topic, offset in offsets)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job bogus is RUNNING", "there is no job bogus."),
        ("job bogus is ABSENT", "there is no job bogus."),
        ("host small-9 runs > 3", "there is no host small-9."),
        ("job tiles ran on small-9", "there is no host small-9."),
        ("job tiles ran on rack=9", "there is no host with rack=9."),
        ("pool /bogus allocation cpu > 0", "there is no pool /bogus."),
    ],
)
def test_what_was_never_there_is_said_to_be_missing(cli, data, text, said):
    code, out, err = cli("log", "bisect", "--data", data, "--expect", text)
    assert (code, out) == (1, "")
    assert said in err
    code, out, err = cli("log", "bisect", "--data", data, "--expect", "host small-1 runs > 300")
    assert (code, "there is no round after which this changes" in out, err) == (1, True, "")


def test_a_stretch_in_a_file_is_searched_from_its_start(cli, data, tmp_path):
    file = tmp_path / "stretch.avro"
    assert (
        cli("log", "export", "--data", data, "--from", "2023-11-14T22:13:30Z", "--to", "2023-11-14T22:14:05Z", file)[0]
        == 0
    )
    whole, part = (
        json.loads(cli("log", "bisect", *where, "--expect", "job tiles tasks RUNNING == 4", "-o", "json")[1])
        for where in (("--data", data), (file,))
    )
    assert whole == part
    assert whole["after"] == "job tiles tasks RUNNING 4"
