"""The files of `--out`. Each is written whole or not at all."""

import csv
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy.exc import OperationalError

from events.log.port import LogError
from paceline.client.errors import PacelineError
from paceline.client.json_type import Json
from paceline.output import one_line
from paceline.whatif.html import html
from paceline.whatif.report import JOB_COLUMNS, markdown
from processors.runtime.store import StoreFault


class CantWrite(PacelineError):
    """A folder can't be written. It isn't 1, which says that a condition holds."""

    exit_code = 2


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Raises `CantWrite` in place of what the system says of a folder."""
    try:
        yield
    except (OSError, StoreFault, LogError, OperationalError) as error:
        why = str(getattr(error, "strerror", None) or getattr(error, "orig", None) or error)
        raise CantWrite(
            f"{out} can't be written: {why.removesuffix('.')}. Make room there, or name another folder with --out"
        ) from error


def check_writable(out: Path) -> None:
    """Makes a folder where it isn't there. Raises `CantWrite` where no file can be written to it."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".paceline-", dir=out) as folder:
            (Path(folder) / "file").write_text(".")


def write(body: Json, out: Path) -> None:
    """Writes report.html, report.md, summary.json and jobs.csv to a folder. Raises `CantWrite`, and then has written
    none of them unless one of these names is a folder's.
    """
    files = {
        "summary.json": json.dumps(body, indent=2, ensure_ascii=False) + "\n",
        "report.html": html(body),
        "report.md": markdown(body),
        "jobs.csv": _table(body),
    }
    with writing(out), TemporaryDirectory(prefix=".paceline-", dir=out) as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8", newline="")
        for name in files:
            os.replace(Path(folder) / name, out / name)


def _table(body: Json) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, JOB_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in body["jobs"]:
        writer.writerow({name: one_line(each) if isinstance(each, str) else each for name, each in row.items()})
    return text.getvalue()
