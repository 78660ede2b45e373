"""The answer as JSON, and as Markdown for reviewers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from events.resources import Unit
from events.words import plural
from paceline.client.json_type import Json
from paceline.moments.log_cut import write_time
from paceline.output import one_line
from paceline.whatif.branch import Change
from paceline.whatif.compare import NEAR_MS, Comparison, Effect, JobEffect
from paceline.whatif.conditions import Answer, Condition
from paceline.whatif.decided import MEANINGS, POINTS
from paceline.whatif.figures import CELL, COUNTS, CPU, GUESSED_MAX, LESS_IS_BETTER, MORE_IS_BETTER
from paceline.whatif.lengths import GUESSED
from paceline.whatif.stretch import Stretch

NOISE, GAINS, LOSES, UNKNOWN = "noise", "gains", "loses", "can't tell"
ANSWERS = {Answer.NO: "no", Answer.YES: "yes", Answer.UNKNOWN: "can't tell"}
OWNERS_SHOWN = 10
ANSWERS_SHOWN = 20
LEAST_SHOWN = 0.01
"""Shares below this are shown as such."""
SIDES = ("recorded", "again", "changed")
JOB_COLUMNS = ("job_id", "pool", "owner", *SIDES, "effect", "within", "verdict")
CALIBRATION_MS = 60_000
"""A first start so near to when it was counts as given again."""
_MARKUP = re.compile(r"[\\`*|\[\]~]")
MODEL = (
    "People do in each branch what they did in history: that they submit more where the queue is short isn't in the "
    "model."
)


def is_calibrated(comparison: Comparison, least: float) -> bool:
    """Whether enough of what happened comes again without a change."""
    near = comparison.trust.near[CALIBRATION_MS]
    return near is not None and near >= least


def verdict(effect: Effect, calibrated: bool) -> str:
    """Whether a group gains by the change, in one figure."""
    if effect.effect == 0 and effect.within == 0:
        return ""
    if effect.within is None or not calibrated:
        return UNKNOWN
    if effect.is_noise:
        return NOISE
    if effect.figure in MORE_IS_BETTER:
        return GAINS if effect.effect > 0 else LOSES
    if effect.figure in LESS_IS_BETTER:
        return GAINS if effect.effect < 0 else LOSES
    return ""


def body_of(
    stretch: Stretch, change: Change, comparison: Comparison, verdicts: Sequence[tuple[Condition, Answer]], least: float
) -> Json:
    """All of the answer. Times are RFC 3339, waits in seconds, shares from 0 to 1."""
    trust, calibrated = comparison.trust, is_calibrated(comparison, least)
    runs, core_ms = sum(comparison.flags.values()), sum(comparison.core_ms.values())
    return {
        "from_at": write_time(stretch.from_ms),
        "to_at": write_time(stretch.to_ms),
        "change": list(change.lines),
        "pairs": comparison.pairs,
        "model": MODEL,
        "trust": {
            "near": {f"{ms // 1000}s": trust.near[ms] for ms in NEAR_MS},
            "same_host": trust.same_host,
            "preempted_recorded": trust.preempted_recorded,
            "preempted_again": trust.preempted_again,
            "min_calibration": least,
            "calibrated": calibrated,
        },
        "lengths": {
            flag: {
                "runs": count / runs if runs else 0.0,
                "core_seconds": comparison.core_ms.get(flag, 0) / core_ms if core_ms else 0.0,
            }
            for flag, count in sorted(comparison.flags.items())
        },
        "facts": {str(rule): count / comparison.pairs for rule, count in sorted(comparison.rules.items())},
        "figures": [
            _figure(effect, calibrated and comparison.tells_of(effect.figure), _size(comparison, effect.resource))
            for effect in comparison.effects
        ],
        "jobs": [_job(job, calibrated) for job in comparison.jobs],
        "preemptions": [{**asdict(pair), "effect": pair.changed - pair.again} for pair in comparison.preemptions],
        "answers": [
            {name: value for name, value in asdict(each).items() if name != "at_ms"} | {"at": write_time(each.at_ms)}
            for each in comparison.answers
        ],
        "series": _series(stretch, comparison),
        "conditions": [{"condition": each.text, "holds": ANSWERS[answer]} for each, answer in verdicts],
    }


def _job(job: JobEffect, calibrated: bool) -> Json:
    effect = Effect(("job", job.job_id), "mean_wait", 0, job.again, job.changed, job.effect, job.within, None)
    return {
        "job_id": job.job_id,
        "pool": job.pool,
        "owner": job.owner,
        "recorded": job.recorded,
        "again": job.again,
        "changed": job.changed,
        "effect": job.effect,
        "within": job.within,
        "verdict": verdict(effect, calibrated),
    }


def _size(comparison: Comparison, resource: str) -> str:
    """The unit of sizes; of what is counted, and of figures without a resource, nothing."""
    return Unit.MIB.value if comparison.units.get(resource) is Unit.MIB else ""


def _series(stretch: Stretch, comparison: Comparison) -> Json:
    """Numbers of pools over time: cores, cards and what else is counted; MiB of sizes."""
    part_ms = (stretch.to_ms - stretch.from_ms) / POINTS

    def rows(values: NDArray[np.float64], resource: str) -> Json:
        scale = 1 if _size(comparison, resource) else 1000
        return {
            name: [round(each / scale, 3) for each in row.tolist()] for name, row in zip(MEANINGS, values, strict=True)
        }

    return {
        "times": [write_time(round(stretch.from_ms + part_ms * number)) for number in range(POINTS)],
        "pools": [
            {
                "pool": pool,
                "resource": resource,
                "unit": _size(comparison, resource),
                **dict(zip(SIDES, (rows(each, resource) for each in lines), strict=True)),
            }
            for (pool, resource), lines in comparison.lines.items()
        ],
    }


def _figure(effect: Effect, calibrated: bool, unit: str) -> Json:
    kind, name = effect.group
    return {
        "of": kind,
        "name": name,
        "figure": effect.figure,
        "resource": effect.resource,
        "unit": unit,
        "recorded": effect.recorded,
        "again": effect.again,
        "changed": effect.changed,
        "effect": effect.effect,
        "within": effect.within,
        "verdict": verdict(effect, calibrated),
    }


def name_of(row: Json) -> str:
    """The group of a figure as tables show it."""
    return CELL if row["of"] == CELL else str(row["name"]) if row["of"] == "pool" else f"owner {row['name']}"


def figure_name(row: Json) -> str:
    """A figure as tables show it, with its unit."""
    resource, unit = row["resource"], row["unit"]
    if row["figure"] == "use":
        return ("cores" if resource == CPU else resource) + " in use" + (f" ({unit})" if unit else "")
    name = str(row["figure"].replace("_", " "))
    if resource:
        of = "core" if resource == CPU else f"{resource} {unit}".rstrip()
        return f"{name} ({of}-seconds)"
    return name if row["figure"] in COUNTS else f"{name} s"


def number(value: float | None) -> str:
    """A figure in few digits."""
    return "-" if value is None else f"{value:,.1f}"


def effect_text(row: Json) -> str:
    """`+97.6 ± 19.2`; without an interval the effect alone."""
    sign = "+" if row["effect"] > 0 else ""
    within = "" if row["within"] is None else f" ± {number(row['within'])}"
    return f"{sign}{number(row['effect'])}{within}"


def shown(body: Json) -> list[Json]:
    """The figures that tables show: those that the change moves, and the mean wait of each pool and of the cell; of the
    owners only those whose jobs gain or lose most time together. Sizes move as cores and cards do: they aren't shown.
    """
    waits = [row for row in body["figures"] if row["of"] == "owner" and row["figure"] == "mean_wait" and row["effect"]]
    jobs = {row["name"]: 0.0 for row in waits}
    for row in body["figures"]:
        if row["of"] == "owner" and row["figure"] in ("begun", "waiting") and row["name"] in jobs:
            jobs[row["name"]] += row["again"]
    owners = sorted(waits, key=lambda row: -abs(row["effect"]) * jobs[row["name"]])[:OWNERS_SHOWN]
    return [
        *(
            row
            for row in body["figures"]
            if row["of"] != "owner" and not row["unit"] and (row["figure"] == "mean_wait" or round(row["effect"], 1))
        ),
        *owners,
    ]


def pairs_text(body: Json) -> str:
    """`5 pairs of runs`; of one, that it tells no effect from noise."""
    if body["pairs"] > 1:
        return f"{body['pairs']} pairs of runs"
    return "1 pair of runs, whose effects can't be told from noise: take more of them (--runs)"


def trust_text(body: Json) -> str:
    """The likeness of the branches without a change to history."""
    trust = body["trust"]
    near, host = trust["near"]["60s"], trust["same_host"]
    if near is None:
        return "no job began in the stretch, so nothing tells how well it is given again"
    low = "" if trust["calibrated"] else f"; below {trust['min_calibration']:.0%}, so no effect is told"
    return (
        f"unchanged run: {near:.0%} of first starts within 60 s of the recorded ones, {host:.0%} on the same host; "
        f"preempted: {_count(trust['preempted_recorded'])} recorded, {_count(trust['preempted_again'])} again{low}"
    )


def lengths_text(body: Json) -> str:
    """The rules that gave the lengths of runs."""
    parts = [
        f"{each['runs']:.0%} of runs and {each['core_seconds']:.0%} of core-seconds {flag}"
        for flag, each in body["lengths"].items()
    ]
    return f"{', '.join(parts) or 'no runs'}; facts: {_facts(body)}"


def guesses_text(body: Json) -> str:
    """The part of the answer that rests on guessed lengths, and what that keeps from being told; empty: none does."""
    share = body["lengths"].get(GUESSED, {}).get("core_seconds", 0)
    if not share:
        return ""
    untold = ", so effects on turnaround, ended and use can't be told" * (share > GUESSED_MAX)
    part = f"{share:.0%}" if share >= LEAST_SHOWN else f"less than {LEAST_SHOWN:.0%}"
    return f"{part} of the core-seconds rest on guessed lengths: history knows no runs as long as these{untold}"


def _count(value: float) -> str:
    """A mean of counts in few digits."""
    return number(value).removesuffix(".0")


def _facts(body: Json) -> str:
    return ", ".join(f"{count:,.0f} {rule}" for rule, count in body["facts"].items()) or "none"


def markdown_text(text: str) -> str:
    """A text of users as a part of a line or a cell of a table: none of it is markup."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text)).replace("&", "&amp;").replace("<", "&lt;")


def markdown(body: Json) -> str:
    """The report for reviewers."""
    lines = [
        f"# What if: {markdown_text('; '.join(body['change']))}",
        "",
        f"From {body['from_at']} to {body['to_at']}, {pairs_text(body)}. {body['model']}",
        "",
        f"* Trust: {trust_text(body)}.",
        f"* Lengths: {lengths_text(body)}.",
        *([f"* **Guessed**: {guesses}."] if (guesses := guesses_text(body)) else []),
        "",
    ]
    if body["conditions"]:
        lines += ["| condition | holds |", "| --- | --- |"]
        lines += [f"| {markdown_text(each['condition'])} | {each['holds']} |" for each in body["conditions"]]
        lines.append("")
    lines += [
        "| of | figure | recorded | again | changed | effect (90 %) | |",
        "| --- | --- | --: | --: | --: | --: | --- |",
    ]
    for row in shown(body):
        numbers = " | ".join(number(row[name]) for name in ("recorded", "again", "changed"))
        cells = [markdown_text(name_of(row)), figure_name(row), numbers, effect_text(row), row["verdict"]]
        lines.append(f"| {' | '.join(cells)} |")
    lines += _markdown(
        body["jobs"], ("job", "pool", "owner"), "wait s: ", lambda row: (row["job_id"], row["pool"], row["owner"])
    )
    lines += _markdown(
        body["preemptions"], ("preempted in", "for"), "runs ", lambda row: (row["from_pool"], row["for_pool"])
    )
    if body["answers"]:
        lines += ["", "| fact | at | recorded | again | changed | |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [
            f"| {each['kind']} {markdown_text(each['subject'])} | {each['at']} | {each['recorded'] or '-'} "
            f"| {each['again'] or '-'} | {each['changed']} | {markdown_text(each['message'])} |"
            for each in body["answers"][:ANSWERS_SHOWN]
        ]
        if (more := len(body["answers"]) - ANSWERS_SHOWN) > 0:
            lines += ["", f"and {plural(more, 'more answer')} that differ, in summary.json"]
    return "\n".join([*lines, ""])


def _markdown(rows: list[Json], names: Sequence[str], unit: str, cells: Callable[[Json], Sequence[str]]) -> list[str]:
    """A table of effects."""
    if not rows:
        return []
    heads = [*names, *(f"{unit}{side}" for side in SIDES), "effect (90 %)"]
    lines = ["", f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(names) + ['--:'] * 4)} |"]
    for row in rows:
        numbers = [number(row[side]) for side in SIDES]
        lines.append(f"| {' | '.join([*map(markdown_text, cells(row)), *numbers, effect_text(row)])} |")
    return lines


def answer_text(answer: Json) -> str:
    """One answer that differs, in a line."""
    before = answer["recorded"] or "not asked"
    message = f": {answer['message']}" if answer["message"] else ""
    return f"{answer['kind']} {answer['subject']}: {before} -> {answer['changed']}{message}"
