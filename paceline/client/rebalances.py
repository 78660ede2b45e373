"""Requests of the client about room for waiting jobs."""

from typing import TYPE_CHECKING, Any, cast

from paceline.client.api_requests import Requests, json_body, new_id
from paceline.client.checked_values import path_of
from paceline.client.maintenance import PLAN_S
from paceline.client.models import Answer

if TYPE_CHECKING:
    from paceline.client.plan_models import RebalancePlan


class RebalanceRequests(Requests):
    """Methods about room for waiting jobs, see `Client`."""

    def rebalance(
        self, job_id: str, reason: str = "", max_moves: int = 0, by_setting: bool = False, wait: float = 0
    ) -> Answer:
        """Has tasks moved at once that have a place elsewhere, for tasks of a job that wait: as few as do,
        and `max_moves` at most (0: as many as it takes). `by_setting`: nobody asks for it, and the setting
        `rebalance_moves_per_hour` of the cell bounds the moves too.
        """
        path = path_of("jobs", job_id, "rebalances")
        return cast(Answer, self._write("POST", path, _body(reason, max_moves, by_setting), wait))

    def check_rebalance(self, job_id: str, max_moves: int = 0, by_setting: bool = False) -> "RebalancePlan":
        """Tells which tasks would be moved now, and where to; nothing is written."""
        path = path_of("jobs", job_id, "rebalances")
        body = json_body(_body("", max_moves, by_setting))
        answer = self._send("POST", path, wait=PLAN_S, params={"dry_run": "true"}, **body)
        return cast("RebalancePlan", self._body(answer))


def _body(reason: str, max_moves: int, by_setting: bool) -> dict[str, Any]:
    command = {"command_id": new_id("rebalance"), "reason": reason}
    return command | {"max_moves": max_moves, "by_setting": by_setting}
