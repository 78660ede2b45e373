"""Cells that differ in nothing but what a reader may not see give that reader the same answers, whatever is asked."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from events.codes import Outcome
from events.records.hosts import HostVolumes
from events.records.jobs import JobStopRequested
from events.records.parts import Actor, Volume
from events.records.pools import RoleBound
from projections.api import context
from projections.ui import app as pages
from projections.ui.app import add_ui
from projections.ui.contents import DATA, PAGES
from tests.helpers.drawn import seeds
from tests.helpers.written_cell import ended, held, preempted, unplaced
from tests.projections.access.test_limited_reads import OF_MAPS, asking
from tests.projections.conftest import TOKEN, Api
from tests.projections.ui.test_devices import host_with_cards, run_with

ENDLESS = ("/v1/events", "/ui/stream")
"""Routes without an end: the stream has a test of its own."""
OF_THIS_MOMENT = ("output-as-of", "content-length")
"""Headers that say when an answer was made; and how long it is, which follows from the rest."""
RESTS = re.compile(r'"rest_ms": \d+')
"""So long a page waits before it asks again: by how long making this answer took."""


class Foreign(NamedTuple):
    """What is in a cell beside /maps: names, and amounts that show nowhere but there."""

    pools: tuple[str, str]
    jobs: tuple[str, ...]
    host: str
    who: str
    label: str
    instances: int
    reason: str
    card: str
    """A device of the host of both that one of them has."""


ADS = Foreign(
    ("/ads", "/mapsque"), tuple(f"a{number}" for number in range(12)), "h1", "bob", "geo", 3, "wrong bids", "0"
)
ZOO = Foreign(
    ("/zoo", "/maps-2"), tuple(f"z{number}" for number in range(12)), "h9", "eve", "bio", 5, "lost lions", "3"
)


def written(api: Api, foreign: Foreign, seed: int) -> None:
    """The same facts and decisions in the same order, of /maps and of others in turns."""
    random, cell = Random(seed), api.cell
    for path in (foreign.pools[0], "/maps", foreign.pools[1], "/maps/tiles"):
        api.pool(path)
    for host_id in (foreign.host, "h2"):
        cell.host(host_id)
        cell.fact(HostVolumes(host_id=host_id, session=1, volumes=(Volume(f"v-{host_id}", 0, "data", 1000),)))
    own, others = [f"m{number}" for number in range(4)], [*foreign.jobs]
    turns = random.sample([True] * len(own) + [False] * len(others), len(own) + len(others))
    mine, theirs = iter(own), iter(others)
    for is_own in turns:
        if is_own:
            cell.accept(next(mine), pool=random.choice(("/maps", "/maps/tiles")), owner="ann", instances=2)
        else:
            pool = random.choice(foreign.pools)
            fields: dict[str, Any] = {"owner": foreign.who, "labels": {"team": foreign.label}}
            cell.accept(next(theirs), pool=pool, instances=foreign.instances, description=foreign.reason, **fields)
    host_with_cards(cell, "h2")
    run_with(cell, "m0", {"1": (400, 16384), "core/0": (1000, 0)}, "h2")
    run_with(
        cell, foreign.jobs[4], {"1": (300, 8192), foreign.card: (1000, 0), f"core/{foreign.card}": (1000, 0)}, "h2"
    )
    cell.run(foreign.jobs[0], host_id=foreign.host)
    steps = [
        lambda: cell.decide("entitlement", held("m1", (0,), pool="/maps", at="/maps")),
        lambda: cell.decide("entitlement", held(foreign.jobs[1], (0,), pool=foreign.pools[0], at=foreign.pools[0])),
        lambda: cell.decide("placement", unplaced("m2")),
        lambda: cell.decide("placement", unplaced(foreign.jobs[2])),
        lambda: cell.decide(
            "entitlement",
            preempted(1, {"m0": (0,)}, foreign.jobs[1], for_pool=foreign.pools[0], from_pools=("/maps",)),
        ),
        lambda: cell.decide("lifecycle", ended(foreign.jobs[0], (0,), Outcome.FAILED)),
        lambda: cell.fact(
            JobStopRequested(
                job_id=foreign.jobs[3], command_id="s", reason=foreign.reason, actor=Actor(foreign.who, "header")
            )
        ),
        lambda: api.granted(
            RoleBound(command_id="b", binding_id="b", subject=foreign.who, role="viewer", pool=foreign.pools[0])
        ),
        lambda: api.granted(RoleBound(command_id="o", binding_id="o", subject="ann", role="viewer", pool="/maps")),
    ]
    for step in random.sample(steps, len(steps)):
        step()
    api.fold()


def addresses(api: Api) -> Iterator[str]:
    """Every route that is read, about own things, those of either cell, and what nobody has."""
    values = {
        "job_id": ("m0", "m2", "a0", "z1", "x"),
        "host_id": ("h2", "h1", "h9", "h"),
        "path": ("maps", "maps/tiles", "ads", "zoo", "mapsque", "maps-3"),
        "path:path": ("maps", "ads", "zoo"),
        "subject": ("m0", "m2", "a0", "z1", "h1", "h9"),
        "subject:path": ("m0", "a0", "z1", "maps", "ads"),
        "instance": ("0", "1"),
        "run": ("1",),
        "name": ("front", "db"),
        "machine": ("entitlement",),
        "number": ("1",),
        "version": ("1",),
        "exec_id": ("e",),
        "maintenance_id": ("kernel",),
        "what_if_id": ("w",),
        "window_id": ("night",),
        "code": ("not-found",),
        "binding_id": ("b", "o"),
        "token_id": ("t",),
    }
    paths = [path for path, methods in api.client.get("/openapi.json").json()["paths"].items() if "get" in methods]
    paths += [each.path for each in (*PAGES, *DATA) if not getattr(each, "for_writing", False)]
    for path in paths:
        if path in ENDLESS or f"/ui{path}" in ENDLESS:
            continue
        filled = [path if path.startswith(("/v1", "/ui", "/metrics")) or "problems" in path else f"/ui{path}"]
        for name in re.findall(r"\{([\w:]+)\}", path):
            assert name in values, f"the test knows no value of {name} in {path}"
            filled = [each.replace("{" + name + "}", value) for each in filled for value in values[name]]
        yield from filled
    queries = ("pool=/", "pool=/ads", "pool=/zoo", "owner=bob", "owner=eve", "label=team:geo", "text=a1", "page_size=1")
    yield from (f"/v1/jobs?{query}" for query in (*queries, "order=wait", "state=FAILED", "actor=eve"))
    yield from (
        f"/v1/names?kind={kind}&prefix={text}" for kind in ("job", "host", "pool") for text in ("a", "z", "h", "/")
    )
    yield from (f"/ui/find?q={text}" for text in ("a0", "z0", "h1", "h9", "maps", "ads"))
    yield from (
        f"/v1/audit?{query}" for query in ("actor=bob", "actor=eve", "pool=/ads", "job=a3", "job=z3", "kind=RoleBound")
    )


def told(api: Api, path: str) -> tuple[int, dict[str, str], Any]:
    """A whole answer; without the time that making it took."""
    answer = api.client.get(path, follow_redirects=False)
    headers = {name: value for name, value in answer.headers.items() if name not in OF_THIS_MOMENT}
    return answer.status_code, headers, RESTS.sub("", answer.text)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Api, Api]]:
    made = []
    for name in ("ads", "zoo"):
        (tmp_path / name).mkdir()
        api = Api(tmp_path / name)
        add_ui(api.app, {0: api.app.state.context}, TOKEN)
        made.append(api)
    yield made[0], made[1]
    for api in made:
        api.close()


@seeds(12, 1)
def test_every_answer_is_the_same_whatever_others_have(both: tuple[Api, Api], seed: int) -> None:
    for api, foreign in zip(both, (ADS, ZOO), strict=True):
        written(api, foreign, seed)
    one, other = both
    now = one.cell.ms + 60_000
    with patch.object(pages.time, "time", lambda: now / 1000), patch.object(context, "now_ms", lambda: now):
        differ = []
        for path in addresses(one):
            with asking(OF_MAPS):
                here, there = told(one, path), told(other, path)
            if here != there:
                differ.append((path, here, there))
    assert differ == []
