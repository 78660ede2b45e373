"""What must hold for any order of events."""

from collections import Counter

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobAccepted
from events.records.parts import TaskShape
from hostagent.gateway.desired_runs import DesiredRuns
from hostagent.task_columns import Slots
from tests.helpers.drawn import examples
from tests.helpers.machines import instances_changed
from tests.hostagent.cell import Cell, Task, TestClock, ended, ordered, stopping
from tests.hostagent.gateway.test_component import Host, settle

TASKS, HOSTS = 4, ("h1", "h2")


changes = st.tuples(st.sampled_from("abcd"), st.integers(0, 2000), st.sampled_from(["come or go", "resize", "restore"]))


@given(st.lists(changes, max_size=40))
@examples(80)
def test_no_two_jobs_share_a_slot_and_tasks_keep_what_they_hold(steps: list[tuple[str, int, str]]) -> None:
    slots = Slots({"value": "i4"})
    held: dict[str, list[int]] = {}
    for number, (job_id, tasks, what) in enumerate(steps):
        if what == "restore":
            dumped = slots.dump()
            slots = Slots({"value": "i4"})
            slots.load(dumped)
        elif what == "resize" and job_id in held:
            slots.resize(job_id, tasks)
            held[job_id] = (held[job_id] + [0] * tasks)[:tasks]
        elif held.pop(job_id, None) is not None:
            slots.give_back(job_id)
        else:
            slots.take(job_id, tasks + 1)
            held[job_id] = [number + 1] * (tasks + 1)
            place, _ = slots.find((job_id,), np.zeros(tasks + 1, np.int32), np.arange(tasks + 1))
            assert not slots["value"][place].any(), "freed slots are clean"
            slots["value"][place] = number + 1
        for name, values in held.items():
            size = len(values)
            place, known = slots.find((name,), np.zeros(size + 1, np.int32), np.arange(size + 1))
            assert known.tolist() == [True] * size + [False]
            assert slots["value"][place[:size]].tolist() == values
    ids, starts, sizes = slots.owners()
    assert dict(zip(ids, sizes.tolist(), strict=True)) == {name: len(values) for name, values in held.items()}
    assert (starts[1:] >= (starts + sizes)[:-1]).all()
    assert int(np.count_nonzero(slots["value"])) == sum(map(np.count_nonzero, held.values()))


def test_a_job_that_grows_one_by_one_moves_a_few_times() -> None:
    slots = Slots({"value": "i4"})
    moves, starts = 0, [0, 1]
    for job_id in "ab":
        slots.take(job_id, 1)
    for size in range(2, 2000):  # each is in the way of the other
        for job_id in "ab":
            slots.resize(job_id, size)
        now = sorted(slots.owners()[1].tolist())
        moves, starts = moves + (now != starts), now
    assert moves <= 2 * 20


step = st.tuples(
    st.integers(0, 2 * TASKS - 1),
    st.sampled_from(HOSTS),
    st.sampled_from(["order", "order", "stop", "end", "round", "add", "remove"]),
)


@given(st.lists(step, max_size=40), st.integers(0, 40))
@examples(40)
def test_who_follows_changes_holds_what_the_whole_set_says(steps: list[tuple[int, str, str]], connect_at: int) -> None:
    """A host that connects at any time and follows from there knows what one is told that connects at the end, whether
    the job grows and shrinks meanwhile or not.
    """
    cell = Cell(TestClock())
    cell.submit(JobSubmitted(job_id="j", pool="/p", instances=TASKS), JobSubmitted(job_id="k", pool="/p", instances=1))
    early = Host(cell)
    runs = dict.fromkeys(range(2 * TASKS), 0)
    there = set(range(TASKS))
    at: dict[int, str] = {}
    decisions: list[Event] = []
    for number, (task, host, what) in enumerate(steps):
        if number == connect_at:
            early.connect(1)
            settle(cell)
        if what == "order" and task in there - at.keys():
            runs[task] += 1
            at[task] = host
            decisions.append(ordered([("j", task, runs[task])], [host]))
        elif what == "stop" and task in at:
            decisions.append(stopping([("j", task, runs[task])], [at[task]]))
        elif what == "end" and task in at:
            del at[task]
            decisions.append(ended([("j", task, runs[task])]))
        elif what == "add" and task not in there:
            decisions.append(instances_changed("j", [*there], [task], first_run=runs[task] + 1))
            there.add(task)
        elif what == "remove" and task in there - at.keys():
            decisions.append(instances_changed("j", [*there], removed=[task]))
            there.remove(task)
        elif what == "round":
            cell.decide(*decisions)
            decisions = []
            settle(cell)
    if connect_at >= len(steps):
        early.connect(1)
    cell.decide(*decisions)
    settle(cell)
    followed: dict[Task, str] = {}
    for _, whole, items in early.items():
        followed = {} if whole else followed
        for kind, job_id, instance, run in items:
            if kind == "FORGET":
                followed.pop((job_id, instance, run), None)
            else:
                followed[job_id, instance, run] = kind
    late = Host(cell)
    late.connect(2)
    settle(cell)
    (told,) = [items for _, whole, items in late.items() if whole]
    assert followed == {(job_id, instance, run): kind for kind, job_id, instance, run in told}
    assert {(instance, run) for _, instance, run in followed} == {(task, runs[task]) for task in at if at[task] == "h1"}


PORTS = 3


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=25))
def test_tasks_keep_their_ports_while_their_job_grows_and_shrinks(steps: list[tuple[int, bool]]) -> None:
    wanted, job = DesiredRuns(), JobSubmitted(job_id="j", pool="/p", ports=("a", "b", "c"))
    wanted.asked(0, job)
    shapes = (TaskShape({}, PORTS),)
    wanted.take(JobAccepted(job_id="j", jobs_offset=0, pool="/p", kind="batch", instances=1, shapes=shapes))
    held: dict[int, tuple[int, ...]] = {}
    there, runs = {0}, Counter[int]()
    for task, reload in steps:
        if task not in there:
            wanted.take(instances_changed("j", [*there], [task], first_run=runs[task] + 1))
            there.add(task)
        elif task not in held:
            runs[task] += 1
            held[task] = (100 * task + runs[task], 7, 8)
            wanted.take(ordered([("j", task, runs[task])], ["h"], held[task]))
        else:
            del held[task]
            wanted.take(ended([("j", task, runs[task])]))
            wanted.take(instances_changed("j", [*there], removed=[task]))
            there.remove(task)
        if reload:
            dumped = msgspec.msgpack.decode(msgspec.msgpack.encode(wanted.dump()), strict=False)
            wanted = DesiredRuns()
            wanted.load(dumped)
        pieces = wanted.all_orders([wanted.host("h")])
        told = {int(at): tuple(piece.ports[row].tolist()) for piece in pieces for row, at in enumerate(piece.instance)}
        assert told == held
        assert wanted.runs(wanted.host("h")) == len(held)
