"""Rows of lifecycle of 0.3 as it keeps them now (decision 032)."""

from processors.lifecycle.rows import AskRow, HostRow, JobRow, SuspectRow
from processors.lifecycle.updates.rows import UpdateRow, VersionRow
from processors.state.conversion import with_defaults

from_0_3 = with_defaults(
    {
        "asks": AskRow,
        "hosts": HostRow,
        "jobs": JobRow,
        "suspects": SuspectRow,
        "updates": UpdateRow,
        "versions": dict[int, VersionRow],
    }
)
"""Rows of the format 15 of those of 14: what speaks against a host names a run, hosts may be silent, lost or in
maintenance, instances are to find a place in time, and an SLA says more than a number. Since when planned ends were
asked for, and as what, nobody kept.
"""
