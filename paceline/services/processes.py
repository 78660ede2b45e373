"""The kinds of processes of a cell, as one table.

Read by the commands, the default addresses, the consumer groups and those who look at them, and `deploy/`. What is the
same for all kinds is no column: `health_pages` serves the health endpoints of each, `startup.run_process` begins and
ends those that meet in Kafka. The agent doesn't: it knows gateways alone, and `agent.run` is all of it.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Process(NamedTuple):
    """A kind of process. `command`: the words after `paceline`; `module` of `paceline.services` has its `serve`, empty:
    it doesn't meet the others in Kafka; `port`: where it listens on 127.0.0.1, unless told otherwise; `group`: the
    consumer group that gives it its cells, empty: none; `of_cell`: it serves the one cell that `--cell` names;
    `publishes_positions`: its group says how far it has read each cell, and no log is cut before that.
    """

    command: str
    module: str
    port: int
    group: str = ""
    of_cell: bool = False
    publishes_positions: bool = False


PROCESSES = {
    "api": Process("api", "api", 7117),
    "gateway": Process("gateway", "gateway", 7118, of_cell=True),
    "projector": Process("projector", "projector", 7119, "paceline.projector.{instance}", publishes_positions=True),
    "fanout": Process("fanout", "fanout", 7120, "paceline.fanout", publishes_positions=True),
    "lifecycle": Process("processor lifecycle", "processor", 7121, "paceline.processor.lifecycle"),
    "entitlement": Process("processor entitlement", "processor", 7122, "paceline.processor.entitlement"),
    "placement": Process("processor placement", "processor", 7123, "paceline.processor.placement"),
    "sla": Process("processor sla", "processor", 7124, "paceline.processor.sla"),
    "agent": Process("agent", "", 7125),
    "forecaster": Process("forecaster", "forecaster", 7126, "paceline.forecaster"),
}
PROCESS_COMMANDS = frozenset(process.command.partition(" ")[0] for process in PROCESSES.values())
"""The commands that run one of them."""
IN_KAFKA = tuple(kind for kind, process in PROCESSES.items() if process.module)
"""The kinds that meet in Kafka."""
PUBLISHERS = tuple(kind for kind, process in PROCESSES.items() if process.publishes_positions)
"""The kinds whose groups publish positions; machines have snapshots."""


def default_listen(kind: str) -> str:
    """Where a kind of process listens, unless it is told otherwise: HOST:PORT."""
    return f"127.0.0.1:{PROCESSES[kind].port}"


def group_of(kind: str, instance: str = "") -> str:
    """The consumer group of a kind of process; that of a projector is of the data folder `instance`."""
    return PROCESSES[kind].group.format(instance=instance)


def up_group(cell: int) -> str:
    """The consumer group of the processes of `paceline up` that serve a cell on Kafka."""
    return f"paceline.up.{cell}"


def kind_of(words: Sequence[str]) -> str:
    """The kind of process that the words after `paceline` start; empty: none."""
    kinds = (kind for kind, process in PROCESSES.items() if list(words)[: len(each := process.command.split())] == each)
    return next(kinds, "")
