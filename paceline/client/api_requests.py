"""Requests to the API: how a cell is found, what was written is remembered, and errors are raised."""

import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from paceline.client import cell_file, sign_ins
from paceline.client.acting import acting_user, headers_of
from paceline.client.bearer import unfit
from paceline.client.checked_values import server_url
from paceline.client.errors import (
    ApiError,
    Conflict,
    NotAuthorised,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
    WrongToken,
)
from paceline.client.json_type import Json
from paceline.client.patience import PATIENCE_S
from paceline.client.plain_http import FAULTS, PlainHttp, PlainResponse
from paceline.client.proof import SPEAKS_TLS, Unproven, UnprovenOther, proven_by
from paceline.client.strangers import is_of_cell, leads_on, may_be_cut, no_cell

if TYPE_CHECKING:
    import ssl

    import httpx2

TIMEOUT_S = 15.0
"""Seconds that an answer may take, beyond the time for which it was asked to wait."""
PAGE = 500
PAGES_MAX = 1000
"""The most items that a page of a list may have."""
IN_THE_MAKING = "MOMENT_IN_THE_MAKING"
OnMaking = Callable[[int, int], None]
"""Is told how many records of how many are in views of the past that are being made."""


class Requests:
    """Where a client sends requests, and what it remembers of them, see `Client`."""

    def __init__(
        self,
        server: str = "",
        token: str | None = None,
        data: Path | None = None,
        timeout: float = TIMEOUT_S,
        transport: "httpx2.BaseTransport | None" = None,
        cell: int | None = None,
        at: str | None = None,
        on_making: OnMaking = lambda done, of: None,
        patience: float = PATIENCE_S,
        ca: Path | None = None,
    ) -> None:
        proven = pin = None
        may_be_signed_in = token is None
        folder = data or cell_file.data_folder()
        if not server:
            running = cell_file.await_started(folder)
            if running is None:
                raise Unreachable(
                    f"No cell runs on {folder}. Start one with `paceline up`, wait if it is starting, or name "
                    "one with --server."
                )
            server, pin = running.listen, running.tls_cert
            of_folder = cell_file.token(folder)  # which goes to that folder's cell only
            token = token or of_folder
            proven = proven_by(token, of_folder)
        elif token is None:
            token = cell_file.token_of_run()
        self.server = server_url(server)
        if token is None and may_be_signed_in:
            token = sign_ins.token_for(folder, self.server)
        if token and (why := unfit(token)):
            raise WrongToken(f"The token can't be that of a cell: {why}. Name the right one with --token.")
        self.user = acting_user()
        """The user for whom it asks, as far as this process knows it."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= headers_of(self.user)
        self._timeout = timeout
        self.patience = patience
        """Seconds for which a cell that is away is waited for by what follows or waits."""
        self._written: dict[str, int] = {}
        self._noting = threading.Lock()
        self._on_making = on_making
        self._of_stranger: tuple[PlainResponse | httpx2.Response, bytes] | None = None
        self.moment = ""
        """The moment that the last answer showed, with its time; empty where it was the present."""
        self.as_of = ""
        """Its time."""
        self.limited = ""
        """The sentence for readers of some pools alone, once something was read; empty: nothing was left out."""
        self._params, self._headers = without_none({"cell": cell, "at": at}), headers
        self._transport, self._proven = transport, proven
        self._tls = partial(_tls_context, ca, pin)
        self._plain = None if transport else PlainHttp(self.server, self._params, headers, proven, self._tls)

    @cached_property
    def _http(self) -> "httpx2.Client":
        """The client for streams, imported when there is one."""
        import httpx2

        from paceline.client.proven_transport import ProvenTransport

        tls = self._tls() if self.server.startswith("https") else None
        transport = self._transport or ProvenTransport(self._proven, tls)
        return httpx2.Client(
            base_url=self.server,
            params=self._params,
            headers=self._headers,
            timeout=self._timeout,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the connections."""
        if self._plain is not None:
            self._plain.close()
        if "_http" in vars(self):
            self._http.close()

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Json:
        query = without_none(params or {})
        response = self._send("GET", path, params=query)
        body = self._body(response)
        if not leads_on(body, query.get("page_token")):
            raise no_cell(response, response.content)
        return body

    def _body(self, response: PlainResponse) -> Json:
        """The object that an answer has in JSON. One that something between ended early is none, however cleanly that
        was done. Raises `Unreachable`.
        """
        body = None
        try:
            body = response.json()
        except RecursionError:
            pass  # no answer of a cell is so deep
        except ValueError as error:
            if may_be_cut(response):
                raise Unreachable(f"The answer of the cell at {self.server} was cut; trying again is safe.") from error
        if not isinstance(body, dict):
            raise no_cell(response, response.content)
        return body

    def _heard(self, response: "PlainResponse | httpx2.Response", content: bytes = b"") -> None:
        """Notes who has answered."""
        self._of_stranger = None if is_of_cell(response) else (response, content)

    @property
    def stranger(self) -> Unreachable | None:
        """Why the last answer can't be understood, where nothing in it says that it is of a cell."""
        return None if self._of_stranger is None else no_cell(*self._of_stranger)

    def _all(self, path: str, name: str, params: Mapping[str, Any]) -> Iterator[Any]:
        token = None
        while True:
            page = self._get(path, {**params, "page_token": token})
            yield from page[name]
            token = page.get("next_page_token")
            if not token:
                return

    def _write(
        self,
        method: str,
        path: str,
        body: Json | None,
        wait: float,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        params = {**(query or {}), **wait_query(wait)}
        options = json_body(body)
        options["headers"] |= headers or {}
        response = self._send(method, path, wait, params=params, **options)
        answer = self._body(response)
        self._note(str(answer.get("position") or ""), response.headers.get("Log-Cell"))
        return answer

    def _send(self, method: str, path: str, wait: float = 0, **request_options: Any) -> PlainResponse:
        if method == "GET" and self._written:
            at = ",".join(f"{topic}:{offset}" for topic, offset in list(self._written.items()))
            request_options["headers"] = {"At-Least-Position": at}
        while True:
            try:
                response = self._ask(method, path, timeout=self._timeout + wait, **request_options)
            except FAULTS as error:
                raise self._unreachable(error) from error
            self._heard(response, response.content)
            if method == "GET":
                self.limited = response.headers.get("Paceline-Limited", self.limited)
            if not response.is_error:
                self._note_moment(response)
                return response
            problem = error_of(response)
            if not isinstance(problem, ApiError) or problem.code != IN_THE_MAKING:
                raise problem
            self._on_making(*problem.progress)  # the server has waited for it, and goes on while somebody asks

    def _ask(self, method: str, path: str, **request_options: Any) -> PlainResponse:
        """The answer to a request, whatever it says."""
        if self._plain is not None:
            return self._plain.request(method, path, **request_options)
        import httpx2

        try:
            return cast(PlainResponse, self._http.request(method, path, **request_options))
        except httpx2.RequestError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    def _note_moment(self, response: PlainResponse) -> None:
        at, self.as_of = response.headers.get("At", ""), response.headers.get("As-Of", "")
        self.moment = at if at == self.as_of else f"{at}, {self.as_of}"

    def _note(self, position: str, cell: str | None) -> None:
        """Remembers what was written; a server of several cells says to which."""
        for each in filter(None, position.split(",")):
            topic, _, offset = each.rpartition(":")
            topic = f"{topic}@{cell}" if cell else topic
            with self._noting:
                self._written[topic] = max(self._written.get(topic, 0), int(offset))

    def _unreachable(self, error: Exception) -> Unreachable | WrongToken:
        if isinstance(error, UnprovenOther):
            return WrongToken(
                f"The token isn't that of the cell at {self.server}, or another process listens there; the token was "
                "not sent. Name the right one with --token, or the cell with --server."
            )
        if isinstance(error, Unproven):
            return Unreachable(
                f"{error}. It was told nothing. Is the cell that ran there up? Start it with `paceline up`."
            )
        if why := _why_tls(error):
            return Unreachable(f"The cell at {self.server} can't be asked: {why}. It was told nothing.")
        return Unreachable(
            f"The cell at {self.server} does not answer ({error or type(error).__name__}). "
            "Start it with `paceline up`, or name another with --server; trying again is safe."
        )


def _why_tls(error: Exception) -> str:
    """The sentence about an error of TLS; empty: it is none."""
    if "ssl" not in sys.modules:
        return ""
    from paceline.client.tls import TlsFault, why_tls

    return str(error) if isinstance(error, TlsFault) else why_tls(error)


def _tls_context(ca: Path | None, pin: Path | None) -> "ssl.SSLContext":
    """The context of https: the certificate of the cell on the data folder counts as it is, others by their CA."""
    from paceline.client.tls import client_context, pinned_context

    return pinned_context(pin) if pin else client_context(ca)


def new_id(stem: str) -> str:
    """An id that nobody else makes, which begins with `stem`."""
    return f"{stem}-{secrets.token_hex(4)}"


def wait_query(wait: float) -> Json:
    """The parameter of a write that waits for so many seconds, if it does."""
    return {"wait": f"{round(wait * 1000)}ms"} if wait else {}


def json_body(body: Mapping[str, Any] | None) -> Json:
    """A body and its header, as the HTTP client takes them."""
    content = b"" if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return json_content(content)


def json_content(content: bytes) -> Json:
    """A body in JSON and its header, as the HTTP client takes them."""
    return {"content": content, "headers": {"Content-Type": "application/json"}}


def without_none(params: Mapping[str, Any]) -> Json:
    """The parameters without those that are None."""
    return {name: value for name, value in params.items() if value is not None}


def _filters_by_nothing(problem: Mapping[str, Any]) -> bool:
    """Whether a list was asked for by something that isn't there, such as a pool."""
    pointers = [str(each.get("pointer")) for each in problem.get("errors") or () if isinstance(each, dict)]
    there_is_none = problem.get("code") in ("NO_SUCH_POOL", "NOT_FOUND")
    return there_is_none and any(each.startswith("/query/") for each in pointers)


def error_of(response: "PlainResponse | httpx2.Response") -> ApiError | Unreachable:
    """The error of a status: its body is a problem, unless something between us and the cell answered, or it is none of
    a cell.
    """
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict) and SPEAKS_TLS in response.text:
        return no_cell(response, response.content)
    if not isinstance(problem, dict):
        problem = {"title": f"{response.url} answered {response.status_code} {response.reason_phrase}"}
    try:
        return _problem_of(response.status_code, problem)
    except (TypeError, ValueError, ArithmeticError, AttributeError):  # fields of other types than a problem has
        return no_cell(response, response.content)


def _problem_of(status: int, problem: Json) -> ApiError:
    if status in (401, 403, 421):
        return NotAuthorised(status, problem)
    if status == 404 or _filters_by_nothing(problem):
        return NotFound(status, problem)
    if problem.get("code") == "VERSION_CONFLICT":
        return Conflict(status, problem)
    return (Refused if status < 500 else Unavailable)(status, problem)
