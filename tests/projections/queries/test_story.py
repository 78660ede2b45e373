"""Every fact and every decision can be read as a sentence."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from events.codec import decode
from events.columns import pack_ints
from events.records import entitlement, hosts, jobs, lifecycle, placement, pools, rounds, sla, tasks
from events.records.base import Event
from events.records.parts import UpdatePolicy
from events.records.rounds import RoundCommitted
from events.resources import Kinds
from events.topics import ALL
from projections.queries import story, story_jobs
from projections.queries.story_parts import Ref, text_of
from projections.views.job_history import details
from tests.helpers.past import past

KINDS = Kinds()
MODULES = (jobs, pools, hosts, tasks, lifecycle, entitlement, placement, sla, rounds)
RECORDS = [record for module in MODULES for record in module.ALL]


def example(record: type[Event]) -> Event:
    """A record about two items, all its fields filled in."""
    hints = get_type_hints(record)
    return record(**{field.name: _value(field.name, hints[field.name]) for field in msgspec.structs.fields(record)})


def _value(name: str, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        return (_value(name, get_args(kind)[0]),) if get_args(kind)[0] in (str, int, bytes) else ()
    if get_origin(kind) is dict:
        return {"cpu": 1000}
    plain: dict[Any, Any] = {
        str: f"the-{name}",
        int: 1,
        bool: True,
        bytes: pack_ints([0, 0]),
        UpdatePolicy: UpdatePolicy(),
    }
    return plain.get(kind)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_each_kind_of_record_is_told_in_a_sentence_that_names_what_it_is_about(record: type[Event]) -> None:
    event = example(record)
    line = story.line_of(event, KINDS)
    text = text_of(line)
    assert len(text.split()) > 1
    assert "None" not in text
    for field, kind in (("job_id", "job"), ("host_id", "host"), ("path", "pool")):
        name = getattr(event, field, None)
        assert name is None or Ref(kind, name) in line, text


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_each_kind_of_record_that_is_in_histories_of_jobs_is_told_there(record: type[Event]) -> None:
    for _, detail in details(example(record)):
        assert text_of(story_jobs.line_of(record.__name__, detail))


def told() -> Iterator[Event]:
    for topic in ALL:
        for record in past().scan(topic.name, 0):
            event = decode(record.value)
            yield event
            if isinstance(event, RoundCommitted):
                yield from map(decode, event.decisions)


def test_all_records_of_a_history_are_told_also_to_each_of_their_jobs() -> None:
    for event in told():
        assert text_of(story.line_of(event, KINDS))
        for _, detail in details(event):
            assert text_of(story_jobs.line_of(type(event).__name__, detail))


@pytest.mark.parametrize(
    ("event", "detail", "said"),
    [
        ("RunsEnded", {"tasks": 1, "outcomes": {"REPLACED": 1}, "why": {"UPDATE": 1}},
         "1 run ended: replaced by the update"),
        ("RunsEnded", {"tasks": 3, "outcomes": {"FAILED": 2, "STOPPED": 1}, "why": {"STOP": 1, "NONE": 2}},
         "3 runs ended: 2 failed, 1 stopped (1 by a user)"),
        ("DisruptionAllowed", {"tasks": 1, "free": 1},
         "1 run may be disrupted, unavailable already: no budget is spent"),
        ("RunsStopping", {"tasks": 2, "why": {"DRAIN": 2}}, "2 runs told to stop for a drain"),
        ("JobChanged", {"state": "RUNNING"}, "the job is RUNNING"),
        ("UpdateProgressed",
         {"number": 1, "now_done": "0", "counts": {"pending": 10, "in_flight": 1, "done": 1, "failed": 0}},
         "update 1: instance 0 now done; 1 of 12 done, 1 under way, 10 to come"),
    ],
)  # fmt: skip
def test_what_happened_to_a_job_is_told_in_words(event: str, detail: dict[str, Any], said: str) -> None:
    assert text_of(story_jobs.line_of(event, detail)) == said


def test_hosts_that_are_avoided_or_not_say_until_when_and_why() -> None:
    for event, said in (
        (placement.HostAvoided(host_id="h", code="CONDITION", until_ms=0), "h avoided until it is well: CONDITION"),
        (placement.HostTrusted(host_id="h", code="CONDITION", avoided=0, most=1), "h takes tasks again: CONDITION"),
        (
            placement.HostTrusted(host_id="h", code="TOO_MANY_UNHEALTHY", avoided=1, most=1),
            "h not avoided: too many unhealthy hosts (1 avoided, 1 may be): TOO_MANY_UNHEALTHY",
        ),
    ):
        assert text_of(story.line_of(event, KINDS)) == said


def test_amounts_names_and_reasons_stand_in_the_sentences() -> None:
    defined = pools.PoolDefined(path="/a", command_id="c", limit={"cpu": 2000, "memory": 4096})
    assert text_of(story.line_of(defined, KINDS)) == "/a defined: limit 2 cpu, 4GiB memory"
    columns = dict.fromkeys(("instance", "run", "job"), pack_ints([0, 0]))
    placed = placement.TasksPlaced(
        job_ids=("tiles",),
        **columns,
        host_ids=("h1",),
        host_session=b"",
        host=pack_ints([0, 0]),
        ports=b"",
        port_count=b"",
    )
    assert text_of(story.line_of(placed, KINDS)) == "tiles: 2 tasks placed on h1"
    line = story_jobs.line_of("PreemptionsOrdered", {"order": 3, "code": "HIGHER_PRIORITY", "for_job": "b", "tasks": 1})
    assert text_of(line) == "1 run preempted for b by order 3: HIGHER_PRIORITY"
