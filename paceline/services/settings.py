"""Settings of processes: flag, then environment (PACELINE_*, `__` between levels), then file, then default.

The file is `--config`, or `paceline.toml` beside the data folder where there is one. What a decision reads is never
here: that comes as facts (`paceline pool apply`). `origins` says where each value comes from.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from events.bounds import ALARM_UNREAD_MS, CONDITION, DEVICE
from events.quantities import Mebibytes, Milliseconds, write_ms
from events.time_units import span_s
from paceline.client.cell_file import DATA_DEFAULT
from paceline.client.errors import Faults
from paceline.services.processes import default_listen

EXAMPLE_TOKEN = "change-me"
"""The token in `deploy/systemd/paceline.env`, which is to be edited."""
ISSUER = r"^https://[^\s?#]+$|^http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[^\s?#]*)?$"
ADDRESS = r"^[^\s/:]+:[0-9]{1,5}$|^\[[0-9A-Fa-f:]+\]:[0-9]{1,5}$"


class WrongSettings(Faults):
    """Settings make no sense: starting again doesn't help."""

    exit_code = 2


def _seconds(value: Any) -> Any:
    """Seconds of a time with a unit; a number is seconds already."""
    seconds = span_s(value) if isinstance(value, str) else None
    return value if seconds is None else seconds


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
AlarmUnread = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400)]


class SettingsTable(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UpPart(SettingsTable):
    """`[up]`, what `paceline up` needs beside the data folder."""

    listen: str = Field(default=default_listen("api"), pattern=ADDRESS)
    sim_hosts: int = Field(default=0, ge=0, le=1_000_000)
    agent: bool | None = None
    """An agent for this machine; None: where there are no simulated hosts."""


class HealthPart(SettingsTable):
    """`[agent.health.NAME]`, a command that checks the host, run as the user of the agent every `interval`: the host
    isn't well once it has failed, or has taken longer than `timeout`, `failures` times in a row, and well again after
    `successes`.
    """

    command: list[str] = Field(min_length=1)
    interval: Milliseconds = Field(default=60_000, ge=1_000)
    timeout: Milliseconds = Field(default=10_000, ge=100)
    failures: int = Field(default=3, ge=1, le=1_000)
    successes: int = Field(default=1, ge=1, le=1_000)


class AgentPart(SettingsTable):
    """`[agent]`, what an agent needs to know. None: the name of this machine, or of its certificate; `join`: a token by
    which it gets that. `resources`: what the host offers instead of what is detected or beside it, written as in jobs.
    `taints`: only tasks that tolerate them run there. `run_as`: the user as whom tasks run, empty: the agent's.
    `isolation`: the least that keeps runs apart; auto: cgroup where tasks run as another user and the host can. Of
    containers: `device_files` that they may have; `user_namespace`, FIRST:NUMBER, the uids and gids of the host that
    their users are mapped to, empty: they are not; images that no run has used for `images_unused` are removed, and
    more where all take more than `images_max`. `devices`: a file of the devices and cores of the host, or `nvidia`: its
    GPUs are asked for; empty: they are counted. `cores`: tasks may have whole cores of the host for themselves.
    `output_runs`: the runs that have ended which are kept for their output, in all within `output_mib`, and for
    `output_age`, or `failed_output_age` where they failed: seconds, or times with a unit. `health`: commands that check
    the host.
    """

    host_id: str | None = None
    join: SecretStr | None = None
    folder: Path | None = None
    attributes: dict[str, str] = {}
    taints: dict[str, str] = {}
    resources: dict[str, float | str] = {}
    run_as: str = ""
    isolation: Literal["auto", "none", "cgroup"] = "auto"
    output_runs: int = Field(default=200, ge=1, le=1_000_000)
    output_mib: int = Field(default=1024, ge=1)
    output_age: Seconds = 7 * 86_400.0
    failed_output_age: Seconds = 30 * 86_400.0
    device_files: list[Annotated[str, Field(pattern=rf"^{DEVICE.pattern}$")]] = []
    user_namespace: str = Field(default="", pattern=r"^([0-9]{1,9}:[0-9]{1,9})?$")
    images_max: Mebibytes = 20 * 1024
    images_unused: Milliseconds = 7 * 86_400_000
    devices: str = ""
    cores: bool = False
    port_first: int = Field(default=31000, ge=1, le=65535)
    port_last: int = Field(default=31999, ge=1, le=65535)
    health: dict[Annotated[str, Field(pattern=rf"^{CONDITION.pattern}$")], HealthPart] = {}


class ServicePart(SettingsTable):
    """`[service]`, what the processes of a cell share where each part is one of its own. `listen`: of health pages,
    metrics and HTTP, empty: 127.0.0.1 and the port of its kind (`PROCESSES`). `address_file`: gets that address
    once the process listens. `name`: of this process over restarts, empty: the name of this machine and the data
    folder. `sim_hosts`: hosts that a gateway simulates; `gateways`: addresses that an API asks for the output of runs,
    and those of the cell of an agent; `secrets`: the folder in which the gateways of a cell keep secrets, one for all;
    `host_ca`: that of the CA by which they give hosts certificates; `signing_keys`: that of the keys by which gateways
    and APIs sign, one for all of them.
    """

    listen: str = Field(default="", pattern=rf"^$|{ADDRESS}")
    address_file: Path | None = None
    name: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,100}$")
    session_timeout_ms: int = Field(default=6000, ge=1000, le=300_000)
    sim_hosts: int = Field(default=0, ge=0, le=1_000_000)
    gateways: tuple[str, ...] = ()
    secrets: Path | None = None
    host_ca: Path | None = None
    signing_keys: Path | None = None


class TlsPart(SettingsTable):
    """`[tls]`. `cert`, `key`: files in PEM, of a server those that it shows, with the chain of its CA; of an agent
    those of its host. `client_ca`: the CAs whose certificates a server takes from clients.
    """

    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


class OidcPart(SettingsTable):
    """`[oidc]`, the issuer whose tokens prove who asks, empty: none. `client_id`: the client that the cell is there,
    for the sign-in; `audience`: what tokens of other clients must be for; `subject_claim`, `groups_claim`: the claims
    with the name and the groups of a user; `scopes`: what a sign-in asks for.
    """

    issuer: str = Field(default="", pattern=rf"^$|{ISSUER}")
    client_id: str = ""
    client_secret_file: Path | None = None
    audience: str = ""
    subject_claim: str = "sub"
    groups_claim: str = "groups"
    scopes: str = Field(default="openid profile email", pattern=r"(^| )openid( |$)")


class ViewsPart(SettingsTable):
    """`[views]`, views of the past. A copy of the views is made after every `copy_every` records, of which a large one
    counts as one for each 100 bytes. `make_s`: seconds that making views of a moment may take; `made_mib`: space for
    those that were made.
    """

    copy_every: int = Field(default=25_000, ge=1)
    make_s: float = Field(default=120, gt=0)
    made_mib: int = Field(default=4096, ge=1)


class ForecastPart(SettingsTable):
    """`[forecast]`, when waiting jobs are expected to begin. `cpu_percent`: of one core that forecasts may take."""

    cpu_percent: float = Field(default=5, gt=0, le=100)


class WhatIfPart(SettingsTable):
    """`[what_if]`, questions that pages and API ask: the seconds and the MiB of memory that one may take."""

    run_s: float = Field(default=600, gt=0)
    memory_mib: int = Field(default=2048, ge=512)


class LogsPart(SettingsTable):
    """`[logs]`, what processes write to stderr about themselves."""

    form: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Origin(NamedTuple):
    """Where the value of a setting comes from: flag, the name of a variable, a file, or default."""

    name: str
    value: Any
    origin: str


class Settings(BaseSettings):
    """All settings. `server` is the address of an API, empty: of the cell that runs on `data`; `ca` the file of the CAs
    by which certificates of servers are verified, None: those of the machine; `kafka` is HOST:PORT,
    empty: the embedded log; `kafka_options` are librdkafka's by name, for its security;
    `schema_registry_url`: http://[NAME:PASSWORD@]HOST:PORT, empty: none. `snapshots` and `archive` are addresses of
    fsspec, empty: none; a processor takes a snapshot after every `snapshot_every` offsets of the log. A machine that
    leaves a record unread for longer than `alarm_unread_after` is an alarm: seconds, or a time with a unit.
    """

    model_config = SettingsConfigDict(
        env_prefix="PACELINE_", env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True
    )
    toml: ClassVar[Path | None] = None

    data: Path = DATA_DEFAULT
    server: str = ""
    token: SecretStr | None = None
    ca: Path | None = None
    kafka: str = ""
    kafka_options: dict[str, str] = {}
    schema_registry_url: str = ""
    snapshots: str = ""
    snapshot_every: int = Field(default=20_000, ge=1)
    archive: str = ""
    cell: int = Field(default=0, ge=0)
    alarm_unread_after: AlarmUnread = ALARM_UNREAD_MS / 1000
    up: UpPart = UpPart()
    agent: AgentPart = AgentPart()
    service: ServicePart = ServicePart()
    logs: LogsPart = LogsPart()
    views: ViewsPart = ViewsPart()
    forecast: ForecastPart = ForecastPart()
    what_if: WhatIfPart = WhatIfPart()
    tls: TlsPart = TlsPart()
    oidc: OidcPart = OidcPart()
    _origins: tuple[Origin, ...] = PrivateAttr(default=())

    @field_validator("token")
    @classmethod
    def _own_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and token.get_secret_value() == EXAMPLE_TOKEN:
            raise PydanticCustomError("token", "is that of the example; make one with `openssl rand -hex 32`")
        return token

    @property
    def alarm_unread_ms(self) -> int:
        """`alarm_unread_after` in milliseconds."""
        return round(self.alarm_unread_after * 1000)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Every setting by name, with its origin, where they were loaded; secrets are not shown."""
        return self._origins

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls.toml)


TABLES: dict[str, type[BaseModel]] = {
    "up": UpPart,
    "agent": AgentPart,
    "service": ServicePart,
    "logs": LogsPart,
    "views": ViewsPart,
    "forecast": ForecastPart,
    "what_if": WhatIfPart,
    "tls": TlsPart,
    "oidc": OidcPart,
}


class UpSettings(SettingsTable):
    """Settings of `paceline.services.up.run_up`, all resolved. `host`: those of the agent of this machine."""

    data: Path
    listen: str
    sim_hosts: int
    agent: bool
    kafka: str
    cell: int
    kafka_options: dict[str, str] = {}
    schema_registry_url: str = ""
    archive: str = ""
    host: AgentPart = AgentPart()
    tls: TlsPart = TlsPart()
    oidc: OidcPart = OidcPart()
    views: ViewsPart = ViewsPart()
    forecast: ForecastPart = ForecastPart()
    what_if: WhatIfPart = WhatIfPart()
    signing_keys: Path | None = None
    alarm_unread_after: AlarmUnread = ALARM_UNREAD_MS / 1000
    origins: tuple[Origin, ...] = ()

    @property
    def alarm_unread_ms(self) -> int:
        """`alarm_unread_after` in milliseconds."""
        return round(self.alarm_unread_after * 1000)


def load(config: Path | None = None, **flags: Any) -> Settings:
    """The settings of this process; flags that are None were not given. Raises `WrongSettings`: all problems."""
    overrides = _overrides(flags)
    settings, file = _load(config, overrides)
    settings._origins = tuple(_origins(settings, file, overrides))  # noqa: SLF001 - pydantic sets private fields only so
    return settings


def origins(config: Path | None = None, **flags: Any) -> list[Origin]:
    """Every setting of this process, by name, with its origin; secrets are not shown. Raises `WrongSettings`."""
    return list(load(config, **flags).origins)


def _origins(settings: Settings, file: Path | None, overrides: dict[str, Any]) -> Iterator[Origin]:
    environment = _leaves(EnvSettingsSource(Settings)())
    from_file = _leaves(tomllib.loads(file.read_text()) if file else {})
    from_flags = _leaves(overrides)
    for name, value in _leaves(settings.model_dump()).items():
        if name in from_flags:
            origin = "flag"
        elif name in environment:
            origin = _variable(name)
        else:
            origin = str(file) if name in from_file else "default"
        yield Origin(name, _shown(name, value), origin)


def _variable(name: str) -> str:
    """The variable that a setting comes from: its own, or the nearest above that holds it in JSON."""
    parts = name.upper().split(".")
    environment = {each.upper() for each in os.environ}
    names = ("PACELINE_" + "__".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((each for each in names if each in environment), "PACELINE_" + "__".join(parts))


def _overrides(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _load(config: Path | None, overrides: dict[str, Any]) -> "tuple[Settings, Path | None]":
    data = _full(overrides.get("data") or os.environ.get("PACELINE_DATA") or DATA_DEFAULT)
    default_file = data.parent / "paceline.toml"
    file = config or (default_file if default_file.is_file() else None)
    if config is not None and not config.is_file():
        raise WrongSettings([f"{config}: there is no such file of settings"])

    class FromFile(Settings):
        toml = file

    try:
        settings = FromFile(**overrides)
    except ValidationError as error:
        raise WrongSettings([_message(detail) for detail in error.errors(include_url=False)]) from error
    except SettingsError as error:
        raise WrongSettings([f"an environment variable can't be read: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise WrongSettings([f"{file}: {error}"]) from error
    except UnicodeDecodeError as error:
        raise WrongSettings([f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}"]) from error
    return settings.model_copy(update={"data": _full(settings.data)}), file


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a tree by dotted name; the tables of `Settings` and its maps are branches, all else is a leaf."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            out |= _leaves(value, f"{prefix}{name}.")
        else:
            out[prefix + name] = value
    return out


def _shown(name: str, value: Any) -> Any:
    if name.startswith("kafka_options.") and any(word in name for word in ("password", "secret", "key")):
        return "***"
    if name == "schema_registry_url":
        return re.sub("//[^/@]*@", "//***@", value)
    return "***" if isinstance(value, SecretStr) else value


def for_up(settings: Settings) -> UpSettings:
    """Resolves the settings of `paceline up`."""
    up = settings.up
    return UpSettings(
        data=settings.data,
        listen=up.listen,
        sim_hosts=up.sim_hosts,
        agent=up.agent if up.agent is not None else up.sim_hosts == 0,
        kafka=settings.kafka,
        cell=settings.cell,
        kafka_options=settings.kafka_options,
        schema_registry_url=settings.schema_registry_url,
        archive=settings.archive,
        host=settings.agent,
        views=settings.views,
        forecast=settings.forecast,
        what_if=settings.what_if,
        tls=settings.tls,
        oidc=settings.oidc,
        signing_keys=settings.service.signing_keys,
        alarm_unread_after=settings.alarm_unread_after,
        origins=settings.origins,
    )


def _full(path: Path | str) -> Path:
    return Path(path).expanduser().absolute()


def _bare(text: str) -> bool:
    """Whether a text is the name or the address of a host without a port."""
    return re.fullmatch(r"[A-Za-z0-9.-]+", text) is not None


def _message(detail: Any) -> str:
    """A problem in the words of who set it."""
    names = [str(part) for part in detail["loc"]]
    variable = "PACELINE_" + "__".join(names).upper()
    where = f"setting {'.'.join(names)} (flag, {variable} or file)"
    if detail["type"] == "string_pattern_mismatch" and names[-1] == "listen":
        return f"{where}: write HOST:PORT, such as {detail['input'] if _bare(detail['input']) else '127.0.0.1'}:7117"
    if detail["type"] == "string_pattern_mismatch" and names[0] == "oidc":
        needs = {"issuer": "write its URL: https://..., or http:// on this machine", "scopes": "openid must be one"}
        return f"{where}: {needs[names[-1]]}, not {detail['input']!r}"
    if names[-1:] == ["command"] and detail["type"] == "too_short":
        return f'{where}: name the program and its arguments, such as ["/usr/sbin/check", "-q"]'
    if detail["type"] == "greater_than_equal" and names[-1] in ("interval", "timeout") and "health" in names:
        return f"{where}: must be {write_ms(int(detail['ctx']['ge']))} or more"
    if detail["type"] != "extra_forbidden":
        return f"{where}: {detail['msg']}, not {detail['input']!r}"
    table = HealthPart if names[:2] == ["agent", "health"] and len(names) > 3 else TABLES.get(names[0], Settings)
    fields = list((table if names[1:] else Settings).model_fields)
    nearest = difflib.get_close_matches(names[-1], fields, n=1, cutoff=0.5)
    return f"{where} is not known; {f'did you mean {nearest[0]}?' if nearest else 'known are ' + ', '.join(fields)}"
