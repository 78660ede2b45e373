"""Replay and recovery: how fast a history is replayed, and a machine with a million tasks recovers; the memory that a
million ended jobs take.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from bench import Options, Result, sized
from bench.whatif import array_jobs, record
from events.codec import decode, encode
from events.log.embedded import EmbeddedLog
from events.log.port import NewRecord
from events.process.clock import SystemClock
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from events.topics import ALL
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from paceline.history.verify import verify as verify_all
from paceline.witness.notes import make_key, read_key
from paceline.witness.published import Heads
from paceline.witness.witness import Keys, Witness
from processors.cell_machines import machines
from processors.runtime.driver import Driver
from processors.runtime.replay import Replay
from processors.runtime.store import RocksStore, Store

TASKS, LIVE_JOBS = sized(50_000, 500), sized(10, 2)
LIVE_TASKS, LIVE_HOSTS = sized(100_000, 500), sized(7_000, 20)
ENDED_JOBS = sized(1_000_000, 4_000)
HOSTS = sized(1000, 20)
WITNESSED_JOBS = sized(40, 2)
"""Each has 4,000 tasks."""
HOST = {"cpu": 16_000, "memory": 65_536}


def run(log: str, options: Options) -> Result:
    """On the embedded log: replay reads any log alike."""
    if log != "embedded":
        raise SystemExit("replay is measured on the embedded log; any other is read alike")
    one = options.folder / "one"
    work(one, [job("one", TASKS, 1000)], HOSTS, until_done=True)
    figures, references = {**verify(one), **witness(options.folder)}, {}
    many = options.folder / "many"
    work(many, [job(f"live-{n}", LIVE_TASKS, 3_600_000) for n in range(LIVE_JOBS)], LIVE_HOSTS, until_done=False)
    parts = [("bench._recover", str(many), name) for name in machines()]
    for part in (*parts, ("bench._ended", str(ENDED_JOBS))):
        command = [sys.executable, "-m", *part]
        printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        figures |= printed["figures"]
        references |= printed["references"]
    for what in ("recover_s", "memory_mib"):
        figures[what] = max(figures[f"{name}_{what}"] for name in machines())
    begin = time.perf_counter()
    reader = EmbeddedLog.open_secondary(one / "log")
    read = sum(len(record.value) for topic in ALL for record in reader.scan(topic.name, 0))
    seconds = time.perf_counter() - begin
    raw = {"raw_read_of_the_same_log_s": seconds, "raw_read_mib": read / 2**20}
    return Result(figures, {**raw, **references}, {"witness_over_verify": 1.1})


def job(job_id: str, instances: int, duration_ms: int) -> JobSubmitted:
    """A job of tasks of 0.1 CPU."""
    return JobSubmitted(
        job_id=job_id, pool="/bench", instances=instances, resources={"cpu": 100}, simulated=Simulated(duration_ms)
    )


def work(folder: Path, jobs: list[JobSubmitted], hosts: int, until_done: bool) -> None:
    """Runs jobs through a cell without views, until they are done or all their tasks run."""
    log, clock = EmbeddedLog(folder / "log"), SystemClock()
    stores = {name: RocksStore(folder / "store" / name) for name in machines()}
    drivers = [_driver(name, log, stores[name], clock) for name in machines()]
    gateway = Gateway(log, None, clock, "bench")
    fleet = Fleet(gateway, [SimHost(hosts, HOST)], clock, session=1)
    pool = PoolDefined(path="/bench", command_id="bench")
    log.append([NewRecord(event.topic, b"", encode(event)) for event in (pool, *jobs)])
    tasks = sum(each.instances for each in jobs)

    def reached() -> bool:
        return fleet.ended >= tasks if until_done else fleet.running() >= tasks

    quiet = 0
    while not reached() or quiet < 20:
        busy = [part.run() for part in drivers] + [gateway.step(), fleet.step()]
        quiet = quiet + 1 if reached() and not any(busy) else 0
        if not any(busy):
            time.sleep(0.001)
    for driver in drivers:
        driver.close()
    log.close()


def _driver(name: str, log: EmbeddedLog, store: Store, clock: SystemClock) -> Driver:
    driver = Driver(machines()[name](), log, store, clock, "bench")
    for _ in driver.recover():
        pass
    return driver


def verify(folder: Path) -> dict[str, float]:
    """Replays the four machines; a task decision is one item of one column of a decision."""
    log = EmbeddedLog.open_secondary(folder / "log")
    begin, items, rounds, events = time.perf_counter(), 0, 0, 0
    for make in machines().values():
        replayed = Replay(make(), log)
        for round_ in replayed.rounds():
            items += _items(round_)
        if replayed.result.difference:
            raise SystemExit(f"the replay differs: {replayed.result.difference}")
        rounds += replayed.result.rounds
        events += replayed.result.events
    seconds = time.perf_counter() - begin
    return {
        "verify_decisions_per_s": items / seconds,
        "verify_task_decisions": items,
        "verify_rounds": rounds,
        "verify_events": events,
        "verify_s": seconds,
    }


def witness(scratch: Path) -> dict[str, float]:
    """The CPU that witnessing a log takes over that of verifying it as `paceline log verify` does: the least of three
    each. The log is one of many rounds: opening its four stores takes a witness 0.04 s, once.
    """
    record(array_jobs(WITNESSED_JOBS), scratch / "witnessed", 0, None)
    log = EmbeddedLog.open_secondary(scratch / "witnessed" / "log")
    make_key("bench", scratch / "key")
    verified, witnessed = [], []
    for number in range(3):
        folder, begin = scratch / f"witness-{number}", time.process_time()
        verify_all(log, machines())
        verified.append(time.process_time() - begin)
        heads, keys, begin = Heads(str(folder / "heads"), 0), Keys(read_key(scratch / "key")), time.process_time()
        witness = Witness(log, heads, keys, folder / "own", machines(), lambda: time.time_ns() // 1_000_000)
        while witness.step():
            pass
        witness.close()
        witnessed.append(time.process_time() - begin)
    return {"witness_over_verify": min(witnessed) / min(verified), "witness_heads": len(heads.numbers())}


def _items(record: RoundCommitted) -> int:
    total = 0
    for decision in map(decode, record.decisions):
        if hasattr(decision, "instance") and isinstance(decision.instance, bytes):
            total += len(decision.instance_array)
        elif hasattr(decision, "count") and isinstance(decision.count, bytes):
            total += int(decision.count_array.sum())
        else:
            total += 1
    return total
