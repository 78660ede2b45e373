"""Signing in at an issuer, in a browser that goes there and comes back."""

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.browser import cells
from tests.browser.browser import Visitor
from tests.helpers.issuer import provider


def test_a_user_signs_in_at_the_issuer_and_comes_back_to_their_page(visitor: Visitor, tmp_path: Path) -> None:
    with provider() as issuer:
        options = ("--sim-hosts", "1", "--oidc-issuer", issuer.url, "--oidc-client-id", "paceline")
        with cells.up(tmp_path, *options) as cell:
            page = visitor.open(cell.url("/pools"))
            page.get_by_role("link", name="Sign in").click()
            page.get_by_role("link", name="Sign in at 127.0.0.1").click()
            expect(page).to_have_url(re.compile(re.escape(issuer.url)))
            page.get_by_role("button", name="ann").click()
            expect(page).to_have_url(cell.url("/pools"))
            expect(page.locator(".user")).to_have_text("ann")
            page.get_by_role("button", name="Sign out").click()
            expect(page.locator(".user")).to_have_count(0)
            expect(page.get_by_role("link", name="Sign in")).to_be_visible()
