"""The Avro schemas: one `.avsc` file per record, a folder per topic; `rounds` holds what all machines write."""

from pathlib import Path

ROOT = Path(__file__).parent
GOLDEN = ROOT / "golden"
FOLDERS = (
    *("jobs", "pools", "hosts", "tasks", "forecasts"),
    *("lifecycle", "entitlement", "placement", "sla", "rounds"),
    *("placements", "preemptions", "admissions", "job-states", "task-states", "quarantine"),
)


def files(folder: str) -> list[Path]:
    """The schema files of one folder, in the order of their names."""
    return sorted((ROOT / folder).glob("*.avsc"))
