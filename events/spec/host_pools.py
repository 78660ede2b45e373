"""Pools of hosts as operators write them: over HTTP and in scenarios."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from events.bounds import INT_MAX
from events.host_pools import OF_NAME, POOLS_MAX, Kind
from events.quantities import Milliseconds
from events.records.hosts import HostPoolDefined, HostPoolMoveRequested
from events.records.parts import HostPoolPolicy
from events.spec.host_pool_name import HostPoolName
from events.spec.maintenance import DrainSpec
from events.spec.parts import ShortText, Spec, at

Percent = Annotated[int, Field(ge=0, le=100)]


class Policy(Spec):
    """The policy by which hosts move between a host pool and another one by themselves. Its load is what is
    allocated there and what waits for it, as a part of what it has, of the resource of which that is most.
    """

    source: HostPoolName = Field(description="The host pool that hosts come from, and go back to.")
    above: Percent = Field(description="They come when its load is above so many percent.")
    below: Percent = Field(description="They go back when its load is below so many percent.")
    lasts: Milliseconds = Field(
        default=600_000, json_schema_extra={"default": "10m"}, description="For how long that must have lasted."
    )
    hosts: Annotated[int, Field(ge=1, le=INT_MAX)] = Field(default=1, description="So many move at a time.")
    keep: Annotated[int, Field(ge=0, le=INT_MAX)] = Field(default=1, description="So many hosts stay in either.")

    @model_validator(mode="after")
    def _has_a_gap(self) -> Self:
        if self.below >= self.above:
            raise at("below", "must be less than above", self.below)
        return self

    def to_part(self) -> HostPoolPolicy:
        """The part of the fact."""
        return HostPoolPolicy(
            source=self.source,
            above=self.above,
            below=self.below,
            lasts_ms=self.lasts,
            hosts=self.hosts,
            keep=self.keep,
        )


class MoveSpec(DrainSpec):
    """Hosts that are emptied and put into another host pool, by number or by name."""

    source: HostPoolName = Field(description="The host pool that they are in.")
    count: Annotated[int, Field(ge=0, le=INT_MAX)] = Field(
        default=0, description="So many hosts, those whose work is worth least first; 0: those that are named."
    )

    def to_move(self, target: str, host_ids: Sequence[str], command_id: str, reason: str = "") -> HostPoolMoveRequested:
        """The fact to append."""
        return HostPoolMoveRequested(
            source=self.source,
            target=target,
            hosts=self.count,
            host_ids=tuple(host_ids),
            command_id=command_id,
            batch=self.batch,
            deadline_ms=self.deadline,
            escalate=self.escalate,
            force_after_ms=self.force_after_ms,
            reason=reason,
        )


class HostPoolSpec(Spec):
    """A pool of hosts."""

    kinds: list[Kind] | None = Field(
        default=None,
        description="Kinds of jobs that use its hosts before those of shared, where their pool names no host pools. By "
        "default service for a host pool stateless, batch-non-preemptible for batch_reserved, and none for others.",
    )
    description: ShortText = ""
    elastic: list[Policy] = Field(
        default=[], max_length=POOLS_MAX, description="How hosts move to it and back by themselves."
    )

    def to_event(self, name: str, command_id: str, reason: str = "") -> HostPoolDefined:
        """The fact to append."""
        kinds = tuple(OF_NAME.get(name, ()) if self.kinds is None else self.kinds)
        return HostPoolDefined(
            name=name,
            command_id=command_id,
            kinds=kinds,
            description=self.description,
            elastic=tuple(each.to_part() for each in self.elastic),
            reason=reason,
        )
