"""The topic table: every topic, who writes it, and what Kafka must be told about it (design §5)."""

from dataclasses import dataclass

MACHINES = ("lifecycle", "entitlement", "placement", "sla")
RECORD_BYTES_MAX = 8 * 1024 * 1024
"""`max.message.bytes` of every topic: a round of 10,000 placements takes 200 KB, an inventory of a large host less."""
ROUND_BYTES_MAX = 4 * 1024 * 1024
"""A round above this is decided again with half the budget."""
FACT_BYTES_MAX = 512 * 1024
"""The API and the client refuse larger facts before they are written."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `machine` is the machine whose rounds it carries, or None for facts."""

    name: str
    writer: str
    machine: str | None = None

    @property
    def folder(self) -> str:
        """The folder of its schemas."""
        return self.name.removeprefix("paceline.")


JOBS = Topic("paceline.jobs", "users and the API")
POOLS = Topic("paceline.pools", "admins")
HOSTS = Topic("paceline.hosts", "the gateway and operators")
TASKS = Topic("paceline.tasks", "the gateway")
ROUNDS = tuple(Topic(f"paceline.{machine}", f"the processor {machine}", machine) for machine in MACHINES)
ALL = (JOBS, POOLS, HOSTS, TASKS, *ROUNDS)
BY_NAME = {topic.name: topic for topic in ALL}
RANK = {topic.name: rank for rank, topic in enumerate(ALL)}
"""Facts before rounds: the order in which a reader takes what may come next."""

SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "unclean.leader.election.enable": "false",
}
"""Settings of each topic on Kafka: only archived stretches may be removed; the time of a fact is the log's."""


def rounds_of(machine: str) -> str:
    """The topic that carries the rounds of a machine."""
    return f"paceline.{machine}"
