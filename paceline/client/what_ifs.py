"""Requests of the client about what would have been."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from paceline.client.api_requests import Requests, json_body
from paceline.client.checked_values import path_of

if TYPE_CHECKING:
    from paceline.client.what_if_models import WhatIf


class WhatIfRequests(Requests):
    """Methods about what would have been, see `Client`."""

    def ask_what_if(
        self,
        start: str,
        end: str,
        changes: Sequence[str] = (),
        change_file: str = "",
        runs: int = 5,
        seed: int = 1,
        conditions: Sequence[str] = (),
    ) -> "WhatIf":
        """Asks what would have happened between two times with something changed: texts such as `/maps:share=2`, or the
        text of a change file. `conditions` are those of `--fail-if`. Nothing is written. It returns at once; `what_if`
        waits for the answer. Raises `Conflict` while another question is at work.
        """
        body: dict[str, Any] = {"from": start, "to": end, "changes": list(changes), "change_file": change_file}
        body |= {"runs": runs, "seed": seed, "conditions": list(conditions)}
        answer = self._send("POST", "/v1/what-ifs", **json_body(body))
        return cast("WhatIf", self._body(answer))

    def what_if(self, what_if_id: str, wait: float = 0) -> "WhatIf":
        """Tells how far a question is, and its answer; waits so many seconds for that. A question that nobody looks at
        for half a minute is ended.
        """
        params = {"wait": f"{wait:g}s"} if wait else {}
        answer = self._send("GET", path_of("what-ifs", what_if_id), wait=wait, params=params)
        return cast("WhatIf", self._body(answer))
