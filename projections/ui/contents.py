"""All pages, what their scripts ask for, and what their forms do."""

from projections.ui.pages import (
    find,
    help,
    host,
    hosts,
    jobs,
    log,
    operations,
    overview,
    pool,
    pools,
    rounds,
)
from projections.ui.scene import Action, Data, Page

PAGES: tuple[Page, ...] = (
    *find.PAGES,
    *help.PAGES,
    *jobs.PAGES,
    *overview.PAGES,
    *pools.PAGES,
    *pool.PAGES,
    *hosts.PAGES,
    *host.PAGES,
    *rounds.PAGES,
    *log.PAGES,
    *operations.PAGES,
)
DATA: tuple[Data, ...] = (*hosts.DATA,)
ACTIONS: tuple[Action, ...] = (*host.ACTIONS, *rounds.ACTIONS)
