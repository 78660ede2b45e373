"""Marks agree with a naive list of changes, of which each consumer remembers how far it has looked."""

from enum import Enum

from hypothesis import given
from hypothesis import strategies as st

from processors.state.marks import Marks


class Consumer(Enum):
    """Two that look at each change, and one that is marked by itself."""

    ADMISSION = 1
    LENDING = 2
    REASONS = 3


KEYS = ("/a", "/b", "/a/x")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("touch"), st.sampled_from(KEYS)),
        st.tuples(st.just("mark"), st.sampled_from(KEYS)),
        st.tuples(st.just("take"), st.sampled_from(list(Consumer))),
        st.tuples(
            st.just("watch"), st.sampled_from(KEYS), st.sampled_from(KEYS), st.sampled_from([None, Consumer.REASONS])
        ),
        st.tuples(st.just("happen"), st.sampled_from(KEYS)),
    ),
    max_size=25,
)


class Naive:
    """All that happened, in order, and how far each consumer has looked."""

    def __init__(self) -> None:
        self.log: list[tuple[str, tuple[Consumer, ...]]] = []
        self.seen = dict.fromkeys(Consumer, 0)
        self.watches: list[tuple[str, str, Consumer | None]] = []

    def add(self, key: str, consumer: Consumer | None) -> None:
        self.log.append((key, (Consumer.ADMISSION, Consumer.LENDING) if consumer is None else (consumer,)))

    def happen(self, place: str) -> None:
        for at, key, consumer in self.watches:
            if at == place:
                self.add(key, consumer)
        self.watches = [each for each in self.watches if each[0] != place]

    def take(self, consumer: Consumer) -> list[str]:
        keys = {key for key, consumers in self.log[self.seen[consumer] :] if consumer in consumers}
        self.seen[consumer] = len(self.log)
        return sorted(keys)


@given(STEPS)
def test_each_consumer_takes_what_has_changed_since_it_looked(steps: list[tuple[object, ...]]) -> None:
    marks: Marks[Consumer, str] = Marks(Consumer, (Consumer.ADMISSION, Consumer.LENDING))
    naive = Naive()
    for step in steps:
        match step:
            case ("touch", str(key)):
                marks.touch(key)
                naive.add(key, None)
            case ("mark", str(key)):
                marks.mark(Consumer.REASONS, [key])
                naive.add(key, Consumer.REASONS)
            case ("take", Consumer() as consumer):
                assert marks.take(consumer) == naive.take(consumer)
            case ("watch", str(key), str(place), None | Consumer() as consumer):
                marks.watch(key, [place], consumer)
                naive.watches.append((place, key, consumer))
            case ("happen", str(place)):
                marks.happen([place])
                naive.happen(place)
    for consumer in Consumer:
        assert marks.take(consumer) == naive.take(consumer)


def test_a_mark_may_be_taken_by_itself() -> None:
    marks: Marks[Consumer, str] = Marks(Consumer, (Consumer.ADMISSION, Consumer.LENDING))
    marks.touch("/b")
    marks.touch("/a")
    del marks.of(Consumer.ADMISSION)["/b"]
    assert (marks.take(Consumer.ADMISSION), marks.take(Consumer.LENDING)) == (["/a"], ["/a", "/b"])


def test_nothing_is_marked_or_watched_after_all_was_forgotten() -> None:
    marks: Marks[Consumer, str] = Marks(Consumer, (Consumer.ADMISSION, Consumer.LENDING))
    marks.touch("/a")
    marks.watch("/a", ["/"])
    marks.watch("/a", ["/"], Consumer.REASONS)
    marks.clear()
    marks.happen(["/"])
    assert [marks.take(each) for each in Consumer] == [[], [], []]
