"""The topic table: every topic, who writes it, and what Kafka must be told about it (docs/architecture.md)."""

from dataclasses import dataclass
from pathlib import Path

import schemas

MACHINES = ("lifecycle", "entitlement", "placement", "sla")
RECORD_BYTES_MAX = 8 * 1024 * 1024
"""`max.message.bytes` of every topic: a round of 10,000 placements takes 200 KB, an inventory of a large host less."""
ROUND_BYTES_MAX = 4 * 1024 * 1024
"""A round above this size is decided a second time, with half the budget."""
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

    def messages(self) -> list[Path]:
        """The schemas of the records that stand in it by themselves; decisions stand in rounds."""
        if self.machine is None:
            return schemas.files(self.folder)
        return [path for path in schemas.files("rounds") if path.stem in ("EpochStarted", "RoundCommitted")]


JOBS = Topic("paceline.jobs", "users and the API")
POOLS = Topic("paceline.pools", "admins")
HOSTS = Topic("paceline.hosts", "the gateway and operators")
TASKS = Topic("paceline.tasks", "the gateway")
ROUNDS = tuple(Topic(f"paceline.{machine}", f"the processor {machine}", machine) for machine in MACHINES)
ALL = (JOBS, POOLS, HOSTS, TASKS, *ROUNDS)
"""The topics that a cell reads: facts and rounds."""
FANOUT = tuple(
    Topic(f"paceline.{name}", "the fan-out")
    for name in ("placements", "preemptions", "admissions", "job-states", "task-states", "quarantine")
)
"""The decisions once more, for readers outside; no part of Paceline reads them."""
FORECASTS = Topic("paceline.forecasts", "the forecaster")
"""When waiting jobs are expected to begin. No machine reads it; the views do (decision 128)."""
VIEWED = (*ALL, FORECASTS)
"""The topics that the views are made of: a moment of a cell is one set of their ends."""
EVERY = (*VIEWED, *FANOUT)
BY_NAME = {topic.name: topic for topic in ALL}
FACTS = frozenset(topic.name for topic in ALL if topic.machine is None)
"""The topics of facts."""
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
COPIES = 3
"""Replication from which on an append needs two copies: one broker may be lost without a loss of records."""


def in_sync_min(replication: int) -> int:
    """Copies that must have a record before it counts as appended (`min.insync.replicas`)."""
    return 2 if replication >= COPIES else 1


def settings(replication: int) -> dict[str, str]:
    """Settings of each topic with so many copies of each partition."""
    return {**SETTINGS, "min.insync.replicas": str(in_sync_min(replication))}


def rounds_of(machine: str) -> str:
    """The topic that carries the rounds of a machine."""
    return f"paceline.{machine}"
