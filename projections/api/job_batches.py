"""Routes of batches: many jobs in one request, each answered, which are checked on one state of the views, written at
once and waited for together (decision 084).
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import orjson
from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from events.codes import IN_EFFECT, Code
from events.log.port import NewRecord
from events.process.images import RESOLVE_S
from events.spec.job import JobSpec
from events.topics import JOBS
from paceline.client.batch_models import BatchedJob, JobBatch
from projections.api.batch_checks import Accepted, BatchItem, check_batch, half_characters, id_of, states_of
from projections.api.context import Context, Wait, of_cell
from projections.api.image_tags import digests_of, tag_of
from projections.api.job_plans import Find, finds
from projections.api.job_specs import UNSETTLED
from projections.api.problems import Problem
from projections.api.secrets import Pins
from projections.api.submissions import refusal
from projections.api.told_problems import DETAIL_MAX, ToldProblems
from projections.queries import entities
from projections.record_json import whole
from projections.views.job_states import SUBMITTED

T = TypeVar("T")
NO_PINS = Pins()
BATCH_MAX = 10_000
"""Jobs of one request."""
APPENDED_MAX = 1000
"""Facts that are appended at once."""


class JobsToSubmit(BaseModel):
    """Jobs as they are submitted, one after the other."""

    model_config = ConfigDict(extra="forbid")

    jobs: Annotated[list[JobSpec], Field(min_length=1, max_length=BATCH_MAX)]


class Share(NamedTuple):
    """The jobs of a batch that belong to a cell, and their numbers in it."""

    context: Context
    numbers: list[int]
    items: list[BatchItem]


def routes(context: Context) -> APIRouter:
    """The route /v1/job-batches of a cell."""
    return routes_over(finds(context))


def routes_over(finder: Callable[[Request], Find]) -> APIRouter:
    """The route /v1/job-batches, whose jobs are those of the cells that are found for a request."""
    router = APIRouter(prefix="/v1/job-batches", tags=["jobs"])

    @router.post("")
    async def submit(
        request: Request,
        body: Annotated[Any, Body()],
        wait: Wait,
        all_or_nothing: Annotated[bool, Query(description="Submit none where one is refused by the checks.")] = False,
        dry_run: Annotated[bool, Query(description="Check the jobs and answer what would be written.")] = False,
    ) -> Response:
        """Submits jobs, `{"jobs": [...]}`, in their order. Each is answered with the status and, where it is refused,
        the problem that it would get alone; the others are submitted. With `all_or_nothing` the answer is the problem
        of the first that the checks refuse, with the `errors` of all, and none is submitted. What only the machines
        refuse when they decide, such as the last place in a pool that two clients ask for, is refused alone.

        The tags of all images are looked up together, for as long as `wait`, at least 10 s. Of each job the first ten
        faults are told; in an answer of many MiB those of further jobs are left out.

        The same batch again is harmless: a job that is there already is answered with its state.
        """
        deadline = time.monotonic() + wait
        batch = _Batch(_jobs(body))
        await batch.find(finder(request), request, max(deadline, time.monotonic() + RESOLVE_S))
        await batch.check()
        if all_or_nothing:
            batch.must_be_whole()
        if dry_run:
            return batch.answer(dry_run=True)
        await run_in_threadpool(batch.append)
        await batch.decided(deadline)
        return batch.answer()

    return router


def _jobs(body: Any) -> list[Any]:
    """The jobs of a body. Raises a problem where it is none."""
    jobs = body.get("jobs") if isinstance(body, dict) else None
    if not isinstance(jobs, list) or not 1 <= len(jobs) <= BATCH_MAX:
        message = f"must be a list of 1 to {BATCH_MAX} jobs"
        raise Problem(422, "INVALID_REQUEST", f"jobs {message}", [("/jobs", message)])
    if more := body.keys() - {"jobs"}:
        raise Problem(422, "INVALID_REQUEST", "unknown field", [(f"/{name}", "no such field") for name in sorted(more)])
    return jobs


class _Batch:
    """The jobs of a request, and what becomes of each."""

    def __init__(self, jobs: Sequence[Any]) -> None:
        self._jobs = jobs
        self._shares: dict[int, Share] = {}
        self._outcomes: dict[int, Accepted | Problem] = {}
        self._offsets: dict[int, int] = {}
        self._answers: dict[int, BatchedJob] = {}
        self._told = ToldProblems()

    async def find(self, find: Find, request: Request, deadline: float) -> None:
        """Finds the cell of each job, the digest of its image, until `deadline`, and the versions of its secrets."""
        contexts: dict[Any, Context | Problem] = {}
        self._outcomes |= half_characters(self._jobs)
        whole = [(number, body) for number, body in enumerate(self._jobs) if number not in self._outcomes]
        digests = await digests_of((tag_of(body) for _, body in whole), request, deadline)
        for number, body in whole:
            wish = body if isinstance(body, dict) else {}
            pool = value if isinstance(value := wish.get("pool"), str) else ""
            if pool not in contexts:
                contexts[pool] = await _or_problem(find({"pool": pool} if pool else {}))
            context, digest = contexts[pool], digests.get(tag_of(body), "")
            for problem in (context, digest):
                if isinstance(problem, Problem):
                    self._outcomes[number] = problem
            if isinstance(context, Problem) or isinstance(digest, Problem):
                continue
            pins = await Pins().look_up(context, body) if wish.get("secrets") else NO_PINS
            share = self._shares.setdefault(context.cell, Share(context, [], []))
            share.numbers.append(number)
            share.items.append(BatchItem(body, digest, pins))

    async def check(self) -> None:
        """Checks the jobs of each cell; once more, with the facts of a moment ago, where some are refused for want of
        them.
        """
        for share in self._shares.values():
            outcomes = await run_in_threadpool(_checked, share)
            if any(isinstance(each, Problem) and each.code in UNSETTLED for each in outcomes):
                await share.context.settle_pools()
                outcomes = await run_in_threadpool(_checked, share)
            self._outcomes |= zip(share.numbers, outcomes, strict=True)

    def must_be_whole(self) -> None:
        """Raises the problem of the first job that is refused, with the faults of all."""
        refused = [(number, each) for number, each in sorted(self._outcomes.items()) if isinstance(each, Problem)]
        if not refused:
            return
        faults = [fault for number, each in refused for fault in self._told.faults(each, f"/jobs/{number}")]
        number, first = refused[0]
        pointer, message = first.errors[0] if first.errors else ("", f"{first.detail} ({first.code})")
        detail = f"{len(refused)} of {len(self._jobs)} jobs are refused, so none is submitted; "
        detail += f"/jobs/{number}{pointer}: {message}"[:DETAIL_MAX]
        raise Problem(first.status, first.code, detail, faults, headers=first.headers)

    def append(self) -> None:
        """Writes the jobs that nothing is known against, those of a cell in their order."""
        for share in self._shares.values():
            records: list[NewRecord] = []
            last: list[tuple[int, int]] = []
            for number in share.numbers:
                outcome = self._outcomes[number]
                if isinstance(outcome, Problem) or outcome.state is not None:
                    continue
                records += outcome.records
                last.append((number, len(records) - 1))
            offsets: list[int] = []
            for at in range(0, len(records), APPENDED_MAX):
                offsets += share.context.facts.append(records[at : at + APPENDED_MAX])
            self._offsets |= {number: offsets[index] for number, index in last}

    async def decided(self, deadline: float) -> None:
        """Waits until the jobs that were written are decided, and notes the answers that there are in time."""
        for share in self._shares.values():
            offsets = {self._offsets[number]: number for number in share.numbers if number in self._offsets}
            if offsets and (rest_s := deadline - time.monotonic()) > 0:
                await share.context.reach({JOBS.name: max(offsets)}, rest_s)
                await run_in_threadpool(self._note_answers, share.context, offsets)

    def _note_answers(self, context: Context, offsets: Mapping[int, int]) -> None:
        with context.views.read() as connection:
            rows = entities.answers_between(connection, JOBS.name, min(offsets), max(offsets))
            answers = [(offsets[row.offset], row) for row in rows if row.offset in offsets]
            states = states_of(connection, [id_of(self._jobs[number]) or "" for number, _ in answers])
        for number, row in answers:
            position, job_id = f"{JOBS.name}:{row.offset}", id_of(self._jobs[number]) or ""
            if row.code not in IN_EFFECT:
                self._outcomes[number] = refusal(context, row, position, job_id)
                continue
            answer: BatchedJob = {"job_id": job_id, "status": 201, "state": states.get(job_id, SUBMITTED)}
            answer["position"] = position
            if row.code == Code.REPEATED:
                answer["status"], answer["repeated"] = 200, True
            self._answers[number] = answer

    def answer(self, dry_run: bool = False) -> Response:
        """The answer to the request."""
        jobs = [self._job(number, dry_run) for number in range(len(self._jobs))]
        positions = []
        for share in self._shares.values():
            if offsets := [self._offsets[number] for number in share.numbers if number in self._offsets]:
                last = f"{JOBS.name}:{max(offsets)}"
                positions.append(of_cell(last, share.context.cell) if share.context.beside else last)
        body: JobBatch = {"jobs": jobs, "position": ",".join(positions)}
        headers = {"Log-Position": body["position"]} if positions else {}
        return Response(orjson.dumps(body), 200, headers, media_type="application/json")

    def _job(self, number: int, dry_run: bool) -> BatchedJob:
        outcome = self._outcomes[number]
        if isinstance(outcome, Problem):
            job_id = id_of(self._jobs[number]) or ""
            return {"job_id": job_id, "status": outcome.status, "problem": self._told.body(outcome)}
        answer: BatchedJob = {"job_id": outcome.event.job_id, "status": 200}
        if outcome.state is not None:
            answer["state"], answer["repeated"] = outcome.state, True
        elif dry_run:
            answer["events"] = [{"event": "JobSubmitted", **whole(outcome.event)}]
        elif number in self._answers:
            answer = self._answers[number]
        else:
            answer["status"], answer["state"] = 202, SUBMITTED
            answer["position"] = f"{JOBS.name}:{self._offsets[number]}"
        if outcome.warnings:
            answer["warnings"] = outcome.warnings
        return answer


def _checked(share: Share) -> list[Accepted | Problem]:
    with share.context.views.read() as connection:
        return check_batch(share.context, connection, share.items)


async def _or_problem(question: Awaitable[T]) -> T | Problem:
    """The answer to a question, or the problem that is raised instead."""
    try:
        return await question
    except Problem as problem:
        return problem
