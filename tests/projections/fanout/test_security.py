"""librdkafka's security settings mean the same to faust."""

import ssl
from pathlib import Path

import pytest

from events.log.port import LogFault
from projections.fanout.security import credentials
from tests.helpers.broker.security import certify


def test_without_security_there_are_no_credentials() -> None:
    assert credentials({}) is None
    assert credentials({"socket.keepalive.enable": "true"}) is None


def test_names_and_certificates_are_checked_unless_it_is_said_that_they_are_not(tmp_path: Path) -> None:
    made = certify(tmp_path)
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(made.certificate)}
    pem = {"security.protocol": "ssl", "ssl.ca.pem": made.certificate.read_text()}
    for options, names, certificates in (
        (tls, True, ssl.CERT_REQUIRED),
        (pem, True, ssl.CERT_REQUIRED),
        ({**tls, "ssl.endpoint.identification.algorithm": "none"}, False, ssl.CERT_REQUIRED),
        ({**tls, "enable.ssl.certificate.verification": "false"}, False, ssl.CERT_NONE),
    ):
        found = credentials(options)
        assert found is not None
        assert (found.context.check_hostname, found.context.verify_mode) == (names, certificates)
        assert any(
            ("commonName", "127.0.0.1") in part for each in found.context.get_ca_certs() for part in each["subject"]
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "NONSENSE"}, "sasl.mechanism=NONSENSE"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": "-----"}, "ssl.certificate.pem says"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "ssl.*.location name no usable file"),
    ],
)
def test_an_option_that_cant_be_used_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(LogFault) as met:
        credentials(options)
    assert said in str(met.value)
