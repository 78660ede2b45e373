"""Facts and decisions in sentences, one of each kind: for the pages of the log, of rounds, of jobs, and for causes."""

from collections.abc import Sequence

from events.records.base import Event
from events.resources import Kinds
from events.words import plural
from projections.queries import story_cell, story_jobs
from projections.queries.story_parts import NAMED, Line, Part, by, job, joined
from projections.views.job_history import details


def line_of(event: Event, kinds: Kinds, about: str = "") -> Line:
    """The sentence about a record; of one about many jobs it tells the first, or that which it is to be `about`. A fact
    that says who wrote it ends with that.
    """
    actor = getattr(event, "actor", None)
    line = _line_of(event, kinds, about)
    return line if actor is None else (*line, *by(actor))


def _line_of(event: Event, kinds: Kinds, about: str) -> Line:
    name = type(event).__name__
    if name in story_cell.SENTENCES:
        return tuple(story_cell.sentence(event, kinds))
    told = sorted(details(event), key=lambda each: each[0] != about)
    lines: list[Sequence[Part]] = [
        [job(job_id), ": ", *story_jobs.line_of(name, detail)] for job_id, detail in told[:NAMED]
    ]
    rest = len(told) - len(lines)
    return (*joined(lines, "; "), f"; and {plural(rest, 'other job')}" if rest else "") if lines else (name,)
