"""The rights of each kind of process on Kafka, as one table: the least that it needs, beside `processes.PROCESSES`.

`paceline log acls` prints the commands that grant them, docs/security.md has the table, and a test runs a cell with a
user for each kind (decision 105). Paceline writes without transactions, so nobody has rights on transactional ids.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from events.log.kafka.connection import READERS
from events.topics import ALL, EVERY, FANOUT, FORECASTS, HOSTS, JOBS, POOLS, TASKS, VIEWED, Topic, rounds_of
from paceline.services.processes import PROCESSES, group_of

OWN_GROUP = "{user}"
"""The group of a user, in `Rights.groups`: its own name."""
UP_GROUPS = "paceline.up.*"
ALL_GROUPS = "paceline.*"
"""The groups of a cell's processes."""


class Rights(NamedTuple):
    """The rights of a kind of user: topics that it may `read`, `write`, make and widen (`create`) and cut (`delete`);
    `groups` that it joins, and those that it may look at (`looks_at`), by prefix where the name ends with an asterisk.
    `checks`: it compares all topics with what they must be, and may describe them.
    """

    purpose: str
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    create: frozenset[str] = frozenset()
    delete: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    looks_at: tuple[str, ...] = ()
    checks: bool = True


class Grant(NamedTuple):
    """Operations on things of one type that a user may carry out: an ACL of Kafka for each name and operation."""

    user: str
    type: str
    pattern: str
    names: tuple[str, ...]
    operations: tuple[str, ...]

    def body(self) -> dict[str, object]:
        """As JSON has it, by the names that Kafka has."""
        principal = {"principal": f"User:{self.user}"}
        return {
            **principal,
            "type": self.type,
            "names": self.names,
            "pattern": self.pattern,
            "operations": self.operations,
        }


def _of(topics: Iterable[Topic]) -> frozenset[str]:
    return frozenset(topic.name for topic in topics)


def _machine(machine: str, facts: Iterable[Topic], peers: Iterable[str]) -> Rights:
    """The rights of a machine: it reads its inputs and its own rounds, and writes its own rounds alone."""
    own = rounds_of(machine)
    read = _of(facts) | {*map(rounds_of, peers), own}
    return Rights(_command(machine), read, frozenset((own,)), groups=(group_of(machine),), looks_at=(READERS,))


def _command(kind: str) -> str:
    return f"`paceline {PROCESSES[kind].command}`"


_ROUNDS, _FANOUT, _LOG = _of(topic for topic in ALL if topic.machine is not None), _of(FANOUT), _of(VIEWED)
_INPUTS, _FORECASTS = _of(ALL), _of((FORECASTS,))
RIGHTS: Mapping[str, Rights] = {
    "lifecycle": _machine("lifecycle", (JOBS, POOLS, TASKS), ("entitlement", "placement", "sla")),
    "entitlement": _machine("entitlement", (POOLS,), ("lifecycle", "placement")),
    "placement": _machine("placement", (POOLS, HOSTS), ("entitlement", "lifecycle")),
    "sla": _machine("sla", (POOLS, HOSTS), ("lifecycle", "entitlement")),
    "projector": Rights(_command("projector"), _LOG, groups=(group_of("projector", "*"),), looks_at=(READERS,)),
    "api": Rights(_command("api"), _LOG, _of((JOBS, POOLS, HOSTS)), looks_at=(ALL_GROUPS,)),
    "gateway": Rights(
        _command("gateway"), _of((JOBS, POOLS, HOSTS)) | _ROUNDS, _of((HOSTS, TASKS)), looks_at=(READERS,)
    ),
    "fanout": Rights(_command("fanout"), _ROUNDS | _FANOUT, _FANOUT, groups=(group_of("fanout"),), looks_at=(READERS,)),
    "forecaster": Rights(
        _command("forecaster"),
        _of((JOBS, POOLS, FORECASTS)) | {rounds_of("lifecycle"), rounds_of("placement")},
        _FORECASTS,
        groups=(group_of("forecaster"),),
        looks_at=(READERS,),
    ),
    "up": Rights("`paceline up` on Kafka", _LOG, _LOG, groups=(UP_GROUPS,), looks_at=(ALL_GROUPS,)),
    "reader": Rights(
        "what reads the log: `paceline log verify`, `tail`, `export`, `bisect`, `cell check`",
        _LOG,
        looks_at=(ALL_GROUPS,),
    ),
    "shadow": Rights("`paceline shadow`, `paceline log verify --build`", _INPUTS, looks_at=(READERS,), checks=False),
    "witness": Rights("`paceline witness`", _INPUTS, looks_at=(READERS,), checks=False),
    "archiver": Rights("`paceline log archive`", _INPUTS, delete=_INPUTS, looks_at=(ALL_GROUPS,), checks=False),
    "topics": Rights("`paceline log topics --create`", create=_of(EVERY)),
    "producer": Rights("a program of yours that submits jobs", write=_of((JOBS,)), checks=False),
    "consumer": Rights("a program of yours that follows decisions", _FANOUT, groups=(OWN_GROUP,), checks=False),
}
"""By kind of user. Who writes to `paceline.pools` may bind roles: no producer of yours should, unless it may do all."""


def grants(kinds: Iterable[str] = RIGHTS, prefix: str = "") -> list[Grant]:
    """The ACLs of the users of some kinds, each named by its kind behind a prefix."""
    return [grant for kind in kinds for grant in _grants(prefix + kind, RIGHTS[kind])]


def operations(rights: Rights, topic: str) -> tuple[str, ...]:
    """The operations that are allowed on a topic; Kafka takes `Describe` for given by most others."""
    may = {
        "Read": rights.read,
        "Write": rights.write,
        "Create": rights.create,
        "Alter": rights.create,
        "Delete": rights.delete,
    }
    allowed = [operation for operation, topics in may.items() if topic in topics]
    if rights.checks:
        allowed += ["DescribeConfigs"] if {"Read", "Write", "Alter"} & {*allowed} else ["Describe", "DescribeConfigs"]
    return tuple(allowed)


def _grants(user: str, rights: Rights) -> Iterator[Grant]:
    topics = defaultdict(list)
    for topic in EVERY:
        topics[operations(rights, topic.name)].append(topic.name)
    for allowed, names in topics.items():
        if allowed:
            yield Grant(user, "topic", "literal", tuple(names), allowed)
    groups = chain(((name, "Read") for name in rights.groups), ((name, "Describe") for name in rights.looks_at))
    for name, operation in groups:
        pattern = "prefixed" if name.endswith("*") else "literal"
        yield Grant(user, "group", pattern, (name.format(user=user).removesuffix("*"),), (operation,))


def commands(granted: Iterable[Grant], kafka: str, admin: str = "") -> Iterator[str]:
    """The commands of `kafka-acls.sh` that add ACLs; `admin`: a file with the settings of a client that may do so."""
    connection = f"kafka-acls.sh --bootstrap-server {kafka}" + (f" --command-config {admin}" if admin else "")
    for grant in granted:
        words = [connection, f"--add --allow-principal User:{grant.user}"]
        words += [f"--operation {operation}" for operation in grant.operations]
        words.append(f"--resource-pattern-type {grant.pattern}")
        words += [f"--{grant.type} {name}" for name in grant.names]
        yield " ".join(words)
