"""Prints jobs for people."""

import json
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from events.instance_ranges import write_ranges
from events.words import why_not
from paceline.cli.commands.common import cell_column
from paceline.cli.commands.host_device import devices_column
from paceline.cli.update_progress import progress_of
from paceline.client.json_type import Json
from paceline.output import Column, TableOptions, ahead, clock, facts, note, say, table, timed, when, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paceline.client.explanation_models import Explanation, WaitReason
    from paceline.client.forecast_models import Forecast
    from paceline.client.models import Amounts, HistoryEntry, Job, Reason, Run, Task, Update, UpdateSteps, Version

VICTIMS_SHOWN = 5
"""Jobs that an explanation names of those preempted for another."""
SPEAKERS = {
    "paceline.jobs": "user",
    "paceline.pools": "operator",
    "paceline.hosts": "gateway",
    "paceline.tasks": "agent",
}
"""The authors of the facts, by topic."""
_UNSET = (0, False, "0ms")
_OF_ONE_ORDER = frozenset(("order", "instance", "run", "hosts", "spared"))
_TIMES = frozenset(("until_ms", "not_before_ms"))


def print_job(body: "Job", zone: str) -> None:
    """A job, a line for each field."""
    reason, update, wake = body.get("reason"), body.get("update"), body.get("next_wake_up")
    spec = body.get("spec") or {}
    facts(
        (
            ("job", body["job_id"]),
            ("state", body["state"]),
            ("reason", f"{reason['code']}  {timed(reason['message'], zone)}" if reason else None),
            *([("description", about)] if (about := spec.get("description")) else []),
            *([("image", image)] if (image := spec.get("image")) else []),
            *([("command", shlex.join(command))] if (command := spec.get("command")) else []),
            ("resources", _resources(spec.get("resources") or {})),
            ("pool", body.get("pool")),
            ("kind", body.get("kind")),
            ("priority", body.get("priority")),
            *([("strategy", strategy["text"])] if (strategy := body.get("strategy_in_effect")) else []),
            ("owner", body.get("owner")),
            ("labels", words(body.get("labels"))),
            ("version", body.get("version")),
            *([("update", progress_of(update))] if update is not None else []),
            ("tasks", words({state: count for state, count in (body.get("tasks") or {}).items() if count})),
            *([("next", f"{ahead(wake['at'], zone)}: {wake['why']}")] if wake else []),
            *([("expected start", text)] if (text := _expected_start(body, body.get("reason"), zone)) else []),
            ("submitted", when(body.get("submitted_at"), zone)),
            ("started", when(body.get("started_at"), zone)),
            *([("held", f"since {when(body['held_since'], zone)}")] if body.get("held") else []),
            ("ended", when(body.get("ended_at"), zone)),
        )
    )
    name = body["job_id"]
    note(f"its tasks: paceline job tasks {name}; why it is so: paceline job explain {name}")
    note(f"its file: paceline job spec {name}")


def _expected_start(body: "Job | Explanation", headline: "Reason | None", zone: str) -> str:
    """The forecast of a job, or why it has none, which its headline may say already; empty: it has begun."""
    if forecast := body.get("forecast"):
        return forecast_text(forecast, zone)
    if (why := body.get("no_forecast")) is None:
        return ""
    is_told = headline is not None and headline["code"] == why["code"]
    return f"not known: {why['code']}" if is_told else f"not known: {why['code']}, {why['message']}"


def forecast_text(forecast: "Forecast", zone: str) -> str:
    """When a job is expected to begin, and how often that was right."""
    times = [clock(forecast[each], forecast["made_at"], zone) for each in ("low", "high", "median", "made_at")]
    text = f"{times[0]} … {times[1]} (80 %), most likely {times[2]}; made {times[3]}"
    if forecast["inside_percent"] is None:
        return f"{text}; no forecast of {forecast['pool']} was scored yet"
    return f"{text}; forecasts of {forecast['pool']} last week: {forecast['inside_percent']} % right"


def _resources(resources: "Amounts") -> str:
    """The resources of a task, without those that it asks nothing of."""
    return words({name: amount for name, amount in resources.items() if amount not in (0, "0MiB")})


def print_tasks(rows: "list[Task]", shape: TableOptions) -> None:
    """Tasks as a table."""
    table(
        rows,
        [
            Column("TASK", lambda each: each["instance"], right=True),
            Column("STATE", lambda each: each["state"]),
            Column("RUN", lambda each: each["run"], right=True),
            Column("VERSION", lambda each: each.get("version"), right=True),
            Column("HOST", lambda each: each["host_id"]),
            Column("PORTS", lambda each: ", ".join(map(str, each["ports"])) or None),
            *devices_column(rows),
            *([Column("HEALTH", lambda each: each.get("health"))] if any(each.get("health") for each in rows) else []),
            Column("EXIT", lambda each: each.get("signal") or each["exit_code"], right=True),
            Column("OUTCOME", lambda each: each["outcome"]),
            Column("REASON", lambda each: each["reason"]),
        ],
        shape,
    )


def print_runs(rows: "list[Run]", zone: str, shape: TableOptions) -> None:
    """The runs of a task as a table."""
    throttled = any(each.get("throttled_ms") for each in rows)
    table(
        rows,
        [
            Column("RUN", lambda each: each["run"], right=True),
            Column("STATE", lambda each: each["state"]),
            Column("VERSION", lambda each: each["version"], right=True),
            Column("HOST", lambda each: each["host_id"]),
            *devices_column(rows),
            Column("EXIT", lambda each: each["signal"] or each["exit_code"], right=True),
            Column("OUTCOME", lambda each: each["outcome"]),
            Column("CPU S", lambda each: _per_thousand(each["cpu_ms"]), right=True),
            Column("MEMORY MIB", lambda each: _mib(each["memory_kib"]), right=True),
            *(
                [Column("THROTTLED S", lambda each: _per_thousand(each.get("throttled_ms")), right=True)]
                if throttled
                else []
            ),
            *(_io_columns() if any(each.get("read_kib") or each.get("written_kib") for each in rows) else []),
            Column("ORDERED", lambda each: when(each["ordered_at"], zone), order=lambda each: each["ordered_at"]),
            Column("STARTED", lambda each: when(each["started_at"], zone), order=lambda each: each["started_at"] or ""),
            Column("ENDED", lambda each: when(each["ended_at"], zone), order=lambda each: each["ended_at"] or ""),
            Column("REASON", lambda each: "out of memory" if each["out_of_memory"] else each["reason"]),
        ],
        shape,
    )


def _io_columns() -> list[Column]:
    return [
        Column("READ MIB", lambda each: _mib(each.get("read_kib")), right=True),
        Column("WRITTEN MIB", lambda each: _mib(each.get("written_kib")), right=True),
    ]


def _mib(kib: int | None) -> int | None:
    return kib and kib // 1024


def _per_thousand(value: int | None) -> str | None:
    return None if value is None else f"{value / 1000:.1f}"


def print_throttled(rows: "list[Task]", zone: str, shape: TableOptions) -> None:
    """Tasks that wait before they are run again, of all jobs."""
    table(
        rows,
        [
            Column("JOB", lambda each: each["job_id"]),
            Column("TASK", lambda each: each["instance"], right=True),
            Column("RUN", lambda each: each["run"], right=True),
            Column("FAILURES", lambda each: each["failures"], right=True),
            Column("EXIT", lambda each: each["exit_code"], right=True),
            Column("OUTCOME", lambda each: each["outcome"]),
            Column("SINCE", lambda each: when(each["since"], zone), order=lambda each: each["since"]),
            Column("AGAIN", lambda each: ahead(each["next_run_at"], zone), order=lambda each: each["next_run_at"]),
            *cell_column(rows),
        ],
        shape,
    )


def print_explanation(body: "Explanation", zone: str) -> None:
    """Why a job is where it is; the first two lines say what counts."""
    headline = body["headline"]
    if headline is None:
        say(f"job {body['job_id']}  {body['state']}  nothing pending")
        _print_strategy(body)
        _print_winner(body)
        return
    say(f"job {body['job_id']}  {body['state']}  {headline['code']}  {timed(headline['message'], zone)}")
    say(f"  who can act: {headline['actor']}")
    _print_strategy(body)
    if text := _expected_start(body, headline, zone):
        say(f"  expected start: {text}")
    for index, cause in enumerate(body["reasons"]):
        if index:
            say(f"  also {cause['code']}  {timed(cause['message'], zone)}")
        for name, value in _details(cause, zone):
            say(f"  {name:<10}  {value}")
    _print_winner(body)


def _print_strategy(body: "Explanation") -> None:
    if strategy := body.get("strategy_in_effect"):
        say(f"  strategy: {strategy['text']}")


def _print_winner(body: "Explanation") -> None:
    """Prints the runs that were preempted for a job."""
    preempted = [
        f"{count} run{'s' * (count != 1)} of job {job_id}" for job_id, count in body.get("preempted_for_it", {}).items()
    ]
    if preempted:
        more = f" and of {len(preempted) - VICTIMS_SHOWN} more" if len(preempted) > VICTIMS_SHOWN else ""
        say(f"  preempted for it: {', '.join(preempted[:VICTIMS_SHOWN])}{more}")


def _details(cause: "WaitReason", zone: str) -> "list[tuple[str, str]]":
    """The details of a reason beside its sentence, one line each."""
    before, considered = cause.get("ahead"), cause.get("hosts_considered")
    by_reason = cause.get("hosts_by_reason") or {}
    funnel = ": ".join((f"{considered} looked at", *([why_not(by_reason)] if by_reason else [])))
    nearest = (
        f"{each['host_id']} {each.get('devices')}"
        if each.get("devices") and not each["lacks"]
        else f"{each['host_id']} short of {_amounts(each['lacks'])}"
        for each in cause.get("nearest") or ()
        if each["lacks"] or each.get("devices")
    )
    lines = (
        ("since", when(cause.get("since"), zone)),
        ("pool", cause.get("pool") or "-"),
        ("asked", _amounts(cause.get("asked"))),
        ("pool holds", _amounts(cause.get("allocated"))),
        ("may use", _amounts(cause.get("entitlement"))),
        ("limit", _amounts(cause.get("limit"))),
        ("reserved", _amounts(cause.get("reserved"))),
        ("ahead", "-" if before is None else f"{before} tasks of {cause.get('jobs_ahead')} jobs"),
        ("hosts", "-" if considered is None else funnel),
        ("hosts", ", ".join(cause.get("hosts") or ()) or "-"),
        ("nearest", " · ".join(nearest) or "-"),
        ("missing", cause.get("missing") or "-"),
        ("order", str(cause.get("order") or "-")),
        ("until", ahead(cause.get("until"), zone)),
        ("again", ahead(cause.get("not_before"), zone)),
        ("round", f"{cause.get('machine')} {cause.get('round')}" if cause.get("round") else "-"),
    )
    return [(name, value) for name, value in lines if value != "-"]


def _amounts(amounts: "Amounts | None") -> str:
    return words({name: value for name, value in (amounts or {}).items() if value})


def print_versions(rows: "list[Version]", zone: str, shape: TableOptions) -> None:
    """Versions as a table."""
    table(
        rows,
        [
            Column("VERSION", lambda each: each["version"], right=True),
            Column("MADE BY", lambda each: each["kind"]),
            Column("LIKE", lambda each: each["like"], right=True),
            Column("UPDATE", lambda each: each["update"], right=True),
            Column("MADE", lambda each: when(each["made_at"], zone), order=lambda each: each["made_at"]),
            Column("REASON", lambda each: each["reason"] or None),
        ],
        shape,
    )


def print_changes(changes: "Sequence[Mapping[str, Any]]", shape: TableOptions) -> None:
    """Prints how specifications differ, a line for each part."""
    table(
        changes,
        [
            Column("FIELD", lambda each: each["pointer"]),
            Column("FROM", lambda each: _value(each["from"])),
            Column("TO", lambda each: _value(each["to"])),
        ],
        shape,
    )


def _value(value: object) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def print_updates(rows: "list[Update]", zone: str, shape: TableOptions) -> None:
    """Updates as a table."""
    table(
        rows,
        [
            Column("UPDATE", lambda each: each["number"], right=True),
            Column("KIND", lambda each: each["kind"]),
            Column("FROM", lambda each: each["from_version"], right=True),
            Column("TO", lambda each: each["version"], right=True),
            Column("STATE", lambda each: "PAUSED" if each["paused"] else each["state"]),
            Column("PENDING", lambda each: each["steps"]["pending"], right=True),
            Column("IN FLIGHT", lambda each: each["steps"]["in_flight"], right=True),
            Column("DONE", lambda each: each["steps"]["done"], right=True),
            Column("FAILED", lambda each: each["steps"]["failed"], right=True),
            Column("CODE", lambda each: each["code"]),
            Column("STARTED", lambda each: when(each["started_at"], zone), order=lambda each: each["started_at"]),
            Column("ENDED", lambda each: when(each["ended_at"], zone), order=lambda each: each["ended_at"] or ""),
            Column("REASON", lambda each: each["reason"] or None),
        ],
        shape,
    )


def print_update(body: "Update", steps: "list[UpdateSteps]", zone: str, shape: TableOptions) -> None:
    """An update: a line for each field, then what happened to which instances."""
    facts(
        (
            ("update", progress_of(body)),
            ("kind", body["kind"]),
            ("versions", f"{body['from_version']} → {body['version']}"),
            ("instances", words({name: count for name, count in body["instances"].items() if count})),
            (
                "policy",
                words({name: value for name, value in body["policy"].items() if value not in _UNSET}),
            ),
            *([("image", image["message"])] if (image := body.get("image")) else []),
            ("reason", body["reason"] or None),
            ("started", when(body["started_at"], zone)),
            ("ended", when(body["ended_at"], zone)),
        )
    )
    rows = [{"at": each["at"], **step} for each in steps for step in each["steps"]]
    table(
        rows,
        [
            Column("AT", lambda each: when(each["at"], zone), order=lambda each: each["at"]),
            Column("INSTANCES", lambda each: write_ranges([(each["first"], each["count"])])),
            Column("STEP", lambda each: each["step"]),
        ],
        shape,
    )


def print_history(rows: "list[HistoryEntry]", zone: str, shape: TableOptions) -> None:
    """Prints the history, a line for each entry; orders to preempt that a round gave for the same reason share one."""
    table(
        list(_ranged(rows)),
        [
            Column("AT", lambda each: when(each["at"], zone), order=lambda each: each["at"]),
            Column("WHO", speaker),
            Column("ROUND", lambda each: each["round"], right=True),
            Column("EVENT", lambda each: each["event"]),
            Column("WHAT", lambda each: each["text"]),
            Column("DETAIL", lambda each: words(_readable(each["detail"], zone)), on_request=True),
            *ACTOR_COLUMNS,
        ],
        shape,
    )


def _of_actor(field: str) -> "Callable[[HistoryEntry], str | None]":
    def value(row: "HistoryEntry") -> str | None:
        actor = row.get("actor")
        return (actor.get(field) or None) if actor else None  # type: ignore[return-value]

    return value


ACTOR_COLUMNS = (
    Column("ALLOWED BY", _of_actor("binding"), on_request=True),
    Column("ADDRESS", _of_actor("address"), on_request=True),
    Column("REASON", _of_actor("reason"), on_request=True),
)
"""More columns of a history, about who wrote a fact."""


def speaker(row: "HistoryEntry") -> str | None:
    """The speaker: a machine, a user by name, or whoever writes to a topic."""
    if actor := row.get("actor"):
        return actor["name"]
    return row["machine"] or SPEAKERS.get(row["position"].rpartition(":")[0])


def _ranged(rows: "list[HistoryEntry]") -> "Iterator[HistoryEntry]":
    """The rows; orders that follow each other and are alike are one, with their numbers of tasks added up."""
    for key, group in groupby(rows, _alike):
        same = list(group)
        if key is None or len(same) == 1:
            yield from same
            continue
        first, last = same[0]["detail"], same[-1]["detail"]
        detail: Json = {"orders": f"{first['order']}-{last['order']}"}
        for name, value in first.items():
            if name in ("tasks", "victims"):
                detail[name] = sum(each["detail"][name] for each in same)
            elif name not in _OF_ONE_ORDER:
                detail[name] = list(value) if isinstance(value, dict) else value
        yield {**same[0], "text": f"{same[0]['text']}; and {len(same) - 1} more orders like it", "detail": detail}


def _alike(row: "HistoryEntry") -> "tuple[object, ...] | None":
    """The key that orders of one line have in common; None: it isn't an order to preempt."""
    if row["event"] != "PreemptionsOrdered":
        return None
    shared = ("code", "for_job", "for_pool", "from_pool", "from_pools", "ways", "from_jobs")
    of = row["detail"]
    names = [list(of[name]) if isinstance(of.get(name), dict) else of.get(name) for name in shared]
    return (row["machine"], row["round"], "victims" in of, *names)


def _readable(detail: Json, zone: str) -> Json:
    """Times within what happened, as users read them: they may lie ahead, so no age is shown."""
    readable = {}
    for name, value in detail.items():
        if name in _TIMES and value:
            moment = datetime.fromtimestamp(value / 1000, UTC).isoformat()
            readable[name.removesuffix("_ms")] = when(moment, zone or "utc")
        else:
            readable[name] = value
    return readable
