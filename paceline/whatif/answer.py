"""Answers one what-if for a server: `python -m paceline.whatif.answer`, started by `paceline.moments.what_ifs`.

Reads a `WhatIfOrder` from standard input, and writes lines of `WhatIfProgress` and at last a `WhatIfResult` to standard
output. It ends when standard input ends. It opens the log for reading alone.
"""

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from events.log.port import Log, LogError
from paceline.client.errors import Faults, PacelineError
from paceline.client.json_type import Json
from paceline.history.make_views import NICE
from paceline.history.open_log import open_log
from paceline.history.start_state import start_of
from paceline.moments.order import WhatIfOrder, WhatIfProgress, WhatIfResult
from paceline.moments.ordered_work import read_order
from paceline.services.process_setup import GC_THRESHOLDS
from paceline.services.settings import Settings
from paceline.whatif.change_file import ReadFile, read_change, whole_change
from paceline.whatif.compare import compare
from paceline.whatif.conditions import answers, check, read_condition
from paceline.whatif.html import values_of
from paceline.whatif.report import body_of, is_calibrated
from paceline.whatif.settings import read_setting
from paceline.whatif.stretch import begin_ms, read_stretch

JITTER_MS = 50
MIN_CALIBRATION = 0.8
"""As the command has them."""
SAY_S = 0.2
FILE = "change.yaml"
Say = Callable[[float], None]


def main() -> int:
    """Answers the question that standard input has."""
    gc.set_threshold(*GC_THRESHOLDS)
    order = read_order(WhatIfOrder, NICE)
    most = order.memory_mib << 20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        log = open_log(Settings(**msgspec.structs.asdict(order.log)))
        try:
            body = answer(log, order, _say)
        finally:
            log.close()
        result = WhatIfResult(_raw(body), _raw(values_of(body)))
    except MemoryError:
        wish = "choose a shorter stretch, or raise what_if.memory_mib"
        result = WhatIfResult(error=f"it takes more than {order.memory_mib} MiB of memory: {wish}")
    except Faults as faults:
        result = WhatIfResult(error="; ".join(faults.lines))
    except (LogError, PacelineError) as error:
        result = WhatIfResult(error=str(error))
    _write(result)
    return 0


def answer(log: Log, order: WhatIfOrder, say: Say) -> Json:
    """The answer, as `summary.json` has it. Raises `PacelineError` where there is none."""
    settings = [read_setting(each) for each in order.changes]
    conditions = [read_condition(each) for each in order.conditions]
    read = _read(order.change_file)
    from_ms = begins_ms if order.from_ms < (begins_ms := begin_ms(log)) < order.to_ms else order.from_ms
    stretch = read_stretch(log, from_ms, order.to_ms, lambda name: start_of(Path(order.log.data), name))
    change = whole_change(stretch, read, settings)
    check(conditions, stretch, change)

    def at(pair: int, changed: bool, now_ms: int) -> None:
        side = (now_ms - from_ms) / (order.to_ms - from_ms)
        say((pair + (changed + min(1.0, side)) / 2) / order.runs)

    done = compare(stretch, change, order.runs, order.seed, JITTER_MS, at)
    verdicts = answers(done, conditions, is_calibrated(done, MIN_CALIBRATION))
    return body_of(stretch, change, done, verdicts, MIN_CALIBRATION)


def _read(text: str) -> ReadFile:
    """Reads a change file that is there as a text."""
    if not text.strip():
        return ReadFile({}, [])
    with TemporaryDirectory(prefix="paceline-what-if-") as folder:
        file = Path(folder) / FILE
        file.write_text(text, encoding="utf-8")
        try:
            read = read_change(file)
        except Faults as faults:
            raise Faults([line.removeprefix(f"{folder}/") for line in faults.lines]) from faults
    if read.document is not None:
        read.document.file = FILE  # later faults say so too
    return read


_last = [0.0]


def _say(done: float) -> None:
    """Tells how far the work is, not too often."""
    if time.monotonic() - _last[0] >= SAY_S:
        _last[0] = time.monotonic()
        _write(WhatIfProgress(done))


def _write(line: WhatIfProgress | WhatIfResult) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.flush()


def _raw(value: Json) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, separators=(",", ":")).encode())  # numpy's numbers too


if __name__ == "__main__":
    sys.exit(main())
