"""Prints a simulation on a terminal."""

from collections.abc import Mapping, Sequence

import click

from events.quantities import write_amounts, write_milli
from paceline.output import Column, others, span, table
from paceline.simulate.report.results import SHOWN_MAX, bounded_slowdown, ran_s, waited_s
from paceline.simulate.report.series import PoolNeeds, Sample, main_resource
from paceline.simulate.session import Session
from paceline.simulate.world.expectation_watch import ExpectationResult
from paceline.simulate.world.log_summary import JobSummary


def summary(session: Session) -> None:
    """Jobs, pools and expectations, and the hash of the log."""
    run, log_summary, jobs = session.run, session.log_summary, session.jobs
    if len(jobs.first) <= SHOWN_MAX:
        _jobs(sorted(jobs.first, key=lambda job: (job.submitted_ms, job.job_id)))
    else:
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(jobs.states.items()))
        click.echo(f"{sum(jobs.states.values()):,} jobs: {states}")
    _pools(session)
    figures = session.body()["figures"]
    if figures:
        click.echo("")
        for name, value in figures.items():
            click.echo(f"{name:<26} {value:>14,.3f}")
    if run.watch.verdicts():
        click.echo("")
        for verdict in run.watch.verdicts():
            _verdict(verdict, session.rerun_command)
    click.echo("")
    for refusal in log_summary.refusals:
        click.echo(f"refused: {refusal}")
    for what, count in session.left_out.items():
        click.echo(f"left out: {count:,} jobs of the trace that {what}")
    if run.cut_short():
        click.echo(
            f"not waited for: {len(log_summary.open)} jobs, open a day after all that is named; say when to `end`"
        )
    rejected = f", {log_summary.rejected} jobs rejected" if log_summary.rejected else ""
    moved = f", {jobs.preempted} runs preempted, {jobs.lost} lost" if jobs.preempted or jobs.lost else ""
    click.echo(f"{session.name}, seed {session.seed}: {span(run.now_ms / 1000)} of virtual time{rejected}{moved}")
    click.echo(f"{run.cell.log.appended} records, {log_summary.rounds} rounds, hash {run.cell.log.hash()}")
    failed, looked = len(session.failed()), len(run.watch.verdicts())
    if failed:
        click.echo(f"{failed} of {looked} expectations don't hold")
    if session.unchecked:
        click.echo(
            f"not looked at: {session.unchecked} of {looked + session.unchecked} expectations, about a later time"
        )


def _jobs(jobs: list[JobSummary]) -> None:
    def slowdown(job: JobSummary) -> str:
        wait, run = waited_s(job), ran_s(job)
        return "-" if wait is None or run is None else f"{bounded_slowdown(wait, run):.2f}"

    table(
        jobs,
        [
            Column("JOB", lambda job: job.job_id),
            Column("POOL", lambda job: job.pool),
            Column("STATE", lambda job: job.state),
            Column("TASKS", lambda job: job.tasks, right=True),
            Column("RUNS", lambda job: job.runs, right=True),
            Column("WAITED s", lambda job: _number(waited_s(job)), right=True),
            Column("RAN s", lambda job: _number(ran_s(job)), right=True),
            Column("SLOWDOWN", slowdown, right=True),
        ],
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _amount(amounts: Sequence[int], at: int) -> str:
    return str(write_milli(amounts[at]))


def _pools(session: Session) -> None:
    last = session.series.samples[-1]
    if not last.pools:
        return
    name = main_resource(session.series.samples)
    at = last.names.index(name)
    click.echo("")
    by_pool, needs = session.jobs.by_pool(), session.series.needs()
    table(
        sorted(last.pools.items()),
        [
            Column("POOL", lambda item: item[0]),
            Column("JOBS ENDED", lambda item: by_pool.get(item[0], {}).get("jobs", 0), right=True),
            Column("MEAN WAIT s", lambda item: _number(by_pool.get(item[0], {}).get("mean_wait_s")), right=True),
            Column(f"{name.upper()} ENTITLED", lambda item: _amount(item[1].entitlement, at), right=True),
            Column(f"{name.upper()} USED", lambda item: _amount(needs[item[0]].usage, at), right=True),
            Column(f"{name.upper()} ASKED", lambda item: _amount(needs[item[0]].demand, at), right=True),
            Column("GiB USED", lambda item: f"{needs[item[0]].usage[1] / 1024:.1f}", right=True),
            *_other_columns(last, needs, name),
        ],
    )


def _other_columns(last: Sample, needs: Mapping[str, PoolNeeds], main: str) -> list[Column]:
    """Columns for resources that have none of their own, where pools hold or want any."""

    def text(amounts: Sequence[int]) -> str:
        amounts_by_name = {
            name: amount for name, amount in zip(last.names, amounts, strict=True) if amount and name != main
        }
        return others(write_amounts(amounts_by_name, last.units))

    if all(text(amounts) == "-" for each in needs.values() for amounts in each):
        return []
    return [
        Column("OTHER USED", lambda item: text(needs[item[0]].usage)),
        Column("OTHER ASKED", lambda item: text(needs[item[0]].demand)),
    ]


def _verdict(verdict: ExpectationResult, rerun_command: str) -> None:
    if verdict.holds:
        click.echo(f"holds   {verdict.text}")
        return
    click.echo(click.style("FAILED", fg="red") + f"  {verdict.text}")
    click.echo(f"        at {verdict.at_s}, position {verdict.position}: {verdict.observation}")
    click.echo(f"        look at it: {rerun_command} --until {verdict.at_s}")
