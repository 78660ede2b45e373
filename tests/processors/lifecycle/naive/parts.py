"""What the naive job is made of."""

from dataclasses import dataclass, field, replace

from events.codes import ENDED_TASKS, TaskState
from processors.lifecycle.causes import EndCause, Goal, SlaVerdict
from processors.lifecycle.updates.steps import Step

UP = (TaskState.ORDERED, TaskState.RUNNING)


@dataclass(frozen=True)
class Policy:
    """How an update goes."""

    batch: int = 0
    max_failures: int = 0
    max_attempts: int = 3
    roll_back: bool = False
    healthy_ms: int = 0
    canary: int = 0
    promote_after_ms: int = 0
    start_paused: bool = False
    blocked_after_ms: int = 0
    creation: bool = False
    progress_deadline_ms: int = 600_000


@dataclass(frozen=True)
class Spec:
    """What a user writes, as far as the tests change it. The first `special` instances have a command of their own."""

    instances: int
    command: str = "one"
    special: int = 0
    cpu: int = 1
    priority: int = 0
    max_unavailable: int | None = None
    health: bool = False
    policy: Policy = Policy()

    def content(self, at: int) -> tuple[str, int]:
        """What a run of an instance is made from."""
        return ("special" if at < self.special else self.command, self.cpu)


@dataclass(frozen=True)
class Version:
    """A version: what was written, and how the update to it goes."""

    spec: Spec
    policy: Policy


@dataclass
class Update:
    """An update in progress."""

    number: int
    kind: str
    from_version: int
    policy: Policy
    progressed: int
    """When it came a step further last."""
    paused: bool
    promoted: bool = False
    waits: int | None = None
    """Since when its canary is done and it waits to be promoted."""
    left: int = 0
    """How many instances it has removed."""


def back_policy(policy: Policy) -> Policy:
    """How a roll-back or a restart goes: at once and whole."""
    return replace(policy, roll_back=False, canary=0, start_paused=False)


@dataclass
class Instance:
    """An instance and its present run."""

    at: int
    run: int
    version: int
    target: int
    state: int = TaskState.QUEUED
    goal: Goal = Goal.RUN
    causes: set[EndCause] = field(default_factory=set)
    report: int = 0
    exit_code: int = 0
    verdict: SlaVerdict = SlaVerdict.NONE
    ordered_away: bool = False
    """It is in an order to preempt it that may not go yet."""
    failures: int = 0
    host_failures: int = 0
    unstarted: set[str] = field(default_factory=set)
    """The hosts that couldn't start it, one after another."""
    due: int | None = None
    ready: int | None = None
    host: str = ""
    home: str = ""
    """The host that it is bound to."""
    behind: bool = False
    """It waits for the instance before it."""
    admitted: bool = False
    lacks: int | None = None
    """Since when it is queued with its admission, and lacks a place."""
    step: Step = Step.NONE
    inherited: bool = False

    @property
    def up(self) -> bool:
        """Whether to stop it costs availability."""
        return self.state in UP

    @property
    def over(self) -> bool:
        return self.state in ENDED_TASKS

    def note(self, cause: EndCause) -> None:
        """Something shall end its run, if there is one."""
        if not self.over:
            self.causes.add(cause)
