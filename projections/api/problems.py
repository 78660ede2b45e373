"""Errors of the API: RFC 9457 problem details with a stable code."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from starlette.responses import Response

from events.codes import Code
from paceline.client.json_type import Json

CLIENT_LEFT = 499
"""The status of a request whose client has left before its answer: no server sends it, logs and tests read it."""


class Problem(Exception):
    """A problem that a handler raises instead of answering."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[tuple[str, str]] = (),
        position: str | None = None,
        headers: Mapping[str, str] | None = None,
        cell: int | None = None,
        progress: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.position = position
        self.headers = dict(headers or {})
        self.cell = cell
        self.progress = progress
        """The part of a work that is done, and the whole, where the answer has to wait for it."""

    def body(self) -> Json:
        """The JSON of the answer."""
        body: Json = {
            "type": type_of(self.code),
            "title": "Client Closed Request" if self.status == CLIENT_LEFT else HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [{"pointer": pointer, "message": message} for pointer, message in self.errors]
        if self.position:
            body["position"] = self.position
        if self.cell is not None:
            body["cell"] = self.cell
        if self.progress is not None:
            body["done"], body["of"] = self.progress
        return body

    def response(self) -> Response:
        """The answer."""
        text = json.dumps(self.body())  # in ASCII: what is quoted may hold halves of characters
        return Response(text, self.status, self.headers, media_type="application/problem+json")


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_FAULT = {"type": "object", "properties": {"pointer": _TEXT, "message": _TEXT}}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        **dict.fromkeys(("type", "title", "code", "detail", "position"), _TEXT),
        **dict.fromkeys(("status", "cell", "done", "of"), _NUMBER),
        "errors": {"type": "array", "items": _FAULT},
    },
}
PROBLEMS: dict[int | str, Json] = {
    kind: {"description": "A problem (RFC 9457).", "content": {"application/problem+json": {"schema": PROBLEM_SCHEMA}}}
    for kind in ("4XX", "5XX")
}
"""The problems that every route may answer with."""


ANSWERED: dict[int | str, Json] = {
    200: {"description": "Decided.", "content": {"application/json": {"schema": {"type": "object"}}}}
}
"""The answer to a write that waits for the decision."""


def type_of(code: str) -> str:
    """The path of what the API says of a code."""
    return f"/problems/{code.lower().replace('_', '-')}"


def not_found(what: str, name: str, meant: str = "") -> Problem:
    """Nothing of that name; `meant`: the end of the sentence, where another name is near."""
    return Problem(404, Code.NOT_FOUND, f"there is no {what} {name[:140]}{meant}")


def wrong_cell(what: str, cell: int, served: Sequence[int]) -> Problem:
    """Something belongs to a cell that this server doesn't serve."""
    here = f"cell {served[0]}" if len(served) == 1 else f"cells {', '.join(map(str, served))}"
    detail = f"{what} belongs to cell {cell}; this server serves {here}. Ask a server of cell {cell}"
    return Problem(409, Code.WRONG_CELL, detail, cell=cell)
