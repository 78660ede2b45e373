"""TLS of the servers of a process, from its settings."""

from collections.abc import Callable

from hostagent.gateway.host_ca import HostCa
from hostagent.tls import ServerContext, ServerTls
from paceline.client.tls import FreshContext, TlsFault, pinned_context, state_of
from paceline.services.data_folder import CannotStart
from paceline.services.settings import TlsPart, WrongSettings


def server_context(part: TlsPart, say: Callable[[str], object], host_ca: HostCa | None = None) -> ServerContext | None:
    """The context of a server; None: it speaks plain HTTP. `say`: told when files have changed; `host_ca`: the cell's
    own CA, which is made where there is none, if the server has agents. Raises `CannotStart`, `WrongSettings`.
    """
    if part.cert is None or part.key is None:
        if part.cert or part.key or part.client_ca:
            lacks = "--tls-key" if part.cert else "--tls-cert"
            raise WrongSettings([f"TLS needs a certificate and its key: {lacks} is missing"])
        return None
    files = ServerTls(part.cert, part.key, part.client_ca)
    try:
        if host_ca is not None:
            host_ca.prepare()
            files = files._replace(more=host_ca.pem, more_state=host_ca.state)
        return files.context(say)
    except TlsFault as fault:
        raise CannotStart(str(fault)) from fault
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}. The CA of hosts is kept there.") from error


def own_context(part: TlsPart) -> FreshContext | None:
    """The context of a client in the process of a server, who trusts the certificate of that server alone."""
    if part.cert is None:
        return None
    cert = part.cert
    return FreshContext(lambda: pinned_context(cert), lambda: state_of((cert,)), lambda text: None)


def reach_facts(tls: ServerContext | None, part: TlsPart, address: str) -> dict[str, str]:
    """The address of a cell as `cell.json` has it, with the file of its certificate."""
    facts = {"listen": url(tls, address) if tls else address}
    return facts if part.cert is None else {**facts, "tls_cert": str(part.cert.absolute())}


def url(tls: ServerContext | None, address: str) -> str:
    """The URL of a server at an address."""
    return f"{'https' if tls else 'http'}://{address}"
