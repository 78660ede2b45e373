"""The connection to Kafka: the options of its clients, and whether it answers, as they see it.

A broker that was cut off from its controllers for a moment names no broker at all when it is asked for them. A client
of librdkafka that gets this answer forgets all brokers and asks none any more, for ever (its issue 5301, open in 2.16).
So the owner of a client that gets no answers for long replaces it.
"""

import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from events.log.port import LogError, LogFault, LogUnavailable
from events.topics import RECORD_BYTES_MAX

ASK_SECONDS = 2.0
"""Seconds for which the ends of topics are asked for again where the asker can do without, or no broker answers."""
RECENT_SECONDS = 1.0
Options = Mapping[str, str | int | bool]
"""Settings of librdkafka by name."""
Client = TypeVar("Client")

READERS = "paceline.readers"
"""The group that readers name, and look up without joining it."""

COMMON: dict[str, Any] = {
    "log_level": 0,  # what matters comes through `error_cb`
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "socket.timeout.ms": 5000,  # a request to a broker that froze is sent to the next leader after this
    "socket.connection.setup.timeout.ms": 5000,
    "api.version.request.timeout.ms": 3000,
    "socket.keepalive.enable": True,
    "socket.nagle.disable": True,
}
PRODUCER: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "lz4",
    "message.max.bytes": RECORD_BYTES_MAX,
    "linger.ms": 0,
    "message.timeout.ms": 30_000,
}
CONSUMER: dict[str, Any] = {
    "group.id": READERS,  # the client wants one; nothing is committed and no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.wait.max.ms": 500,  # a record that comes ends the wait
    "fetch.queue.backoff.ms": 10,
    "fetch.error.backoff.ms": 50,
    "fetch.message.max.bytes": RECORD_BYTES_MAX,
    "topic.metadata.propagation.max.ms": 3000,  # a topic that is gone is an error, not one that is still to come
}
OWN = frozenset(
    (
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "check.crcs",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "metadata.broker.list",
        "partition.assignment.strategy",
        "request.required.acks",
    )
)
"""Options that nobody else may set: the promises of the log rest on them."""
AWAY = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._FAIL,
)
NO_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
)
MOVING = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._WAIT_CACHE,
    KafkaError._NODE_UPDATE,
    KafkaError._UNKNOWN_BROKER,
    KafkaError._DESTROY_BROKER,
    KafkaError._OUTDATED,
    KafkaError._RETRY,
)
"""A partition's leader changes, or is only just chosen, or the client gives up a broker that it was to ask: soon there
is an answer.
"""
FAILING = (KafkaError.UNKNOWN, KafkaError.KAFKA_STORAGE_ERROR)
"""The broker itself fails, as one does before it ends whose disk is full."""
PASSING = (*AWAY, *MOVING, *FAILING)
DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
"""The user has been let in and may not do this."""
_QUIET = logging.Logger("paceline.kafka", logging.CRITICAL + 1)
"""librdkafka would write what is fatal to stderr by itself, once more and in a form of its own."""
_WHERE = re.compile(r"^\S+://\S+: | \(after \d+ms in state \S+\)$")


def say_on_stderr(line: str) -> None:
    """The default of `on_trouble`."""
    sys.stderr.write(line + "\n")


class Link:
    """The clients of one process or part, and whether the broker answers them; says each change once. `extra` are
    settings of librdkafka (security, timeouts).
    """

    def __init__(
        self, bootstrap: str, on_trouble: Callable[[str], None] = say_on_stderr, extra: Options | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.away = False
        self.closing = False
        """Nothing is waited for any more."""
        self._extra = dict(extra or {})
        self._ever_connected = False
        self._refusal = ""
        self._stalled = ""
        self._leaderless: set[str] = set()
        self._reported = ""
        self._last_answer_at = -RECENT_SECONDS
        self._doubted_at = 0.0
        self._on_trouble = on_trouble
        self._changing = threading.Lock()

    def client(self, make: Callable[[dict[str, Any]], Client], own: Mapping[str, Any]) -> Client:
        """A client of Kafka. Raises `LogFault` where an option is wrong or not to be set."""
        reserved = sorted(OWN & self._extra.keys())
        if reserved:
            raise LogFault(f"The Kafka option {reserved[0]} can't be set: the promises of the log rest on it.")
        ours = {"bootstrap.servers": self.bootstrap, "error_cb": self.on_error, "logger": _QUIET}
        options = {**COMMON, **own, **ours, **self._extra}
        try:
            return make(options)
        except KafkaException as error:
            raise LogFault(f"A Kafka option is wrong: {error.args[0].str()}.") from error

    @property
    def refused(self) -> bool:
        """Whether security is in the way, and has been from the start: waiting won't help."""
        return bool(self._refusal) and not self._ever_connected

    @property
    def trouble(self) -> str:
        """The sentence about it for health endpoints; empty: it answers."""
        if self.away:
            return self._sentence()
        return self._stalled or (self._without(self._leaderless) if self._leaderless else "")

    def on_error(self, error: KafkaError) -> None:
        """Takes what a client says about itself (`error_cb`)."""
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or "PLAINTEXT broker" in error.str():
            self._refusal = _WHERE.sub("", error.str())
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            return
        # Old news comes late, from clients that were not asked meanwhile: it counts when nothing answers after it.
        if time.monotonic() > self._last_answer_at + RECENT_SECONDS:
            self.lost()
        elif not self._doubted_at:
            self._doubted_at = time.monotonic()

    def look(self) -> None:
        """Believes a doubt that nothing has dispelled for a while. Raises `LogFault` where waiting won't help,
        `LogUnavailable` where nobody is to wait.
        """
        if self.closing:
            raise LogUnavailable(f"The line to Kafka at {self.bootstrap} is closed.")
        if self._doubted_at and time.monotonic() > self._doubted_at + RECENT_SECONDS:
            self._doubted_at = 0.0
            self.lost()
        if self.refused:
            raise self.failure()

    def lost(self) -> None:
        """The broker doesn't answer. Where waiting won't help, who asks next is told by an error."""
        with self._changing:
            self.away = True
            previous, self._reported = self._reported, self._sentence()
        if previous != self._reported and not self.refused:
            self._on_trouble(self._reported)

    def found(self) -> None:
        """The broker has answered."""
        self._last_answer_at, self._doubted_at, self._ever_connected = time.monotonic(), 0.0, True
        if not self.away:
            return
        with self._changing:
            was_reachable, self.away = not self.away, False
            self._refusal = self._reported = ""
        if not was_reachable:
            self._on_trouble(f"Kafka at {self.bootstrap} answers again.")

    def stalled(self, sentence: str) -> None:
        """The broker answers, and takes no appends."""
        if not self._stalled and not self.away:
            self._on_trouble(sentence)
        self._stalled = sentence

    def flows(self) -> None:
        """The broker has taken an append."""
        if self._stalled:
            self._stalled = ""
            self._on_trouble(f"Kafka at {self.bootstrap} takes appends again.")

    def unanswered(self, topics: Sequence[str]) -> LogUnavailable:
        """The broker answers, and knows nobody who answers for these topics."""
        if not self._leaderless and not self.away:
            self._on_trouble(self._without(topics))
        self._leaderless |= set(topics)
        return LogUnavailable(self._without(topics))

    def answered(self, topics: Sequence[str]) -> None:
        """There is an answer for these topics."""
        self.found()
        if self._leaderless:
            self._leaderless -= set(topics)
            if not self._leaderless:
                self._on_trouble(f"Kafka at {self.bootstrap} answers for all topics again.")

    def error(self, error: KafkaError, cell: int, topics: Sequence[str], right: str) -> LogError:
        """The error for a caller who asked about topics of a cell, from a client's error; `right`: what that takes."""
        if error.code() in NO_TOPIC:
            return self.no_topic(cell, topics)
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return self.denied(error, "Describe", [f"group {READERS}"])
        if error.code() in DENIED:
            return self.denied(error, right, topics)
        if error.code() in PASSING or error.retriable():
            return self.unavailable(error, topics)
        return LogFault(f"Kafka at {self.bootstrap} refuses: {error.str()}.")

    def unavailable(self, error: KafkaError, topics: Sequence[str]) -> LogError:
        """The error for a question that was not answered in time."""
        if error.code() not in AWAY:
            return self.unanswered(topics)
        self.lost()
        return self.failure()

    def no_topic(self, cell: int, topics: Sequence[str]) -> LogFault:
        """The error for a topic that isn't there; one that the user may not see looks the same."""
        unseen = ", or this user may not see it" if "security.protocol" in self._extra else ""
        return LogFault(
            f"Kafka at {self.bootstrap} has no partition {cell} of {' or '.join(topics)}{unseen}. If it had, restore "
            "it; if it is new, run `paceline log topics --create`."
        )

    def denied(self, error: KafkaError, right: str, on: Iterable[str]) -> LogFault:
        """The error for something that the user may not do: the operation of Kafka that it lacks, and on what."""
        user = self._extra.get("sasl.username") or "of the Kafka options"
        return LogFault(
            f"Kafka at {self.bootstrap} doesn't allow it: {error.str().rstrip('.')}. Give user {user} {right} on "
            f"{', '.join(on)}, with `kafka-acls.sh`; `paceline log acls` prints what each process needs."
        )

    def failure(self) -> LogFault | LogUnavailable:
        """The error for a question that was not answered."""
        if not self._refusal:
            # a listener that asks for TLS only hangs up on who comes without
            secure = (
                ""
                if self._ever_connected or "security.protocol" in self._extra
                else " Does it ask for TLS or a password?"
            )
            return LogUnavailable(f"Kafka at {self.bootstrap} can't be reached. Start it; it is tried again.{secure}")
        return LogUnavailable(self._sentence()) if self._ever_connected else LogFault(self._sentence())

    def _sentence(self) -> str:
        if self._refusal:
            return f"No secure connection to Kafka at {self.bootstrap}: {self._refusal}. Check the Kafka options."
        return f"Kafka at {self.bootstrap} can't be reached: waiting for it."

    def _without(self, topics: Iterable[str]) -> str:
        return (
            f"Kafka at {self.bootstrap} can't answer for {', '.join(sorted(topics))} now: a leader is missing. "
            "Waiting for it; are enough of its brokers there?"
        )
