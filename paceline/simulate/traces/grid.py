"""The Standard Workload Format as grids write it: hosts of several kinds, and jobs that ask for whole shares of hosts.

MetaCentrum's logs in the data sets of the simulator Alea have 21 fields: field 10 is the memory on each host in bytes,
field 21 the request as PBS has it, `hosts:ppn=CPUs:property:...`, and beside the log stands a file of the machines.
`bench/traces/README.md` says what of it is followed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from events.conditions import meets
from events.records.parts import Constraint
from hostagent.fleet import SimHost
from paceline.simulate.traces.readers import Malformed, Row, TaskRequest, opened

DISK_MIB = 1 << 30
SHAPE = re.compile(r"(\d+)(?::ppn=(\d+))?((?::[^:+]*)*)")
HOST = re.compile(r"([a-z]+\d+)\.[a-z.-]+")


def hosts(path: Path) -> list[SimHost]:
    """The hosts of a file of machines: number, name, hosts, CPUs and speed of each, memory of each in KiB."""
    sim_hosts = []
    with opened(path) as file:
        for at, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                _, name, count, cpus, _, memory_kib = line.split()
                amounts = {"cpu": int(cpus) * 1000, "memory": int(memory_kib) // 1024, "disk": DISK_MIB}
                if int(count) < 1:
                    raise ValueError(f"{count} hosts")
                sim_hosts.append(SimHost(int(count), amounts, {"cluster": name, "cpus": cpus}, f"{name}#"))
            except ValueError as error:
                raise Malformed(f"{path}:{at}: is no line of machines: {error}") from error
    if not sim_hosts:
        raise Malformed(f"{path}: names no machines")
    return sim_hosts


def jobs(path: Path, machines: list[SimHost]) -> Iterator[Row | None]:
    """The jobs of a log of 21 fields; one of several hosts has a task on each. None: one that no machines can hold."""
    with opened(path) as file:
        for at, line in enumerate(file, 1):
            if line.startswith(";") or not line.strip():
                continue
            try:
                field = line.split()
                number, submit_s, run_s, procs, limit_s, memory = (int(field[each]) for each in (0, 1, 3, 4, 8, 9))
                request = _request(field[20], procs, max(0, memory), machines)
            except (ValueError, IndexError) as error:
                raise Malformed(f"{path}:{at}: is no line of 21 fields: {error}") from error
            fits = procs > 0 and _fits(request, machines)
            yield Row(number, submit_s, run_s, limit_s, request) if fits else None


def _request(text: str, procs: int, memory: int, machines: list[SimHost]) -> TaskRequest:
    """Parse a resource request. One that isn't of one shape, or of another number of CPUs, is a task for each CPU."""
    shape, _, mode = text.partition("#")
    match = SHAPE.fullmatch(shape)
    mib = -(-memory // (1 << 20))
    if match is None or int(match[1]) * int(match[2] or 1) != procs:
        return TaskRequest(procs, 1, -(-mib // procs) if procs > 0 else mib)
    request = TaskRequest(int(match[1]), int(match[2] or 1), mib, tuple(_constraints(match[3])))
    if mode == "excl":  # a whole host, and of the largest there are
        largest = max((host.capacity.get("cpu", 0) for host in machines if _meets(request, host)), default=1000)
        request = request._replace(cpus=largest // 1000)
    return request


def _constraints(properties: str) -> Iterator[Constraint]:
    """The properties that tell hosts apart; what all of them have, such as a file system, isn't asked for."""
    for word in properties.split(":"):
        name, operator = word.removeprefix("^"), "not_in" if word.startswith("^") else "in"
        if name.startswith("cl_"):
            yield Constraint("cluster", operator, (name.removeprefix("cl_"),))
        elif name.startswith("nodecpus"):
            yield Constraint("cpus", operator, (name.removeprefix("nodecpus"),))
        elif host := HOST.fullmatch(name):
            yield Constraint("hostname", operator, (host[1],))


def _meets(request: TaskRequest, host: SimHost) -> bool:
    """Whether hosts of a kind meet the conditions; their names, which they have later, aside."""
    conditions = [each for each in request.constraints if each.attribute in host.attributes]
    return all(meets(each, host.attributes[each.attribute]) for each in conditions)


def _fits(request: TaskRequest, machines: list[SimHost]) -> bool:
    """Whether there is room for all its tasks on empty hosts."""
    return request.tasks <= sum(
        host.count * _fitting_count(request, host) for host in machines if _meets(request, host)
    )


def _fitting_count(request: TaskRequest, host: SimHost) -> int:
    """Counts the tasks that one host takes."""
    by_cpu = host.capacity.get("cpu", 0) // (request.cpus * 1000)
    return min(by_cpu, host.capacity.get("memory", 0) // request.memory_mib) if request.memory_mib else by_cpu
