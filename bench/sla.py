"""Sla: verdicts on all that runs on 1,000 hosts, one changed instance, the memory of a million instances; 300 of 1,000
hosts lost at once; and campaigns over 1,000 hosts, 20 seeds.
"""

import json
import subprocess
import sys

from bench import Options, Result, _campaign, _waves

TIMEOUT_S = 900
TARGETS = {"verdicts_over_naive": 0.1, "change_over_naive": 0.001, "memory_mib": 512.0}


def run(log: str, options: Options) -> Result:
    """No log is written, whichever is asked for."""
    command = [sys.executable, "-m", "bench._budgets"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    printed = json.loads(done.stdout)
    simulated = {**_waves.figures(), **_campaign.figures()}
    targets = {**TARGETS, **_waves.TARGETS, **_campaign.TARGETS}
    return Result({**printed["figures"], **simulated}, printed["references"], targets)
