"""The route of a placement: the decision that placed a run, and among which hosts it chose."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX
from events.choices import SCORE_ONE, Choice, choice_of, passed_over
from events.codec import decode
from events.codes import Code
from events.device_columns import devices_of
from events.log.lookup import record_at
from events.log.port import LogGap
from events.quantities import write_amounts
from events.records.placement import TasksPlaced
from events.records.rounds import RoundCommitted
from events.resources import Unit
from events.rounds import decode_decisions
from events.strategies import STRATEGIES
from events.topics import ALL, rounds_of
from paceline.client.models import RunDevices
from paceline.client.placement_models import PlacementCandidate, TaskPlacement
from projections.api.context import Context
from projections.api.job_lookup import read_views
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found
from projections.queries import tasks as task_queries
from projections.queries.devices import fields_of_run
from projections.queries.job_entries import newest_first
from projections.queries.resources import kinds_of
from projections.record_json import at

PLACEMENT = rounds_of("placement")
QUEUED = "QUEUED"
NOBODY = "this process can't derive it; ask the API of the cell"


class _Decision(NamedTuple):
    """The decision that placed a run."""

    round: int
    place: int
    offset: int
    at_ms: int
    host_id: str
    ports: list[int]
    choice: Choice | None
    alternative: int | None
    passed_over: list[str]
    devices: RunDevices


def add_routes(router: APIRouter, context: Context) -> None:
    """Adds them to the routes of jobs."""

    @router.post("/{job_id}/tasks/{instance}/placements")
    async def placement(
        job_id: str,
        instance: Annotated[int, Path(ge=0, le=INT_MAX)],
        run: Annotated[int | None, Query(ge=1, le=INT_MAX, description="Without it the present run.")] = None,
    ) -> Response:
        """Derives again among which hosts a run was placed: the best five at that decision, with the terms of their
        scores. Placement is replayed in a process of its own; nothing is written.
        """
        return JSONResponse(await run_in_threadpool(_placement, context, job_id, instance, run), 200)


def _placement(context: Context, job_id: str, instance: int, run: int | None) -> TaskPlacement:
    def look(connection: Connection) -> tuple[int, _Decision, Any]:
        row = find_job(connection, job_id)
        task = task_queries.task(connection, row, instance)
        if task is None:
            tasks = f"tasks 0 to {row.instances - 1}" if row.instances > 1 else "task 0 alone"
            raise Problem(404, Code.NOT_FOUND, f"job {job_id} has {tasks if row.instances else 'no tasks'}")
        number = run or task["run"]
        decision = next(_decisions(context, connection, job_id, instance, number), None)
        if decision is None:
            if run is None and task["state"] == QUEUED:
                text = f"task {instance} waits: paceline job explain {job_id} says for what"
                raise Problem(404, Code.NOT_FOUND, text)
            raise not_found("placement of run", f"{number} of task {instance} of job {job_id}")
        return number, decision, kinds_of(connection).units

    number, decision, units = read_views(context, look)
    placement: TaskPlacement = {
        "job_id": job_id,
        "instance": instance,
        "run": number,
        "host_id": decision.host_id,
        "ports": decision.ports,
        "round": decision.round,
        "position": f"{PLACEMENT}:{decision.offset}",
        "at": at(decision.at_ms),
        "why": NOBODY,
        "strategy": "",
        "score": None,
        "hosts": 0,
        "feasible": 0,
        "spread_over": "",
        "alternative": decision.alternative,
        "passed_over": decision.passed_over,
        "candidates": [],
    }
    placement |= decision.devices
    if choice := decision.choice:
        placement |= {"strategy": STRATEGIES[choice.strategy], "score": choice.score / SCORE_ONE}
        placement["feasible"] = choice.feasible
    if context.placements is None:
        return placement
    result = context.placements.derive(decision.round, decision.place, job_id, instance)
    if result.why:
        return {**placement, "why": result.why}
    return {
        **placement,
        "why": "",
        "strategy": result.strategy,
        "hosts": result.hosts,
        "feasible": result.feasible,
        "spread_over": result.spread_over,
        "candidates": [_candidate(each, decision.host_id, units) for each in result.best],
    }


def _candidate(each: Any, host_id: str, units: Mapping[str, Unit]) -> PlacementCandidate:
    """A host that was possible; `host_id`: the one that was chosen."""
    return {
        "host_id": each.host_id,
        "score": each.score,
        "terms": each.terms,
        "free": write_amounts(each.free, units),
        "tasks": each.tasks,
        "own_room": each.own_room,
        "chosen": each.host_id == host_id,
        "value": each.value,
        "value_tasks": each.value_tasks if each.value_tasks >= 0 else None,
        "with_devices": each.with_devices,
        "unmet": each.unmet,
        "without_image": each.without_image,
    }


def _decisions(context: Context, connection: Connection, job_id: str, instance: int, run: int) -> Iterator[_Decision]:
    """The decisions that placed a run, the newest first."""
    for entry in newest_first(connection, job_id):
        if entry.event != TasksPlaced.__name__ or ALL[entry.topic].name != PLACEMENT:
            continue
        try:
            record = record_at(context.log, PLACEMENT, entry.offset)
        except LogGap:
            return
        event = decode(record.value) if record is not None else None
        if record is None or not isinstance(event, RoundCommitted):
            continue
        placed = decode_decisions(event)[entry.place]
        if not isinstance(placed, TasksPlaced) or job_id not in placed.job_ids:
            continue
        mine = placed.job_array == placed.job_ids.index(job_id)
        mine &= (placed.instance_array == instance) & (placed.run_array == run)
        if not mine.any():
            continue
        item = int(mine.argmax())
        counts = placed.port_count_array
        first = int(counts[:item].sum()) if len(counts) else 0
        ports = placed.ports_array[first : first + (int(counts[item]) if len(counts) else 0)].tolist()
        host_id = placed.host_ids[int(placed.host_array[item])]
        choice, number = choice_of(placed, item), int(placed.alternative_array[item])
        yield _Decision(
            *(event.round, entry.place, entry.offset, record.at_ms, host_id, ports),
            *(choice, number if number >= 0 else None, passed_over(placed, item)),
            fields_of_run([each for at, some in devices_of(placed) if at == item for each in some]),
        )
