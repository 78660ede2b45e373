"""A processor that can't go on with a cell gives it to one that can."""

import shutil
from pathlib import Path

from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty
from tests.processes.test_processors import answered, pool

CELLS = 2


def test_a_cell_whose_store_is_damaged_is_taken_by_a_standby(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, CELLS), CELLS)
    try:
        for cell in range(CELLS):
            pool(site, cell, f"/{cell}")
        site.start("entitlement")
        site.until(lambda: all(answered(site, cell) == {f"/{cell}"} for cell in range(CELLS)))
        site.stop("entitlement")
        own, other = (site.folder / "data" / f"cell-{cell}" / "store" / "entitlement" for cell in range(CELLS))
        shutil.rmtree(own)
        shutil.copytree(other, own)

        site.start("entitlement.b")
        site.until(lambda: len(site.owned("entitlement.b")) == CELLS)
        site.start("entitlement")  # the first by name, so the group gives it the first cell
        site.until(lambda: "left the group" in (site.health("entitlement") or {}).get("failed", ""), "it to leave")
        site.until(lambda: len(site.owned("entitlement.b")) == CELLS, "the other to have all cells again")
        for cell in range(CELLS):
            pool(site, cell, "/late")
        site.until(lambda: all("/late" in answered(site, cell) for cell in range(CELLS)))
        assert "is of another log" in site.said("entitlement")
        site.end()
    finally:
        site.processes.stop_all()
