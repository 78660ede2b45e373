"""What this build makes of the log in a folder: `python states.py FOLDER`, so that two builds can be compared."""

import sys
from contextlib import closing
from pathlib import Path

from events.codec import decode
from events.log.embedded import EmbeddedLog
from events.log.port import Log
from events.records.jobs import JobSubmitted
from processors.cell_machines import machines
from processors.machine import Fact, Machine
from processors.runtime.replay import Replay
from processors.state.table import State


def unanswered(machine: Machine, log: Log) -> str:
    """The state hash after all facts that a machine reads, none of them answered."""
    state = State(machine.tables, machine.peers)
    for topic in machine.facts:
        for record in log.scan(topic, 0):
            machine.apply(Fact(topic, record.offset, record.at_ms, decode(record.value), record.value))
            state.take_changes()
    return state.hash.hex()


def answers_again(machine: Machine, log: Log) -> list[str]:
    """What a machine that stands at the end of the log answers to all its submissions, should they come again."""
    start, end = log.bounds("paceline.jobs")
    for record in log.scan("paceline.jobs", start):
        event = decode(record.value)
        if isinstance(event, JobSubmitted):
            machine.apply(Fact(record.topic, end + record.offset, record.at_ms, event, record.value))
    said = machine.decide(0, True, 1000)
    return [f"{each.job_id} {getattr(each, 'code', 'ACCEPTED')}" for each in said if hasattr(each, "jobs_offset")]


def main(folder: Path) -> None:
    """Prints, per machine: hashes of its states, what replay finds, what lifecycle says to repeats."""
    with closing(EmbeddedLog.open_secondary(folder)) as log:
        for name, make in machines().items():
            run = Replay(make(), log)
            rounds = sum(1 for _ in run.rounds())
            said = [f"{name} unanswered {unanswered(make(), log)}"]
            said += [f"{name} {rounds} rounds {run.result.hash.hex()} {run.result.difference}"]
            said += answers_again(run.fold.machine, log) if name == "lifecycle" else []
            sys.stdout.write("\n".join(said) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
