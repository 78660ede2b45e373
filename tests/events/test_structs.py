"""Types that many threads meet at once."""

import subprocess
import sys

MANY_MEET = """
import sys
import threading
from typing import Any
import msgspec
from events.structs import known

sys.setswitchinterval(1e-6)
for _ in range(1000):
    inner = msgspec.defstruct("inner", [(name, int) for name in "abcde"])
    outer: Any = msgspec.defstruct("outer", [("one", inner), ("more", list[inner]), ("by", dict[str, int])])
    value = outer(inner(1, 2, 3, 4, 5), [inner(1, 2, 3, 4, 5)], {"x": 1})
    data, together, read = msgspec.msgpack.encode(value), threading.Barrier(4), []

    def meet() -> None:
        together.wait()
        read.append(msgspec.msgpack.decode(data, type=known(outer)))

    threads = [threading.Thread(target=meet) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [value] * 4
"""


def test_a_type_that_many_threads_meet_at_once_crashes_nobody() -> None:
    assert subprocess.run([sys.executable, "-c", MANY_MEET], timeout=120, check=False).returncode == 0
