"""The life of jobs, tasks and runs: accepted, queued, ordered, available, stopped, ended, run again, forgotten."""
