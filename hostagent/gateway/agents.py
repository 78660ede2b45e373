"""The right to speak for a host: an agent with a certificate speaks for its own alone, one with the token of the cell
for any, unless the cell takes certificates only.
"""

import time
from collections.abc import Callable
from functools import lru_cache

from fastapi import APIRouter, Request, Response

from events.bounds import NAME
from events.host_certificates import Code, Refusal, expired
from events.join_tokens import host_of, invite_id
from events.records.hosts import HostCertified
from hostagent.gateway.component import Gateway
from hostagent.gateway.connections import Certify
from hostagent.gateway.host_ca import HostCa, HostName, WrongRequest, read_certificate
from hostagent.gateway.http_answers import Denied, answered, body_of, check_serving, check_token, guarded
from paceline.client.bearer import shown
from paceline.client.tls import CERTIFICATE

REQUEST_BYTES_MAX = 64 * 1024
UNKNOWN = (
    "the log has lost what says whether agents may come by the token of the cell: "
    "`paceline cell set --agents token` lets them, --agents certificates doesn't"
)
_read = lru_cache(10_000)(read_certificate)


class Agents:
    """The agents of a gateway. `ca`: the cell's own CA; None: the gateway speaks plain HTTP, so nobody shows a
    certificate.
    """

    def __init__(self, gateway: Gateway, token: str, ca: HostCa | None = None) -> None:
        self.gateway = gateway
        self.ca = ca
        self._token = token

    def check(self, request: Request, host_id: str) -> None:
        """Raises `Denied` unless who asks may speak for a host."""
        name = self.shown(request)
        if name is None:
            if not self.gateway.knows_agents:
                raise Denied(503, UNKNOWN, Code.AGENTS_UNKNOWN)
            if self.gateway.settings.agents == "certificates":
                raise Denied(403, _needed(host_id), Code.CERTIFICATE_NEEDED)
            check_token(request, self._token)
            return
        if name.until_s <= time.time():
            refused = expired(host_id)
            raise Denied(403, refused.why, refused.code)
        if (refusal := self._refusal(name, host_id)) is not None:
            raise Denied(403, refusal.why, refusal.code)

    def still(self, request: Request, host_id: str) -> Callable[[], bool]:
        """Tells whether who asked may go on to hear what is meant for a host: for streams, which outlast certificates
        that agents renew meanwhile.
        """
        name = self.shown(request)
        if name is None:
            return lambda: self.gateway.knows_agents and self.gateway.settings.agents != "certificates"
        return lambda: self._refusal(name, host_id) is None

    def shown(self, request: Request) -> HostName | None:
        """The certificate that TLS has verified; None: there is none."""
        der = request.scope.get(CERTIFICATE)
        return None if der is None else _read(der, self.ca.pem() if self.ca is not None else "")

    def _refusal(self, name: HostName, host_id: str) -> Refusal | None:
        if host_id not in name.host_ids:
            own = ", ".join(sorted(name.host_ids)) or "no host"
            why = f"this certificate is for {own}, not for {host_id}: an agent speaks for its own host alone"
            return Refusal(Code.CERTIFICATE_FOREIGN, why)
        return self.gateway.certificates.known(name.serial, host_id) if name.serial else None


def join_routes(agents: Agents) -> APIRouter:
    """`/v1/agents/HOST/certificates`: a certificate for a host, for a request in PEM; for a join token, or to renew the
    one that is shown.
    """
    router = APIRouter(include_in_schema=False)
    gateway = agents.gateway

    @router.post("/v1/agents/{host_id}/certificates", status_code=201)
    async def certify(host_id: str, request: Request) -> Response:
        async def answer() -> Response:
            if agents.ca is None:
                raise Denied(403, "join a gateway that speaks TLS (--tls-cert, --tls-key)", Code.JOIN_NEEDS_TLS)
            if not NAME.fullmatch(host_id):
                raise Denied(422, "no id of a host")
            by_token, renews = _right(agents, request, host_id)
            check_serving(gateway)
            try:
                issued = agents.ca.issue(await body_of(request, REQUEST_BYTES_MAX), host_id)
            except WrongRequest as wrong:
                raise Denied(422, str(wrong), Code.WRONG_CERTIFICATE_REQUEST) from wrong
            except OSError as error:
                raise Denied(503, f"the CA of the cell can't be used: {error.filename}: {error.strerror}") from error
            event = HostCertified(
                host_id=host_id,
                serial=issued.serial,
                fingerprint=issued.fingerprint,
                from_ms=issued.from_ms,
                until_ms=issued.until_ms,
                invite_id=by_token,
                renews=renews,
                key=issued.key,
            )
            now_ms = time.time_ns() // 1_000_000
            refused: Refusal | None = await answered(lambda done: gateway.post(Certify(event, now_ms, done)))
            if refused is not None:
                raise Denied(403, refused.why, refused.code)
            return Response(issued.pem, 201, media_type="application/x-pem-file")

        return await guarded(answer())

    return router


def _right(agents: Agents, request: Request, host_id: str) -> tuple[str, str]:
    """The invitation by which a host joins, or the serial number of the certificate that it renews. Raises `Denied`."""
    token = shown(request.headers.get("authorization", ""))
    if token and (meant := host_of(token)):
        if meant != host_id:
            why = f"this join token is of host {meant}: `paceline host invite {host_id}` gives another"
            raise Denied(403, why, Code.JOIN_TOKEN_FOREIGN)
        return invite_id(token), ""
    name = agents.shown(request)
    if name is None:
        raise Denied(403, _needed(host_id), Code.CERTIFICATE_NEEDED)
    agents.check(request, host_id)
    if not name.serial:
        why = "this certificate isn't of the CA of the cell, which renews its own alone"
        raise Denied(403, why, Code.CERTIFICATE_NOT_OURS)
    return "", name.serial


def _needed(host_id: str) -> str:
    way = f"`paceline host invite {host_id}` gives a join token for `paceline agent --join-file`"
    return f"this cell takes agents with a certificate of their host: {way}"
