"""An anonymised export of a cell on Kafka, which may have a schema registry: as that of a folder."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from events import codec
from paceline.history.history_file import read
from tests.helpers.broker import Broker
from tests.helpers.real_cell import CellProcess
from tests.helpers.registry import registry
from tests.helpers.site import empty
from tests.paceline.history.anonymise.canaries import CANARY

pytestmark = pytest.mark.outside
LONG_AGO = "2020-01-01T00:00:00Z"
LABELS = {f"{CANARY}label": f"{CANARY} label"}
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["", "with a registry"])
def registry_url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a schema registry that this process and the cell use; empty: there is none."""
    if not request.param:
        yield ""
        return
    with registry() as server:
        monkeypatch.setenv("PACELINE_SCHEMA_REGISTRY_URL", server.url)
        yield server.url
    codec.use_ids(None)


def contents(file: Path) -> bytes:
    """All bytes of an export, as it holds them."""
    parts = [value for part in read(file) for value in part.fields.values()]
    return b"".join(each if isinstance(each, bytes) else str(each).encode() for each in parts)


def test_it_verifies_and_holds_no_text_of_a_user(broker: Broker, cli: Cli, tmp_path: Path, registry_url: str) -> None:
    cell = CellProcess(tmp_path / "cell", empty(broker, 1), sim_hosts=3)
    cell.start()
    cell.pool("/p")
    cell.submit(f"{CANARY}huge", 1, resources={"cpu": 640}, description=f"{CANARY} job")
    cell.submit(f"{CANARY}small", 20, labels=LABELS, env={f"{CANARY}ENV": f"{CANARY} value"})
    cell.until(lambda: cell.state(f"{CANARY}small") == "SUCCEEDED")
    cell.stop()

    plain, shared = tmp_path / "plain.avro", tmp_path / "shared.avro"
    where = ("--kafka", broker.address, "--data", cell.data, "--from", LONG_AGO, "--to", datetime.now(UTC).isoformat())
    assert cli("log", "export", *where, plain)[0] == 0
    code, out, err = cli("log", "export", *where, "--anonymise", shared)
    assert code == 0, err
    [said] = [line for line in err.splitlines() if "replayed with the new names" in line]
    same, _, all_rounds, *_ = said.split()
    assert same == all_rounds, "this build has decided them"
    assert int(all_rounds) > 5
    assert CANARY.encode() in contents(plain)
    assert CANARY.encode() not in contents(shared)

    code, out, err = cli("log", "verify", shared)
    assert (code, f"{all_rounds} rounds replayed: all identical" in out) == (0, True), out + err
    assert cli("log", "import", shared, "--data", tmp_path / "imported")[0] == 0
    code, out, err = cli("log", "verify", "--data", tmp_path / "imported")
    assert (code, f"{all_rounds} rounds replayed: all identical" in out) == (0, True), out + err
