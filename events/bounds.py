"""Bounds of what may be asked for, the same in files, over HTTP and for facts in the log."""

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
