"""Settings of processes: flag, then environment (PACELINE_*, `__` between levels), then file, then default.

The file is `--config`, or `paceline.toml` beside the data folder where there is one. What a decision reads is never
here: that comes as facts (`paceline pool apply`).
"""

import difflib
import os
import tomllib
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from paceline.errors import Faults

DATA_DEFAULT = Path("~/.paceline")
LISTEN_DEFAULT = "127.0.0.1:7117"
ADDRESS = r"^[^\s/:]+:[0-9]{1,5}$|^\[[0-9A-Fa-f:]+\]:[0-9]{1,5}$"


class Part(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UpPart(Part):
    """`[up]`, what `paceline up` needs beside the data folder."""

    listen: str = Field(default=LISTEN_DEFAULT, pattern=ADDRESS)
    sim_hosts: int = Field(default=0, ge=0, le=1_000_000)
    agent: bool | None = None
    """An agent for this machine; None: where there are no simulated hosts."""


class AgentPart(Part):
    """`[agent]`, what an agent needs to know. None: detected, or the name of this machine."""

    host_id: str | None = None
    folder: Path | None = None
    attributes: dict[str, str] = {}
    cpu_milli: int | None = Field(default=None, ge=1)
    memory_mib: int | None = Field(default=None, ge=1)
    disk_mib: int | None = Field(default=None, ge=0)
    gpu_milli: int | None = Field(default=None, ge=0)
    port_first: int = Field(default=31000, ge=1, le=65535)
    port_last: int = Field(default=31999, ge=1, le=65535)


class Settings(BaseSettings):
    """All settings. `server` is the address of an API, empty: of the cell that runs on `data`; `kafka` is HOST:PORT,
    empty: the embedded log.
    """

    model_config = SettingsConfigDict(
        env_prefix="PACELINE_", env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True
    )
    toml: ClassVar[Path | None] = None

    data: Path = DATA_DEFAULT
    server: str = ""
    token: SecretStr | None = None
    kafka: str = ""
    cell: int = Field(default=0, ge=0)
    up: UpPart = UpPart()
    agent: AgentPart = AgentPart()

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


class UpSettings(Part):
    """What `paceline.up.run_up` gets: everything decided."""

    data: Path
    listen: str
    sim_hosts: int
    agent: bool
    kafka: str
    cell: int


def load(config: Path | None = None, **flags: Any) -> Settings:
    """The settings of this process; flags that are None were not given. Raises `Faults`, all problems in one go."""
    given = {name: value for name, value in flags.items() if value is not None}
    data = _full(given.get("data") or os.environ.get("PACELINE_DATA") or DATA_DEFAULT)
    beside = data.parent / "paceline.toml"
    file = config or (beside if beside.is_file() else None)
    if config is not None and not config.is_file():
        raise Faults([f"{config}: there is no such file of settings"])

    class FromFile(Settings):
        toml = file

    try:
        settings = FromFile(**given)
    except ValidationError as error:
        raise Faults([_said(detail) for detail in error.errors(include_url=False)]) from error
    except tomllib.TOMLDecodeError as error:
        raise Faults([f"{file}: {error}"]) from error
    return settings.model_copy(update={"data": _full(settings.data)})


def for_up(settings: Settings) -> UpSettings:
    """What `paceline up` runs with."""
    up = settings.up
    return UpSettings(
        data=settings.data,
        listen=up.listen,
        sim_hosts=up.sim_hosts,
        agent=up.agent if up.agent is not None else up.sim_hosts == 0,
        kafka=settings.kafka,
        cell=settings.cell,
    )


def _full(path: Path | str) -> Path:
    return Path(path).expanduser().absolute()


def _said(detail: Any) -> str:
    """A problem in the words of who set it."""
    names = [str(part) for part in detail["loc"]]
    variable = "PACELINE_" + "__".join(names).upper()
    where = f"setting {'.'.join(names)} (flag, {variable} or file)"
    if detail["type"] != "extra_forbidden":
        return f"{where}: {detail['msg']}, not {detail['input']!r}"
    tables: dict[str, type[BaseModel]] = {"up": UpPart, "agent": AgentPart}
    known = list((tables.get(names[0], Settings) if names[1:] else Settings).model_fields)
    nearest = difflib.get_close_matches(names[-1], known, n=1, cutoff=0.5)
    return f"{where} is not known; {f'did you mean {nearest[0]}?' if nearest else 'known are ' + ', '.join(known)}"
