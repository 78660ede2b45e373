"""The spec of a pool as admins write it, in JSON and YAML, checked before anything is appended."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import CoreSchema, ValidationInfo

from events.bounds import INT_MAX, KINDS_MAX, SHARE_MAX
from events.host_pools import POOLS_MAX as HOST_POOLS_MAX
from events.quantities import Mebibytes, Milli, MillisecondsOrNever, OtherAmount, write_amounts, write_ms_or_never
from events.records.pools import PoolDefined
from events.resources import Unit, in_order
from events.spec.host_pool_name import HostPoolName
from events.spec.parts import Amounts, ResourceName, ShortText, Spec, Word, at
from events.strategies import DEFAULT, Strategy

OWNERS_MAX = 64


class Reservation(Amounts):
    """What a pool gets whenever it demands it."""

    __pydantic_extra__: dict[ResourceName, OtherAmount]
    cpu: Milli = 0
    memory: Mebibytes = 0
    disk: Mebibytes = 0
    gpu: Milli = 0


class Limit(Amounts):
    """What a pool never exceeds; null: no limit."""

    __pydantic_extra__: dict[ResourceName, OtherAmount | None]
    cpu: Milli | None = None
    memory: Mebibytes | None = None
    disk: Mebibytes | None = None
    gpu: Milli | None = None


Weight = Annotated[int, Field(ge=0, le=SHARE_MAX)]


class Share(Amounts):
    """Weights among siblings beyond the reservations. A number alone stands for all resources, later ones too."""

    __pydantic_extra__: dict[ResourceName, Weight]
    cpu: Weight | None = None
    memory: Weight | None = None
    disk: Weight | None = None
    gpu: Weight | None = None
    others: Weight = Field(default=1, description="Of each resource that isn't named.")

    @model_validator(mode="before")
    @classmethod
    def _one_for_all(cls, value: Any) -> Any:
        if isinstance(value, Share | dict):
            return value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SHARE_MAX:
            message = f"must be a whole number from 0 to {SHARE_MAX}, or one for each resource"
            raise PydanticCustomError("share", "{what}", {"what": message})
        return {"others": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        parts = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [parts, parts["properties"]["others"] | {"title": "Of all resources"}]}


class PoolSpec(Spec):
    """A pool as admins write it; its path stands beside it."""

    reservation: Reservation = Reservation()
    limit: Limit = Limit()
    share: Share = Share()
    static: list[ResourceName] = Field(
        default=[],
        max_length=KINDS_MAX,
        description="Resources whose reservation is kept for the pool even where it doesn't use it; others are lent.",
    )
    preemption_delay: MillisecondsOrNever | None = Field(
        default=None,
        description="How long entitled work is without a place before others are preempted for it, or never; null: as "
        "the cell has it.",
    )
    controllers_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=100, description="How much of the pool's entitlement controllers may hold; 100: no limit of their own."
    )
    slack_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=20,
        description="How much of each reservation of the pool, CPU aside, its revocable work may be entitled to; "
        "beyond that it borrows what stands idle.",
    )
    strategy: Strategy | None = Field(
        default=None,
        description="How hosts are chosen for jobs that name no strategy; null: as the pool above has it; if none "
        "has one, adaptive where hosts have GPUs, else pack.",
    )
    host_pools: list[HostPoolName] = Field(
        default=[],
        max_length=HOST_POOLS_MAX,
        description="Pools of hosts that its jobs may use, the first choice first; empty: as the pool above has them, "
        "or by the kind of each job if none has any.",
    )
    closed: bool = Field(default=False, description="Nothing more is admitted; what runs goes on.")
    owners: list[Word] = Field(default=[], max_length=OWNERS_MAX)
    description: ShortText = ""
    open_jobs_max: Annotated[int, Field(ge=0, le=INT_MAX)] = 100_000
    open_tasks_max: Annotated[int, Field(ge=0, le=INT_MAX)] = 2_000_000
    cell: Annotated[int, Field(ge=0, le=INT_MAX)] | None = Field(
        default=None,
        description="The cell that the pool belongs to; null: that of the pool as it is, of the pool above, or the "
        "first that the API serves.",
    )

    @field_validator("limit")
    @classmethod
    def _above_reservation(cls, limit: Limit, info: ValidationInfo) -> Limit:
        reservation = info.data.get("reservation")
        reserved = reservation.named() if reservation is not None else {}
        for name, most in limit.named().items():
            if most < reserved.get(name, 0):
                raise at(name, "is below the reservation", most)
        return limit

    def to_event(self, path: str, command_id: str, cell: int = 0) -> PoolDefined:
        """The fact to append; `cell` is for a pool that names none."""
        share = self.share.named()
        return PoolDefined(
            path=path,
            command_id=command_id,
            reservation=in_order(self.reservation.named()),
            limit=self.limit.named(),
            share_default=share.pop("others"),
            share=share,
            static=tuple(self.static),
            preemption_delay_ms=self.preemption_delay,
            controllers_percent=self.controllers_percent,
            slack_percent=self.slack_percent,
            strategy=self.strategy or DEFAULT,
            host_pools=tuple(dict.fromkeys(self.host_pools)),
            closed=self.closed,
            owners=tuple(self.owners),
            description=self.description,
            open_jobs_max=self.open_jobs_max,
            open_tasks_max=self.open_tasks_max,
            cell=cell if self.cell is None else self.cell,
        )


def as_defined(spec: PoolSpec) -> PoolDefined:
    """The fact of a specification in a form in which two can be compared: without weights that are those of others."""
    fact = spec.to_event("/", "")
    share = {name: weight for name, weight in fact.share.items() if weight != fact.share_default}
    return msgspec.structs.replace(fact, share=share, cell=0)


def from_event(event: PoolDefined, units: Mapping[str, Unit]) -> dict[str, Any]:
    """The JSON of a pool as it was defined, defaults written out, its path and its cell left out; `units`: those of the
    cell's resources.
    """
    return {
        "reservation": write_amounts(in_order(event.reservation), units),
        "limit": write_amounts(event.limit, units),
        "share": dict(event.share) | {"others": event.share_default},
        "static": list(event.static),
        "preemption_delay": None if event.preemption_delay_ms is None else write_ms_or_never(event.preemption_delay_ms),
        "controllers_percent": event.controllers_percent,
        "slack_percent": event.slack_percent,
        "strategy": None if event.strategy == DEFAULT else event.strategy or None,
        "host_pools": list(event.host_pools),
        "closed": event.closed,
        "owners": list(event.owners),
        "description": event.description,
        "open_jobs_max": event.open_jobs_max,
        "open_tasks_max": event.open_tasks_max,
    }
