"""What processes say of themselves as objects, for those who search the logs of many machines."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from events.codec import encode
from events.log.port import NewRecord
from events.records.pools import PoolDefined
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty

MACHINE = "entitlement"
TAKEN = "decides from here on"
LOST = "stopped: paceline.pools starts at "


def lines(site: Site, name: str) -> list[dict[str, Any]]:
    """What a part has said: each line is an object, with a level and a time of UTC."""
    found = [json.loads(line) for line in site.said(name).splitlines()]
    for line in found:
        assert line["level"] in ("info", "warning", "error"), line
        assert datetime.fromisoformat(line["timestamp"]).tzinfo == UTC, line
    return found


def about(site: Site, cell: int, sentence: str) -> list[dict[str, Any]]:
    """The lines of the processor about a cell that begin with a sentence; each has the fields to search by."""
    found = [line for line in lines(site, MACHINE) if line.get("cell") == cell and line["event"].startswith(sentence)]
    assert {line["machine"] for line in found} <= {MACHINE}
    return [{"epoch": line["epoch"], "round": line["round"]} for line in found]


def define(site: Site, path: str, cell: int) -> None:
    event = PoolDefined(path=path, command_id=path, cell=cell)
    site.append(cell, NewRecord(event.topic, path.encode(), encode(event)))


def round_(site: Site, cell: int) -> int:
    """Where the processor stands, as its health page says."""
    cells = (site.health(MACHINE) or {}).get("cells", {})
    return int(cells.get(str(cell), {}).get("round", 0))


def lose_unread(site: Site, cell: int) -> None:
    """A record of a cell is gone before the processor could read it."""
    site.freeze(MACHINE)
    unread = NewRecord("paceline.pools", b"", b"nobody reads this")
    site.append(cell, unread)  # this one answers the fetch that it has sent already
    [offset] = site.append(cell, unread)
    site.remove(cell, "paceline.pools", offset + 1)
    site.thaw(MACHINE)


def test_a_line_about_a_cell_is_an_object_with_cell_machine_epoch_and_round(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 2), cells=2, PACELINE_LOGS__FORM="json")
    try:
        site.start(MACHINE)
        site.until_ready(MACHINE)
        for cell in (0, 1):
            site.until(lambda cell=cell: about(site, cell, TAKEN), "the cell to be taken")
            [taken] = about(site, cell, TAKEN)
            assert taken["epoch"] == 1
            define(site, f"/p-{cell}", cell)
            site.until(lambda cell=cell, taken=taken: round_(site, cell) > taken["round"], "a round")

        stood = round_(site, 1)
        lose_unread(site, 1)
        site.until(lambda: about(site, 1, LOST), "the cell to stop")
        [stopped] = about(site, 1, LOST)
        assert stopped["epoch"] == 1
        assert stopped["round"] >= stood > 0
        assert not about(site, 0, LOST)
        site.stop(MACHINE)

        site.start(MACHINE)
        site.until(lambda: len(about(site, 0, TAKEN)) == 2, "the cell to be taken again")
        before, after = about(site, 0, TAKEN)
        assert after["epoch"] == before["epoch"] + 1
        assert after["round"] > before["round"]
    finally:
        site.processes.stop_all()


def test_what_a_process_says_of_itself_names_it_the_sentence_it_ends_with_too(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 1), PACELINE_LOGS__FORM="json")
    others = ("projector", "fanout", "gateway.0", "api", "agent.0")
    try:
        site.start(*others)
        site.until_ready(*others)
        site.until(lambda: lines(site, "agent.0"), "the agent to say where its pages are")
        site.end()
        site.start(MACHINE)
        site.until_ready(MACHINE)
        lose_unread(site, 0)
        assert site.until_ended(MACHINE) == 1
    finally:
        site.processes.stop_all()
    for name in others:
        assert {line["process"] for line in lines(site, name)} == {name.partition(".")[0]}
    assert {line["cell"] for line in lines(site, "gateway.0")} == {0}
    assert {line["host"] for line in lines(site, "agent.0")} == {"agent.0"}
    *_, last = lines(site, MACHINE)
    assert (last["level"], last["machine"]) == ("error", MACHINE)
    assert f"stopped: {last['event']}".startswith(LOST)
