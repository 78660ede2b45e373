"""Settings of an agent, from `[agent]` of the settings: the same for `paceline agent` and `paceline up`."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from events.spec.parts import HostResources
from events.spec.problems import problems
from events.taints import taints_fault
from hostagent.agent_settings import AgentSettings
from hostagent.container_level import ContainerSettings
from hostagent.host_checks import HealthCommand, names_fault
from hostagent.retention import Retention
from paceline.services.data_folder import CannotStart, given_umask
from paceline.services.hardware_source import hardware_source
from paceline.services.settings import AgentPart, HealthPart


def host_settings(
    part: AgentPart, urls: tuple[str, ...], token: str, folder: Path, tls: ssl.SSLContext | None = None
) -> AgentSettings:
    """The settings of an agent of the gateways at `urls`, which keeps its runs in `folder`; `tls`: how it verifies
    them. Raises `CannotStart`.
    """
    offered = _offered(part.resources)
    return AgentSettings(
        urls=urls,
        token=token,
        folder=folder,
        tls=tls,
        host_id=part.host_id or socket.gethostname().lower()[:100] or "localhost",
        resources=offered.named(),
        sizes=offered.sizes(),
        attributes=part.attributes,
        taints=_taints(part.taints),
        port_first=part.port_first,
        port_last=part.port_last,
        run_as=part.run_as,
        isolation=part.isolation,
        umask=given_umask(),
        retention=Retention(part.output_runs, part.output_mib << 20, part.output_age, part.failed_output_age),
        containers=ContainerSettings(
            devices=tuple(part.device_files),
            user_namespace=_mapped(part.user_namespace),
            images_max=part.images_max << 20,
            images_unused_s=part.images_unused / 1000,
        ),
        health=_health(part.health),
        hardware=hardware_source(part.devices, part.cores),
        ports_moved=not part.model_fields_set & {"port_first", "port_last"},
    )


def _health(commands: Mapping[str, HealthPart]) -> tuple[HealthCommand, ...]:
    """The health commands of the settings. Raises `CannotStart`."""
    if fault := names_fault(commands):
        raise CannotStart(f"The health commands of the agent: {fault}.")
    return tuple(
        HealthCommand(
            name, tuple(each.command), each.interval / 1000, each.timeout / 1000, each.failures, each.successes
        )
        for name, each in commands.items()
    )


def _mapped(text: str) -> tuple[int, int] | None:
    """FIRST:NUMBER of a user namespace; None: there is none."""
    first, _, number = text.partition(":")
    return (int(first), int(number)) if text else None


def _taints(taints: dict[str, str]) -> dict[str, str]:
    """The taints of the settings. Raises `CannotStart`."""
    if fault := taints_fault(taints):
        raise CannotStart(f"The taints of the agent: {fault}.")
    return taints


def _offered(resources: Mapping[str, float | str]) -> HostResources:
    """The resources of the settings. Raises `CannotStart`."""
    try:
        return HostResources.model_validate(dict(resources))
    except ValidationError as error:
        messages = "; ".join(f"{pointer[1:]} {message}" for pointer, message in problems(error, HostResources))
        end = "" if messages.endswith("?") else "."
        raise CannotStart(f"The resources of the agent: {messages}{end}") from error
