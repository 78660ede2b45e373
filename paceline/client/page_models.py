"""Lists in the API's answers; an empty `next_page_token` marks the last page."""

from typing import TypedDict

from paceline.client.cell_models import SkippedRecord
from paceline.client.host_models import Host, Volume
from paceline.client.models import HistoryEntry, Job, Run, Task, Update, UpdateSteps, Version


class JobsPage(TypedDict):
    """A page of jobs."""

    jobs: list[Job]
    next_page_token: str


class TasksPage(TypedDict):
    """A page of tasks."""

    tasks: list[Task]
    next_page_token: str


class HistoryPage(TypedDict):
    """A page of the history of a job."""

    events: list[HistoryEntry]
    next_page_token: str


class UpdateStepsPage(TypedDict):
    """A page of the steps of an update."""

    steps: list[UpdateSteps]
    next_page_token: str


class HostsPage(TypedDict):
    """A page of hosts."""

    hosts: list[Host]
    next_page_token: str


class VolumesPage(TypedDict):
    """A page of volumes."""

    volumes: list[Volume]
    next_page_token: str


class QuarantinePage(TypedDict):
    """A page of skipped records."""

    records: list[SkippedRecord]
    next_page_token: str


class NameList(TypedDict):
    """Names that begin with what was asked for."""

    names: list[str]


class RunList(TypedDict):
    """The runs of a task that are kept."""

    runs: list[Run]


class UpdateList(TypedDict):
    """The updates of a job that are kept."""

    updates: list[Update]


class VersionList(TypedDict):
    """The versions of a job that are kept."""

    versions: list[Version]
