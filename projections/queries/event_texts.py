"""The sentences of the stream of events: those that histories have of the same records."""

from collections.abc import Mapping
from typing import Any

from events.records.base import Event
from events.resources import Kinds
from events.words import plural
from projections.queries import story_cell, story_jobs
from projections.queries.story_parts import NAMED, by, text_of


def texts_of(event: Event, details: Mapping[str, Any], kinds: Kinds) -> tuple[str, dict[str, str]]:
    """The sentence about a record, and that about each of its jobs. `details`: what each job is told of it."""
    name, actor = type(event).__name__, getattr(event, "actor", None)
    said_by = text_of(tuple(by(actor))) if actor else ""
    of_jobs = {}
    if name in story_jobs.SENTENCES:
        of_jobs = {
            job_id: text_of(story_jobs.line_of(name, detail)) + said_by for job_id, detail in details.items() if detail
        }
    if name in story_cell.SENTENCES:
        return text_of(tuple(story_cell.sentence(event, kinds))) + said_by, of_jobs
    first = [f"{job_id}: {text}" for job_id, text in list(of_jobs.items())[:NAMED]]
    rest = len(of_jobs) - len(first)
    return "; ".join([*first, *([f"and {plural(rest, 'other job')}"] if rest else [])]) or name, of_jobs
