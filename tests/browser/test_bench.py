"""The bench of the pages runs, on a small cell."""

import json
import subprocess
import sys


def test_the_bench_measures_every_page() -> None:
    command = [sys.executable, "-m", "bench", "ui", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert {"page_p99_ms", "overview_load_ms", "hosts_map_load_ms", "watchers_cpu_percent"} <= figures.keys()
    assert 0 < figures["assets_kib"] < 150
    assert all(value > 0 for name, value in figures.items() if name.endswith("_ms"))
