"""Bounds of what may be asked for, the same in files, over HTTP and for facts in the log."""

import re

NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}")
"""Ids of hosts, and of jobs where they name folders."""
INSTANCES_MAX = 100_000
AMOUNT_MAX = 1 << 40
"""Of any resource, asked for or offered: sums and scores stay within 64 bits."""
INT_MAX = (1 << 31) - 1
PORTS_MAX = 64
GANG_PORTS_MAX = 400_000
"""Ports of a whole gang: it is placed by one round, in which each takes four bytes."""
RETRIES_MAX = 1_000_000
WORD_MAX = 256
EXIT_CODE_MAX = 255
SESSION_MAX = 1 << 48
"""Sessions of agents count at least as fast as milliseconds pass; up to here that goes on for thousands of years."""
ATTRIBUTES_MAX = 64
PORT_MAX = 65535
HOST_RUNS_MAX = 20_000
"""Runs in one message of an agent: with the longest ids, what is decided about them still is one round."""
