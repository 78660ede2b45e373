"""Bounds of what may be asked for, the same in files, over HTTP and for facts in the log."""

import re

NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}")
"""Ids of hosts, and of jobs where they name folders."""
VOLUME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""Names of volumes, and of secrets."""
CONDITION = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""Names of checks of hosts."""
URL_PATH = re.compile(r"/[!-~]*")
"""The path of a health check over HTTP."""
INSTANCES_MAX = 100_000
SPEC_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of a request with a job that has an override for each of 100,000 instances, or with many jobs; others are
smaller.
"""
INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
"""The last round of a machine, or offset of a topic."""
AMOUNT_MAX = 1 << 38
"""The largest amount of any resource, requested by a task or a pool or offered by a host."""
USE_MAX = 1 << 50
"""The most that a host says of what one run used: ms of CPU (35,000 years of a core), or KiB; more is a mistake."""
KINDS_MAX = 32
"""Kinds of resources that a cell knows, cpu, memory, disk and gpu among them; of which a host, a job or a pool may name
so many too.
"""
TASKS_MAX = 1 << 24
"""Open tasks of a cell: what all of them ask for together, `TASKS_MAX * AMOUNT_MAX`, stays within 64 bits."""
RUN_MAX = INT_MAX - 1
"""Runs of a task: it isn't run again after this one."""
MS_MAX = 1 << 40
"""The longest time in a job or a setting."""
PREEMPTION_DELAY_LEAST_MS = 1000
"""No claim has others leave sooner, whatever is set: placement looks for room first, and most claims find it."""
PORTS_MAX = 64
GANG_MAX = 16_000
"""Tasks of a gang: it is placed by one round, in which each takes 24 bytes and the id of its host."""
GANG_PORTS_MAX = 256_000
"""Ports of a whole gang: each takes four bytes of that round."""
CONSTRAINTS_MAX = 64
AFFINITIES_MAX = 8
"""Labels of other tasks that a job names, affinity and anti-affinity together."""
TARGETS_MAX = 100
"""Values of an attribute of which a job says how much of it they are to have."""
VALUES_MAX = 1000
"""Values of one constraint."""
LABELS_MAX = 64
STRINGS_MAX = 4096
"""Arguments of a command, variables of an environment."""
STRING_BYTES_MAX = 128 * 1024 - 1
"""The most bytes of one of them, a variable with its name: Linux starts nothing with more."""
TASK_SHAPES_MAX = 1000
"""Different shapes of the tasks of one job: what machines and queues tell tasks apart by."""
OVERRIDDEN_MAX = 1_000_000
"""Instances that the overrides of a job name, all together: some may be named by many."""
POOLS_MAX = 20_000
"""Pools that a cell knows, those of other cells included."""
BINDINGS_MAX = 10_000
"""Bindings of roles that a cell knows."""
TOKENS_MAX = 10_000
"""Tokens that a cell knows."""
TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: no later time can be written."""
SHARE_MAX = 1_000_000
RETRIES_MAX = 1_000_000
WORD_MAX = 256
DESCRIPTION_MAX = 4096
EXIT_CODE_MAX = 255
STOP_SIGNALS = ("TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "KILL")
"""The signals with which a run can be told to end."""
VOLUMES_MAX = 16
WINDOWS_MAX = 16
"""The most windows of one job."""
WINDOW_MIN_MS, WINDOW_MAX_MS = 60_000, 7 * 86_400_000
"""A window of maintenance is open for so long at least and at most, and leads for so long at most."""
SLA_GROUPS_MAX = 10_000
"""The most groups of jobs that share a budget."""
SECRETS_MAX = 32
"""The most secrets of one job."""
SECRET_BYTES_MAX = 64 * 1024
"""The bytes of one value at most."""
OPEN_FILES_MAX = 1 << 20
"""The most files of one run; a host may allow less."""
PROCESSES_MAX = 1 << 22
"""The most processes and threads of one run: those of Linux."""
OUTPUT_KIB = 5 * 1024
"""So much is kept of the beginning of each stream of a run's output, and so much of the rest, unless its job says
another.
"""
OUTPUT_KIB_MIN, OUTPUT_KIB_MAX = 4, 1 << 20
ISOLATIONS = ("none", "cgroup", "container")
"""The ways to keep runs apart, the least first."""
NETWORKS = ("host", "none")
IMAGE = re.compile(r"[a-z0-9][a-zA-Z0-9._:/-]{0,254}")
"""Names of images, with or without registry and tag."""
IMAGES_MAX = 64
"""Images of a host that its agent tells of in one report."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
USER_NUMBER_MAX = 2**32 - 2
"""The highest number of a user or a group of Linux."""
CONTAINER_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?")
"""USER[:GROUP], each a name of the image or a number."""
DEVICE = re.compile(r"/dev(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
DEVICES_MAX = 16
HOST_DEVICES_MAX = 256
HOST_CORES_MAX = 4096
EXCLUDES_MAX = 64
"""The devices that one excludes, beside its parts."""
PULL_MS = 600_000
"""For so long an update waits at most until hosts have its image."""
CHECKS_MAX = 1000
"""Health checks in a row."""
CHECK_EVERY_MS_MIN = 100
"""Between two health checks of a run."""
SESSION_MAX = 1 << 48
"""Sessions of agents count at least as fast as milliseconds pass; up to here that goes on for thousands of years."""
ATTRIBUTES_MAX = 64
PORT_MAX = 65535
HOST_RUNS_MAX = 20_000
"""Runs in one message of an agent: with the longest ids, what is decided about them still is one round."""
ALARM_UNREAD_MS = 30_000
"""The default of the setting `alarm_unread_after`: how long a machine may leave a record unread."""
LOAD_STEPS = 16
"""The parts of what a host offers in which it tells what it uses and lends."""
