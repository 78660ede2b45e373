"""A cell and its issuer: keys that change, floods of unknown ones, and an issuer that is away."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.helpers.issuer import Provider, provider
from tests.helpers.real_cell import CellProcess

FLOOD = 1000


class Asker:
    """Asks a cell with tokens of its issuer."""

    def __init__(self, cell: CellProcess) -> None:
        server = json.loads((cell.data / "cell.json").read_text())["listen"]
        self._http = httpx2.Client(base_url=f"http://{server}")
        self.slowest_s = 0.0

    def status(self, token: str) -> int:
        answer = self._http.get("/v1/names?kind=pool", headers={"Authorization": f"Bearer {token}"})
        self.slowest_s = max(self.slowest_s, answer.elapsed.total_seconds())
        return answer.status_code


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture
def asker(issuer: Provider, tmp_path: Path) -> Iterator[Asker]:
    cell = CellProcess(tmp_path / "cell", options=("--oidc-issuer", issuer.url, "--oidc-client-id", "paceline"))
    cell.start()
    yield Asker(cell)
    cell.end()


def test_the_first_token_by_a_rotated_key_passes_and_one_by_the_withdrawn_key_does_not(
    issuer: Provider, asker: Asker
) -> None:
    old = issuer.token()
    assert asker.status(old) == 200
    issuer.rotate()
    assert asker.status(old) == 200, "no token has named another key yet"
    assert asker.status(issuer.token()) == 200
    assert asker.status(old) == 401


def test_a_flood_of_unknown_keys_costs_the_issuer_three_fetches_and_valid_tokens_none(
    issuer: Provider, asker: Asker
) -> None:
    valid = issuer.token()
    assert asker.status(valid) == 200
    before = issuer.fetches
    unknown = [issuer.token(kid=f"random-{number}") for number in range(FLOOD)]
    for number, token in enumerate(unknown):
        assert asker.status(token) == 401
        if number % 10 == 0:
            assert asker.status(valid) == 200
    assert issuer.fetches - before <= 3


def test_known_keys_serve_while_the_issuer_is_away(issuer: Provider, asker: Asker) -> None:
    assert asker.status(issuer.token()) == 200
    issuer.away = True
    assert asker.status(issuer.token("bob")) == 200
    assert asker.status(issuer.token(kid="unknown")) == 401
    assert asker.status(issuer.token("bob")) == 200
