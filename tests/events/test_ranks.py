"""Each rank has its row, and is read from a record as it was written."""

import pytest

from events.columns import ints
from events.ranks import RANKS, RESERVES, SERVED, Rank, RankRow, are_entitled, entitled_of, ranks_of, with_place
from events.records.entitlement import GangsAdmitted

WRITTEN = [row for row in RANKS if row.written is not None]


def test_each_rank_has_its_row_at_its_number():
    assert [row.rank for row in RANKS] == list(Rank)
    assert [int(row.rank) for row in RANKS] == list(range(len(RANKS)))
    assert sorted(row.written for row in WRITTEN if row.written is not None) == list(range(len(WRITTEN)))


def test_tasks_wait_for_a_place_at_every_rank_at_which_they_are_admitted():
    assert sorted(SERVED) == [rank for rank in Rank if rank != Rank.WAITING]
    assert set(RESERVES) <= {row.rank for row in RANKS if row.entitled} <= {*SERVED}


@pytest.mark.parametrize("row", RANKS, ids=lambda row: row.rank.name)
def test_arrays_of_ranks_mean_what_the_rows_say(row: RankRow):
    ranks = ints(bytes(4 * [0])) + row.rank
    assert are_entitled(ranks).tolist() == [row.entitled]
    assert with_place(ranks).tolist() == [row.placed]
    assert not RANKS[row.placed].parked, "a run with a place counts under limits"


@pytest.mark.parametrize("row", WRITTEN, ids=lambda row: row.rank.name)
def test_a_record_has_the_rank_that_was_written(row: RankRow):
    one = [0]
    event = GangsAdmitted.pack(
        job_ids=("a",), job=one, first=one, count=[1], run=[1], gang=one, entitled=entitled_of([row.rank])
    )
    assert event.entitled_array.tolist() == [row.written]
    assert ranks_of(event).tolist() == [row.rank]
