"""The tables of the views in SQLite, made from the rows, and the engine over their file.

The file is a fold of the log and may be deleted at any time; one of another format is deleted on opening.
"""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Index,
    LargeBinary,
    MetaData,
    QueuePool,
    Table,
    Text,
    create_engine,
    event,
    select,
)

from projections.views import (
    access_rows,
    forecast_rows,
    ledger_rows,
    maintenance_rows,
    rows,
    run_rows,
    series_rows,
    sharing_rows,
    sla_rows,
    update_rows,
    usage_rows,
)
from projections.views.job_states import REJECTED

FORMAT = "38"
"""Raised whenever a row changes."""

WITH_ROWID = (rows.SubmissionRow, rows.BlockRow, series_rows.SeriesRow)
"""Rows with long columns: beside a key of its own SQLite fills pages with them, and in the key's order doesn't."""
_TYPES: dict[Any, Any] = {str: Text, int: BigInteger, bytes: LargeBinary}
metadata = MetaData()


def _table(name: str, row: type[msgspec.Struct], *key: str) -> Table:
    columns = [
        Column(field.name, _TYPES[field.type], primary_key=field.name in key, nullable=False, autoincrement=False)
        for field in msgspec.structs.fields(row)
    ]
    return Table(name, metadata, *columns, sqlite_with_rowid=row in WITH_ROWID)


positions = _table("positions", rows.PositionRow, "topic")
chains = _table("chains", rows.ChainRow, "machine")
owners = _table("owners", rows.OwnerRow, "machine")
submissions = _table("submissions", rows.SubmissionRow, "offset")
override_chunks = _table("override_chunks", rows.OverrideChunkRow, "name")
jobs = _table("jobs", rows.JobRow, "job_id")
task_blocks = _table("task_blocks", rows.BlockRow, "block")
port_blocks = _table("port_blocks", rows.BlockRow, "block")
run_reports = _table("run_reports", run_rows.RunReportRow, "job_id", "instance", "run", "offset", "host_id")
run_needs = _table("run_needs", run_rows.RunNeedsRow, "job_id", "instance")
run_devices = _table("run_devices", run_rows.RunDevicesRow, "job_id", "instance")
commands = _table("commands", update_rows.CommandRow, "offset")
versions = _table("versions", update_rows.VersionRow, "job_id", "version")
updates = _table("updates", update_rows.UpdateRow, "job_id", "number")
update_steps = _table("update_steps", update_rows.UpdateStepRow, "job_id", "number", "offset", "place")
stops = _table("stops", run_rows.StopRow, "job_id", "place")
past_runs = _table("past_runs", run_rows.PastRunRow, "job_id", "instance", "run")
pools = _table("pools", rows.PoolRow, "path")
pool_facts = _table("pool_facts", rows.PoolFactRow, "offset")
pool_use = _table("pool_use", rows.PoolUseRow, "path")
hosts = _table("hosts", rows.HostRow, "host_id")
host_pools = _table("host_pools", rows.HostPoolRow, "name")
host_pool_moves = _table("host_pool_moves", rows.HostPoolMoveRow, "offset", "place")
slas = _table("slas", sla_rows.SlaRow, "job_id")
sla_groups = _table("sla_groups", sla_rows.SlaGroupRow, "name")
volumes = _table("volumes", rows.VolumeRow, "host_id", "job_id", "instance", "name")
host_names = _table("host_names", rows.HostNameRow, "number")
rounds = _table("rounds", rows.RoundRow, "machine", "number")
explanations = _table("explanations", rows.ExplanationRow, "job_id", "kind")
history = _table("history", rows.HistoryRow, "job_id", "number")
answers = _table("answers", rows.AnswerRow, "topic", "offset")
quarantine = _table("quarantine", rows.QuarantineRow, "topic", "offset")
meta = _table("meta", rows.MetaRow, "name")
waiting = _table("waiting", sharing_rows.WaitingRow, "job_id", "standing")
holds = _table("holds", sharing_rows.WaitReasonRow, "number")
orders = _table("orders", sharing_rows.OrderRow, "number")
victims = _table("victims", sharing_rows.VictimsRow, "job_id", "number")
reservations = _table("reservations", sharing_rows.ReservationRow, "job_id", "first")
turns = _table("turns", sharing_rows.TurnRow, "pool")
credits = _table("credits", sharing_rows.CreditRow, "pool")
series = _table("series", series_rows.SeriesRow, "topic", "step_s", "part", "step")
unread = _table("unread", series_rows.UnreadRow, "machine", "topic", "offset", "place")
tallies = _table("tallies", series_rows.TallyRow, "series", "name")
marks = _table("marks", series_rows.MarkRow, "step_s", "topic", "step", "shape")
pool_numbers = _table("pool_numbers", series_rows.PoolNumberRow, "path")
pool_tasks = _table("pool_tasks", series_rows.PoolTasksRow, "path")
host_stages = _table("host_stages", maintenance_rows.HostStageRow, "host_id")
host_commands = _table("host_commands", maintenance_rows.HostCommandRow, "offset")
maintenances = _table("maintenances", maintenance_rows.MaintenanceRow, "maintenance_id")
maintenance_hosts = _table("maintenance_hosts", maintenance_rows.MaintenanceHostRow, "maintenance_id", "host_id")
maintenance_windows = _table("maintenance_windows", maintenance_rows.MaintenanceWindowRow, "window_id")
disruptions = _table("disruptions", maintenance_rows.DisruptionRow, "job_id", "instance")
deferrals = _table("deferrals", maintenance_rows.DeferralRow, "job_id", "code")
job_usage = _table("job_usage", usage_rows.JobUsageRow, "job_id", "month")
month_usage = _table("month_usage", usage_rows.MonthUsageRow, "month", "pool", "owner")
job_waits = _table("job_waits", ledger_rows.JobWaitsRow, "job_id", "code")
week_waits = _table("week_waits", ledger_rows.WeekWaitsRow, "week", "pool", "owner", "code")
week_owners = _table("week_owners", ledger_rows.WeekOwnerRow, "week", "owner")
bindings = _table("bindings", access_rows.RoleBindingRow, "offset")
access_tokens = _table("access_tokens", access_rows.AccessTokenRow, "offset")
token_uses = _table("token_uses", access_rows.TokenUseRow, "token_id")
lockdowns = _table("lockdowns", access_rows.LockdownRow, "pool")
invitations = _table("invitations", access_rows.InvitationRow, "invite_id")
certificates = _table("certificates", access_rows.CertificateRow, "host_id", "serial")
host_removals = _table("host_removals", access_rows.HostRemovalRow, "host_id")
access_facts = _table("access_facts", access_rows.AccessFactRow, "offset")
forecasts = _table("forecasts", forecast_rows.ForecastRow, "job_id")
forecast_scores = _table("forecast_scores", forecast_rows.ForecastScoreRow, "pool", "method", "day")

Index("jobs_by_number", jobs.c.number, unique=True)
Index("jobs_by_base", jobs.c.base)
Index("jobs_by_digest", jobs.c.digest)
Index("rejected_jobs", jobs.c.ended_ms, jobs.c.job_id, sqlite_where=jobs.c.state == REJECTED)
Index("submissions_by_job", submissions.c.job_id)
Index("submissions_with_chunks", submissions.c.offset, sqlite_where=submissions.c.chunks != "")
Index("jobs_by_state", jobs.c.state, jobs.c.number)
Index("throttled_jobs", jobs.c.number, sqlite_where=jobs.c.backoff > 0)
Index(
    "jobs_by_group",  # all that lists are filtered and counted by, so that these read no row
    *(jobs.c.pool, jobs.c.state, jobs.c.owner, jobs.c.queued, jobs.c.backoff, jobs.c.waits_ms, jobs.c.submitted_ms),
    *(jobs.c.number, jobs.c.command, jobs.c.labels, jobs.c.submitter),
)
Index("jobs_by_wait", jobs.c.waits_ms, jobs.c.number, sqlite_where=jobs.c.waits_ms > 0)
Index(
    "other_histories_by_time",
    *(history.c.first_ms, history.c.job_id),
    sqlite_where=(history.c.job_id >= "/") & (history.c.job_id < "0"),
)
Index("run_devices_by_host", run_devices.c.host_id, sqlite_where=run_devices.c.live > 0)
Index("past_runs_by_host", past_runs.c.host, past_runs.c.ended_s)
Index("hosts_by_place", hosts.c.place, hosts.c.host_id)
Index("maintenances_by_number", maintenances.c.number)
Index("maintenance_hosts_by_place", maintenance_hosts.c.maintenance_id, maintenance_hosts.c.place)
Index("slas_by_group", slas.c.shared, sqlite_where=slas.c.shared != "")
Index("volumes_by_job", volumes.c.job_id)
Index("rounds_by_position", rounds.c.machine, rounds.c.position)
Index("rounds_by_time", rounds.c.machine, rounds.c.at_ms, rounds.c.number)
Index("waiting_blocks", task_blocks.c.block, sqlite_where=task_blocks.c.waiting > 0)
Index("waiting_by_standing", waiting.c.standing)
Index("holds_by_pool", holds.c.pool)
Index("orders_by_winner", orders.c.for_job)
Index("orders_by_time", orders.c.at_ms)
Index("open_orders", orders.c.number, sqlite_where=orders.c.answer == "")
Index("victims_by_order", victims.c.number)
Index("bindings_by_end", bindings.c.ended_ms)
Index("access_tokens_by_end", access_tokens.c.ended_ms)
Index("live_blocks", task_blocks.c.block, sqlite_where=task_blocks.c.live > 0)


def open_engine(path: Path) -> Engine:
    """An engine over the file of the views, made where it isn't there."""
    engine = _engine(path)
    if _format_of(engine) != FORMAT:
        engine.dispose()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        engine = _engine(path)
        metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(meta.insert().values(name="format", value=FORMAT))
    return engine


def attach(path: Path) -> Engine | None:
    """An engine over a file that a projector in another process keeps; None until it is there."""
    if not path.exists():
        return None
    engine = _engine(path)
    if _format_of(engine) == FORMAT:
        return engine
    engine.dispose()
    return None


def open_made(path: Path) -> Engine:
    """An engine over a file that is whole and that nobody writes to any more. It may be removed while it is read."""
    address = f"{path.absolute().as_uri()}?immutable=1"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, check_same_thread=False)

    return create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=4, max_overflow=28)


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", pool_size=16, max_overflow=48)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000", "cache_size=-8000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # Explicitly, so that several selects of one answer see one state of the views.
        connection.exec_driver_sql("BEGIN")

    return engine


def _format_of(engine: Engine) -> str | None:
    try:
        with engine.connect() as connection:
            return connection.execute(select(meta.c.value).where(meta.c.name == "format")).scalar()
    except Exception:  # whatever is wrong with the file, it is rebuilt from the log
        return None
