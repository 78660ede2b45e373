"""The health check of a job: how users write it, and how it stands in records."""

from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from events.bounds import CHECK_EVERY_MS_MIN, CHECKS_MAX, STRINGS_MAX, URL_PATH, WORD_MAX
from events.quantities import Milliseconds, SomeMilliseconds, write_ms
from events.records.parts import HealthCheck
from events.spec.parts import Spec, Text, Word, at

Checks = Annotated[int, Field(ge=1, le=CHECKS_MAX)]


class HttpCheck(Spec):
    """A GET request to a port of the task, on 127.0.0.1; an answer of 200 to 399 passes."""

    port: Word = Field(description="Name of a port of the job.")
    path: Annotated[str, StringConstraints(pattern=rf"^{URL_PATH.pattern}$", max_length=WORD_MAX)] = Field(
        default="/", description="Path of the request."
    )


class TcpCheck(Spec):
    """A connection to a port of the task, on 127.0.0.1; one that is accepted passes."""

    port: Word = Field(description="Name of a port of the job.")


class Health(Spec):
    """How an agent checks whether a run is healthy: exactly one of command, http, tcp. A run is available once it is
    healthy, and is ended when it fails.
    """

    command: list[Text] | None = Field(
        default=None,
        min_length=1,
        max_length=STRINGS_MAX,
        description="Program and arguments, run as the task is; the exit code 0 passes.",
    )
    http: HttpCheck | None = Field(default=None, description="A request over HTTP.")
    tcp: TcpCheck | None = Field(default=None, description="A connection over TCP.")
    delay: Milliseconds = Field(
        default=0, json_schema_extra={"default": "0s"}, description="Between the start of a run and its first check."
    )
    interval: SomeMilliseconds = Field(
        default=10_000, json_schema_extra={"default": "10s"}, description="Between two checks, at least 100ms."
    )
    timeout: SomeMilliseconds = Field(
        default=5_000, json_schema_extra={"default": "5s"}, description="A check that takes longer fails."
    )
    failures: Checks = Field(default=3, description="So many failed checks in a row end the run.")
    successes: Checks = Field(default=1, description="So many passed checks in a row make it healthy.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.command, self.http, self.tcp)) != 1:
            raise at("", "must have exactly one of command, http, tcp", None)
        if self.interval < CHECK_EVERY_MS_MIN:
            raise at("interval", f"must be at least {write_ms(CHECK_EVERY_MS_MIN)}", self.interval)
        return self

    @property
    def port(self) -> str:
        """The name of the port that is asked; empty: none."""
        check = self.http or self.tcp
        return check.port if check is not None else ""

    def to_part(self) -> HealthCheck:
        """The part of the fact."""
        return HealthCheck(
            kind="http" if self.http else "tcp" if self.tcp else "command",
            command=tuple(self.command or ()),
            port=self.port,
            path=self.http.path if self.http else "",
            delay_ms=self.delay,
            interval_ms=self.interval,
            timeout_ms=self.timeout,
            failures=self.failures,
            successes=self.successes,
        )


def health_body(check: HealthCheck) -> dict[str, Any]:
    """The JSON of a health check."""
    ways: dict[str, Any] = {
        "command": list(check.command),
        "http": {"port": check.port, "path": check.path},
        "tcp": {"port": check.port},
    }
    return {
        check.kind: ways.get(check.kind),
        "delay": write_ms(check.delay_ms),
        "interval": write_ms(check.interval_ms),
        "timeout": write_ms(check.timeout_ms),
        "failures": check.failures,
        "successes": check.successes,
    }
