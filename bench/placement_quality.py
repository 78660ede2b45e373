"""Placement on a cluster of GPUs: how much of them is allocated, by strategy, beside the best published policy.

The experiment of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023) on all its 17 workloads, ten orders of
arrival each: tasks come one by one, each is placed or dropped, nothing ends. Then days of the same cluster on which
tasks end (`_openb_churn.py`), and decisions a second, in CPU time. `_openb_fgd.py` is the published policy in floats,
with the mix of tasks known beforehand; the strategies learn it. `--seeds N` takes the first N orders, `--workloads N`
the first N workloads, the five named ones before the others.
"""

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

from bench import CORES, Options, Result, _openb_churn, sized
from bench._openb import (
    NAMED,
    SEEDS,
    WORKLOADS,
    Arrivals,
    Cluster,
    allocation_percent,
    arrivals,
    bounds,
    pods,
    published,
)
from bench._openb_fgd import Fgd
from processors.placement.devices.columns import ADAPTIVE, FRAGMENTATION, PACK
from processors.runtime import kernel_cache

RULES = {"pack": PACK, "fragmentation": FRAGMENTATION, "adaptive": ADAPTIVE}
SOME, ORDERS = sized(len(WORKLOADS), 1), sized(len(SEEDS), 1)
LOADS = (85, 90, 95)[: sized(3, 1)]
DAYS = sized(2, 1)
TARGETS = {
    "mean5_percent": 94.2,
    "workloads_above_fgd": len(WORKLOADS),
    "adaptive_decisions_per_s": 2_500,
    "fragmentation_decisions_per_s": 10_000,
}


def run(log: str, options: Options) -> Result:
    """Without a log: placing alone. Strategies are compared on all cores, timed on one."""
    kernel_cache.load_of_cards()  # so that no process compiles them for itself
    seeds, some = SEEDS[: options.seeds or ORDERS], WORKLOADS[: options.workloads or SOME]
    with ProcessPoolExecutor(CORES, multiprocessing.get_context("spawn")) as pool:
        percents = _by_name(pool, allocation, [*product(some, (*RULES, "fgd"), seeds)], 2)
        days = _by_name(pool, churn, [*product(LOADS, RULES, range(DAYS))], 2)
    mean = {name: statistics.fmean(each) for name, each in percents.items()}
    fgd, best_fit = published("FGD"), published("BestFit")
    figures = {
        "mean5_percent": statistics.fmean(mean[each, "adaptive"] for each in some if each in NAMED),
        "workloads_above_fgd": float(sum(mean[each, "adaptive"] > fgd[each] for each in some)),
        **{f"{name}_decisions_per_s": speed(name) for name in RULES},
        **{f"{workload}_{rule}_percent": mean[workload, rule] for workload, rule in product(some, RULES)},
    }
    references = {
        "mean5_fgd_published_percent": statistics.fmean(fgd[each] for each in some if each in NAMED),
        "float_fgd_decisions_per_s": speed("fgd"),
        **{f"{each}_fgd_published_percent": fgd[each] for each in some},
        **{f"{each}_float_fgd_percent": mean[each, "fgd"] for each in some},
        **{f"{each}_best_fit_published_percent": best_fit[each] for each in some},
        **{f"{each}_bound_percent": bounds()[each] for each in some if each in bounds()},
    }
    for (load, rule), each in days.items():
        for name in ("waiting_gpu_h", "allocation_percent"):
            figures[f"load{load}_{rule}_{name}"] = statistics.fmean(one[name] for one in each)
        references[f"load{load}_asked_percent"] = statistics.fmean(one["asked_percent"] for one in each)
    return Result(figures, references, TARGETS)


def allocation(workload: str, policy: str, seed: str) -> float:
    """The GPU allocation of one run of the experiment, in percent."""
    order = arrivals(workload, seed)
    return allocation_percent(order, _policy(policy, workload, order)(order.tasks))


def churn(load_percent: int, rule: str, seed: int) -> dict[str, float]:
    """A day of a strategy."""
    return _openb_churn.figures(RULES[rule], load_percent, seed)


def speed(policy: str) -> float:
    """Decisions a second, with all that is learned and put, on one core."""
    _tell(f"decisions a second of {policy}")
    order = arrivals("default", SEEDS[0])
    tasks = order.tasks[: sized(len(order.tasks), 200)]
    best = 0.0
    for _ in range(3):
        place_all = _policy(policy, "default", order)
        began = time.process_time()
        for _ in place_all(tasks):
            pass
        best = max(best, len(tasks) / (time.process_time() - began))
    return best


def _policy(name: str, workload: str, order: Arrivals) -> Callable[[list[Any]], Iterable[bool]]:
    return Fgd(order, pods(workload)).place_all if name == "fgd" else Cluster(order.hosts, RULES[name]).place_all


def _by_name(
    pool: ProcessPoolExecutor, one: Callable[..., Any], cases: list[tuple[Any, ...]], parts: int
) -> dict[tuple[Any, ...], list[Any]]:
    """The answers to some cases, by what comes first in them."""
    out: dict[tuple[Any, ...], list[Any]] = {}
    for done, (case, answer) in enumerate(zip(cases, pool.map(one, *zip(*cases, strict=True)), strict=True), 1):
        out.setdefault(case[:parts], []).append(answer)
        _tell(f"{one.__name__}: {done} of {len(cases)}")
    return out


def _tell(progress: str) -> None:
    print(f"placement-quality: {progress}", file=sys.stderr, flush=True)
