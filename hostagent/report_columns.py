"""Reports as columns: made of orders, and parts of them."""

import numpy as np

from events.codes import RunReport
from events.columns import I32, indexed
from hostagent.messages import Orders, Reports
from hostagent.task_columns import Column


def reports_of(orders: Orders, items: Column, state: RunReport, exit_code: I32 | int) -> Reports:
    """One report for each of the items of orders."""
    none = np.zeros(len(items), dtype=np.int32)
    return Reports(
        host_ids=orders.host_ids,
        job_ids=orders.job_ids,
        host=orders.host[items],
        job=orders.job[items],
        instance=orders.instance[items],
        run=orders.run[items],
        state=none + np.int32(state),
        exit_code=none + np.asarray(exit_code, dtype=np.int32),
        reasons=(),
        reason=none,
    )


def taken(reports: Reports, items: Column) -> Reports:
    """Some of the reports."""
    return reports._replace(
        host=reports.host[items],
        job=reports.job[items],
        instance=reports.instance[items],
        run=reports.run[items],
        state=reports.state[items],
        exit_code=reports.exit_code[items],
        reason=reports.reason[items],
        details=reports.details[items] if len(reports.details) else reports.details,
    )


def compact(reports: Reports) -> Reports:
    """The same with only the names that are used: of a large message many small batches may remain."""
    hosts, host = indexed(reports.host)
    jobs, job = indexed(reports.job)
    return reports._replace(
        host_ids=tuple(reports.host_ids[at] for at in hosts.tolist()),
        job_ids=tuple(reports.job_ids[at] for at in jobs.tolist()),
        host=host.astype(np.int32),
        job=job.astype(np.int32),
    )
