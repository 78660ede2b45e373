"""Room on hosts for units that found none: plans to preempt, reserved hosts, and what is kept for whom until then."""
