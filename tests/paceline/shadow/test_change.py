"""Rounds of a recorded cell as they would be decided with other pools, each in the state in which the cell was."""

from collections import defaultdict

import pytest

from events.codec import decode, encode
from events.log.port import Log, LogRecord
from events.records.entitlement import EntitlementsSet, GangsAdmitted
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from events.topics import JOBS, MACHINES, POOLS, rounds_of
from paceline.client.errors import InvalidValue
from paceline.history.build_protocol import PROTOCOL, Changed, Differs, Order, Reached, Span, Stopped
from paceline.history.findings import Findings
from paceline.history.own_passes import OwnPasses
from paceline.moments.log_cut import before
from paceline.moments.order import LogAddress
from paceline.shadow.change_worker import ChangeOrder, comparisons
from paceline.whatif.settings import read_setting
from tests.helpers import ROOT
from tests.paceline.whatif.recorded import THREE_TEAMS, moment, of_file

OUTAGE = ROOT / "examples" / "scenarios" / "outage.yaml"


def shadowed(log: Log, from_ms: int, *changes: str, pools: dict | None = None) -> tuple[list[str], Findings]:
    """The change in words, and what differs with it from a time on."""
    ends = before(log, from_ms)
    spans = {name: Span(offset=ends[rounds_of(name)]) for name in MACHINES}
    order = Order(PROTOCOL, LogAddress("nowhere", log.cell), spans)
    said: list = []
    settings = [tuple(read_setting(each)) for each in changes]
    findings, passes = Findings(), OwnPasses(log, lambda machine, number: None)
    for each in comparisons(log, None, ChangeOrder(order, pools or {}, settings), said.append):
        each.turn()
    for message in said:
        assert not isinstance(message, Stopped), message
        if isinstance(message, Differs):
            message.parts[:] = passes.of_the_pass(message)
        findings.take(message)
    [changed] = [each for each in said if isinstance(each, Changed)]
    last = {each.machine: each for each in said if isinstance(each, Reached)}
    for name in MACHINES:
        assert last[name].position == log.bounds(rounds_of(name))[1]
    return changed.lines, findings


def admitted(log: Log, pool: str, from_ms: int) -> dict[str, set[int]]:
    """The rounds from a time on in which entitlement admitted gangs of each job of a pool."""
    jobs = {job.job_id for job in map(decode, (each.value for each in log.scan(JOBS.name, 0))) if job.pool == pool}
    rounds: dict[str, set[int]] = defaultdict(set)
    for record in log.scan(rounds_of("entitlement"), 0):
        event = decode(record.value)
        if not isinstance(event, RoundCommitted) or record.at_ms < from_ms:
            continue
        for decision in map(decode, event.decisions):
            if isinstance(decision, GangsAdmitted):
                for job_id in {*decision.job_ids} & jobs:
                    rounds[job_id].add(event.round)
    return rounds


def reported(log: Log, from_ms: int) -> list[int]:
    """The rounds from a time on in which entitlement reported."""
    rounds = []
    for record in log.scan(rounds_of("entitlement"), 0):
        event = decode(record.value)
        if isinstance(event, RoundCommitted) and record.at_ms > from_ms:
            kinds = {type(decision) for decision in map(decode, event.decisions)}
            rounds += [event.round] if EntitlementsSet in kinds else []
    return rounds


@pytest.mark.parametrize("part", [0.0, 0.2, 0.4, 0.6])
def test_a_change_that_nobody_decides_by_leads_to_a_report_as_each_definition_does_and_to_nothing_else(part):
    log, end_ms = of_file(THREE_TEAMS)
    lines, findings = shadowed(log, moment(end_ms, part) + 1, "/b:description=ours")
    assert lines == ["/b description:  -> ours"]
    assert findings.compared > 100
    assert {each.key.kind for each in findings.findings.values()} <= {"EntitlementsSet", "TimerPassed"}
    reports = reported(log, moment(end_ms, part))
    assert all(each.round <= reports[0] for each in findings.rounds), "the next report that was recorded settles it"


def test_a_pool_that_may_have_nothing_admits_nothing_in_each_round_in_which_it_did():
    log, end_ms = of_file(THREE_TEAMS)
    from_ms = moment(end_ms, 0.4)
    lines, findings = shadowed(log, from_ms, "/a:limit:cpu=0")
    assert lines == ["/a limit: none -> cpu 0"]
    expected = admitted(log, "/a", from_ms)
    assert expected
    kept = [each for each in findings.findings.values() if each.key.kind == "GangsAdmitted" and each.key.pool == "/a"]
    told = {each.key.job: each for each in kept}
    assert told.keys() == expected.keys()
    for job_id, rounds in expected.items():
        finding = told[job_id]
        assert (finding.rounds, finding.less, finding.more) == (len(rounds), len(rounds), 0)
        assert (finding.first.round, finding.last.round) == (min(rounds), max(rounds))
    assert not any(each.differing for name, each in findings.machines.items() if name not in ("entitlement",))


def test_later_definitions_of_the_pool_have_the_change_too():
    """Somebody meant 40 cores and wrote 4, four minutes after the start: with 40 all along the tiles are admitted."""
    log, _ = of_file(OUTAGE)
    [_, _, mistake] = log.scan(POOLS.name, 0)
    lines, findings = shadowed(log, mistake.at_ms - 60_000, "/maps:limit:cpu=41")
    assert lines == ["/maps limit: cpu 40 -> cpu 41"]
    [tiles] = [each for each in findings.findings.values() if each.key.kind == "GangsAdmitted"]
    assert (tiles.key.pool, tiles.key.job) == ("/maps", "tiles-tuesday")
    assert tiles.first.at_ms > mistake.at_ms
    assert tiles.first.at_ms < tiles.last.at_ms, "it stands until the cell has admitted them"
    assert tiles.rounds > 1


def test_a_setting_of_the_cell_is_changed_for_all_machines():
    log, end_ms = of_file(THREE_TEAMS)
    lines, findings = shadowed(log, moment(end_ms, 0.1), "cell:lend_after=1h")
    assert lines == ["cell lend_after: 1m -> 1h"]
    assert {each.key.machine for each in findings.findings.values()} == {"entitlement"}


def test_a_pool_that_is_not_there_yet_is_defined_and_whatever_is_wrong_is_refused():
    log, end_ms = of_file(THREE_TEAMS)
    from_ms = moment(end_ms, 0.5)
    assert shadowed(log, from_ms, pools={"/d": {"share": 3}})[0] == ["/d is defined"]
    for changes, pools, words in (
        (["/b:share=1"], {}, "Nothing would be changed"),
        (["/nope:share=2"], {}, "there is no pool /nope"),
        ([], {"/x/y": {"share": 1}}, "The cell would refuse this change of /x/y"),
    ):
        with pytest.raises(InvalidValue, match=words):
            shadowed(log, from_ms, *changes, pools=pools)


def test_a_file_of_all_pools_may_leave_some_as_they_are():
    log, end_ms = of_file(THREE_TEAMS)
    pools = {path: {"share": share} for path, share in {"/a": 4, "/b": 1, "/c": 1}.items()}
    lines, findings = shadowed(log, moment(end_ms, 0.2), pools=pools)
    alone = shadowed(log, moment(end_ms, 0.2), "/a:share=4")
    assert lines == alone[0]
    assert findings.findings.keys() == alone[1].findings.keys()


def test_facts_that_are_no_pools_of_the_change_stay_as_they_are():
    log, end_ms = of_file(THREE_TEAMS)
    ends = before(log, end_ms)
    order = Order(PROTOCOL, LogAddress("nowhere", 0), {name: Span(offset=ends[rounds_of(name)]) for name in MACHINES})
    settings = [tuple(read_setting("/b:share=4"))]
    for comparison in comparisons(log, None, ChangeOrder(order, {}, settings), lambda message: None):
        alter = comparison._fold.alter
        assert alter is not None
        for topic in (POOLS.name, JOBS.name):
            for record in log.scan(topic, 0):
                event, altered = decode(record.value), decode(alter(record).value)
                if isinstance(event, PoolDefined) and event.path == "/b":
                    assert (altered.share_default, altered.limit) == (4, event.limit)
                else:
                    assert altered == event
        stray = LogRecord(POOLS.name, 0, 0, b"", b"no record")
        assert alter(stray) == stray
        assert encode(event)
