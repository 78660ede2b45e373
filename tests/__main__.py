"""All checks of the project: lint, types and import rules beside the tests; at the end what it has cost.

python -m tests [fast | all | soak] [ARGUMENTS OF PYTEST]
"""

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

from tests.helpers.costs import cpu
from tests.helpers.signals import heard

WORKERS = "3"
"""One more than the cores that it is made for: those that wait for processes leave theirs to another."""
RUN = ("-n", WORKERS, "--dist", "loadgroup", "--no-loadscope-reorder", "--costs")
BIN = Path(sys.executable).parent
CHECKS = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("lint-imports",), ("mypy",))
TESTS = {"fast": ("-m", "not outside"), "all": (), "soak": ("-m", "drawn")}


def check(failed: list[str]) -> None:
    """Runs the checks; what fails is said when all is done."""
    for name, *words in CHECKS:
        done = subprocess.run([BIN / name, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{' '.join((name, *words))}\n{done.stdout}{done.stderr}")


def test(*more: str) -> int:
    """Runs pytest, which is told of Ctrl-C and SIGTERM and ends what it has started; its exit code."""
    process = subprocess.Popen([sys.executable, "-m", "pytest", *RUN, *more])
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while process.returncode is None:
        with suppress(KeyboardInterrupt):  # from a terminal it has heard it too
            process.wait()
    return process.returncode


def main(what: str = "all", *more: str) -> int:
    """Runs it all; 0: all is well."""
    began = monotonic()
    heard()
    failed: list[str] = []
    checks = threading.Thread(target=check, args=(failed,))
    if what != "soak":
        checks.start()
    code = test(*TESTS[what], *more)
    if what != "soak":
        checks.join()
    verdict = "failed" if code or failed else "well"
    print(*failed, f"{what}: {verdict}; {monotonic() - began:.0f} s of wall, {cpu():.0f} s of CPU", sep="\n")  # noqa: T201
    return code or len(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
