"""Commands of `paceline job` that act on jobs: stop, start, restart, hold, release, delete, change the priority."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from events.bounds import INT_MAX
from events.instance_ranges import PATTERN, read_ranges
from paceline.cli.commands.chosen_jobs import chosen_jobs
from paceline.cli.commands.common import (
    DECIDED_S,
    Duration,
    cell_option,
    complete,
    examples,
    output_option,
    with_client,
)
from paceline.cli.commands.reasons import reason_option
from paceline.cli.progress import STOPPED, how_to_follow, wait_and_report
from paceline.client.many import each_of
from paceline.output import answers, note

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.models import JobAction, JobAnswer, Said

ALREADY_ENDED = "ALREADY_ENDED"
ID = click.argument("job_id", metavar="ID", shell_complete=complete("job"))
IDS = click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete("job"))
TIMEOUT = click.option("--timeout", type=Duration(), metavar="TIME", help="Give up waiting after 30s, 5m, ...")


def check_timeout(waits: object, timeout: float | None) -> None:
    """Refuses `--timeout` where nothing is waited for."""
    if timeout is not None and not waits:
        raise click.UsageError("--timeout limits --wait: add that, or leave it out")


class Instances(click.ParamType):
    """Instances of a job: 0-9,12."""

    name = "instances"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, checked."""
        import re

        text = str(value)
        if not re.fullmatch(PATTERN, text):
            raise click.BadParameter(f"{text!r} names no instances; write them as 0-9,12", ctx, param)
        try:
            read_ranges(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error
        return text


INSTANCES = click.option("--instances", type=Instances(), metavar="0-9,12", help="Only these instances. [default: all]")


def extra_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--reason`, `--expected-version` and `--metadata`, passed together as `extras`."""

    @reason_option
    @click.option(
        "--expected-version",
        type=click.IntRange(1, INT_MAX),
        metavar="N",
        help="Refuse if it has another version.",
    )
    @click.option("--metadata", default="", metavar="TEXT", help="Data of your own, recorded with the command.")
    @wraps(function)
    def command(*args: Any, reason: str, expected_version: int | None, metadata: str, **options_left: Any) -> Any:
        extras: Said = {"reason": reason, "expected_version": expected_version or 0, "data": metadata}
        return function(*args, extras=extras, **options_left)

    return command


def told(job_id: str, answer: "JobAnswer", otherwise: str) -> str:
    """The sentence for a job's answer."""
    message = answer.get("message") or ""
    if _had_ended(answer) and message.startswith(is_so := f"job {job_id} is "):
        return f"job {job_id} had ended already: {message.removeprefix(is_so)}"
    return f"job {job_id}: {message}" if message else f"job {job_id} {otherwise}"


def _had_ended(answer: "JobAnswer") -> bool:
    return answer.get("code") == ALREADY_ENDED


def refused(job_id: str, error: Exception) -> str:
    """The sentence for an error about a job, which it names."""
    return str(error) if f"job {job_id}" in str(error) else f"job {job_id}: {error}"


def act_on_each(
    ids: Collection[str], form: str, otherwise: str, call: Callable[[str], "JobAnswer"], done: str = ""
) -> tuple[dict[str, "JobAnswer"], int]:
    """Gives a command to each of several jobs, also after one has refused it, and shows what each says; `done`: what is
    said instead of a job that took it. Returns the answers of those that took it, and the exit code: that of the first
    refusal.
    """
    answer_by_id: dict[str, JobAnswer] = {}
    code = 0
    with answers(form, len(ids)) as report:
        for each, answer in each_of(ids, call):
            if isinstance(answer, Exception):
                note(f"paceline: {refused(each, answer)}")
                code = code or answer.exit_code
                continue
            answer_by_id[each] = answer
            own = f"job {each} {done}" if done and answer.get("code") == "DONE" else ""
            report(answer, each, own or told(each, answer, otherwise))
    return answer_by_id, code


@click.command(
    epilog=examples('paceline job stop web --reason "replaced by web2"', "paceline job stop --label team:maps --yes")
)
@INSTANCES
@extra_options
@click.option("--wait", "waits", is_flag=True, help="Wait until the jobs have ended.")
@TIMEOUT
@output_option
@cell_option
@with_client
@chosen_jobs("stop", affects_others=True)
def stop(
    client: "Client",
    ids: tuple[str, ...],
    instances: str | None,
    extras: "Said",
    waits: bool,
    timeout: float | None,
    form: str,
) -> int:
    """Stop jobs, or some of their instances: each gets SIGTERM, its grace period, then SIGKILL."""
    check_timeout(waits, timeout)
    if waits and instances is not None:
        raise click.UsageError("--wait waits for whole jobs to end: leave out --instances")
    answers, code = act_on_each(
        ids, form, "is being stopped", lambda each: client.stop_job(each, DECIDED_S, instances, **extras)
    )
    if waits and answers:
        ended = wait_and_report(client, list(answers), STOPPED, timeout)
        return code or ended
    stopping = [each for each, answer in answers.items() if not _had_ended(answer)]
    if instances is None and stopping and form == "table":
        note(f"follow with: {how_to_follow(stopping)}")
    return code


@click.command(epilog=examples("paceline job start tiles-1f0c --failed", "paceline job start web --instances 0-4"))
@IDS
@INSTANCES
@click.option("--failed", is_flag=True, help="Only instances that failed or ran for as long as they may.")
@extra_options
@output_option
@cell_option
@with_client
def start(
    client: "Client", ids: tuple[str, ...], instances: str | None, failed: bool, extras: "Said", form: str
) -> int:
    """Start instances again that were stopped or have failed, or those named.

    A batch job that has ended runs them as new runs, as long as the cell knows it. A member of a gang takes its gang
    along.
    """
    if failed and instances is not None:
        raise click.UsageError("--failed and --instances exclude each other")
    return act_on_each(
        ids, form, "is being started", lambda each: client.start_job(each, DECIDED_S, instances, failed, **extras)
    )[1]


def action(
    name: str, noun: "JobAction", text: str, otherwise: str, *example: str, by_filter: bool = False
) -> click.Command:
    """The command of an action that needs no more words; `noun` is its path in the API, `by_filter`: whether filters
    choose its jobs, too.
    """

    @click.command(name, help=text, epilog=examples(*example))
    @extra_options
    @output_option
    @cell_option
    @with_client
    @(chosen_jobs(name) if by_filter else IDS)
    def command(client: "Client", ids: tuple[str, ...], extras: "Said", form: str) -> int:
        return act_on_each(ids, form, otherwise, lambda each: client.act_on_job(each, noun, DECIDED_S, **extras))[1]

    return command


hold = action(
    "hold",
    "holds",
    "Hold jobs: tasks that wait stay unqueued until the job is released; tasks that run go on.",
    "is held",
    'paceline job hold tiles-1f0c --reason "after the release"',
    "paceline job hold --pool /maps --owner ann",
    by_filter=True,
)
release = action(
    "release",
    "releases",
    "Release jobs that are held.",
    "is released",
    "paceline job release tiles-1f0c",
    "paceline job release --pool /maps --yes",
    by_filter=True,
)


@click.command(epilog=examples("paceline job delete tiles-1f0c", 'paceline job delete web --force --reason "retired"'))
@IDS
@click.option("--force", is_flag=True, help="Stop a job that has not ended first.")
@extra_options
@output_option
@cell_option
@with_client
def delete(client: "Client", ids: tuple[str, ...], force: bool, extras: "Said", form: str) -> int:
    """Delete jobs: the cell forgets them at once, the log keeps their history.

    Volumes of their tasks stay on the hosts until they are removed by `paceline volume remove`.
    """
    otherwise = "is being deleted" if force else "is deleted"
    done = f"is deleted{' once its tasks have stopped' if force else ''}; its history stays in the log"
    return act_on_each(ids, form, otherwise, lambda each: client.delete_job(each, force, DECIDED_S, **extras), done)[1]


@click.command(
    context_settings={"ignore_unknown_options": True},  # so that -5 is a number
    epilog=examples(
        'paceline job priority tiles-1f0c 10 --reason "due on Friday"', "paceline job priority --pool /m 5"
    ),
)
@extra_options
@output_option
@cell_option
@with_client
@chosen_jobs("give another priority", affects_others=True)
@click.argument("number", type=click.IntRange(-INT_MAX, INT_MAX))
def priority(client: "Client", ids: tuple[str, ...], number: int, extras: "Said", form: str) -> int:
    """Give jobs another priority: the higher goes first within its pool."""
    otherwise = f"has priority {number} now"
    return act_on_each(ids, form, otherwise, lambda each: client.change_priority(each, number, DECIDED_S, **extras))[1]
