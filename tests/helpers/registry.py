"""A schema registry for tests: Confluent's mock of one keeps the schemas, a server speaks its HTTP.

Compatibility, which the mock doesn't know, is judged by Apache Avro, both ways with every version.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError


class Registry:
    """The registry and what it was asked. `refuses`: the status of every answer, where it isn't 0."""

    def __init__(self) -> None:
        self.kept = SchemaRegistryClient.new_client({"url": "mock://tests"})
        self.levels: dict[str, str] = {}
        self.asked: list[str] = []
        self.refuses = 0
        self.url = ""

    def client(self) -> SchemaRegistryClient:
        """Confluent's own client, over HTTP."""
        return SchemaRegistryClient({"url": self.url})

    def texts(self, subject: str) -> list[str]:
        """All versions of a subject."""
        return [str(self.kept.get_version(subject, each).schema.schema_str) for each in self.kept.get_versions(subject)]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The status and the body of an answer."""
        if self.refuses:
            return self.refuses, {"error_code": self.refuses, "message": "not now"}
        match method, [unquote(part) for part in path.strip("/").split("/")]:
            case "GET", ["subjects"]:
                return 200, self.kept.get_subjects()
            case "GET", ["schemas", "ids", number]:
                return 200, self.kept.get_schema(int(number)).to_dict()
            case "PUT", ["config", subject]:
                self.levels[subject] = body["compatibility"]
                return 200, body
            case "POST", ["compatibility", "subjects", subject, "versions"]:
                return 200, {"is_compatible": self._fits(subject, body["schema"]), "messages": ["a field is missing"]}
            case "POST", ["subjects", subject]:
                schema = Schema(json.dumps(json.loads(body["schema"])), "AVRO")
                return 200, {**self.kept.lookup_schema(subject, schema).to_dict(), "subject": subject}
            case "POST", ["subjects", subject, "versions"]:
                if not self._fits(subject, body["schema"]):
                    return 409, {"error_code": 409, "message": "incompatible"}
                schema = Schema(json.dumps(json.loads(body["schema"])), "AVRO")  # its layout doesn't matter
                return 200, {**self.kept.register_schema_full_response(subject, schema).to_dict(), "subject": subject}
        return 404, {"error_code": 404, "message": f"no {method} {path}"}

    def _fits(self, subject: str, text: str) -> bool:
        check, new = ReaderWriterCompatibilityChecker(), parse(text)
        return all(
            check.get_compatibility(*pair).compatibility == SchemaCompatibilityType.compatible
            for old in map(parse, self.texts(subject))
            for pair in ((new, old), (old, new))
        )


@contextmanager
def registry(port: int = 0) -> Iterator[Registry]:
    """A registry that answers."""
    found = Registry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found.asked.append(f"{self.command} {self.path}")
            try:
                status, answer = found.answer(self.command, urlsplit(self.path).path, json.loads(body or b"null"))
            except SchemaRegistryError as error:
                status, answer = error.http_status_code, {"message": error.error_message}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = handle_any

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
