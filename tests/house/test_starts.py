"""What a process loads before it works: a takeover waits for it, and so does each restart."""

import subprocess
import sys

import pytest

HEAVY = {"fastapi", "sqlalchemy", "faust", "rocksdict", "numpy", "confluent_kafka", "httpx2", "fsspec"}
NOT_LOADED = {
    "processor": {"fastapi", "sqlalchemy", "httpx2"},
    "fanout": {"fastapi", "sqlalchemy", "rocksdict", "httpx2", "fsspec"},
    "projector": {"fastapi", "rocksdict", "httpx2", "fsspec"},
    "gateway": {"faust", "sqlalchemy", "rocksdict", "httpx2"},
    "agent": {"fastapi", "sqlalchemy", "faust", "rocksdict", "confluent_kafka", "fsspec"},
    "api": {"faust", "rocksdict", "fsspec"},
}
"""Libraries that a kind of process has no use for."""


@pytest.mark.parametrize("kind", list(NOT_LOADED))
def test_a_process_loads_no_library_that_it_has_no_use_for(kind: str) -> None:
    look = f"import sys, paceline.services.{kind}; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    )
    assert HEAVY - loaded == NOT_LOADED[kind]
