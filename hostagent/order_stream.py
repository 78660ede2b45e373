"""Parses the stream of orders for an agent. Orders that can't be read are refused run by run; the rest is obeyed."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec

from events.bounds import NAME
from events.structs import known
from hostagent.messages import JobOrder, Line, OrderKind, OrdersLine, RunOrder
from hostagent.run_record import RunKey

T = TypeVar("T")
REASON = "the agent can't read the order: {}. An agent of the gateway's version can."


class Refusal(NamedTuple):
    """A run whose order can't be read, and why."""

    key: RunKey
    reason: str


@dataclass(frozen=True)
class ParsedOrders:
    """A line of the stream. `line` None: of a kind that this agent doesn't know; `refused`: the runs of orders that it
    can't read; `unnamed`: why orders can't be read that don't even name a run.
    """

    line: Line | None
    refused: list[Refusal] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)


def read(text: bytes) -> ParsedOrders:
    """Reads a line. Raises `msgspec.DecodeError` where it is no JSON or names no position: then the whole set has to be
    asked for again.
    """
    try:
        line = msgspec.json.decode(text, type=Line)
        if not isinstance(line, OrdersLine) or (
            all(NAME.fullmatch(job.job_id) for job in line.jobs) and all(run.job < len(line.jobs) for run in line.items)
        ):
            return ParsedOrders(line)
        value: Any = json.loads(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        try:
            value = json.loads(text)  # takes what msgspec refuses as a whole, as half a surrogate
        except (ValueError, RecursionError) as error:
            raise msgspec.DecodeError(f"a line of orders is no JSON: {error}") from error
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind != "orders":
            return ParsedOrders(None, unnamed=[f"a line of the kind {kind!r}: {fault}"])
    orders = msgspec.convert(value, known(_Orders))
    jobs = [_converted(each, JobOrder) for each in orders.jobs]
    jobs_named = [job or JobOrder(_job_id(each)) for (job, _), each in zip(jobs, orders.jobs, strict=True)]
    readable: list[RunOrder] = []
    reading = ParsedOrders(OrdersLine(orders.position, orders.whole, jobs_named, readable))
    for each in orders.items:
        item, fault_ = _converted(each, RunOrder)
        if (run := item or _loosely(each)) is None:
            reading.unnamed.append(fault_)
            continue
        job_id = jobs_named[run.job].job_id if run.job < len(jobs_named) else ""
        if item is not None and run.job < len(jobs_named) and run.kind == OrderKind.START:
            fault_ = jobs[run.job][1]
        if not NAME.fullmatch(job_id):
            reading.unnamed.append(fault_ or f"{job_id!r} is no id of a job")
        elif fault_:
            reading.refused.append(Refusal(RunKey(job_id, run.instance, run.run), REASON.format(fault_)))
        else:
            readable.append(run)
    return reading


class _Orders(msgspec.Struct):
    """A line of orders, as far as it must be read to be followed at all."""

    position: int
    whole: bool
    jobs: list[Any]
    items: list[Any]


def _converted(value: Any, kind: type[T]) -> tuple[T | None, str]:
    try:
        return msgspec.convert(value, known(kind)), ""
    except msgspec.ValidationError as fault:
        return None, str(fault)


def _job_id(value: Any) -> str:
    """The id of a job whose order can't be read; empty: it has none."""
    job_id = value.get("job_id") if isinstance(value, dict) else None
    return job_id if isinstance(job_id, str) else ""


def _loosely(value: Any) -> RunOrder | None:
    """The run of an order that can't be read, as a start; None: it names none."""
    return _converted([0, *value[1:4]], RunOrder)[0] if isinstance(value, list) else None
