"""The step in which a host of a campaign is next."""

from typing import NamedTuple

from events.codes import Code, Stage, Step
from events.quantities import write_ms
from processors.placement.campaigns.rows import CampaignHostRow, CampaignRow, State
from processors.placement.rows import HostRow
from processors.placement.stages import Goal, StageRow


class Next(NamedTuple):
    """The goal of a host, and why."""

    goal: Goal
    code: Code
    message: str = ""


def next_step(
    campaign: CampaignRow,
    member: CampaignHostRow,
    stage: StageRow,
    host: HostRow | None,
    *,
    is_up: bool,
    is_well: bool,
    is_due: bool,
    now: int,
) -> Next | None:
    """The next step of a host; None: it stays where it is. `host`: None where it was removed; `is_up`: it takes tasks
    as far as that is up to it; `is_well`: nothing else speaks against it; `is_due`: its step is over by time.
    """
    in_work = member.step in (Step.WORK, Step.CHECK)
    if host is None:
        step = Step.FAILED if in_work else Step.SKIPPED
        return Next(Goal(step=step), Code.HOST_REMOVED, "The host was removed.")
    if campaign.state == State.ABORTING and not in_work:
        return Next(_left(member, stage), Code.ABORTED)
    if stage.step == Step.NONE and member.step != Step.WORK:  # an operator has resumed it
        return Next(stage.goal._replace(step=Step.SKIPPED), Code.RESUMED, "An operator has resumed the host.")
    match member.step:
        case Step.DRAIN:
            return _drained(campaign, member, stage, is_due)
        case Step.WORK:
            return _worked(campaign, member, stage, host, is_due, now)
        case Step.CHECK:
            return _checked(campaign, stage, is_up and is_well, is_up, is_due)
    return None


def skipped(member: CampaignHostRow, stage: StageRow, code: Code, message: str) -> Next:
    """A host is left out."""
    return Next(_left(member, stage), code, message)


def _left(member: CampaignHostRow, stage: StageRow) -> Goal:
    """The host is left out: one that drains is taken back, one that wasn't started is as it was."""
    if member.step == Step.PENDING:
        return stage.goal._replace(step=Step.SKIPPED)
    return stage.taken_back(Step.SKIPPED)


def _drained(campaign: CampaignRow, member: CampaignHostRow, stage: StageRow, is_due: bool) -> Next | None:
    if stage.stage == Stage.DRAINED:
        return Next(stage.goal._replace(step=Step.WORK), Code.EMPTY)
    if is_due:
        hours = write_ms(campaign.plan.stuck_ms)
        return skipped(member, stage, Code.STUCK, f"The host isn't empty after {hours}.")
    return None


def _worked(
    campaign: CampaignRow, member: CampaignHostRow, stage: StageRow, host: HostRow, is_due: bool, now: int
) -> Next | None:
    plan = campaign.plan
    is_over = stage.step == Step.NONE  # an operator says so
    if plan.work == "reboot" and host.session > member.session:
        is_over = is_over or (host.boot != member.boot) or not host.boot
    if plan.work == "time":
        is_over = is_over or now - member.since_ms >= plan.work_ms
    if is_over:
        return Next(checking(campaign, stage, now), Code.WORK_DONE)
    if not is_due:
        return None
    if plan.work == "reboot" and not host.silent_ms and not host.lost:
        message = f"The host has the same boot after {write_ms(plan.within_ms)}: it hasn't been restarted."
        return Next(_failed(), Code.SAME_BOOT, message)
    return Next(_failed(), Code.WORK_LATE, f"The work isn't done after {write_ms(plan.within_ms)}.")


def checking(campaign: CampaignRow, stage: StageRow, now: int) -> Goal:
    """The work on a host is done: it has to be found well."""
    until_s = -(-(now + campaign.plan.check_ms) // 1000)
    return Goal(Stage.CHECKING, stage.cordon, step=Step.CHECK, check_until=until_s)


def _checked(campaign: CampaignRow, stage: StageRow, is_well: bool, is_up: bool, is_due: bool) -> Next | None:
    if is_well:
        return Next(stage.taken_back(Step.DONE), Code.CHECKED)
    if is_due:
        why = "its health checks fail" if is_up else "it isn't connected and ready"
        message = f"The host isn't well {write_ms(campaign.plan.check_ms)} after the work: {why}."
        return Next(_failed(), Code.CHECK_FAILED, message)
    return None


def _failed() -> Goal:
    """The host stays out of use until an operator resumes it."""
    return Goal(Stage.CORDONED, cordon=True, step=Step.FAILED)
