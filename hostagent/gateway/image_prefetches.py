"""Images that hosts are to pull before runs need them: asked for at once, or when they connect within an hour."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from events.records.lifecycle import ImagePrefetchOrdered
from events.structs import known
from hostagent.gateway.connections import Link
from hostagent.messages import ImagesLine, WantedImage

KEPT_MS = 3_600_000
"""So long after the decision hosts that connect are asked, by the time of the log."""
MOST = 64
"""So many decisions are kept; the oldest go first."""


class Order(msgspec.Struct, frozen=True, array_like=True):
    """A decision, and its time; `host_ids` empty: all hosts that may run containers."""

    image: WantedImage
    host_ids: frozenset[str]
    at_ms: int


class ImagePrefetches:
    """Images for hosts. `link` finds the link of a host, `may_run` says whether it may run containers: of the others
    only those that are named are asked, for somebody waits for their answer.
    """

    def __init__(self, link: Callable[[str], Link | None], may_run: Callable[[str], bool]) -> None:
        self._link = link
        self._may_run = may_run
        self._orders: deque[Order] = deque(maxlen=MOST)

    def ordered(self, event: ImagePrefetchOrdered, now: int, host_ids: Iterable[str]) -> None:
        """Lifecycle has decided that hosts pull an image: those that have a link are asked at once; `host_ids`: all."""
        image = WantedImage(event.job_id, event.image, event.image_digest)
        order = Order(image, frozenset(event.host_ids), now)
        self._orders.append(order)
        for host_id in event.host_ids or filter(self._may_run, host_ids):
            self._ask(host_id, [order.image])

    def connected(self, host_ids: Iterable[str], now: int) -> None:
        """Hosts have got links: they are asked for what was decided in the last hour."""
        orders = [order for order in self._orders if now - order.at_ms < KEPT_MS]
        for host_id in host_ids if orders else ():
            if images := [order.image for order in orders if self._is_for(order, host_id)]:
                self._ask(host_id, images)

    def dump(self) -> Any:
        """All there is, as values that MessagePack takes."""
        return msgspec.to_builtins(list(self._orders))

    def load(self, state: Sequence[Any]) -> None:
        """Takes what `dump` gave."""
        self._orders.extend(msgspec.convert(state, known(list[Order])))

    def _is_for(self, order: Order, host_id: str) -> bool:
        return host_id in order.host_ids if order.host_ids else self._may_run(host_id)

    def _ask(self, host_id: str, images: list[WantedImage]) -> None:
        if (link := self._link(host_id)) is not None:
            link.ask(host_id, ImagesLine(images))
