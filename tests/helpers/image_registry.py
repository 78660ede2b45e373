"""A registry of images for tests: that of Debian, on 127.0.0.1, filled from OCI layouts."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.ports import kept_port
from tests.helpers.waiting import until

CONFIG = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: '127.0.0.1:{port}'}}
"""


class ImageRegistry:
    """A registry at `address`; it can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._port = kept_port()
        self.address = f"127.0.0.1:{self._port}"
        self._config = folder / "config.yml"
        folder.mkdir(parents=True)
        self._config.write_text(CONFIG.format(folder=folder, port=self._port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(["docker-registry", "serve", self._config], stdout=quiet, stderr=quiet)
        until(self._listens, "the registry of images")

    def stop(self) -> None:
        """Ends it; what it holds stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def push(self, layout: Path, tag: str, name: str) -> str:
        """Puts an image of a layout into the registry; its whole name there."""
        full = f"{self.address}/{name}"
        words = ["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", f"oci:{layout}:{tag}"]
        subprocess.run([*words, f"docker://{full}"], check=True)
        return full

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@contextmanager
def image_registry(folder: Path) -> Iterator[ImageRegistry]:
    """A registry that ends with its test."""
    registry = ImageRegistry(folder)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
