"""Several cells, each with its own log: a job produced to any partition is taken in its pool's cell or told which."""

from hypothesis import given
from hypothesis import strategies as st

from events.codec import decode
from events.codes import Code
from events.records.lifecycle import JobAccepted, JobRejected
from events.records.rounds import RoundCommitted
from tests.helpers.drawn import examples
from tests.helpers.whole_cell import Cell

POOLS = ("/a", "/b", "/b/x", "/c")
CELLS = st.integers(0, 2)
HOMES = st.tuples(CELLS, CELLS, CELLS).map(lambda at: {"/a": at[0], "/b": at[1], "/b/x": at[1], "/c": at[2]})
JOBS = st.lists(st.tuples(st.sampled_from(("/a", "/b/x", "/c")), CELLS), min_size=1, max_size=8)


def answers(cell: Cell) -> dict[str, JobAccepted | JobRejected]:
    found: dict[str, JobAccepted | JobRejected] = {}
    for record in cell.log.scan("paceline.lifecycle", 0):
        event = decode(record.value)
        for decision in map(decode, event.decisions) if isinstance(event, RoundCommitted) else ():
            if isinstance(decision, JobAccepted | JobRejected):
                assert decision.job_id not in found, "one answer each"
                found[decision.job_id] = decision
    return found


@examples(12)
@given(HOMES, JOBS, st.permutations(range(3)), st.booleans())
def test_every_job_is_taken_where_it_belongs_or_told_where(
    homes: dict[str, int], jobs: list[tuple[str, int]], order: list[int], pools_first: bool
) -> None:
    cells = [Cell(hosts=1, number=number) for number in range(3)]

    def define() -> None:
        for path in POOLS:
            for number in order:
                cells[number].pool(path, cell=homes[path])

    def submit() -> None:
        for number, (pool, cell) in enumerate(jobs):
            cells[cell].submit(f"j{number}", pool)

    for step in (define, submit) if pools_first else (submit, define):
        step()
        for cell in cells:
            cell.quiet()
    for cell in cells:
        cell.run(3000, step=500)
        cell.verify()
    for number, (pool, produced_to) in enumerate(jobs):
        told = answers(cells[produced_to])[f"j{number}"]
        if homes[pool] == produced_to:
            assert isinstance(told, JobAccepted)
            assert cells[produced_to].state(f"j{number}") == "SUCCEEDED"
        else:
            assert isinstance(told, JobRejected)
            assert (told.code, told.cell) == (Code.WRONG_CELL, homes[pool])
    for number, cell in enumerate(cells):
        assert all(homes[row.pool] == number for row in cell.lifecycle.jobs.values())
