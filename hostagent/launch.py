"""Makes the launch of a run from its order and its host."""

import signal

from events import run_tokens
from events.port_names import variable_of
from events.secret_names import secret_variable
from hostagent import kernel
from hostagent.containers import HOME
from hostagent.gang_members import listing, unpacked, variables
from hostagent.hardware import NO_HARDWARE, RunHardware
from hostagent.messages import JobOrder, RunOrder
from hostagent.run_as import TaskUser, environment
from hostagent.run_record import Launch, Standing


def launch(
    job: JobOrder,
    item: RunOrder,
    host_id: str,
    user: TaskUser | None,
    secrets: str = "",
    hardware: RunHardware = NO_HARDWARE,
) -> Launch:
    """Makes the launch of an ordered run on a host, as a user; `secrets`: the folder of their values; `hardware`: its
    devices and cores. Raises `ValueError` where the order can't be read.
    """
    members = unpacked(job.gang) if job.gang else []
    gang = members if item.instance < len(members) else []
    ports = dict(zip(job.ports, item.ports, strict=False))
    env = _environment(job, item, host_id, user, hardware) | {
        variable_of(name): str(port) for name, port in ports.items()
    }
    place = f"{HOME}/secrets" if job.isolation is not None and job.isolation.image else secrets
    env |= {secret_variable(each.name): f"{place}/{each.name}" for each in job.secrets}
    env |= {run_tokens.VARIABLE: f"{place}/{run_tokens.SECRET}"} if job.run_token else {}
    return Launch(
        command=job.command,
        env=env | (variables(gang, item.instance) if gang else {}),
        stop_grace_ms=job.stop_grace_ms,
        stop_signal=signal.Signals[f"SIG{job.stop_signal}"],
        open_files=job.open_files,
        stop_after_ms=job.stop_after_ms,
        ports=tuple(port for port in item.ports if port),
        volumes=job.volumes,
        alone=job.alone,
        health=job.health,
        isolation=job.isolation,
        cpu=job.cpu,
        memory=job.memory,
        disk=job.disk,
        secrets=secrets,
        devices=hardware.paths,
        threads=hardware.threads,
        standing=Standing(
            cpu=job.cpu,
            memory=job.memory,
            revocable=job.revocable,
            preemptible=job.preemptible,
            priority=job.priority,
            batch=job.batch,
            ordered_ms=kernel.since_boot_ms(),
        ),
        members=listing(job.job_id, gang) if gang else "",
        health_port=ports.get(job.health.port, 0) if job.health is not None else 0,
    )


def _environment(
    job: JobOrder, item: RunOrder, host_id: str, user: TaskUser | None, hardware: RunHardware
) -> dict[str, str]:
    own = {
        "PACELINE_JOB": job.job_id,
        "PACELINE_TASK": str(item.instance),
        "PACELINE_RUN": str(item.run),
        "PACELINE_HOST": host_id,
        "PACELINE_POOL": job.pool,
    }
    of_host = {} if job.isolation is not None and job.isolation.image else environment(user)
    return of_host | {**hardware.defaults} | job.env | own | {**hardware.env}


class CannotStart(ValueError):
    """A run can't start as its job is, here or elsewhere, however often it is tried."""
