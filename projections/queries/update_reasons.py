"""Why the update of a job isn't over, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from events.bounds import PULL_MS
from events.codes import Code, UpdateState
from events.quantities import write_ms
from events.words import image_pulls
from projections.queries.reason import Reason
from projections.record_json import at
from projections.views.rows import JobRow
from projections.views.update_rows import UpdateRow


def of_update(update: UpdateRow, disruption: Mapping[str, int] | None, held: bool) -> Iterator[Reason]:
    """Why the newest update of a job is where it is. `disruption`: what sla said last where it would not let instances
    be stopped; `held`: whether the job is held.
    """
    rest = update.pending + update.flight
    if update.ended_ms:
        if update.state == UpdateState.FAILED and update.code in Code.__members__:
            text = f"update {update.number} to version {update.version} has failed: {in_words(update.message)}"
            yield Reason(update.code, text, "lifecycle")
    elif update.paused_ms:
        yield _told(Code.UPDATE_PAUSED, f"update {update.number} is paused: {_so_far(update)}", rest)
    elif update.image_ms:
        yield _of_image(update)
    elif update.state == UpdateState.CANARY:
        yield _of_canary(update)
    else:
        if disruption is not None and update.flight:
            text = (
                f"update {update.number} may stop no more instances now: {disruption['unavailable']} are unavailable, "
                f"the SLA of the job allows {disruption['max_unavailable']}"
            )
            yield _told(Code.SLA_BUDGET_SPENT, text, update.flight)
        stands = "takes none that runs until the job is released" if held and update.pending else "goes on"
        yield _told(Code.UPDATING, f"update {update.number} {stands}: {_so_far(update)}{_bounds(update)}", rest)


_OF_CANARY = "; none may"
"""The end of what the log says of an update that failed by its canary."""


def in_words(message: str) -> str:
    """Why an update failed, as the log has it, in words."""
    if not message.endswith(_OF_CANARY):
        return message
    first, _, rest = message.removesuffix(_OF_CANARY).partition(" of the canary ")
    return f"the canary failed ({first} {rest.replace(' of the canary ', ' ')})" if rest else message


def _told(code: Code, text: str, tasks: int, **more: Any) -> Reason:
    return Reason(code, text, "lifecycle", tasks=tasks, numbers={"tasks": tasks, **more})


def is_settled(update: UpdateRow, job: JobRow) -> bool:
    """Whether the instances for which an update failed have found their places since, and no other waits for it."""
    return update.lacks_places > 0 and not update.pending and job.running == job.tasks


def _of_canary(update: UpdateRow) -> Reason:
    text = f"update {update.number} waits with its canary: {_so_far(update)}"
    promoted_ms = update.promoted_ms()
    if not promoted_ms:
        return _told(Code.UPDATE_AWAITS_PROMOTION, text, update.pending)
    text += f"; it goes on by itself {write_ms(promoted_ms - update.waits_ms)} after the canary was done"
    return _told(Code.UPDATE_AWAITS_PROMOTION, text, update.pending, until=at(promoted_ms))


def _of_image(update: UpdateRow) -> Reason:
    until_ms = update.image_ms + PULL_MS
    counts = {"hosts": update.image_hosts, "have": update.image_have, "faults": update.image_faults}
    text = (
        f"update {update.number} waits until hosts have pulled its image: "
        f"{image_pulls(**counts, fault=update.image_fault)}; it begins when all have answered, at most "
        f"{write_ms(PULL_MS)} after they were asked"
    )
    return _told(Code.UPDATE_AWAITS_IMAGE, text, update.pending, image=counts, until=at(until_ms))


def _so_far(update: UpdateRow) -> str:
    """`3 of 10 instances are done, 1 is being updated, 2 have failed, 4 are still to be taken`."""
    whole = update.pending + update.flight + update.done + update.bad
    parts = [f"{update.done} of {whole} instances {'is' if update.done == 1 else 'are'} done"]
    for count, one, many in (
        (update.flight, "is being updated", "are being updated"),
        (update.bad, "has failed", "have failed"),
        (update.pending, "is still to be taken", "are still to be taken"),
    ):
        if count:
            parts.append(f"{count} {one if count == 1 else many}")
    return ", ".join(parts)


def _bounds(update: UpdateRow) -> str:
    """The bounds of an update: how many at a time, and how many failures end it."""
    policy = msgspec.json.decode(update.policy)
    text = f"; at most {policy['batch']} at a time" if policy["batch"] else ""
    if policy["max_failures"]:
        text += f"; it fails with {policy['max_failures']} failed"
    return text
