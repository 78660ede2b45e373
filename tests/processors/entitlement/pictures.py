"""Draws what pools may use and hold, from the EntitlementsSet of a cell that runs a scenario in virtual time.

    python -m tests.processors.entitlement.pictures

puts the pictures into docs/sharing.md anew.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from events.columns import longs
from events.records.entitlement import EntitlementsSet
from paceline.simulate.checker.history import History
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from paceline.simulate.world.cell import START_MS
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "sharing.md"
SCENARIO = """
end: 75m
hosts: [{name: h, count: 10, resources: {cpu: 4}}]
pools:
  - {path: /maps, reservation: {cpu: 16}}
  - {path: /maps/tiles}
  - {path: /maps/routes}
  - {path: /search, share: 2, limit: {cpu: 24}}
  - {path: /tests, share: 0}
jobs:
  - {job_id: nightly, pool: /tests, at: 1m, instances: 40, resources: {cpu: 1}, sim: {duration: 10h}}
  - {job_id: index, pool: /search, at: 5m, instances: 30, resources: {cpu: 1}, sim: {duration: 10h}}
  - {job_id: tiles, pool: /maps/tiles, at: 15m, instances: 40, resources: {cpu: 1}, sim: {duration: 20m}}
  - {job_id: routes, pool: /maps/routes, at: 25m, instances: 6, resources: {cpu: 1}, sim: {duration: 10h}}
"""
MOMENTS = (
    (4, "Only /tests has work. Its share is 0, and it is entitled to all that nobody else wants."),
    (6, "/search wants 30 cores and may have 24, its limit. Its claim waits for `preemption_delay`."),
    (12, "/tests has given back what it held above its entitlement."),
    (24, "/maps gets its reservation and its share of the rest: 16 + 24 / 3 = 24. /search is left 16, /tests nothing."),
    (34, "/maps/routes wants 6 and gets them from /maps/tiles: what /maps may use is divided below it."),
    (
        70,
        "The tiles are done. What /maps leaves is shared by the others: /search up to its limit, /tests has the rest.",
    ),
)
_BLOCK = re.compile(r"(?<=<!-- pictures -->\n)(?:.*\n)*?(?=<!-- end of pictures -->\n)")
Row = tuple[int, int, int]
"""Cores that a pool is entitled to, wants, and holds."""


def rows() -> list[dict[str, Row]]:
    """What the pools were last said to have at each moment."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(SCENARIO)
        session = of_scenario(read_scenario(str(path)), "paceline simulate scenario.yaml", RunOptions())
    session.run.run_to_end()
    session.finish()
    said = [
        (round_.now_ms, event)
        for round_ in History(session.run.cell.log).read()
        for event in round_.decisions
        if isinstance(event, EntitlementsSet)
    ]
    session.run.cell.close()
    found: list[dict[str, Row]] = []
    for minutes, _ in MOMENTS:
        pools: dict[str, Row] = {}
        for at_ms, event in said:
            if at_ms <= START_MS + minutes * 60_000:
                pools |= _of(event)
        found.append(pools)
    return found


def _of(event: EntitlementsSet) -> dict[str, Row]:
    shape, cpu = (len(event.pools), len(event.resources)), event.resources.index("cpu")
    columns = (event.entitlement, event.demand, event.allocation)
    cores = [(longs(column).reshape(shape)[:, cpu] // 1000).tolist() for column in columns]
    return dict(zip(event.pools, zip(*cores, strict=True), strict=True))


def bar(entitled: int, wanted: int, held: int) -> str:
    """A character for each core: `#` held within the entitlement, `+` held beyond it, `-` entitled to and not held,
    `.` wanted beyond.
    """
    claimed = "-" * (entitled - held)
    return "#" * min(held, entitled) + "+" * (held - entitled) + claimed + "." * (wanted - max(held, entitled))


def pictures() -> str:
    """The pictures as they stand on the page."""
    parts = []
    for (minutes, text), pools in zip(MOMENTS, rows(), strict=True):
        lines = [f"{'':14}{'ENTITLED':>8}{'HELD':>7}{'DEMAND':>7}"]
        for path in sorted(pools, key=lambda path: path.split("/") if path != "/" else []):
            entitled, wanted, held = pools[path]
            name = path if path.count("/") < 2 else "  " + path.rpartition("/")[2]
            drawn = "" if path == "/" else bar(entitled, wanted, held)
            lines.append(f"{name:14}{entitled:>8}{held:>7}{wanted:>7}  {drawn}".rstrip())
        parts.append(f"Minute {minutes}. {text}\n\n```\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def rendered() -> str:
    """The page with the pictures as they are now."""
    return _BLOCK.sub(lambda _: pictures(), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(rendered())
