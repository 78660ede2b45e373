"""A plugin of pytest: with `--costs`, the dearest tests are said at the end, with their wall time and the CPU of their
process and of the processes that they have started and waited for.
"""

import resource
from time import monotonic

import pytest

SLOWEST = 20
COST = "cost"


_added = [0.0]


def cpu() -> float:
    """Seconds of CPU of this process and of its children that have ended, and what was added."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) + sum(_added)


def add(used_s: float) -> None:
    """CPU of a process that somebody else has started for a test."""
    _added[0] += used_s


class Costs:
    """Kept by each process that runs tests; told by the one that the user started."""

    def __init__(self) -> None:
        self._began = (monotonic(), cpu())
        self._found: list[tuple[float, float, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._began = (monotonic(), cpu())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> object:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((COST, (monotonic() - self._began[0], cpu() - self._began[1])))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._found += [(*cost, report.nodeid) for name, cost in report.user_properties if name == COST]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{SLOWEST} slowest tests: seconds of wall, of CPU")
        for wall, used, name in sorted(self._found, reverse=True)[:SLOWEST]:
            terminalreporter.write_line(f"{wall:7.1f} {used:7.1f}  {name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="say what the dearest tests have cost")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("costs"):
        config.pluginmanager.register(Costs(), "costs")
