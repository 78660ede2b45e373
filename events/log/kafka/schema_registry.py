"""A schema registry of Confluent's kind: where one is named, records on Kafka carry its ids (decision 009).

Each record has one subject, its full name (`paceline.JobSubmitted`, Confluent's RecordNameStrategy): a topic carries
records of several types, and rounds of one type stand in four topics.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx2

from events import codec
from events.log.kafka.connection import say_on_stderr
from events.log.port import LogFault, LogUnavailable
from events.topics import EVERY

COMPATIBILITY = "FULL_TRANSITIVE"
ANSWER_SECONDS = 5.0
RETRY_SECONDS = 1.0
PATIENCE_SECONDS = 10.0
"""Seconds for which a record whose id isn't known yet waits for an unreachable registry."""
LATE_SECONDS = 0.5
"""An id that isn't there is asked for once more: a node of a registry may be a moment behind the others."""
UNKNOWN_SECONDS = 10.0
"""So long an id that wasn't there isn't asked for again."""
NOT_FOUND, CONFLICT = 404, 409
MEDIA = "application/vnd.schemaregistry.v1+json"
Say = Callable[[str], None]


def use(url: str, say: Say = say_on_stderr) -> None:
    """From now on this process writes ids of the registry at `url` to Kafka, and reads them.

    Registers the schemas, after each has been found compatible with what is registered. Waits for a registry that is
    away and says so once. Raises `LogFault`: nothing is registered then.
    """
    codec.use_ids(_registered(url, say))


def read(url: str) -> None:
    """From now on this process reads ids of the registry at `url`; it is asked when one is met. Raises `LogFault`."""
    codec.use_ids(Registry(url))


class Registry:
    """Implements `codec.Ids`. `url` may hold a name and a password. Thread-safe."""

    def __init__(self, url: str) -> None:
        try:
            parts = httpx2.URL(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.host)
        except httpx2.InvalidURL:
            is_url = False
        if not is_url:
            raise LogFault("schema_registry_url is no address. Write it like http://HOST:PORT.")
        self._name = str(parts.copy_with(userinfo=b""))
        self._http = httpx2.Client(base_url=url, timeout=ANSWER_SECONDS, headers={"Accept": MEDIA})
        self._headers: dict[bytes, bytes] = {}
        self._schemas: dict[int, Any] = {}
        self._missing: dict[int, float] = {}
        self._asking = threading.Lock()

    def header(self, print_: bytes) -> bytes | None:
        """Implements `codec.Ids.header`."""
        return self._headers.get(print_)

    def schema(self, number: int) -> Any:
        """Implements `codec.Ids.schema`. Waits a while for a registry that is away."""
        with self._asking:
            if number not in self._schemas:
                self._schemas[number] = self._fetch(number)
            return self._schemas[number]

    def register(self) -> None:
        """Registers the schemas that stand in topics by themselves, all or, where one doesn't fit, none. Raises
        `LogFault`, `LogUnavailable`.
        """
        texts = {path.stem: path.read_text() for topic in EVERY for path in topic.messages()}
        there = set(self._ask("GET", "/subjects").json())
        for name, text in texts.items():
            if _subject(name) in there:
                self._check(name, text)
        for name, text in texts.items():
            path = f"/subjects/{_subject(name)}/versions"
            if _subject(name) not in there:
                self._ask("PUT", f"/config/{_subject(name)}", {"compatibility": COMPATIBILITY})
            answer = self._ask("POST", path, {"schema": text}, also=CONFLICT)
            if answer.status_code == CONFLICT:
                raise self._differs(name, answer.json().get("message", ""))
            number = int(answer.json()["id"])
            schema = json.loads(text)
            self._schemas[number] = schema
            self._headers[codec.fingerprint_of(schema)] = codec.ID_MARKER + number.to_bytes(4, "big")

    def _check(self, name: str, text: str) -> None:
        path = f"/compatibility/subjects/{_subject(name)}/versions?verbose=true"
        answer = self._ask("POST", path, {"schema": text}).json()
        if not answer["is_compatible"]:
            raise self._differs(name, "; ".join(answer.get("messages", ())))

    def _differs(self, name: str, why: str) -> LogFault:
        return LogFault(
            f"the schema of {name} isn't compatible with what {self._name} has under {_subject(name)}: {why[:500]} "
            "Use the registry of this cell, or remove the versions that aren't of Paceline."
        )

    def _fetch(self, number: int) -> Any:
        if self._missing.get(number, 0.0) > time.monotonic():
            raise self._unknown(number)
        last = time.monotonic() + PATIENCE_SECONDS
        again = True
        while True:
            try:
                answer = self._ask("GET", f"/schemas/ids/{number}", also=NOT_FOUND)
            except LogUnavailable:
                if time.monotonic() >= last:
                    raise
                time.sleep(RETRY_SECONDS)
                continue
            if answer.status_code != NOT_FOUND:
                return _avro(number, answer.json())
            if not again:
                self._missing[number] = time.monotonic() + UNKNOWN_SECONDS
                raise self._unknown(number)
            again = False
            time.sleep(LATE_SECONDS)

    def _unknown(self, number: int) -> codec.CodecError:
        return codec.CodecError("UNKNOWN_SCHEMA", f"{self._name} has no schema {number}")

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None, also: int = 0) -> httpx2.Response:
        """The answer, of a good status or `also`. Raises `LogUnavailable` where it may come later, else `LogFault`."""
        try:
            answer = self._http.request(method, path, json=body)
        except httpx2.TransportError as error:
            raise LogUnavailable(f"the schema registry at {self._name} doesn't answer: {error}") from error
        status = answer.status_code
        if answer.is_success or status == also:
            return answer
        text = f"the schema registry at {self._name} answers {status} to {method} {path}: {answer.text[:300]}"
        raise (LogUnavailable if answer.is_server_error else LogFault)(text)


def _registered(url: str, say: Say) -> Registry:
    registry, reported = Registry(url), ""
    while True:
        try:
            registry.register()
            return registry
        except LogUnavailable as away:
            if str(away) != reported:
                reported = str(away)
                say(f"{reported}. Waiting for it.")
            time.sleep(RETRY_SECONDS)


def _avro(number: int, answer: Any) -> Any:
    if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
        raise codec.CodecError("UNKNOWN_SCHEMA", f"schema {number} is no Avro schema that stands alone")
    try:
        return json.loads(answer["schema"])
    except ValueError as error:
        raise codec.CodecError("UNKNOWN_SCHEMA", f"schema {number} is no JSON") from error


def _subject(name: str) -> str:
    return quote(f"paceline.{name}", safe="")
