"""`paceline cell keys`: the keys by which the API signs facts and gateways sign tokens of runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline import output
from paceline.cli.commands.common import data_option, examples, output_option
from paceline.cli.commands.process_options import SIGNING_KEYS, settings_flags
from paceline.cli.groups import CommandGroup
from paceline.output import Column, ahead, note, say, show, table, when

if TYPE_CHECKING:
    from events.signing_keys import SigningKey, SigningKeys


@click.group(cls=CommandGroup)
def keys() -> None:
    """List and rotate the keys by which a cell signs, on a machine that has their folder."""


@keys.command("list", epilog=examples("paceline cell keys list"))
@data_option
@SIGNING_KEYS
@output_option
def list_(data: Path | None, config: Path | None, service__signing_keys: Path | None, form: str) -> None:
    """List the keys, the oldest first: which one signs, and until when others are published."""
    rows = [_shown(each) for each in _keys(data, config, service__signing_keys).all()]
    if not rows:
        note("no key yet: the first is made when something is to be signed")
    columns = [
        Column("KEY", lambda each: each["key"]),
        Column("STATE", lambda each: each["state"]),
        Column("PUBLISHED UNTIL", lambda each: ahead(each["published_until"]) if each["published_until"] else "-"),
    ]
    show(form, {"keys": rows}, (str(each["key"]) for each in rows), lambda: table(rows, columns))


@keys.command(epilog=examples("paceline cell keys rotate"))
@data_option
@SIGNING_KEYS
@output_option
def rotate(data: Path | None, config: Path | None, service__signing_keys: Path | None, form: str) -> None:
    """Make a new key, which signs from now on. The private half of the last one is removed."""
    folder = _keys(data, config, service__signing_keys)
    had_keys = bool(folder.all())
    new = _shown(folder.rotate())

    def told() -> None:
        if not had_keys:
            note(f"no key was in {folder.folder}: this is the first one, and replaces none")
        say(f"{new['key']} signs from now on; back {folder.folder} up")
        for each in folder.all()[-2:-1]:
            old = _shown(each)
            say(f"{old['key']} signs no more, and is published until {when(old['published_until'], 'utc')}")

    show(form, new, [str(new["key"])], told)


def _keys(data: Path | None, config: Path | None, folder: Path | None) -> "SigningKeys":
    from paceline.services.settings import load
    from paceline.services.startup import signing_keys

    settings = load(config, **settings_flags({"data": data, "service__signing_keys": folder}))
    return signing_keys(settings.data, settings.service.signing_keys)


def _shown(key: "SigningKey") -> dict[str, str | None]:
    """A key as answers have it."""
    until_ms = key.published_until_ms
    until = datetime.fromtimestamp(until_ms / 1000, UTC) if until_ms else None
    state = "SIGNS" if until is None else "PUBLISHED" if until > output.now() else "RETIRED"
    return {"key": key.name, "state": state, "published_until": until.isoformat() if until else None}
