"""Fixtures that several parts share."""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine

from tests.helpers.broker import Broker, answers
from tests.helpers.drawn import ALL, FEWER
from tests.helpers.signals import heard

pytest_plugins = ["tests.helpers.costs"]

# how long something takes decides no test; the suite draws the same at each run, the soak anew
settings.register_profile(
    "here",
    deadline=None,
    derandomize=not ALL,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if ALL else 100 // FEWER,
)
settings.load_profile("here")
engine.MAX_SHRINKING_SECONDS = 300 if ALL else 20  # of a failure, whose example is printed as small as it is then

heard()
signal.signal(signal.SIGTERM, signal.default_int_handler)  # who is told to end in the middle ends what it has started

OUTSIDE = {"browser", "cost", "foreign", "processes", "scenarios", "storms", "upgrade"}
"""Folders of tests that start brokers, browsers and cells of processes, or play whole cells for long; others mark those
that do.
"""
TRIALS = {"test_trial", "test_drawn_sharing", "test_drawn_updates"}
"""Files that play drawn cells."""
TOGETHER = ("processes", "faults", "browser", "security", "broker", "demo")
"""Groups of tests that run in one process since they start such things; the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make fast` leaves out, and puts what is long before what is short: workers come to their end at
    about the same time.
    """
    ranks = {}
    for item in items:
        groups = {mark.args[0] for mark in item.iter_markers("xdist_group")}
        trial = "simulate" in item.path.parts and item.path.stem in TRIALS
        if (
            trial
            or "one_broker" in getattr(item, "fixturenames", ())
            or OUTSIDE & {*item.path.parts}
            or groups & {*TOGETHER}
        ):
            item.add_marker("outside")
        together = [TOGETHER.index(each) for each in groups & {*TOGETHER}]
        ranks[item] = (*together, len(TOGETHER) + (item.get_closest_marker("outside") is None))[0]
    items.sort(key=ranks.__getitem__)


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """What a command has made of the logs ends with its test: its stream is closed then."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """A command that is run in this process, such as `paceline witness`, ends by them: they would end no other test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka, started when the first test asks for it; one per test process."""
    with Broker(tmp_path_factory.mktemp("broker") / "kafka") as running:
        yield running


@pytest.fixture
def broker(one_broker: Broker) -> Broker:
    """The broker of this test process, started again where a test that failed has left it down."""
    if not answers(one_broker.address):
        one_broker.kill()
        one_broker.start()
    return one_broker
