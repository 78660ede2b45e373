"""What the tests of pages rely on: a fault of a page is seen, however the page comes to it."""

import pytest

from tests.browser.browser import Visitor

POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'"
PAGE = "http://127.0.0.1:9/"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<script>console.error('no')</script>", "console: no"),
        ("<script>setTimeout(() => { throw new Error('no') })</script>", "uncaught: "),
        ("<p style='color: red'>a</p>", "Content Security Policy"),
        ("<a href='http://elsewhere.example/'>a</a><script>document.links[0].click()</script>", "elsewhere.example"),
        ("<script type=module>import 'http://elsewhere.example/a.js'</script>", "elsewhere.example"),
    ],
)
def test_a_fault_of_a_page_is_seen(browser, body, fault):
    visitor = Visitor(browser)
    page = visitor.somebody().new_page()
    headers = {"Content-Security-Policy": POLICY}
    page.route(PAGE, lambda route: route.fulfill(body=body, content_type="text/html", headers=headers))
    page.goto(PAGE)
    for _ in range(100):
        if visitor.faults:
            break
        page.wait_for_timeout(20)
    visitor.close()
    assert any(fault in each for each in visitor.faults), visitor.faults


def test_a_page_without_fault_has_none(visitor):
    page = visitor.somebody().new_page()
    page.route(PAGE, lambda route: route.fulfill(body="<p>a</p>", content_type="text/html"))
    page.goto(PAGE)
    assert page.text_content("p") == "a"
