"""`paceline snapshot`: keep stores of machines elsewhere, and bring them back."""

from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import data_option, examples, log_options, report_option
from paceline.cli.groups import CommandGroup
from paceline.client.json_type import Json
from paceline.output import Column, note, show, table

if TYPE_CHECKING:
    from paceline.services.settings import Settings
    from processors.machine import Machine
    from processors.runtime.snapshots import Manifest, StoredSnapshot

MIB = 1 << 20


@click.group(cls=CommandGroup)
def snapshot() -> None:
    """Back up and restore state stores.

    A snapshot is the store of a machine after one of its rounds. With one at hand, a processor on a new machine reads
    only later records. The location is a folder or a URL such as s3://bucket/paceline.
    """


def with_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what names cell, machine and place; calls the command with settings, the machines by name, and its own."""

    @data_option
    @log_options
    @click.option("--machine", metavar="MACHINE", help="Only this machine. [default: all]")
    @click.option("--snapshots", metavar="URL", help="Location of the snapshots. [default: the setting]")
    @report_option
    @wraps(function)
    def command(
        data: Path | None,
        config: Path | None,
        log: Json,
        machine: str | None,
        snapshots: str | None,
        form: str,
    ) -> Any:
        from paceline.services.settings import load

        settings = load(config, data=data, **log, snapshots=snapshots)
        if not settings.snapshots:
            raise click.UsageError("no place for snapshots is known: give --snapshots URL, or PACELINE_SNAPSHOTS")
        return function(settings, _machines(settings.cell, machine), form)

    return command


@snapshot.command(
    epilog=examples("paceline snapshot create --snapshots /backup/paceline", "paceline snapshot create --machine sla")
)
@with_place
def create(settings: "Settings", machines: "dict[str, Machine]", form: str) -> None:
    """Take snapshots of the stores in the data folder; their processors may be running."""
    from paceline.client.errors import PacelineError
    from processors.runtime.snapshots import SnapshotFault, take_from

    created: list[Manifest] = []
    missed = []
    for name, machine in machines.items():
        folder = stores(settings) / name
        try:
            if not folder.is_dir():
                raise SnapshotFault(f"There is no store of {name} in {folder.parent}.")
            created.append(take_from(folder, settings.snapshots, settings.cell, machine))
        except SnapshotFault as fault:
            missed.append(str(fault))
    if not created:
        raise PacelineError("\n".join(missed))
    for line in missed:
        note(line)
    show(form, {"snapshots": [_body(each) for each in created]}, table=lambda: table(created, _columns()))


@snapshot.command("list", epilog=examples("paceline snapshot list", "paceline snapshot list --machine placement"))
@with_place
def list_(settings: "Settings", machines: "dict[str, Machine]", form: str) -> None:
    """List the snapshots, the newest of each machine first, without checking their files."""
    from processors.runtime.snapshots import stored

    snapshots = [each for name in machines for each in stored(settings.snapshots, settings.cell, name)]
    columns = [
        Column("MACHINE", lambda each: each.machine),
        Column("ROUND", lambda each: each.round, right=True),
        *(_of_manifest(column) for column in _columns()[2:]),
        Column("NOTE", lambda each: each.fault),
    ]
    show(form, {"snapshots": [_stored_body(each) for each in snapshots]}, table=lambda: table(snapshots, columns))


@snapshot.command(epilog=examples("paceline snapshot verify", "paceline snapshot verify --machine lifecycle -o json"))
@with_place
def verify(settings: "Settings", machines: "dict[str, Machine]", form: str) -> int:
    """Verify snapshots: their files, rows, and that the log has their round. Exits with 1 if one is damaged."""
    from processors.runtime.snapshots import verify as verify_all

    snapshots = [
        each for log in _log(settings) for name in machines for each in verify_all(settings.snapshots, log, name)
    ]
    columns = [
        Column("MACHINE", lambda each: each.machine),
        Column("ROUND", lambda each: each.round, right=True),
        Column("FOUND", lambda each: each.fault or "good"),
    ]
    show(form, {"snapshots": [_stored_body(each) for each in snapshots]}, table=lambda: table(snapshots, columns))
    if not snapshots:
        note(f"{settings.snapshots} has no snapshots of cell {settings.cell}")
    return 1 if not snapshots or any(each.fault for each in snapshots) else 0


@snapshot.command(
    epilog=examples("paceline snapshot restore --data /var/lib/paceline --snapshots s3://bucket/paceline")
)
@with_place
def restore(settings: "Settings", machines: "dict[str, Machine]", form: str) -> int:
    """Restore the newest valid snapshots into the data folder; an existing store is an error and is kept.

    Exits with 1 if a machine has no valid snapshot.
    """
    from paceline.client.errors import PacelineError
    from processors.runtime.snapshots import restore as restore_one

    folder = stores(settings)
    present = [str(folder / name) for name in machines if (folder / name).exists()]
    if present:
        raise PacelineError(f"There are stores already: {', '.join(present)}. Stop their processors and remove them.")
    done = {}
    for log in _log(settings):
        for name, machine in machines.items():
            done[name] = restore_one(settings.snapshots, log, machine, folder / name)
            for reason in done[name].refused:
                note(f"{name}: {reason}")
    restored = [each.manifest for each in done.values() if each.manifest is not None]
    show(form, {"snapshots": [_body(each) for each in restored]}, table=lambda: table(restored, _columns()))
    not_restored = [name for name, each in done.items() if each.manifest is None]
    if not_restored:
        note(f"{settings.snapshots} has no good snapshot of {', '.join(not_restored)} of cell {settings.cell}")
    return 1 if not_restored else 0


def stores(settings: "Settings") -> Path:
    """The folder of stores in the data folder: that of `paceline up`, or that of the processes of the cell."""
    of_up, of_cell = settings.data / "store", settings.data / f"cell-{settings.cell}" / "store"
    if settings.kafka and (of_cell.is_dir() or not of_up.is_dir()):
        return of_cell
    return of_up


def _machines(cell: int, machine: str | None) -> "dict[str, Machine]":
    from processors.cell_machines import machines

    created = {name: make() for name, make in machines(cell).items()}
    if machine is None:
        return created
    if machine not in created:
        raise click.BadParameter(f"{machine} is none of {', '.join(created)}", param_hint="--machine")
    return {machine: created[machine]}


def _log(settings: "Settings") -> Iterator[Any]:
    """The log, open for the one turn of a loop."""
    from paceline.history.open_log import open_log

    log = open_log(settings)
    try:
        yield log
    finally:
        log.close()


def _body(manifest: "Manifest") -> Json:
    import msgspec

    body: Json = msgspec.to_builtins(manifest)
    return body


def _stored_body(snapshots: "StoredSnapshot") -> Json:
    manifest = _body(snapshots.manifest) if snapshots.manifest else None
    body = {"machine": snapshots.machine, "round": snapshots.round, "place": snapshots.path}
    return {**body, "fault": snapshots.fault or None, "manifest": manifest}


def _columns() -> list[Column]:
    """The columns of a manifest."""
    return [
        Column("MACHINE", lambda each: each.machine),
        Column("ROUND", lambda each: each.round, right=True),
        Column("EPOCH", lambda each: each.epoch, right=True),
        Column("POSITION", lambda each: each.position, right=True),
        Column("MiB", lambda each: f"{each.size / MIB:.1f}", right=True),
        Column("BUILD", lambda each: each.build),
        Column("STATE HASH", lambda each: each.state_hash),
    ]


def _of_manifest(column: Column) -> Column:
    """The column for a snapshot whose manifest may not be there."""
    return column._replace(cell=lambda each: column.cell(each.manifest) if each.manifest else None)
