"""The acceptance rule against a model that keeps every accepted record and checks each claim by hand."""

from copy import copy

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from events.acceptance import NO_HASH, Acceptance, Chain, digest, parse
from events.codec import encode
from events.log.port import LogRecord
from events.records.parts import Segment
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import BrokenHistory, accept, sealed
from tests.helpers.drawn import examples


def claim(epoch: int) -> EpochStarted:
    return EpochStarted(cell=0, machine="m", epoch=epoch, claimant="c", logic=1, state=1, round=0, start_hash=NO_HASH)


def round_(epoch: int, number: int, prev: bytes, inputs: tuple[Segment, ...], cell: int = 0) -> RoundCommitted:
    return RoundCommitted(
        cell=cell,
        machine="m",
        epoch=epoch,
        round=number,
        now=0,
        caught_up=True,
        budget=1,
        inputs=inputs,
        skipped=(),
        inputs_hash=NO_HASH,
        start_hash=NO_HASH,
        seen=(),
        decisions=(),
        prev_hash=prev,
        logic=1,
        state=1,
    )


class Model:
    """The rule in its plainest form: a list of what was accepted."""

    def __init__(self) -> None:
        self.claims: list[EpochStarted] = []
        self.rounds: list[RoundCommitted] = []

    def accepts(self, record: EpochStarted | RoundCommitted) -> bool:
        if record.cell != 0 or record.machine != "m":
            return False
        if isinstance(record, EpochStarted):
            return record.epoch == len(self.claims) + 1
        if not self.claims or record.epoch != self.claims[-1].epoch or record.round != len(self.rounds) + 1:
            return False
        if record.prev_hash != (digest(encode(self.rounds[-1])) if self.rounds else NO_HASH):
            return False
        ends: dict[str, int] = {}
        for segment in [s for r in (*self.rounds, record) for s in r.inputs]:
            if ends.get(segment.topic, 0) != segment.start or segment.end <= segment.start:
                return False
            ends[segment.topic] = segment.end
        return True


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 5), max_size=60))
@examples(300)
def test_chain_and_model_take_the_same_records(draws: list[tuple[int, ...]]) -> None:
    chain, model = Chain(), Model()
    for position, (kind, epoch_off, number_off, hash_off, input_off) in enumerate(draws):
        record: EpochStarted | RoundCommitted
        if kind == 0:
            record = claim(chain.epoch + 1 - (epoch_off == 3) + (epoch_off == 2))
        else:
            start = chain.inputs.get("t", 0) + (input_off == 3)
            inputs = (Segment(topic="t", start=start, end=start + (input_off != 2)),) if input_off else ()
            prev = bytes(31) + b"x" if hash_off == 3 else chain.hash
            record = round_(
                chain.epoch - (epoch_off == 3),
                chain.round + 1 + (number_off == 3),
                prev,
                inputs,
                cell=int(kind == 3 and number_off == 3),
            )
        prev = chain.hash if isinstance(record, EpochStarted) else NO_HASH
        new = sealed(record, prev)
        written = LogRecord("paceline.m", position - 1, 0, new.key, new.value)
        try:
            accepted = accept(written, chain, "m", 0).event is not None
        except BrokenHistory:
            accepted = False
        assert accepted == model.accepts(record)
        if accepted:
            (model.claims if isinstance(record, EpochStarted) else model.rounds).append(record)  # type: ignore[arg-type]


def written(record: EpochStarted | RoundCommitted, prev: bytes = NO_HASH) -> LogRecord:
    new = sealed(record, prev)
    return LogRecord(new.topic, 7, 0, new.key, new.value)


def verdict(record: LogRecord, chain: Chain, machine: str = "m") -> Acceptance | None:
    try:
        return accept(record, chain, machine, 0).verdict
    except BrokenHistory as broken:
        return broken.verdict


def test_verdicts_name_the_cause() -> None:
    chain = Chain()
    assert verdict(written(claim(2)), chain) is Acceptance.NOT_CLAIMED
    assert verdict(written(round_(1, 1, NO_HASH, ())), chain) is Acceptance.NOT_CLAIMED
    assert verdict(written(claim(1)), chain) is Acceptance.ACCEPTED
    assert verdict(written(claim(1)), chain) is Acceptance.OLD_EPOCH
    assert verdict(written(round_(1, 2, NO_HASH, ())), chain) is Acceptance.NOT_NEXT
    assert verdict(written(round_(1, 1, b"x" * 32, ())), chain) is Acceptance.HASH_DOESNT_FIT
    gap = (Segment(topic="t", start=1, end=2),)
    assert verdict(written(round_(1, 1, NO_HASH, gap)), chain) is Acceptance.INPUTS_DONT_FIT
    first = written(round_(1, 1, NO_HASH, ()))
    assert verdict(first, chain, "other") is Acceptance.FOREIGN
    assert verdict(first._replace(value=first.value + b"x"), chain) is Acceptance.DAMAGED
    assert verdict(first._replace(key=b"m"), chain) is Acceptance.NO_KEY
    assert verdict(first, chain) is Acceptance.ACCEPTED
    assert verdict(first, chain) is Acceptance.REPEATED


def test_a_claim_names_the_round_that_it_was_folded_up_to_as_the_log_has_it() -> None:
    chain = Chain()
    accept(written(claim(1)), chain, "m", 0)
    accept(written(round_(1, 1, NO_HASH, ())), chain, "m", 0)
    behind, level = claim(2), structs.replace(claim(2), round=1)
    assert verdict(written(level, b"x" * 32), chain) is Acceptance.HASH_DOESNT_FIT
    assert chain.epoch == 1
    assert verdict(written(level, chain.hash), copy(chain)) is Acceptance.ACCEPTED
    assert verdict(written(behind), copy(chain)) is Acceptance.ACCEPTED, "its process folds what came meanwhile"


def test_a_round_says_in_its_value_which_one_it_continues_as_in_its_key() -> None:
    chain = Chain()
    accept(written(claim(1)), chain, "m", 0)
    other = written(round_(1, 1, b"x" * 32, ()))
    key = parse(other.key)
    assert key is not None
    assert verdict(other._replace(key=key._replace(prev=chain.hash).pack()), chain) is Acceptance.NOT_ITS_KEY
    assert chain.round == 0
