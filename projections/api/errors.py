"""Every error of the API is a problem with a stable code, those of the framework too."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from events.codes import Code
from events.log.port import AppendUnknown, LogError, LogUnavailable
from events.spec.problems import message_of
from projections.api.problems import Problem
from projections.views.reader import ViewsAway

_CODES = {
    400: "BAD_REQUEST",
    404: "NO_SUCH_PATH",
    405: "METHOD_NOT_ALLOWED",
    413: Code.TOO_LARGE,
}


def _pointer(loc: Sequence[Any]) -> str:
    """Into the body; /query/name and the like for what stands elsewhere."""
    return "".join(f"/{part}" for part in (loc[1:] if loc[0] == "body" else loc))


def _model(request: Request) -> type[BaseModel]:
    """Finds what the body of a request is read as."""
    field = request.scope["route"].body_field
    kind = field.field_info.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else BaseModel


def log_problem(error: LogError) -> Problem:
    """The problem that the log could not do something."""
    if isinstance(error, LogUnavailable):
        return Problem(503, "LOG_UNAVAILABLE", str(error), headers={"Retry-After": "1"})
    if isinstance(error, AppendUnknown):
        detail = f"{error} What was sent may stand in the log all the same: look, or send it again under its id."
        return Problem(503, "OUTCOME_UNKNOWN", detail, headers={"Retry-After": "1"})
    return Problem(500, "LOG_FAULT", str(error))


def install(app: FastAPI) -> None:
    """Makes every error of an app a problem."""

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, HTTPStatus(error.status_code).name)
        detail = f"{request.method} {request.url.path}: {error.detail}"
        return Problem(error.status_code, code, detail, headers=error.headers).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        model = _model(request)
        faults = [
            (_pointer(each["loc"]), message_of(model, {**each, "loc": each["loc"][1:]})) for each in error.errors()
        ]
        if any(each["type"] == "json_invalid" for each in error.errors()):
            return Problem(400, "NOT_JSON", "the body is no JSON", faults).response()
        return Problem(422, "INVALID_REQUEST", "the request has fields that can't be read", faults).response()

    @app.exception_handler(LogError)
    async def log(_: Request, error: LogError) -> Response:
        return log_problem(error).response()

    @app.exception_handler(ViewsAway)
    async def views(_: Request, error: ViewsAway) -> Response:
        return Problem(503, "VIEWS_AWAY", str(error), headers={"Retry-After": "1"}).response()

    @app.exception_handler(Exception)
    async def bug(_: Request, error: Exception) -> Response:
        return Problem(500, "INTERNAL", f"a bug: {type(error).__name__}").response()
