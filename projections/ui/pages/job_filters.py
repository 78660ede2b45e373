"""The filter of the list of jobs, as addresses of the page have it, and the same as the API and the command line do."""

from collections.abc import Sequence
from shlex import join
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from events.bounds import WORD_MAX
from projections.api.jobs import job_states
from projections.api.list_requests import PAIRS_MAX, pair_of
from projections.api.problems import Problem
from projections.asked_values import time_ms
from projections.queries.job_filter import JobFilter
from projections.ui.format import iso
from projections.ui.job_columns import COLUMNS
from projections.ui.page_values import PageValues

LABEL = "label"
GROUPS = ("pool", "owner", "state", "reason", LABEL)
SORTS = {"newest": "newest first", "wait": "longest wait first"}
SPANS = {"1h": ("last hour", 3_600), "24h": ("last 24 h", 86_400), "7d": ("last 7 days", 604_800)}
"""The choices of time in the list: words, and seconds."""


class Asked(NamedTuple):
    """The query of the page's address. `since` is one of `SPANS`, a time, or empty."""

    states: list[str]
    pool: str
    owners: list[str]
    labels: list[str]
    text: str
    since: str
    group: str
    label_key: str
    """The label by whose values jobs are grouped; empty: they are by the keys of their labels."""
    sort: str
    columns: list[str]
    """Those of the table; empty: its usual ones."""

    def filter(self, now_ms: int) -> JobFilter:
        """The filter, times counted back from a moment."""
        return JobFilter(
            self.states,
            self.pool,
            [pair_of("label", each) for each in self.labels],
            self.owners,
            self.text,
            self.since_ms(now_ms),
            self.sort == "wait",
        )

    def since_ms(self, now_ms: int) -> int:
        """The beginning of the time that is asked for; 0: none is. Raises a problem where it is no time."""
        if not self.since:
            return 0
        if self.since in SPANS:
            return max(1, now_ms - SPANS[self.since][1] * 1000)
        ms = time_ms(self.since)
        if ms is None:
            detail = f"{self.since[:40]!r} is no time: it is one of {', '.join(SPANS)}, or such as 2026-08-21T10:44:07Z"
            raise Problem(422, "INVALID_REQUEST", detail, [("/query/since", "no time")])
        return max(1, ms)

    def query(self, **changes: Any) -> PageValues:
        """The query of the address, with some of it changed; what is empty is left out."""
        fields = self._asdict() | changes
        for name, values in (("state", fields.pop("states")), ("columns", fields["columns"])):
            fields[name] = ",".join(values)
        fields["label_key"] = fields["label_key"] if fields["group"] == LABEL else ""
        fields |= {"owner": fields.pop("owners"), "label": fields.pop("labels")}
        usual = {"group": GROUPS[0], "sort": next(iter(SORTS))}
        return {name: value for name, value in fields.items() if value and usual.get(name) != value}

    def chips(self) -> list[tuple[str, str, PageValues]]:
        """The filters of the list, each with the query without it."""
        filters = [("pool", self.pool, self.query(pool=""))] if self.pool else []
        for name, plural in (("owner", "owners"), ("label", "labels")):
            values: Sequence[str] = getattr(self, plural)
            filters += [
                (name, value, self.query(**{plural: [each for each in values if each != value]})) for value in values
            ]
        filters += [("text", self.text, self.query(text=""))] if self.text else []
        if self.since:
            words = SPANS[self.since][0] if self.since in SPANS else f"since {self.since}"
            filters.append(("submitted", words, self.query(since="")))
        return filters

    def api(self, now_ms: int) -> str:
        """The address at which the API says the same."""
        pairs = self.query(since=iso(self.since_ms(now_ms)) if self.since else "", group="", sort="", columns=[])
        pairs |= {"order": self.sort} if self.sort == "wait" else {}
        return "/v1/jobs" + (f"?{urlencode(pairs, doseq=True)}" if pairs else "")

    def command(self, now_ms: int) -> str:
        """The command that says the same."""
        words = ["paceline", "job", "list"]
        words += ["--state", ",".join(self.states)] if self.states else []
        words += ["--pool", self.pool] if self.pool else []
        words += [word for owner in self.owners for word in ("--owner", owner)]
        words += [word for label in self.labels for word in ("--label", label)]
        words += ["--text", self.text] if self.text else []
        if self.since:
            words += ["--since", self.since if self.since.endswith("h") else iso(self.since_ms(now_ms))]
        words += ["--order", "wait"] if self.sort == "wait" else []
        return join([*words, *(["--columns", ",".join(self.columns)] if self.columns else [])])


def asked(query: QueryParams) -> Asked:
    """Parses the query of an address. Raises a problem for what can't be."""
    texts = {name: query.get(name, "").strip()[:WORD_MAX] for name in ("pool", "text", "since")}
    return Asked(
        job_states(",".join(query.getlist("state"))),
        "/" + texts["pool"].strip("/") if texts["pool"] else "",
        _some(query, "owner"),
        _some(query, "label"),
        texts["text"],
        texts["since"],
        _one_of(query.get("group", ""), GROUPS),
        query.get("label_key", "")[:WORD_MAX],
        _one_of(query.get("sort", ""), tuple(SORTS)),
        _columns(",".join(query.getlist("columns"))),
    )


def _columns(text: str) -> list[str]:
    """The columns that are named. Raises a problem for what is none."""
    names = list(dict.fromkeys(name for each in text.lower().split(",") if (name := each.strip())))
    for name in names:
        if name not in COLUMNS:
            detail = f"there is no column {name[:40]}; there are {', '.join(COLUMNS)}"
            raise Problem(422, "INVALID_REQUEST", detail, [("/query/columns", "no column")])
    return names


def _some(query: QueryParams, name: str) -> list[str]:
    return list(dict.fromkeys(each for each in query.getlist(name) if each))[:PAIRS_MAX]


def _one_of(text: str, choices: Sequence[str]) -> str:
    return text if text in choices else choices[0]
