"""`paceline pool`: define and look at pools."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands import lockdown
from paceline.cli.commands.common import (
    DECIDED_S,
    FILES,
    Paging,
    Since,
    actor_option,
    at_option,
    cell_option,
    complete,
    examples,
    list_options,
    note_rest,
    output_option,
    paging_options,
    with_client,
    zone_option,
)
from paceline.cli.commands.histories import show_history
from paceline.cli.commands.lockdown import Lockdowns
from paceline.cli.commands.pool_check import check, check_options
from paceline.cli.commands.pool_views import (
    changed_fields,
    pool_columns,
    print_cells,
    print_entitlement,
    print_plan,
    print_pool,
    print_queue,
    print_tree,
)
from paceline.cli.commands.reasons import reason_for_pool, reason_option
from paceline.cli.commands.waits import waits
from paceline.cli.commands.watch import pool_watch
from paceline.cli.groups import CommandGroup
from paceline.output import TableOptions, answers, note, say, show, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from events.spec.pool import PoolSpec
    from paceline.client.client import Client
    from paceline.client.errors import PacelineError
    from paceline.client.pool_models import Pool, Queue
    from paceline.job_files import PoolFile


CHANGED = "changed"
APPLIED_AT_ONCE = 8
"""Requests that define pools, at one time."""
PATH = click.argument("path", shell_complete=complete("pool"))


@click.group(cls=CommandGroup)
def pool() -> None:
    """Define and inspect pools."""


pool.add_command(pool_watch)
pool.add_command(waits)


@pool.command(
    epilog=examples(
        "paceline pool apply examples/pools.yaml",
        "cat pools.yaml | paceline pool apply -",
        "paceline pool apply pools.yaml --checked 7d --fail-if 'cell mean_wait > +5%'",
    )
)
@FILES
@click.option("--dry-run", is_flag=True, help="Only show what would change, be let in and be preempted.")
@click.option(
    "--expected",
    metavar="POSITION",
    help="Only if the pool was last changed there, as `pool get` shows it: keeps what another changed since "
    "you looked; * if whatever stands may be replaced.",
)
@click.option(
    "--checked", type=Since(), metavar="AGO|TIME", help="Only if a what-if from then until now meets no --fail-if."
)
@click.option(
    "--fail-if", "conditions", multiple=True, metavar="CONDITION",
    help="What must not come of it, as in `what-if`. May be repeated.",
)  # fmt: skip
@reason_option
@output_option
@cell_option
@with_client
def apply(
    client: "Client",
    files: tuple[str, ...],
    dry_run: bool,
    expected: str | None,
    checked: str | None,
    conditions: tuple[str, ...],
    reason: str,
    form: str,
) -> int:
    """Create or update the pools in files, folders or standard input (-).

    All files are validated first. A pool that already matches its file is unchanged; one that `paceline pool close`
    closed opens again, unless its file says `closed: true`. A pool belongs to the cell that its file names, or else to
    the cell of its parent. One that somebody else changes meanwhile isn't overwritten (exit code 5): look at it, and
    apply again. A field that a file doesn't name gets its default, whoever had set it; each change is shown.

    With --dry-run nothing is written: the machines of the cell decide on a copy of their state, and tell which pools
    would be created, changed or refused, what each pool could use then, which work would be let in and which would be
    preempted within the preemption delay.

    With --checked the server first decides history since then again with these pools, as `paceline what-if` does, and
    the answer is printed. If a condition of --fail-if holds nothing is applied (exit code 1), nor if that can't be
    told (3). What another changes meanwhile isn't overwritten (5).
    """
    from paceline.job_files import read_pools

    check_options(checked, conditions, dry_run)
    pools = read_pools(files)
    if dry_run:
        body = client.plan_pools([{"path": each.path, **each.body} for each in pools])
        changes = [each for plan in body["cells"] for each in plan["changes"]]
        show(form, body, (each["path"] for each in changes), lambda: print_plan(body))
        return int(any(each["change"] == "refuse" for each in changes))
    if expected and expected != "*" and len(pools) > 1:
        raise click.BadParameter(f"the files have {len(pools)} pools, one is expected", param_hint="--expected")
    present = _present_all(client, [each.path for each in pools])
    for each in pools:
        if _changes(each.spec, present[each.path]):
            reason = reason or reason_for_pool(present[each.path], "")
    if checked and (code := check(client, pools, checked, conditions, form)):
        return code
    done, error = _apply_all(pools, lambda file: _apply(client, file, present[file.path], expected, reason))
    with answers(form, len(pools)) as report:
        for each in pools:
            if each.path in done:
                answer, change = done[each.path]
                lines = (
                    _field_lines(client, each.path, present[each.path]) if form == "table" and change == CHANGED else []
                )
                report(answer, each.path, "\n".join([f"pool {each.path} {change}", *lines]))
                if answer.get("code") == "DONE" and answer.get("message"):
                    note(answer["message"])
        if error is not None:
            raise error
    return 0


def _apply_all(
    pools: "Sequence[PoolFile]", apply_one: "Callable[[PoolFile], tuple[Any, str]]"
) -> "tuple[dict[str, tuple[Any, str]], PacelineError | None]":
    """Applies pools, all of a level at once and parents first, up to the first level where one is refused. Returns what
    became of each, and why one was refused.
    """
    from concurrent.futures import ThreadPoolExecutor

    from paceline.client.errors import PacelineError

    done: dict[str, tuple[Any, str]] = {}
    with ThreadPoolExecutor(APPLIED_AT_ONCE) as threads:
        for depth in sorted({each.path.count("/") for each in pools}):
            level = [each for each in pools if each.path.count("/") == depth]
            applied = [threads.submit(apply_one, each) for each in level]
            errors: list[PacelineError] = []
            for each, future in zip(level, applied, strict=True):
                try:
                    done[each.path] = future.result()
                except PacelineError as error:
                    errors.append(error)
            if errors:
                return done, errors[0]
    return done, None


def _present_all(client: "Client", paths: "Sequence[str]") -> "dict[str, Pool | None]":
    """Pools as they stand, by path."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(APPLIED_AT_ONCE) as threads:
        return dict(zip(paths, threads.map(partial(_present, client), paths), strict=True))


def _present(client: "Client", path: str) -> "Pool | None":
    """A pool as it stands; None: there is none."""
    from paceline.client.errors import NotFound

    try:
        return client.pool(path)
    except NotFound:
        return None


def _changes(spec: "PoolSpec", present: "Pool | None") -> bool:
    """Whether a definition differs from that of a pool."""
    from events.spec.pool import PoolSpec as Spec
    from events.spec.pool import as_defined

    if present is None:
        return False
    values = {name: value for name, value in present.items() if name in Spec.model_fields and name != "cell"}
    return as_defined(Spec.model_validate(values)) != as_defined(spec)


def _apply(
    client: "Client", file: "PoolFile", present: "Pool | None", expected: str | None, reason: str
) -> "tuple[Any, str]":
    position = present["position"] if present else ""
    # Written in any case: a cell that came later has not been told of the pool yet.
    whatever = expected == "*" and position
    replaced = "*" if whatever else position if expected in (None, "*") else expected
    answer = client.define_pool(file.path, file.body, wait=DECIDED_S, expected=replaced, reason=reason)
    if answer.get("code") == "REPEATED":
        return answer, "unchanged"
    return answer, CHANGED if position else "created"


def _field_lines(client: "Client", path: str, before: "Pool | None") -> list[str]:
    """Tells what a change gave each field of a pool, those too that another had set and the file leaves out."""
    from events.spec.pool import PoolSpec as Spec

    after: Mapping[str, Any] = _present(client, path) or {}
    was: Mapping[str, Any] = before or {}
    names = [name for name in Spec.model_fields if name in after and was.get(name) != after[name]]
    return changed_fields({name: {"before": was.get(name), "after": after[name]} for name in names})


@pool.command(epilog=examples("paceline pool history /maps", "paceline pool history / --utc"))
@PATH
@actor_option
@zone_option
@list_options
@at_option
@cell_option
@with_client
def history(client: "Client", path: str, actor: str | None, zone: str, form: str, shape: TableOptions) -> None:
    """Show what was changed or refused of a pool and of those right below it, by whom and why.

    Of / it shows the changes of the cell's settings. It goes back 90 days, for pools that were removed too.
    """
    show_history(list(client.pool_history(path, actor)), zone, form, shape)


@pool.command(
    "list",
    epilog=examples(
        "paceline pool list", "paceline pool list --pool /maps --columns pool,jobs", "paceline pool list -o name"
    ),
)
@click.option("--pool", "below", help="Only this pool and those below it.", shell_complete=complete("pool"))
@click.option("--text", help="Only pools with this in their path.")
@paging_options("pools", "all")
@list_options
@at_option
@cell_option
@with_client
def list_(
    client: "Client", below: str | None, text: str | None, paging: Paging, form: str, shape: TableOptions
) -> None:
    """List the pools with what each reserves and may use at most, is entitled to, wants and uses.

    A pool's jobs and tasks are those of all pools below it too.
    """
    body = paging.collected(lambda *page: client.pools_page(below, text, *page), "pools", None)
    pools = body["pools"]
    show(
        form,
        body,
        (each["path"] for each in pools),
        lambda: table(pools, pool_columns(pools, Lockdowns(client)), shape),
    )
    note_rest(body)


@pool.command(epilog=examples("paceline pool get /maps/tiles", "paceline pool get /"))
@PATH
@output_option
@at_option
@cell_option
@with_client
def get(client: "Client", path: str, form: str) -> None:
    """Show a pool; / is the whole cell."""
    if not path.strip("/"):
        cells = client.pools_page(page_size=1)["cells"]
        show(form, cells[0] if len(cells) == 1 else cells, ["/"], lambda: print_cells(cells, Lockdowns(client)))
        return
    body = client.pool(path)
    show(form, body, [body["path"]], lambda: print_pool(body, Lockdowns(client).of(body["path"], body.get("cell"))))


pool.add_command(lockdown.of_pool, "lockdown")


@pool.command(epilog=examples("paceline pool tree", "paceline pool tree --resource memory"))
@click.option("--resource", metavar="NAME", default="", help="Show this resource. [default: cpu]")
@list_options
@at_option
@cell_option
@with_client
def tree(client: "Client", resource: str, form: str, shape: TableOptions) -> None:
    """Show the tree of pools with what each may use, holds and wants, and who waits.

    The first line of a cell is its capacity. QUEUE counts tasks that wait for admission; HEAD is the first job that
    is not let in, with its reason code; NOTE says that a pool is closed, saves for a turn, or has one.
    """
    body = client.pool_tree()
    names = (each["path"] for each in body["pools"])
    show(form, body, names, lambda: print_tree(body, resource, shape))


@pool.command(epilog=examples("paceline pool queue /maps/tiles", "paceline pool queue /maps/tiles --size 50"))
@PATH
@click.option("--size", type=click.IntRange(1, 1000), default=10, show_default=True, help="Gangs of each class.")
@zone_option
@list_options
@at_option
@cell_option
@with_client
def queue(client: "Client", path: str, size: int, zone: str, form: str, shape: TableOptions) -> None:
    """Show the first gangs that wait in a pool, by class of work, with their reason codes."""
    body = client.queue(path, size)
    jobs = dict.fromkeys(each["job_id"] for line in body["classes"].values() for each in line["gangs"])
    show(form, body, jobs, lambda: print_queue(body, _below(client, body), zone, shape))


def _below(client: "Client", queue: "Queue") -> "list[Pool]":
    """The pools below one, where nothing waits in itself."""
    return [] if queue["classes"] else [each for each in client.pools() if each["path"].startswith(f"{queue['path']}/")]


@pool.command(epilog=examples("paceline pool explain /maps/tiles"))
@PATH
@output_option
@at_option
@cell_option
@with_client
def explain(client: "Client", path: str, form: str) -> None:
    """Explain a pool's entitlement, line by line from the capacity of the cell down."""
    body = client.entitlement(path)
    show(form, body, [body["path"]], lambda: print_entitlement(body, partial(client.pool, path)))


@pool.command(epilog=examples("paceline pool close /maps/tiles --reason 'broken disks'"))
@PATH
@reason_option
@output_option
@cell_option
@with_client
def close(client: "Client", path: str, reason: str, form: str) -> None:
    """Stop admissions to a pool and those below it; running work continues."""
    reason = reason or reason_for_pool(_present(client, path), "")
    answer = client.change_pool(path, {"closed": True}, wait=DECIDED_S, reason=reason)
    show(form, answer, [path], lambda: say(f"pool /{path.strip('/')} is closed"))


@pool.command("open", epilog=examples("paceline pool open /maps/tiles"))
@PATH
@reason_option
@output_option
@cell_option
@with_client
def open_(client: "Client", path: str, reason: str, form: str) -> None:
    """Open a pool that was closed."""
    reason = reason or reason_for_pool(_present(client, path), "")
    answer = client.change_pool(path, {"closed": False}, wait=DECIDED_S, reason=reason)
    show(form, answer, [path], lambda: say(f"pool /{path.strip('/')} is open"))


@pool.command(epilog=examples("paceline pool remove /maps/tiles"))
@PATH
@reason_option
@output_option
@cell_option
@with_client
def remove(client: "Client", path: str, reason: str, form: str) -> None:
    """Remove a pool that has no children and no open jobs."""
    reason = reason or reason_for_pool(_present(client, path), "")
    answer = client.remove_pool(path, wait=DECIDED_S, reason=reason)
    show(form, answer, [path], lambda: say(f"pool /{path.strip('/')} removed"))
