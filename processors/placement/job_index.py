"""Jobs by what the rules of others look for: their labels, the rules by which they shun labels, and the daemons.

Derived from the rows of jobs, so that a decision looks at those jobs alone that a rule concerns.
"""

from collections.abc import Mapping

from msgspec.structs import astuple

from processors.placement.rows import JobRow
from processors.state.record_rows import AffinityRow
from processors.state.shapes import Shapes

Label = tuple[str, str]


class JobIndex:
    """Kept up with the rows: a job's labels stay, the rules of its tasks change with their shapes."""

    def __init__(self, jobs: Mapping[str, JobRow], shapes: Shapes) -> None:
        self._jobs, self._shapes = jobs, shapes
        self._labelled: dict[Label, dict[str, None]] = {}
        self._shunning: dict[Label, dict[AffinityRow, dict[str, None]]] = {}
        self._rules: dict[str, dict[AffinityRow, None]] = {}
        """By job the rules by which tasks of it, in one of their versions, shun a label."""
        self._daemons: dict[str, None] = {}

    def restored(self) -> None:
        """Rebuilds it."""
        for derived in (self._labelled, self._shunning, self._rules, self._daemons):
            derived.clear()
        for job_id, row in self._jobs.items():
            self.add(job_id, row)

    def add(self, job_id: str, row: JobRow) -> None:
        """A job is there."""
        for label in row.labels.items():
            self._labelled.setdefault(label, {})[job_id] = None
        if row.daemon:
            self._daemons[job_id] = None
        if self._shapes.ruled:
            self.reshaped(job_id, row)

    def remove(self, job_id: str, row: JobRow) -> None:
        """A job has gone."""
        for label in row.labels.items():
            del self._labelled[label][job_id]
            if not self._labelled[label]:
                del self._labelled[label]
        self._daemons.pop(job_id, None)
        if job_id in self._rules:
            self._shun(job_id, {})

    def reshaped(self, job_id: str, row: JobRow) -> None:
        """Tasks of a job have other shapes than before."""
        if job_id not in self._rules and not self._shapes.ruled:
            return
        shapes = (self._shapes[number] for number in sorted(row.shapes) if number in self._shapes.ruled)
        terms = (term for shape in shapes if shape.rules for term in shape.rules.affinity)
        self._shun(job_id, {term: None for term in terms if term.apart and not term.weight})

    def labelled(self, label: Label) -> list[tuple[str, JobRow]]:
        """The jobs with a label, the first that came first."""
        return self._in_order(self._labelled.get(label, {}))

    def daemons(self) -> list[tuple[str, JobRow]]:
        """The daemons, the first that came first."""
        return self._in_order(self._daemons)

    def shunned(self, labels: Mapping[str, str]) -> list[AffinityRow]:
        """The rules against one of these labels."""
        return sorted((term for label in labels.items() for term in self._shunning.get(label, ())), key=astuple)

    def shunning(self, term: AffinityRow) -> list[tuple[str, JobRow]]:
        """The jobs of which tasks have a rule, the first that came first."""
        return self._in_order(self._shunning.get((term.label, term.value), {}).get(term, {}))

    def _in_order(self, job_ids: Mapping[str, None]) -> list[tuple[str, JobRow]]:
        return sorted(((job_id, self._jobs[job_id]) for job_id in job_ids), key=lambda job: job[1].number)

    def _shun(self, job_id: str, terms: dict[AffinityRow, None]) -> None:
        """Tasks of a job have these rules now, and no others."""
        before = self._rules.pop(job_id, {})
        if terms:
            self._rules[job_id] = terms
        for term in [term for term in before if term not in terms]:
            label = (term.label, term.value)
            by_term = self._shunning[label]
            del by_term[term][job_id]
            if not by_term[term]:
                del by_term[term]
            if not by_term:
                del self._shunning[label]
        for term in terms:
            self._shunning.setdefault((term.label, term.value), {}).setdefault(term, {})[job_id] = None
