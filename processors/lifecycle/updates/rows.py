"""The rows of versions and updates."""

import msgspec

from events.bounds import PULL_MS
from processors.state.causes import CauseRow
from processors.state.record_rows import ConstraintRow, RulesRow, SlaRow
from processors.state.seconds import Seconds, milliseconds

PROGRESS_DEADLINE_MS = 600_000
"""By default, and of jobs from before there was such a deadline."""


class PolicyRow(msgspec.Struct, frozen=True, array_like=True):
    """An `UpdatePolicy`."""

    batch: int = 0
    max_failures: int = 0
    max_attempts: int = 3
    roll_back: bool = False
    healthy_ms: int = 10_000
    canary: int = 0
    promote_after_ms: int = 0
    start_paused: bool = False
    blocked_after_ms: int = 0
    creation: bool = False
    progress_deadline_ms: int = PROGRESS_DEADLINE_MS
    prefetch: bool = False


class AskedRow(msgspec.Struct, frozen=True, array_like=True):
    """The amounts that a task asks of its pool and its host, by name, ascending, and its conditions."""

    resources: tuple[tuple[str, int], ...]
    ports: int
    constraints: tuple[ConstraintRow, ...]
    strategy: str
    port_numbers: tuple[int, ...] = ()
    rules: RulesRow | None = None


class VersionRow(msgspec.Struct, frozen=True, array_like=True):
    """A version of a job. `fields`: a digest of each field of its specification that isn't empty. Of tasks without an
    override and of each override: in `contents` a digest of all that a run is made from, in `ask_index` which of `asks`
    it has. `first`, `count`, `override`: ranges of instances and their overrides.
    """

    fields: dict[str, bytes]
    contents: bytes
    asks: tuple[AskedRow, ...]
    ask_index: bytes
    first: bytes
    count: bytes
    override: bytes
    rules: dict[str, int | bool]
    """The rules of the runs of a job, see `job_rules.run_rules`."""
    instances: int
    priority: int
    max_unavailable: int | None
    policy: PolicyRow
    spec_hash: bytes
    completed: bool = False
    """Whether an update has completed it, or it is the first: roll-backs go to such."""
    sla: SlaRow | None = None


class ImageWaitRow(msgspec.Struct, frozen=True, array_like=True):
    """The hosts that an update waits for until they have its image: how many they are without those that are lost, how
    many have it, how many can't have it. `fault`: what the last of these said; `untold`: that is still to be decided.

    Invariant: `have + faults <= hosts`.
    """

    since_ms: int
    hosts: int
    have: int = 0
    faults: int = 0
    fault: str = ""
    untold: bool = False

    @property
    def remaining(self) -> int:
        """The hosts that haven't answered."""
        return self.hosts - self.have - self.faults

    @property
    def due_ms(self) -> int:
        """When the update goes on without them."""
        return self.since_ms + PULL_MS


class UpdateRow(msgspec.Struct, array_like=True):
    """The update of a job that is in progress, and how many of its instances are at which step.

    Invariant: none of `pending`, `flight`, `done` and `bad` is below 0.
    """

    number: int
    kind: str
    from_version: int
    version: int
    policy: PolicyRow
    changed_by: CauseRow
    """The last change in it, or of its instances."""
    progressed_ms: int
    """When it took instances last, or one of them came a step further."""
    pending: int
    flight: int = 0
    done: int = 0
    bad: int = 0
    paused: bool = False
    promoted: bool = False
    waits_ms: int = 0
    """Since when its canary is done and it waits to be promoted; 0: it doesn't."""
    image: ImageWaitRow | None = None
    """The hosts that are to have its image before it takes the first instance; None: it waits for none."""

    @property
    def instances(self) -> int:
        """The instances that it takes, or has taken."""
        return self.pending + self.flight + self.done + self.bad

    # The deadlines of an update, in logical milliseconds. `since_s`: a second, or one of each of many.

    @property
    def blocked_ms(self) -> int:
        """When it fails because nothing of it goes on; of a policy with `blocked_after_ms`."""
        return self.progressed_ms + self.policy.blocked_after_ms

    @property
    def promoted_ms(self) -> int:
        """When it is promoted by itself; while its canary waits, and of a policy with `promote_after_ms`."""
        return self.waits_ms + self.policy.promote_after_ms

    def healthy_ms(self, since_s: Seconds) -> Seconds:
        """When instances count as healthy that have been up since then."""
        return milliseconds(since_s) + self.policy.healthy_ms

    def late_ms(self, since_s: Seconds) -> Seconds:
        """When instances have waited too long that have had no place since then."""
        return milliseconds(since_s) + self.policy.progress_deadline_ms
