"""The answer as one HTML file with plots, in the style of the pages, nothing loaded from elsewhere."""

from datetime import datetime
from importlib.resources import files
from typing import Any

from events.resources import is_gpu
from paceline.client.json_type import Json
from paceline.simulate.report.html import POOLS_MAX, line, unit_of
from paceline.simulate.report.style import library, modules, style
from paceline.whatif.decided import MEANINGS
from paceline.whatif.figures import CPU
from paceline.whatif.report import (
    CALIBRATION_MS,
    GAINS,
    LOSES,
    SIDES,
    effect_text,
    figure_name,
    guesses_text,
    lengths_text,
    name_of,
    number,
    pairs_text,
    shown,
    trust_text,
)
from projections.ui.rendering import environment

LOOKS: dict[str, tuple[str, dict[str, bool]]] = {
    "recorded": ("soft", {"line": True, "dash": True}),
    "again": ("ink", {"line": True}),
    "changed": ("s1", {"line": True}),
}
"""The colour of each side, and how it is drawn."""
KLASSES = {GAINS: "good", LOSES: "bad"}


def html(body: Json) -> str:
    """The page of an answer, as `report.body_of` makes it."""
    text = (files("paceline.whatif") / "report.html").read_text(encoding="utf-8")
    values = values_of(body)
    return environment().from_string(text).render(values, style=style(), library=library(), modules=modules())


def values_of(body: Json) -> Json:
    """The values of `what_if_answer.html`, which shows an answer: texts and plots."""
    resource = main_resource(body)
    plots, pools = _over_time(body, resource)
    same = {name: body[name] for name in ("change", "from_at", "to_at", "model", "conditions", "answers")}
    return same | {
        "pairs_text": pairs_text(body),
        "tiles": _tiles(body),
        "trust": trust_text(body),
        "lengths": lengths_text(body),
        "guesses": guesses_text(body),
        "figures": [_row(row, name_of(row), figure_name(row)) for row in shown(body)],
        "plots": plots,
        "pools": pools,
        "unit": unit_of(resource),
        "sides": SIDES,
        "klasses": KLASSES,
        "jobs": [_row(row, row["job_id"], row["pool"], row["owner"]) for row in body["jobs"]],
        "preemptions": [_row(row, row["from_pool"], row["for_pool"]) for row in body["preemptions"]],
    }


def _row(row: Json, *names: str) -> Json:
    """A row of a table of effects."""
    numbers = [number(row[side]) for side in SIDES]
    return {"names": names, "numbers": numbers, "effect": effect_text(row), "verdict": row.get("verdict")}


def main_resource(body: Json) -> str:
    """The resource that the plots show: the kind of GPUs that was asked for most, CPU where none ever was."""
    sums: dict[str, float] = {}
    for each in body["series"]["pools"]:
        if is_gpu(each["resource"]):
            demand = sum(sum(each[side]["demand"]) for side in SIDES)
            sums[each["resource"]] = sums.get(each["resource"], 0) + demand
    most = max(sums, key=lambda name: (sums[name], name), default="")
    return most if sums.get(most) else CPU


def _tiles(body: Json) -> list[tuple[str, str]]:
    """The figures to look at first."""
    near, host = body["trust"]["near"][f"{CALIBRATION_MS // 1000}s"], body["trust"]["same_host"]
    cell = {(row["figure"], row["resource"]): row for row in body["figures"] if row["of"] == "cell"}
    resources = dict.fromkeys((CPU, main_resource(body)))
    by_resource = [(figure, resource) for figure in ("use", "lost_work") for resource in resources]
    return [
        ("starts within 60 s, again", "-" if near is None else f"{near:.0%}"),
        ("on the same host, again", "-" if host is None else f"{host:.0%}"),
        *(
            (f"cell: {figure_name(cell[each])}", effect_text(cell[each]))
            for each in (("mean_wait", ""), ("turnaround", ""), ("preempted", ""), *by_resource)
            if each in cell
        ),
    ]


def _over_time(body: Json, resource: str) -> tuple[dict[str, dict[str, Any]], list[tuple[str, list[tuple[str, str]]]]]:
    """The plots as `plots.js` describes them, and by pool their ids with what each shows; the largest pools first."""
    times = [datetime.fromisoformat(each).timestamp() for each in body["series"]["times"]]
    rows = [each for each in body["series"]["pools"] if each["resource"] == resource]
    rows.sort(key=lambda each: (-sum(each["recorded"]["allocation"]), each["pool"]))
    plots: dict[str, dict[str, Any]] = {}
    pools = []
    for place, row in enumerate(rows[:POOLS_MAX], 1):
        figures = []
        for meaning in MEANINGS:
            lines = [line(side, LOOKS[side][0], row[side][meaning], **LOOKS[side][1]) for side in SIDES]
            plots[f"{meaning}-{place}"] = {"times": times, "series": lines}
            figures.append((f"{meaning}-{place}", meaning))
        pools.append((row["pool"], figures))
    return plots, pools
