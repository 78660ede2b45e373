"""All pages, what their scripts ask for, and what their forms do."""

from projections.ui.pages import (
    access,
    access_changes,
    blame,
    find,
    help,
    host,
    hosts,
    job,
    job_changes,
    job_tasks,
    jobs,
    log,
    maintenances,
    operations,
    overview,
    pool,
    pools,
    rounds,
    submit,
    what_if,
)
from projections.ui.scene import Action, Data, Page

PAGES: tuple[Page, ...] = (
    *find.PAGES,
    *help.PAGES,
    *jobs.PAGES,
    *overview.PAGES,
    *job.PAGES,
    *job_changes.PAGES,
    *job_tasks.PAGES,
    *submit.PAGES,
    *pools.PAGES,
    *pool.PAGES,
    *hosts.PAGES,
    *host.PAGES,
    *maintenances.PAGES,
    *rounds.PAGES,
    *log.PAGES,
    *blame.PAGES,
    *operations.PAGES,
    *access.PAGES,
    *access_changes.PAGES,
    *what_if.PAGES,
)
DATA: tuple[Data, ...] = (
    *jobs.DATA,
    *job.DATA,
    *hosts.DATA,
)
ACTIONS: tuple[Action, ...] = (
    *job_changes.ACTIONS,
    *submit.ACTIONS,
    *host.ACTIONS,
    *rounds.ACTIONS,
    *access_changes.ACTIONS,
    *what_if.ACTIONS,
)
