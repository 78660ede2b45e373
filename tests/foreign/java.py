"""Java programs: the reader in `examples/java`, built once, and the tools of Kafka's distribution."""

import fcntl
import subprocess
from pathlib import Path

from tests.helpers import ROOT
from tests.helpers.broker import CACHE, JAVA, install

SOURCES = ROOT / "examples" / "java"
BUILT = CACHE / "java"
TIMEOUT_S = 60


def read_placements(address: str, *schemas: Path) -> str:
    """What the example prints."""
    _build()
    return _run(f"{BUILT}/classes:{BUILT}/lib/*", "Placements", address, *map(str, schemas))


def tool(name: str, *words: str) -> str:
    """What a tool of Kafka's distribution prints."""
    install()
    return _run(f"{CACHE}/lib/*", f"org.apache.kafka.tools.{name}", *words)


def _build() -> None:
    compiled = BUILT / "classes" / "Placements.class"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "java.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
        if not compiled.exists() or compiled.stat().st_mtime < newest:
            subprocess.run(["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml"), "clean", "package"], check=True)


def _run(classes: str, *words: str) -> str:
    done = subprocess.run(
        [*JAVA, "-Xmx128m", "-cp", classes, *words], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
