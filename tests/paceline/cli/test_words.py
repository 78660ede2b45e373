"""What commands print is words: no line of any of them has a value as Python writes it."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.commands import watch
from paceline.client.client import Client
from projections.views.projector import rebuild
from projections.views.reader import Views
from tests.helpers.past import past
from tests.paceline.fake import served
from tests.paceline.moments.conftest import TOKEN, app_of

OF_PYTHON = re.compile(r"\b(None|True|False)\b|[{\[]'|<[a-z.]+ object")
COMMANDS = (
    "job list", "job list --state FAILED,KILLED,RUNNING", "job get nightly", "job get huge", "job get tiles",
    "job explain nightly", "job explain huge", "job tasks nightly", "job tasks tiles", "job runs nightly 0",
    "job history nightly", "job history huge", "job versions nightly", "job updates nightly",
    "job spec nightly", "host list", "host get small-1", "host get small-2", "host history small-1",
    "pool list", "pool get /", "pool get /maps", "pool tree", "pool explain /maps", "pool queue /batch",
    "pool history /maps", "cell get", "volume list", "usage", "log why tiles",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cell of which hosts have failed and jobs were stopped."""
    folder = tmp_path_factory.mktemp("views")
    with served(app_of(Views(rebuild(past(), folder)), past())) as address:
        yield address


@pytest.fixture
def there(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("PACELINE_SERVER", server)
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path))
    return server


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_prints_no_value_as_python_writes_it(cli: Any, there: str, line: str) -> None:
    code, out, err = cli(*line.split())
    assert (code, bool(out)) == (0, True), err
    assert not OF_PYTHON.search(out + err), out + err


@pytest.mark.parametrize("kind", ["jobs", "pools", "hosts"])
def test_a_line_of_a_watch_has_no_value_as_python_writes_it(server: str, kind: str) -> None:
    with Client(server, TOKEN) as client:
        events = islice(client.watch("start", about=kind), 40)
        lines = [line for event in events for line in watch.lines_of(event, kind)]
    assert lines
    assert not [line for line in lines if OF_PYTHON.search(line)]


def test_an_empty_field_of_a_host_says_what_that_means(cli: Any, there: str) -> None:
    out = cli("host", "get", "large-1")[1] or cli("host", "get", "small-2")[1]
    said = {name: text for name, _, text in (line.partition(" ") for line in out.splitlines())}
    shown = {name: said[name].strip() for name in ("suspected", "shrunk", "taints", "lost")}
    assert shown == {"suspected": "no", "shrunk": "no", "taints": "none", "lost": "no"}
    assert "-" not in [text.strip() for text in said.values()]
