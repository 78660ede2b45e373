"""`paceline ui`."""

import webbrowser

import pytest


@pytest.mark.parametrize(("options", "opened"), [((), True), (("--no-open",), False)])
def test_it_prints_the_address_of_the_pages_and_opens_it(cell, cli, monkeypatch, options, opened) -> None:
    seen: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: seen.append(address) or True)
    code, out, err = cli("ui", *options)
    address = f"{cell.address}/ui/" if "://" in cell.address else f"http://{cell.address}/ui/"
    assert (code, out.strip(), err) == (0, address, "")
    assert seen == [address] * opened


def test_without_a_browser_it_says_so(cell, cli, monkeypatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    code, out, err = cli("ui")
    assert (code, "no browser was found" in err) == (0, True)
    assert "/ui/" in out
