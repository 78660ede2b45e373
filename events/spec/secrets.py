"""The secrets of a job in its spec: by name, or by name and version."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from events.records.parts import Secret as SecretPart
from events.secret_names import secrets_fault
from events.spec.parts import Spec


class Secret(Spec):
    """A secret that a job names."""

    name: str = Field(description="Its name, as it was put.")
    version: int = Field(default=0, description="The version; 0: the newest when the job is submitted.")

    def to_part(self) -> SecretPart:
        """The part of the fact; version 0 where it isn't known yet."""
        return SecretPart(name=self.name, version=self.version)


def _by_name(value: Any) -> Any:
    """A name alone is that of a secret."""
    return {"name": value} if isinstance(value, str) else value


def _fitting(secrets: list[Secret]) -> list[Secret]:
    if fault := secrets_fault(secrets, open_versions=True):
        raise PydanticCustomError("secrets", "{what}", {"what": fault})
    return secrets


Secrets = Annotated[list[Annotated[Secret, BeforeValidator(_by_name)]], AfterValidator(_fitting)]


def secrets_body(secrets: Iterable[SecretPart]) -> list[dict[str, Any]]:
    """The other way: all with their versions."""
    return [{"name": each.name, "version": each.version} for each in secrets]
