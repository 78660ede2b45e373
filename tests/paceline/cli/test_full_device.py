"""Output that can't be written ends with a sentence."""

import subprocess
import sys


def test_a_full_device_is_told_as_such():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "paceline", "job", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "paceline: the output can't be written: No space left on device\n"
