"""The files of `--out`."""

import csv
import json
from pathlib import Path

from paceline.client.json_type import Json
from paceline.whatif.html import html
from paceline.whatif.report import JOB_COLUMNS, markdown


def write(body: Json, out: Path) -> None:
    """Writes report.html, report.md, summary.json and jobs.csv to a folder, which is made where it isn't there."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "report.html").write_text(html(body), encoding="utf-8")
    (out / "report.md").write_text(markdown(body), encoding="utf-8")
    with (out / "jobs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, JOB_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(body["jobs"])
