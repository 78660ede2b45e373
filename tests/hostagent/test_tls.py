"""TLS of a server: whom it lets in, what it says to others, and files that change."""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from starlette.types import Receive, Scope, Send

from hostagent import server as module
from hostagent.listen_address import bound
from hostagent.server import Server
from hostagent.tls import ServerTls
from paceline.client import tls
from paceline.client.plain_http import PlainHttp
from paceline.client.proof import Unproven
from paceline.client.tls import CERTIFICATE, TlsFault, client_context, why_tls
from tests.helpers.pki import Files, Pki
from tests.helpers.waiting import until


async def named(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the name in the certificate of who asks."""
    certificate = scope.get(CERTIFICATE)
    name = x509.load_der_x509_certificate(certificate).subject.rfc4514_string() if certificate else "nobody"
    body = f"{scope['scheme']} {name}".encode()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


class Served:
    """A server in a thread; `tls` None: plain."""

    def __init__(self, files: ServerTls | None, connections_max: int = 0) -> None:
        self.said: list[str] = []
        context = files.context(self.said.append) if files else None
        self.server = Server(named, grace_s=0, connections_max=connections_max, tls=context)
        self.listening = bound("127.0.0.1:0")
        self.port: int = self.listening.getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]})
        self.thread.start()
        until(lambda: self.server.started)

    def url(self, scheme: str = "https") -> str:
        return f"{scheme}://127.0.0.1:{self.port}"

    def ask(self, context: ssl.SSLContext) -> str:
        with contextlib.closing(PlainHttp(self.url(), {}, {}, None, lambda: context)) as http:
            return http.request("GET", "/", 20.0).text

    def peer(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listening.close()


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


@pytest.fixture
def site(pki: Pki) -> Iterator[Served]:
    served = Served(ServerTls(*pki.issue("server"), pki.file))
    yield served
    served.close()


def showing(pki: Pki, own: Files) -> ssl.SSLContext:
    """The context of a client that shows a certificate."""
    context = client_context(pki.file)
    context.load_cert_chain(*own)
    return context


def refusal(site: Served, context: ssl.SSLContext) -> str:
    with pytest.raises(OSError) as raised:
        site.ask(context)
    return why_tls(raised.value)


def test_a_client_may_show_a_certificate_and_need_not(site: Served, pki: Pki) -> None:
    assert site.ask(client_context(pki.file)) == "https nobody"
    own = pki.issue("ann", groups=("maps",))
    assert site.ask(showing(pki, own)) == "https OU=maps,CN=ann"


def test_certificates_that_do_not_hold_are_refused_with_a_reason_on_both_sides(
    site: Served, pki: Pki, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Pki(tmp_path / "other", "another CA")
    assert "doesn't trust the CA" in refusal(site, showing(pki, stranger.issue("ann")))
    namesake = Pki(tmp_path / "namesake").issue("ann")
    assert "another key" in refusal(site, showing(pki, namesake))
    assert "unable to get local issuer" in caplog.text
    old = pki.issue("old", ends=timedelta(seconds=-1))
    assert "has expired" in refusal(site, showing(pki, old))
    assert "certificate has expired" in caplog.text
    assert "127.0.0.1" in caplog.text
    assert site.ask(client_context(pki.file)) == "https nobody"


def test_a_server_whose_certificate_does_not_hold_is_told_nothing(pki: Pki, tmp_path: Path) -> None:
    for files, why in (
        (pki.issue("late", ends=timedelta(seconds=-1)), "has expired"),
        (pki.issue("early", begins=timedelta(hours=1)), "isn't valid yet"),
        (pki.issue("elsewhere", uris=("x:y",)), "for another name"),
        (Pki(tmp_path / "other").issue("other"), "nobody who is trusted here"),
    ):
        served = Served(ServerTls(*files))
        try:
            assert why in refusal(served, client_context(pki.file))
        finally:
            served.close()


def test_least_version_is_1_2(site: Served, pki: Pki) -> None:
    context = client_context(pki.file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert site.ask(context) == "https nobody"
    context = client_context(pki.file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert refusal(site, context)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_plain_http_on_a_port_of_tls_is_told_what_to_do(site: Served, method: str) -> None:
    with contextlib.closing(PlainHttp(site.url("http"), {}, {}, None)) as http:
        answer = http.request(method, "/", 20.0)
    assert (answer.status_code, answer.text) == (400, "this port speaks TLS: name it with https://")


def test_who_would_show_the_token_is_told_too(site: Served) -> None:
    with contextlib.closing(PlainHttp(site.url("http"), {}, {}, "token")) as http, pytest.raises(Unproven) as raised:
        http.request("GET", "/", 20.0)
    assert "this port speaks TLS" in str(raised.value)


def test_tls_on_a_plain_port_is_told_what_to_do(pki: Pki) -> None:
    served = Served(None)
    try:
        assert "doesn't speak TLS" in refusal(served, client_context(pki.file))
    finally:
        served.close()


def test_changed_files_are_used_for_new_connections(pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "LOOK_S", 0.0)
    second = Pki(tmp_path / "second")
    served = Served(ServerTls(*pki.issue("server"), pki.file))
    try:
        kept = PlainHttp(served.url(), {}, {}, None, lambda: client_context(pki.file))
        assert kept.request("GET", "/", 20.0).text == "https nobody"
        new = second.issue("server")
        own_ca, first_key = pki.file, (pki.folder / "server.key").read_bytes()
        os.replace(new.key, pki.folder / "server.key")
        assert served.ask(client_context(own_ca)) == "https nobody"  # its key is another's: the old one goes on
        until(lambda: any("don't belong together" in text for text in served.said))
        os.replace(new.cert, pki.folder / "server.pem")
        assert served.ask(client_context(second.file)) == "https nobody"
        assert kept.request("GET", "/", 20.0).text == "https nobody"  # its connection stays
        kept.close()
        own_ca.write_text(second.file.read_text())  # and CAs of clients
        assert served.ask(showing(second, second.issue("bob"))) == "https CN=bob"
        (pki.folder / "server.pem").write_text("no certificate")
        (pki.folder / "server.key").write_bytes(first_key)
        assert served.ask(client_context(second.file)) == "https nobody"
    finally:
        served.close()
    assert served.said[0].startswith("TLS goes on with the files of before: ")
    assert "TLS uses the files that have changed for new connections" in served.said


def test_files_that_can_not_be_used_are_named_at_the_start(pki: Pki, tmp_path: Path) -> None:
    one, other = pki.issue("one"), pki.issue("other")
    with pytest.raises(TlsFault, match=r"one\.pem and .*other\.key can't be used: they don't belong together"):
        ServerTls(one.cert, other.key).context(print)
    with pytest.raises(TlsFault, match="No such file"):
        ServerTls(one.cert, tmp_path / "none").context(print)
    with pytest.raises(TlsFault, match="has no certificate in PEM"):
        ServerTls(*one, one.key).context(print)


def test_slow_handshakes_end_in_time_and_leave_room_for_others(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_S", 0.5)
    served = Served(ServerTls(*pki.issue("server")), connections_max=16)
    try:
        slow = [served.peer() for _ in range(12)]
        for each in slow:
            with contextlib.suppress(OSError):
                each.sendall(b"\x16\x03\x01")
        began = time.monotonic()
        assert served.ask(client_context(pki.file)) == "https nobody"
        assert time.monotonic() - began < 5
        until(lambda: len(served.server.server_state.connections) == 0)
    finally:
        for each in slow:
            each.close()
        served.close()


def test_what_comes_right_behind_the_handshake_is_answered(site: Served, pki: Pki) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = client_context(pki.file).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with site.peer() as peer:
        while True:
            try:
                made.do_handshake()
                break
            except ssl.SSLWantReadError:
                peer.sendall(outgoing.read())
                incoming.write(peer.recv(65536))
        made.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        peer.sendall(outgoing.read())  # the end of the handshake and the request in one packet
        while True:
            try:
                assert made.read(1000).startswith(b"HTTP/1.1 200")
                return
            except ssl.SSLWantReadError:
                incoming.write(peer.recv(65536))
