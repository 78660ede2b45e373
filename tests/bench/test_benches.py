"""Every bench runs to its end, on little work, and prints figures with references beside them."""

import json
import subprocess
import sys

import pytest

from bench.__main__ import NAMES
from tests.helpers import ROOT

pytestmark = pytest.mark.outside  # cells in processes of their own
CASES = [
    ("agent", "embedded", {"real_runs_over_bare", "real_runs_per_s", "wave_ms", "agent_memory_mib", "storm_1000_lost"}),
    ("cell", "embedded", {"lone_cpu_ms_per_job", "idle_cpu_percent", "http_jobs_list_ratio", "submit_to_order_p99_ms"}),
    ("cell --hosts 20", "kafka", {"at_size_ramp_tasks_per_s", "at_size_ends_per_s", "at_size_verified_rounds"}),
    ("entitlement", "memory", {"share_10000_pools_ms", "admissions_per_s", "victims_10000_ms"}),
    ("forecast", "memory", {"kth_pinball_over_scaled_limits", "ctc_coverage_percent"}),
    ("lifecycle", "memory", {"changes_1000_per_s", "update_instances_per_s"}),
    ("log", "embedded", set()),
    ("log", "memory", set()),
    (
        "placement",
        "memory",
        {
            "gangs_50000_hosts_tasks_per_s",
            "mixed_50000_hosts_tasks_per_s",
            "changed_host_ms",
            "reclaim_slope",
            "full_start_s",
        },
    ),
    (
        "placement-quality",
        "memory",
        {"mean5_percent", "default_adaptive_percent", "load85_adaptive_waiting_gpu_h", "adaptive_decisions_per_s"},
    ),
    ("packing", "memory", {"hosts_over_bound_percent"}),
    ("replay", "embedded", {"ended_job_memory_bytes", "verify_decisions_per_s", "recover_s"}),
    ("simulate", "memory", {"kth_head_cpu_s", "tasks_per_s"}),
    ("topology", "memory", {"snapshot_near_racks_per_gang", "churn_near_racks_per_gang", "near_gangs_per_s"}),
    ("whatif", "embedded", {"kth_day_what_if_over_simulate", "million_memory_mib", "half_cell_reproduced_percent"}),
    ("sla", "memory", {"verdicts_over_naive", "change_over_naive", "memory_mib", "campaigns_done", "budgets_broken"}),
]


def test_all_benches_are_run() -> None:
    elsewhere = {"ui"}  # tests/browser/test_bench.py: it needs Chromium
    assert {name.split()[0] for name, *_ in CASES} | elsewhere == set(NAMES)


@pytest.mark.parametrize(("name", "log", "figures"), CASES, ids=[f"{name}-{log}" for name, log, _ in CASES])
def test_a_bench_runs(name: str, log: str, figures: set[str]) -> None:
    command = [sys.executable, "-m", "bench", *name.split(), "--log", log, "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["figures"].keys() >= figures
    assert printed["references"]
    assert all(value >= 0 for part in ("figures", "references") for value in printed[part].values())
