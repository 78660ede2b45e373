"""A wave: three hosts in ten of a simulated cell are lost at once, with services and batch tasks of one pool.

`python -m bench._waves` prints how long it takes, from when the hosts are declared lost, until all instances of
services run again, and until no batch task finds a place any more. Hosts start runs one after another, as real ones do.
Beside it stands the bound: what the hosts that are left take to start so many instances, if each has its part of them.
"""

import json
from collections.abc import Mapping

from bench import sized
from events.records.lifecycle import RunsAvailable, RunsEnded
from events.records.placement import HostLost
from paceline.simulate.checker.history import History
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, of_scenario
from paceline.simulate.world.cell import START_MS
from paceline.simulate.world.run import Run

HOSTS, SERVICES = sized(1000, 50), sized(100, 5)
SLOTS, INSTANCES = 64, 160
"""Tasks that fit a host, and instances of a service."""
STARTS_PER_S = 62
"""A real host starts so many runs a second in containers (docs/performance.md)."""
LOST = HOSTS * 3 // 10
TARGETS = {"wave_services_over_bound": 2.0}


class Watch:
    """Reads the log as it grows: when hosts were lost, and when the last run of each kind was there again."""

    def __init__(self, history: History) -> None:
        self.lost_ms = 0
        self.lost = {"service": 0, "batch": 0}
        self.back = {"service": 0, "batch": 0}
        self.last_ms = {"service": 0, "batch": 0}
        self._history = history

    def look(self, run: Run) -> None:
        """Takes what is new."""
        for round_ in self._history.read():
            for event in round_.decisions:
                if isinstance(event, HostLost):
                    self.lost_ms = round_.now_ms - START_MS
                elif self.lost_ms and isinstance(event, RunsEnded | RunsAvailable):
                    for job in event.job_array.tolist():
                        kind = event.job_ids[job].partition("-")[0]
                        if isinstance(event, RunsEnded):
                            self.lost[kind] += 1
                        else:
                            self.back[kind] += 1
                            self.last_ms[kind] = round_.now_ms - START_MS


def figures() -> dict[str, float]:
    """The seconds of a wave, and those of its services over their bound."""
    run = of_scenario(Scenario.model_validate(scenario()), "", RunOptions()).run
    watch = Watch(History(run.cell.log))
    run.run_to_end(watch.look)
    if watch.back["service"] != watch.lost["service"]:
        raise SystemExit(f"{watch.back['service']} of {watch.lost['service']} instances are back")
    services_s, batch_s = ((watch.last_ms[kind] - watch.lost_ms) / 1000 for kind in ("service", "batch"))
    bound_s = watch.lost["service"] / (HOSTS - LOST) / STARTS_PER_S
    return {
        "wave_services": watch.lost["service"],
        "wave_services_s": services_s,
        "wave_services_over_bound": services_s / bound_s,
        "wave_batch": watch.back["batch"],
        "wave_batch_lost": watch.lost["batch"],
        "wave_batch_s": batch_s,
    }


def scenario() -> Mapping[str, object]:
    """The cell and its jobs; it is four fifths full, and batch work was there first."""
    kind = {"resources": {"cpu": SLOTS}, "starts_per_second": STARTS_PER_S}
    common = {"pool": "/p", "resources": {"cpu": 1}, "strategy": "spread", "sim": {"duration": "10h"}}
    batch = HOSTS * SLOTS * 8 // 10 - SERVICES * INSTANCES
    services = [
        {"job_id": f"service-{number}", "kind": "stateless", "instances": INSTANCES, "at": "30s", **common}
        for number in range(SERVICES)
    ]
    return {
        "name": "wave",
        "end": "10m",
        "cell": {"host_lost_percent_per_minute": 100},
        "hosts": [{"name": "gone", "count": LOST, **kind}, {"name": "h", "count": HOSTS - LOST, **kind}],
        "pools": [{"path": "/p"}],
        "jobs": [{"job_id": "batch", "instances": batch, "at": "1s", **common}, *services],
        "events": [{"at": "2m", "fails": "gone"}],
    }


if __name__ == "__main__":
    print(json.dumps(figures()))
