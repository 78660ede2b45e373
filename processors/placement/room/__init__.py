"""Room on hosts for units that found none: plans to preempt, drained hosts, and what is kept for whom until then."""
