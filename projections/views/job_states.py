"""The states of a job in the views: those of lifecycle, and two for jobs that it doesn't have."""

from events.codes import ENDED_JOBS, JobState

SUBMITTED = "SUBMITTED"
"""Lifecycle hasn't answered the submission yet."""
REJECTED = "REJECTED"
JOB_STATES = (SUBMITTED, *JobState, REJECTED)
OVER = (*ENDED_JOBS, REJECTED)
"""Those of which nothing is left to wait for."""
