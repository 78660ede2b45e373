"""Starts the shim of a run, see `hostagent.shim`: `python -I -S shim_main.py FOLDER LOCK_FD FILES`.

The interpreter is isolated and finds nothing but the standard library, so that it starts in some milliseconds; the shim
is found behind that. As a module it is compiled once, and not for each run.
"""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from hostagent.shim import main

main()
