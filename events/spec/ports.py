"""The ports of a task in the spec of a job: names, and numbers of those that must have a certain one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from events.bounds import PORT_MAX, PORTS_MAX
from events.port_names import sharing
from events.spec.parts import Spec, Word


class NamedPort(Spec):
    """A port with a fixed number: no two tasks of a host have it at a time."""

    name: Word = Field(description="Name of the port.")
    port: Annotated[int, Field(ge=1, le=PORT_MAX)] = Field(description="Its number on every host.")


def _fitting(ports: list[str | NamedPort]) -> list[str | NamedPort]:
    names, numbers = port_names(ports), list(port_numbers(ports).values())
    if len(set(names)) != len(names):
        raise PydanticCustomError("ports", "must be different names")
    if shared := sharing(names):
        raise PydanticCustomError("ports", "must differ in their letters and digits: {shared}", {"shared": shared})
    if len(set(numbers)) != len(numbers):
        raise PydanticCustomError("ports", "must have different numbers")
    return ports


NAME_ALONE, WITH_NUMBER = "[name]", "[port]"
"""The two forms of a port, as errors name them."""


def _form(port: Any) -> str:
    return WITH_NUMBER if isinstance(port, Mapping | NamedPort) else NAME_ALONE


Port = Annotated[Annotated[Word, Tag(NAME_ALONE)] | Annotated[NamedPort, Tag(WITH_NUMBER)], Discriminator(_form)]
PortList = Annotated[list[Port], Field(max_length=PORTS_MAX), AfterValidator(_fitting)]


def port_names(ports: Sequence[str | NamedPort]) -> list[str]:
    """The names of all ports."""
    return [each if isinstance(each, str) else each.name for each in ports]


def port_numbers(ports: Sequence[str | NamedPort]) -> dict[str, int]:
    """The numbers of ports that must have a certain one, by name."""
    return {each.name: each.port for each in ports if isinstance(each, NamedPort)}


def ports_body(names: Sequence[str], numbers: Mapping[str, int]) -> list[Any]:
    """The JSON of ports."""
    return [{"name": name, "port": numbers[name]} if name in numbers else name for name in names]
