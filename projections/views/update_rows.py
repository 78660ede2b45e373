"""The rows of versions and updates of jobs, owned by lifecycle."""

import msgspec


class CommandRow(msgspec.Struct):
    """A command about a job that isn't answered yet, or whose update hasn't started yet; `value` is the encoded record,
    owned by the topic of jobs.
    """

    offset: int
    job_id: str
    at_ms: int
    value: bytes


class VersionRow(msgspec.Struct):
    """A version of a job. `offset` is where the fact stands that its specification is of (`submissions`); `command`
    where the command stands that made it, -1: none did. A restart or a roll-back is `like` an earlier version.
    """

    job_id: str
    version: int
    offset: int
    command: int
    made_ms: int
    kind: str
    """submit, create, update, restart or roll_back."""
    like: int
    update: int
    """The update that it came with; 0: none."""
    reason: str
    data: str


class UpdateRow(msgspec.Struct):
    """An update of a job. `policy` is JSON; `pending` to `bad` count its instances by step."""

    job_id: str
    number: int
    kind: str
    from_version: int
    version: int
    policy: str
    state: str
    """ROLLING, CANARY, SUCCEEDED, ROLLED_BACK, FAILED or ABORTED."""
    paused_ms: int
    """When it was paused; 0: it isn't."""
    added: int
    updated: int
    removed: int
    unchanged: int
    pending: int
    started_ms: int
    flight: int = 0
    done: int = 0
    bad: int = 0
    ended_ms: int = 0
    moved_ms: int = 0
    """When it made progress last."""
    code: str = ""
    message: str = ""
    reason: str = ""
    data: str = ""
    waits_ms: int = 0
    """Since when its canary is done and it waits to be promoted; 0: it doesn't."""
    lacks_places: int = 0
    """1: it failed since instances found no place in time, and for nothing else."""

    image_ms: int = 0
    """When hosts were told to pull its image, which it waits for; 0: it doesn't, or no longer."""
    image_hosts: int = 0
    """The hosts that were told to, without those that are lost; how many have it, and how many can't have it."""
    image_have: int = 0
    image_faults: int = 0
    image_fault: str = ""
    """The words of the last of these."""

    def promoted_ms(self) -> int:
        """When it is promoted by itself; 0: it isn't."""
        after: int = msgspec.json.decode(self.policy)["promote_after_ms"]
        return self.waits_ms + after if self.waits_ms and after else 0


class UpdateStepRow(msgspec.Struct):
    """Steps of instances of an update, by one decision: three int32 columns, first, count and step of ranges of
    instances.
    """

    job_id: str
    number: int
    offset: int
    place: int
    at_ms: int
    ranges: bytes
