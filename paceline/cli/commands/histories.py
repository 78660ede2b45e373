"""The histories of pools and hosts, as tables."""

from typing import TYPE_CHECKING

from paceline.cli.commands.job_views import ACTOR_COLUMNS, speaker
from paceline.output import Column, TableOptions, show, table, when

if TYPE_CHECKING:
    from paceline.client.models import HistoryEntry


def show_history(rows: "list[HistoryEntry]", zone: str, form: str, shape: TableOptions) -> None:
    """Prints a history: when, who, what and why, and where it stands in the log."""
    body = {"events": rows, "next_page_token": ""}
    columns = [
        Column("AT", lambda each: when(each["at"], zone), order=lambda each: each["at"]),
        Column("WHO", speaker),
        Column("WHAT", lambda each: each["text"]),
        Column("POSITION", _place),
        *ACTOR_COLUMNS,
    ]
    show(form, body, (each["position"] for each in rows), lambda: table(rows, columns, shape))


def _place(row: "HistoryEntry") -> str:
    """The place in the log, as `paceline log why` takes it; of an answer that of the fact."""
    cause = row["detail"].get("cause")
    if isinstance(cause, str) and ":" in cause:
        return cause
    return f"{row['machine']}/round/{row['round']}/{row['index']}" if row["machine"] else row["position"]
