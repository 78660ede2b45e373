"""The least time that a campaign takes, the budget that sets it, and the tasks that would keep its hosts.

Pure functions of what is known of hosts and jobs: `estimate` for a campaign that is to begin or goes on, `blocks` for a
dry run. Both take

* `plan`: the `MaintenancePlan`;
* `on`: of each host still to be emptied, its tasks by job: `{host_id: {job_id: count}}`;
* `jobs`: a `CampaignJob` for each job named there.

The bound is the longest of what hosts take by `at_a_time`, what each service takes by its budget,
and what each service that stays on its hosts takes by its budget, as it holds that until its host is back. A campaign
takes no less, and in trials 1.1 to 1.3 times as much.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from events.codes import Code
from events.records.parts import MaintenancePlan, SlaPolicy
from events.sla import has_sla, hourly, limit, never_allows, replaces_first

REPLACED_S = 30
"""So long a replacement takes where nothing is known of the job."""
WORKED_S = 600
"""So long the work on a host takes where the plan doesn't say it."""
HOUR_S = 3600
STAYING = ("stateful", "daemon")


class CampaignJob(NamedTuple):
    """A job, as far as it is known. `replaced_s`: from the order to stop an instance until the next is available, by
    what was seen of late; 0: not known.
    """

    job_id: str
    kind: str
    instances: int
    max_unavailable: int | None = None
    policy: SlaPolicy | None = None
    preemptible: bool = True
    gang: int = 0
    replaced_s: int = 0
    needs: Mapping[str, int] = {}
    """The amounts that one task asks of a host."""

    @property
    def stays(self) -> bool:
        """Whether its tasks come back to their hosts."""
        return self.kind in STAYING

    @property
    def at_a_time(self) -> int:
        """So many may leave at a time; 0: none ever."""
        surge = self.policy.surge if self.policy is not None and replaces_first(self.policy) else 0
        return surge or limit(self.max_unavailable, self.policy, self.instances)


class Part(NamedTuple):
    """The time that the campaign takes by one budget. `job_id`: empty: the hosts themselves."""

    job_id: str
    seconds: int
    sentence: str


class Estimate(NamedTuple):
    """The least that a campaign takes; `parts`: what it is made of, the longest first."""

    seconds: int
    parts: tuple[Part, ...]

    @property
    def sentence(self) -> str:
        """The budget that bounds it, in words."""
        return self.parts[0].sentence if self.parts else "Nothing is left to do."


class Block(NamedTuple):
    """Tasks of a job that would keep so many hosts from being emptied."""

    code: Code
    job_id: str
    tasks: int
    hosts: int
    sentence: str


def estimate(
    plan: MaintenancePlan,
    on: Mapping[str, Mapping[str, int]],
    jobs: Mapping[str, CampaignJob],
    worked_s: int = 0,
    most: int = 5,
) -> Estimate:
    """The bound of what is left. `worked_s`: how long work and check of a host have taken; 0: not known. At most `most`
    parts.
    """
    worked_s = worked_s or _worked_s(plan)
    tasks: dict[str, int] = {}
    for counts in on.values():
        for job_id, count in counts.items():
            tasks[job_id] = tasks.get(job_id, 0) + count
    parts = [_of_hosts(plan, len(on), worked_s + _drain_s(tasks, jobs))] if on else []
    for job_id, count in tasks.items():
        parts += _of_job(jobs[job_id], count, worked_s) if job_id in jobs else ()
    parts.sort(key=lambda part: (-part.seconds, part.job_id))
    return Estimate(parts[0].seconds if parts else 0, tuple(parts[:most]))


def blocks(
    plan: MaintenancePlan,
    on: Mapping[str, Mapping[str, int]],
    jobs: Mapping[str, CampaignJob],
    free: Sequence[Mapping[str, int]] = (),
) -> list[Block]:
    """The tasks that would keep the campaign waiting. `free`: the amounts that are free on each of the other hosts;
    without them room elsewhere isn't looked at. Attributes of hosts and neighbours aren't looked at.
    """
    tally: dict[tuple[Code, str], tuple[int, int]] = {}
    for _, counts in sorted(on.items()):
        for job_id, count in sorted(counts.items()):
            for code in _codes(plan, jobs.get(job_id)):
                tasks, hosts = tally.get((code, job_id), (0, 0))
                tally[code, job_id] = tasks + count, hosts + 1
        for job_id, count in _without_room(plan, counts, jobs, free) if free else ():
            tasks, hosts = tally.get((Code.NO_ROOM_ELSEWHERE, job_id), (0, 0))
            tally[Code.NO_ROOM_ELSEWHERE, job_id] = tasks + count, hosts + 1
    order = {code: at for at, code in enumerate(SENTENCES)}
    return [
        Block(
            code,
            job_id,
            tasks,
            hosts,
            SENTENCES[code].format(job=job_id, tasks=_many(tasks, "task"), hosts=_many(hosts, "host")),
        )
        for (code, job_id), (tasks, hosts) in sorted(tally.items(), key=lambda each: (order[each[0][0]], each[0][1]))
    ]


SENTENCES = {
    Code.SLA_NEVER_ALLOWS: "{job}: {tasks} on {hosts} never leave: its SLA allows no instance to be unavailable; give "
    "it replace: before, or a larger budget",
    Code.RUNS_TO_ITS_END: "{job}: {tasks} on {hosts} can't be preempted and run to their end",
    Code.LEAVES_LAST: "{job}: {tasks} on {hosts} stay there: they leave last, and are down until the host is back",
    Code.NO_ROOM_ELSEWHERE: "{job}: {tasks} on {hosts} find no room elsewhere now",
}
"""The sentence of each code, in the order in which they are told."""


def _codes(plan: MaintenancePlan, job: CampaignJob | None) -> Iterator[Code]:
    if job is None:
        return
    if has_sla(job.max_unavailable, job.policy) and never_allows(job.max_unavailable, job.policy, job.instances):
        yield Code.SLA_NEVER_ALLOWS
    if job.stays:
        yield Code.LEAVES_LAST
    elif job.kind == "batch" and not job.preemptible:
        yield Code.RUNS_TO_ITS_END


def _without_room(
    plan: MaintenancePlan, counts: Mapping[str, int], jobs: Mapping[str, CampaignJob], free: Sequence[Mapping[str, int]]
) -> Iterator[tuple[str, int]]:
    """The tasks of one host that find no room on others, the largest put first, each where it fits first."""
    rest = [dict(amounts) for amounts in free]
    for job_id in sorted(counts, key=lambda each: (-_size(jobs.get(each)), each)):
        job = jobs.get(job_id)
        if job is None or job.stays or (job.kind == "batch" and (plan.drain.batch != "move" or not job.preemptible)):
            continue
        put = 0
        for amounts in rest:
            while put < counts[job_id] and all(amounts.get(kind, 0) >= need for kind, need in job.needs.items()):
                for kind, need in job.needs.items():
                    amounts[kind] -= need
                put += 1
                if not any(job.needs.values()):
                    put = counts[job_id]
        if put < counts[job_id]:
            yield job_id, counts[job_id] - put


def _size(job: CampaignJob | None) -> int:
    return max(job.needs.values(), default=0) if job is not None else 0


def _of_hosts(plan: MaintenancePlan, hosts: int, each_s: int) -> Part:
    at_a_time = max(1, plan.at_a_time)
    seconds = -(-hosts // at_a_time) * each_s
    sentence = f"{_many(hosts, 'host')}, {at_a_time} at a time, {span(each_s)} each: {span(seconds)}"
    return Part("", seconds, sentence)


def _of_job(job: CampaignJob, tasks: int, worked_s: int) -> Iterator[Part]:
    """The times that the campaign takes by the budget of a job, and by its rate."""
    if not has_sla(job.max_unavailable, job.policy) or (job.kind == "batch" and not job.stays):
        return
    at_a_time = job.at_a_time
    if at_a_time:
        each_s = worked_s if job.stays else job.replaced_s or REPLACED_S
        seconds = -(-tasks // at_a_time) * each_s
        until = "until its host is back" if job.stays else "each"
        sentence = (
            f"{job.job_id} may lose {at_a_time} of {job.instances} at a time, {span(each_s)} {until}: "
            f"{span(seconds)} for it alone"
        )
        yield Part(job.job_id, seconds, sentence)
    rate = hourly(job.policy, job.instances)
    if rate:
        seconds = (tasks - 1) // rate * HOUR_S
        sentence = f"{job.job_id} may lose {rate} of {job.instances} an hour: {span(seconds)} for it alone"
        yield Part(job.job_id, seconds, sentence)


def _drain_s(tasks: Mapping[str, int], jobs: Mapping[str, CampaignJob]) -> int:
    """The least time in which a host is empty: one replacement of the slowest service."""
    services = [jobs[job_id] for job_id in tasks if job_id in jobs and jobs[job_id].kind == "stateless"]
    return max((job.replaced_s or REPLACED_S for job in services), default=0)


def _worked_s(plan: MaintenancePlan) -> int:
    return -(-plan.work_ms // 1000) if plan.work == "time" else WORKED_S


def span(seconds: int) -> str:
    """A time in words, rounded: 22 s, 37 minutes, 3.5 hours, 2 days."""
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 120 * 60:
        return f"{(seconds + 30) // 60} minutes"
    if seconds < 48 * HOUR_S:
        tenths = (seconds * 10 + HOUR_S // 2) // HOUR_S
        return f"{tenths // 10}.{tenths % 10} hours" if tenths % 10 else f"{tenths // 10} hours"
    return f"{(seconds + 12 * HOUR_S) // (24 * HOUR_S)} days"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
