"""One reason of a job: its code, its sentence and numbers, before it becomes JSON."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from events.reasons import kind_of
from events.words import plural

_PLAIN = "{tasks} wait{s}: {code}"
_NONE: Mapping[str, Any] = MappingProxyType({})


class Remedy(NamedTuple):
    """The actor of a reason, and the action or event that would change it."""

    actor: str
    change: str


class Reason(NamedTuple):
    """One reason of a job. `machine`: the one that decided it; empty: none yet."""

    code: str
    text: str
    machine: str
    since_ms: int = 0
    """0: it isn't known."""
    remedy: Remedy | None = None
    """None: that of the code."""
    tasks: int = 0
    """The number of tasks that it counts for in the order of reasons."""
    numbers: Mapping[str, Any] = _NONE
    """Fields of `paceline.client.explanation_models.ReasonNumbers`."""
    also: str = ""
    """Another way, behind the remedy."""

    @property
    def helps(self) -> Remedy:
        """The actor, and the change where the sentence doesn't name it."""
        kind = kind_of(self.code)
        actor, change = self.remedy or (kind.actor, kind.remedy)
        return Remedy(actor, "" if change in self.text else change)

    @property
    def message(self) -> str:
        """The sentence and what would help."""
        change = self.helps.change
        return f"{self.text}; {change}{self.also}" if change else f"{self.text}{self.also}"


def of_code(code: str, machine: str, words: Mapping[str, Any], since_ms: int = 0) -> Reason:
    """A reason in the words of its code."""
    kind = kind_of(code)
    remedy = Remedy(kind.actor, kind.remedy.format_map(words))
    return Reason(code, kind.sentence.format_map(words), machine, since_ms, remedy)


def text_of(code: str, words: Mapping[str, Any]) -> str:
    """The sentence of a code; where it has none, or needs words that aren't there, that tasks wait for the code."""
    try:
        return kind_of(code).sentence.format_map(words) or _PLAIN.format_map({**words, "code": code})
    except KeyError:
        return _PLAIN.format_map({**words, "code": code})


def count_tasks(count: int) -> str:
    """`1 task`, `2 tasks`."""
    return plural(count, "task")


def counted(count: int) -> dict[str, str]:
    """The words of a sentence about so many tasks."""
    it, them, is_, were, s = ("it", "it", "is", "was", "s") if count == 1 else ("they", "them", "are", "were", "")
    theirs = "its replacement is" if count == 1 else "their replacements are"
    return {"tasks": count_tasks(count), "theirs": theirs, "s": s, "is": is_, "it": it, "them": them, "were": were}
