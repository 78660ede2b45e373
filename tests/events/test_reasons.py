"""The table of reasons has a row for each code, and rows say nothing that can't be told."""

from string import Formatter

import pytest

from events.codes import Code
from events.reasons import EITHER, HOST, LASTING, POOL_OWNER, REASONS, ReasonKind, kind_of, order_of
from projections.queries.reason import counted, of_code, text_of

OF_TASKS = {*counted(1), "pool"}
OF_CODE = {
    Code.HELD: {"job_id"},
    Code.MAX_RUNNING: {"max_running", "in_use"},
    Code.RUN_LIMIT: {"some"},
    Code.STOPPED: {"some", "job_id"},
    Code.CONTROLLER_OVER: {"some"},
    Code.GANG_INCOMPLETE: {"fit", "size"},
    Code.NO_GROUP_FITS: {"within", "size"},
    Code.BOUND_HOST_BUSY: {"where", "hosts", "short_of"},
    Code.BOUND_HOST_LOST: {"where", "hosts", "short_of"},
    Code.BOUND_HOST_IN_MAINTENANCE: {"where", "hosts", "short_of"},
    Code.WAITING_FOR_HOST: {"until", "instance", "host_id"},
    Code.FAILS_AT_ONCE: {"last"},
    Code.STOP_NOT_OBEYED: {"last"},
    Code.HOST_SHRUNK: {"surplus"},
    Code.STARTING: {"on", "waits"},
    Code.STOPPING: {"on", "has"},
    Code.HOST_SILENT: {"on", "since", "next", "host"},
}
"""Words that whoever tells a code gives beside those about tasks."""


def words(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_each_code_has_a_row_in_the_order_of_codes():
    assert list(REASONS) == list(Code)
    assert all(kind.code == code for code, kind in REASONS.items())


@pytest.mark.parametrize("kind", REASONS.values(), ids=str)
def test_a_row_needs_no_words_that_nobody_gives(kind: ReasonKind):
    assert words(kind.sentence) | words(kind.remedy) <= OF_TASKS | OF_CODE.get(kind.code, set())
    assert words(kind.winner) <= {"for_job", "for_pool"}
    assert not words(kind.stays)


def test_work_that_stands_aside_waits_for_hosts_and_somebody_can_act():
    for code in LASTING:
        assert REASONS[code].waits in (HOST, EITHER)
        assert REASONS[code].actor not in ("", "nobody, wait")


def test_a_lost_host_lasts_and_who_can_act_on_a_pool_is_told_though_some_of_it_passes() -> None:
    assert Code.BOUND_HOST_LOST in LASTING, "nobody waits behind what no other host may have"
    assert REASONS[Code.SHARE_OF_NOTHING].actor == POOL_OWNER
    assert REASONS[Code.CONTROLLER_LIMIT_REACHED].passes, "controllers end by themselves"


def test_hosts_that_are_on_their_way_come_before_hosts_that_are_not_there():
    for code in (Code.HOSTS_RESERVED, Code.WAITING_FOR_PREEMPTION):
        assert order_of(Code.BEHIND_IN_QUEUE) > order_of(code)
        assert order_of(Code.SHARE_OF_NOTHING) < order_of(code) < order_of(Code.NEVER_FITS)
    assert order_of("A_CODE_OF_LATER") > order_of(Code.WRONG_UNIT)


def test_a_code_of_a_later_release_is_told_as_it_is():
    assert kind_of("A_CODE_OF_LATER").actor == "operator"
    assert text_of("A_CODE_OF_LATER", counted(2)) == "2 tasks wait: A_CODE_OF_LATER"
    assert text_of(Code.LIMIT_REACHED, counted(1)) == "1 task waits: LIMIT_REACHED"  # no pool is known


def test_a_sentence_agrees_with_the_number_of_tasks():
    one, many = (of_code(Code.NO_HOSTS, "placement", counted(tasks)).message for tasks in (1, 2))
    assert one == "1 task waits because the cell has no host that takes tasks; connect hosts"
    assert many == "2 tasks wait because the cell has no host that takes tasks; connect hosts"
