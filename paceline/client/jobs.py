"""Requests of the client about jobs."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack, cast

from paceline.client.api_requests import (
    PAGE,
    Requests,
    error_of,
    json_body,
    json_content,
    new_id,
    wait_query,
    without_none,
)
from paceline.client.batch_models import BatchedJob, JobBatch
from paceline.client.checked_values import path_of
from paceline.client.errors import InvalidValue, NotFound, PacelineError, Refused, TimedOut
from paceline.client.exec_frames import Frame, FrameReader
from paceline.client.explanation_models import Explanation
from paceline.client.json_type import Json
from paceline.client.many import each_of
from paceline.client.models import (
    ENDED,
    Diff,
    Entered,
    HistoryEntry,
    Job,
    JobAction,
    JobAnswer,
    JobCheck,
    Run,
    Said,
    Task,
    Update,
    UpdateCheck,
    UpdateSteps,
    Version,
)
from paceline.client.page_models import JobsPage, TasksPage
from paceline.client.patience import Patience
from paceline.client.pauses import FIRST_ASK_S, SLOWEST_ASK_S
from paceline.client.placement_models import TaskPlacement
from paceline.client.plan_models import JobPlan, JobPlans
from paceline.client.strangers import no_cell
from paceline.client.usage_models import JobUsage

PLAN_S = 120.0
"""Seconds that an answer may take longer for which the machines of the cell are read first."""
BATCH_MAX, BATCH_BYTES_MAX = 10_000, 16 * 1024 * 1024
"""Jobs that are sent in one request, and the bytes of its body; a larger job goes alone."""
CHECK = {"dry_run": "true", "all_or_nothing": "true"}
BATCH_S = 60.0
"""Seconds that the answer to a batch may take longer than that to a job."""
SILENCE_S = 20.0
"""After so long without a frame, pings included, the connection to a command is lost."""


class JobRequests(Requests):
    """Methods about jobs, see `Client`."""

    def submit_job(self, spec: Mapping[str, Any], wait: float = 0) -> Job:
        """Submits a job and returns it; the same id with the same spec again is a repeat. A spec without `job_id` gets
        one; whoever wants to try again safely names it. `wait`: so many seconds until the cell has decided about it,
        not until it has run; see the method `wait`.
        """
        body = {**spec, "job_id": spec.get("job_id") or new_id("job")}
        return cast(Job, self._write("POST", "/v1/jobs", body, wait))

    def submit_jobs(
        self, specs: Sequence[Mapping[str, Any]], wait: float = 0, all_or_nothing: bool = False
    ) -> list[BatchedJob]:
        """Submits jobs, 10,000 in a request, and returns the answer to each, in their order: what is refused stands
        there as a `problem`. `all_or_nothing`: raises `Refused` where the checks of the cell refuse any, with the
        `errors` of all by JSON pointer (`/jobs/7/pool`), and submits none.
        """
        parts = list(_parts([{**spec, "job_id": spec.get("job_id") or new_id("job")} for spec in specs]))
        if all_or_nothing and len(parts) > 1:
            self._batches(parts, 0, CHECK)
        return self._batches(parts, wait, {"all_or_nothing": "true"} if all_or_nothing else {})

    def check_jobs(self, specs: Sequence[Mapping[str, Any]]) -> list[BatchedJob]:
        """Checks jobs as `submit_jobs` with `all_or_nothing` does and returns for each the facts that it would write,
        or the state of a job that was submitted before; nothing is written.
        """
        return self._batches(list(_parts(specs)), 0, CHECK)

    def _batches(self, parts: Sequence[tuple[int, bytes]], wait: float, params: Mapping[str, str]) -> list[BatchedJob]:
        """The answers to the jobs of several requests. Raises `Refused` with the errors of all, if none is written."""
        answers: list[BatchedJob] = []
        refused: list[tuple[int, Refused]] = []
        query = {**params, **wait_query(wait)}
        for first, content in parts:
            try:
                response = self._send(
                    "POST", "/v1/job-batches", wait + BATCH_S, params=query, **json_content(content)
                )  # fmt: skip
            except Refused as error:
                if "dry_run" not in params:
                    raise
                refused.append((first, error))
                continue
            answer = cast(JobBatch, self._body(response))
            self._note(answer["position"], response.headers.get("Log-Cell"))
            answers += answer["jobs"]
        if refused:
            whole = refused[0][1]
            whole.errors = [(_moved(at, first), text) for first, each in refused for at, text in each.errors]
            raise whole
        return answers

    def job_usage(self, job_id: str) -> JobUsage:
        """The use of the live runs of a job, asked of their hosts."""
        return cast(JobUsage, self._get(path_of("jobs", job_id, "usage")))

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """The job once it has ended, however that was.

            job = client.wait("tiles", timeout=600)
            print(job["state"], job["tasks"])

        A cell that goes away meanwhile is waited for, by default for a minute; then it raises `Unreachable`, and
        `TimedOut` after `timeout` seconds: in both cases the job goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        patience = Patience(self.patience)
        job, pause = self.job(job_id), FIRST_ASK_S
        while job["state"] not in ENDED:
            rest_s = pause if deadline is None else deadline - time.monotonic()
            if rest_s <= 0:
                raise TimedOut(f"job {job_id} is {job['state']} after {timeout:g} s; the wait ended, the job goes on.")
            time.sleep(min(pause, rest_s))
            pause = min(SLOWEST_ASK_S, pause * 1.3)
            try:
                job = self.job(job_id)
                patience.answered()
            except PacelineError as error:
                patience.missed(error)
        return job

    def check_job(self, spec: Mapping[str, Any]) -> Job | JobCheck:
        """Checks a job: returns the fact that submitting it would write now, or the job where it was submitted before;
        nothing is written. Raises what submitting it would raise.
        """
        params = {"dry_run": "true"}
        return cast(Job | JobCheck, self._body(self._send("POST", "/v1/jobs", params=params, **json_body(spec))))

    def placement(self, job_id: str, instance: int, run: int | None = None) -> TaskPlacement:
        """The decision that placed a run of a task, without `run` the present one, and the best hosts at that time."""
        path = path_of("jobs", job_id, "tasks", str(instance), "placements")
        params = {} if run is None else {"run": str(run)}
        return cast(TaskPlacement, self._body(self._send("POST", path, wait=PLAN_S, params=params, **json_body({}))))

    def plan_job(self, spec: Mapping[str, Any]) -> JobPlan:
        """Where a job would go now, what of it would wait and why, and what it would preempt. Nothing is written. Of a
        job that is there and differs, its update is planned.
        """
        return cast(JobPlan, self._body(self._send("POST", "/v1/job-plans", wait=PLAN_S, **json_body(spec))))

    def plan_jobs(self, specs: Sequence[Mapping[str, Any]]) -> list[JobPlan]:
        """The plans of jobs that are submitted one after the other, with nothing else in between; 1,000 at most."""
        body = json_body({"jobs": list(specs)})
        return cast(JobPlans, self._body(self._send("POST", "/v1/job-plans", wait=PLAN_S, **body)))["plans"]

    def jobs(
        self,
        state: str | None = None,
        pool: str | None = None,
        labels: Sequence[str] = (),
        page_size: int = PAGE,
        *,
        owners: Sequence[str] = (),
        actor: str | None = None,
        text: str | None = None,
        since: str | None = None,
        order: str | None = None,
    ) -> Iterator[Job]:
        """All jobs, the newest first. `state`: one or more, with commas; `labels`: KEY:VALUE, all must hold; the others
        as in `jobs_page`.
        """
        params: Json = {"state": state, "pool": pool, "label": labels, "owner": owners, "text": text, "since": since}
        return self._all("/v1/jobs", "jobs", {**params, "actor": actor, "order": order, "page_size": page_size})

    def jobs_page(
        self,
        state: str | None = None,
        pool: str | None = None,
        labels: Sequence[str] = (),
        page_size: int = PAGE,
        page_token: str | None = None,
        *,
        owners: Sequence[str] = (),
        actor: str | None = None,
        text: str | None = None,
        since: str | None = None,
        order: str | None = None,
    ) -> JobsPage:
        """One page of jobs, as it came. `owners`: one of these; `actor`: submitted by this user; `text`: part of
        the id or the command; `since`: an RFC 3339 time; `order`: newest, or wait for those that wait, the longest
        first.
        """
        params: Json = {"state": state, "pool": pool, "label": labels, "owner": owners, "text": text, "since": since}
        params |= {"actor": actor, "order": order, "page_size": page_size, "page_token": page_token}
        return cast(JobsPage, self._get("/v1/jobs", params))

    def job(self, job_id: str, overrides: bool = False) -> Job:
        """One job, its spec if asked for with all `overrides`: of many it tells by itself only which instances have
        some (`overrides_of`).
        """
        return cast(Job, self._get(path_of("jobs", job_id), {"overrides": "true"} if overrides else None))

    def tasks(
        self,
        job_id: str,
        state: str | None = None,
        host: str | None = None,
        instances: str | None = None,
        page_size: int = PAGE,
    ) -> Iterator[Task]:
        """The tasks of a job, in the order of their instances. `state`: one or more, with commas; `host`: on that one;
        `instances`: ranges of them, such as 0-99,200.
        """
        params = {"state": state, "host": host, "instances": instances, "page_size": page_size}
        return self._all(path_of("jobs", job_id, "tasks"), "tasks", params)

    def tasks_page(
        self,
        job_id: str,
        state: str | None = None,
        host: str | None = None,
        instances: str | None = None,
        page_size: int = PAGE,
        page_token: str | None = None,
    ) -> TasksPage:
        """One page of tasks, as it came, see `tasks`."""
        params = {"state": state, "host": host, "instances": instances, "page_size": page_size}
        return cast(TasksPage, self._get(path_of("jobs", job_id, "tasks"), {**params, "page_token": page_token}))

    def runs(self, job_id: str, instance: int) -> list[Run]:
        """The runs of a task that are kept, at most 100, the newest first."""
        answer = self._get(path_of("jobs", job_id, "tasks", str(instance), "runs"))
        return cast(list[Run], answer["runs"])

    def throttled(self) -> Iterator[Task]:
        """Tasks of all jobs that wait before they are run again, each with its `job_id`."""
        return self._all("/v1/throttled-tasks", "tasks", {"page_size": PAGE})

    def explanation(self, job_id: str) -> Explanation:
        """Why a job is where it is."""
        return cast(Explanation, self._get(path_of("jobs", job_id, "explanation")))

    def history(self, job_id: str, actor: str | None = None) -> Iterator[HistoryEntry]:
        """The history of a job, the oldest entry first; `actor`: only what this user wrote."""
        return self._all(path_of("jobs", job_id, "history"), "events", {"actor": actor, "page_size": PAGE})

    def versions(self, job_id: str) -> list[Version]:
        """The versions of a job that are kept, the newest first, without their specifications."""
        return cast(list[Version], self._get(path_of("jobs", job_id, "versions"))["versions"])

    def version(self, job_id: str, version: int) -> Version:
        """A version of a job, with its `spec`."""
        return cast(Version, self._get(path_of("jobs", job_id, "versions", str(version))))

    def diff(self, job_id: str, from_version: int | None = None, to_version: int | None = None) -> Diff:
        """The differences of two versions of a job; by default the newest from the one before."""
        return cast(Diff, self._get(path_of("jobs", job_id, "diff"), {"from": from_version, "to": to_version}))

    def updates(self, job_id: str) -> list[Update]:
        """The updates of a job that are kept, the newest first."""
        return cast(list[Update], self._get(path_of("jobs", job_id, "updates"))["updates"])

    def update(self, job_id: str, number: int) -> Update:
        """An update of a job."""
        return cast(Update, self._get(path_of("jobs", job_id, "updates", str(number))))

    def update_steps(self, job_id: str, number: int) -> Iterator[UpdateSteps]:
        """The steps of the instances of an update, the oldest first."""
        return self._all(path_of("jobs", job_id, "updates", str(number), "steps"), "steps", {"page_size": PAGE})

    def update_job(self, job_id: str, spec: Mapping[str, Any], wait: float = 0, **extras: Unpack[Said]) -> JobAnswer:
        """Gives a job another specification, whole: an update takes its instances to it."""
        return self._command(job_id, "updates", wait, extras, spec=dict(spec))

    def check_update(self, job_id: str, spec: Mapping[str, Any]) -> UpdateCheck:
        """Checks an update: returns how a specification differs from that of a job, and how many instances it would
        change; nothing is written. Raises what updating it would raise.
        """
        path, body = path_of("jobs", job_id, "updates"), {"spec": dict(spec)}
        return cast(UpdateCheck, self._body(self._send("POST", path, params={"dry_run": "true"}, **json_body(body))))

    def stop_job(self, job_id: str, wait: float = 0, instances: str | None = None, **extras: Unpack[Said]) -> JobAnswer:
        """Asks for the end of a job, or of some instances: 0-9,12."""
        return self._command(job_id, "stops", wait, extras, instances=instances)

    def prefetch_image(self, job_id: str, image: str = "", reason: str = "", wait: float = 0) -> JobAnswer:
        """Has all hosts that run containers pull an image for a job, empty: its own."""
        body = {"command_id": new_id("prefetch"), "image": image, "reason": reason}
        return cast(JobAnswer, self._write("POST", path_of("jobs", job_id, "prefetches"), body, wait))

    def start_job(
        self,
        job_id: str,
        wait: float = 0,
        instances: str | None = None,
        failed: bool = False,
        **extras: Unpack[Said],
    ) -> JobAnswer:
        """Runs instances again: those named, with `failed` those that failed or ran for as long as they may, else all
        that were stopped or have failed. A batch job that has ended is open again by that.
        """
        return self._command(job_id, "starts", wait, extras, instances=instances, failed=failed or None)

    def restart_job(
        self, job_id: str, wait: float = 0, instances: str | None = None, batch: int = 0, **extras: Unpack[Said]
    ) -> JobAnswer:
        """Stops instances and runs them again, `batch` at a time; 0: all at once."""
        return self._command(job_id, "restarts", wait, extras, instances=instances, batch=batch)

    def roll_back_job(self, job_id: str, version: int = 0, wait: float = 0, **extras: Unpack[Said]) -> JobAnswer:
        """Goes back to an earlier version; 0: the last before it that an update completed."""
        return self._command(job_id, "rollbacks", wait, extras, version=version)

    def act_on_job(self, job_id: str, action: JobAction, wait: float = 0, **extras: Unpack[Said]) -> JobAnswer:
        """Does something with a job or with its update that needs no more words."""
        return self._command(job_id, action, wait, extras)

    def each(
        self, jobs: Iterable[Job | str], act: Callable[..., JobAnswer], **extras: Any
    ) -> Iterator[tuple[str, JobAnswer | InvalidValue | NotFound | Refused]]:
        """Acts on each of many jobs, eight at once: pairs of the id and the answer, which is the error where the job is
        refused, in their order. All jobs are listed before the first is acted on; nothing is done before the first
        answer is asked for.

            for job_id, answer in client.each(client.jobs(pool="/maps", labels=["team:x"]), client.stop_job, wait=10):
                print(job_id, answer if isinstance(answer, Exception) else answer["code"])
        """
        ids = [job if isinstance(job, str) else job["job_id"] for job in jobs]
        return each_of(ids, lambda job_id: act(job_id, **extras))

    def delete_job(self, job_id: str, force: bool = False, wait: float = 0, **extras: Unpack[Said]) -> JobAnswer:
        """Forgets a job; `force`: one that has not ended is stopped first."""
        params = {**extras, "command_id": extras.get("command_id") or new_id("command"), "force": str(force).lower()}
        return cast(JobAnswer, self._write("DELETE", path_of("jobs", job_id), None, wait, params))

    def change_priority(self, job_id: str, priority: int, wait: float = 0, **extras: Unpack[Said]) -> JobAnswer:
        """Gives a job another priority."""
        return self._command(job_id, "priorities", wait, extras, priority=priority)

    def _command(self, job_id: str, noun: str, wait: float, extras: Said, **fields: Any) -> JobAnswer:
        """A command about a job; its id, made here where none is given, makes a repeat known as one."""
        body = {**extras, **without_none(fields)}
        body["command_id"] = body.get("command_id") or new_id("command")
        return cast(JobAnswer, self._write("POST", path_of("jobs", job_id, noun), body, wait))

    def enter(
        self,
        job_id: str,
        instance: int,
        command: Sequence[str] = (),
        terminal: bool = False,
        rows: int = 0,
        columns: int = 0,
        port: int = 0,
    ) -> Entered:
        """Starts a command inside the run of a task that goes on, or opens a connection to a port of the run. Within
        10 s `send_typed` and `written` must be called with its id, each once, from threads of their own: it ends with
        either.
        """
        size = {"terminal": terminal, "rows": rows, "columns": columns, "port": port}
        path = path_of("jobs", job_id, "tasks", str(instance), "execs")
        response = self._send("POST", path, **json_body({"command": list(command), **size}))
        body = self._body(response)
        if not isinstance(body.get("exec"), str):  # threads go on with it, in which nothing else says so
            raise no_cell(response, response.content)
        return cast(Entered, body)

    def send_typed(self, job_id: str, instance: int, exec_id: str, chunks: Iterable[bytes]) -> None:
        """Sends what is typed into a command, as frames, to the end of `chunks`; at least each 20 s there must be one.
        Raises `Unreachable`.
        """
        import httpx2

        path = path_of("jobs", job_id, "tasks", str(instance), "execs", exec_id, "in")
        try:
            self._http.post(path, content=iter(chunks), timeout=httpx2.Timeout(self._timeout, read=None, write=None))
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error

    def written(self, job_id: str, instance: int, exec_id: str) -> Iterator[Frame]:
        """The frames that a command writes, the last one a CODE or a FAULT where it ended so. Raises `Unreachable`."""
        import httpx2

        path = path_of("jobs", job_id, "tasks", str(instance), "execs", exec_id, "out")
        reader = FrameReader()
        try:
            with self._http.stream("GET", path, timeout=httpx2.Timeout(self._timeout, read=SILENCE_S)) as response:
                self._heard(response)
                if response.is_error:
                    response.read()
                    raise error_of(response)
                for chunk in response.iter_bytes():
                    yield from reader.feed(chunk)
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error


def _parts(specs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """The bodies of requests that submit jobs, and the number of the first job of each."""
    texts = [json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() for spec in specs]
    first, size = 0, len(_batch(()))
    for number, text in enumerate(texts):
        if number > first and (number - first == BATCH_MAX or size + len(text) > BATCH_BYTES_MAX):
            yield first, _batch(texts[first:number])
            first, size = number, len(_batch(()))
        size += len(text) + len(",")
    if texts:
        yield first, _batch(texts[first:])


def _batch(texts: Sequence[bytes]) -> bytes:
    return b'{"jobs":[' + b",".join(texts) + b"]}"


def _moved(pointer: str, by: int) -> str:
    """A JSON pointer to a job of a request, as one to all jobs."""
    _, jobs, number, *rest = pointer.split("/")
    return "/".join(("", jobs, str(int(number) + by), *rest))
