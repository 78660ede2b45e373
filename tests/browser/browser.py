"""The browser of the tests: Debian's Chromium, and what no page in it may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
LOCAL = ("127.0.0.1",)
TIMEOUT_MS = 20_000
WIDE = {"width": 1600, "height": 1000}

DRAWN = """() => {
  const drawn = (canvas) => {
    if (!canvas.checkVisibility()) return true;
    if (!canvas.width || !canvas.height) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Uint32Array(data.buffer).some((pixel) => pixel);
  };
  return document.readyState === "complete"
    && [...document.querySelectorAll(".plot .canvas")].every((box) => box.querySelector("canvas"))
    && [...document.querySelectorAll("canvas")].every(drawn);
}"""
"""Whether each canvas has something in it."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window. While it lives this thread has a running event loop: asyncio.run() is refused."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def stands(page: Page) -> None:
    """Waits until all that a page shows is drawn."""
    page.wait_for_function(DRAWN)


class Visitor:
    """Opens pages, each as somebody new unless told a context, and notes what they do wrong."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._pages: dict[str, Page] = {}
        self.faults: list[str] = []
        """Errors on the console, those that a policy raises included, uncaught errors, requests to elsewhere."""

    def somebody(self, **options: Any) -> BrowserContext:
        """A browser session of its own. Options are Playwright's: `color_scheme`, `java_script_enabled`, ..."""
        context = self._browser.new_context(**{"viewport": WIDE, **options})
        context.set_default_timeout(TIMEOUT_MS)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        context.on("request", self._on_request)
        self._contexts.append(context)
        return context

    def open(self, url: str, **options: Any) -> Page:
        """A page of a session of its own."""
        page = self.somebody(**options).new_page()
        page.goto(url)
        return page

    def turn_to(self, url: str, **options: Any) -> tuple[Page, int]:
        """The page of a session with these options, turned to another address; and the status of the answer."""
        kind = repr(sorted(options.items()))
        if kind not in self._pages:
            self._pages[kind] = self.somebody(**options).new_page()
        page = self._pages[kind]
        page.set_viewport_size(WIDE)
        answer = page.goto(url)
        assert answer is not None
        return page, answer.status

    def close(self) -> None:
        """Closes all that were opened."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"console: {message.text} ({message.location.get('url')})")

    def _on_request(self, request: Request) -> None:
        if urlsplit(request.url).hostname not in LOCAL and not request.url.startswith(("data:", "blob:", "file:")):
            self.faults.append(f"request to elsewhere: {request.url}")
