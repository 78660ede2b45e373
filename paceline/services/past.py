"""The past of cells, as the settings of a server have it."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from events.log.port import Log
from paceline.moments.order import LogAddress, PlanStart
from paceline.moments.placements import CellPlacements
from paceline.moments.planner import CellPlans
from paceline.moments.replays import CellReplays
from paceline.moments.source import CellMoments, CellPast
from paceline.moments.view_maker import MakerLimits
from paceline.moments.what_ifs import CellWhatIfs, WhatIfLimits
from paceline.services.cell_log import with_archive
from paceline.services.settings import Settings, UpSettings

MIB = 1 << 20


class CellFolder(NamedTuple):
    """The log of a cell, and the folder that holds its views; `since_ms`: when history begins that was imported."""

    log: Log
    folder: Path
    since_ms: int = 0


def moments_of(settings: Settings | UpSettings, cells: Mapping[int, CellFolder]) -> CellMoments:
    """Makes views of the past of some cells."""

    def past(cell: int, each: CellFolder) -> CellPast:
        log = with_archive(each.log, settings.archive)
        return CellPast(log, address_of(settings, cell), each.folder, each.since_ms)

    limits = MakerLimits(settings.views.make_s, settings.views.made_mib * MIB)
    return CellMoments({cell: past(cell, each) for cell, each in cells.items()}, limits)


def replays_of(settings: Settings | UpSettings, cell: int) -> CellReplays:
    """Decides rounds of a cell again."""
    return CellReplays(address_of(settings, cell), snapshots_of(settings), settings.views.make_s)


def plans_of(settings: Settings | UpSettings, cell: int, folder: Path) -> CellPlans:
    """Plans facts of a cell whose views, and perhaps stores, are in a folder."""
    start = PlanStart(
        address_of(settings, cell), str(folder / "views.sqlite"), [str(folder / "store")], snapshots_of(settings)
    )
    return CellPlans(start, settings.views.make_s)


def placements_of(settings: Settings | UpSettings, cell: int) -> CellPlacements:
    """Derives placements of a cell again."""
    return CellPlacements(address_of(settings, cell), snapshots_of(settings), settings.views.make_s)


def what_ifs_of(settings: Settings | UpSettings, cell: int) -> CellWhatIfs:
    """Answers what-if questions about a cell."""
    limits = WhatIfLimits(settings.what_if.run_s, settings.what_if.memory_mib)
    return CellWhatIfs(address_of(settings, cell), limits)


def snapshots_of(settings: Settings | UpSettings) -> str:
    """The URL of the snapshots of machines; empty: none are kept."""
    return settings.snapshots if isinstance(settings, Settings) else ""


def address_of(settings: Settings | UpSettings, cell: int) -> LogAddress:
    """Where another process opens the log of a cell."""
    return LogAddress(
        str(settings.data),
        cell,
        settings.kafka,
        settings.kafka_options,
        settings.schema_registry_url,
        settings.archive,
    )
