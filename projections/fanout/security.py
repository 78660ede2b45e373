"""librdkafka's security settings as faust, that is aiokafka, wants them."""

import ssl
from collections.abc import Mapping

import faust

from events.log.port import LogFault

KNOWN = (
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
)
"""Options of librdkafka that are understood; ignoring another one would leave the fan-out less secure, or unable to
connect.
"""


def credentials(options: Mapping[str, str]) -> faust.SASLCredentials | faust.SSLCredentials | None:
    """The value for faust's `broker_credentials`; None: no security. Raises `LogFault` where an option is wrong."""
    if unknown := sorted(name for name in options if name.startswith(("ssl.", "sasl.")) and name not in KNOWN):
        raise LogFault(f"The fan-out can't do what the Kafka option {unknown[0]} says; it knows {', '.join(KNOWN)}.")
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    context = _context(options) if protocol.endswith("SSL") else None
    if protocol.startswith("SASL"):
        mechanism = options.get("sasl.mechanism") or options.get("sasl.mechanisms", "")
        try:
            return faust.SASLCredentials(
                username=options.get("sasl.username"),
                password=options.get("sasl.password"),
                ssl_context=context,
                mechanism=mechanism,
            )
        except ValueError as error:
            raise LogFault(f"The fan-out doesn't know the Kafka option sasl.mechanism={mechanism}.") from error
    return faust.SSLCredentials(context) if context else None


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl.ca.location"), cadata=options.get("ssl.ca.pem"))
        if options.get("ssl.endpoint.identification.algorithm") == "none":
            context.check_hostname = False
        if options.get("enable.ssl.certificate.verification", "true").lower() == "false":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if "ssl.certificate.location" in options:
            context.load_cert_chain(
                options["ssl.certificate.location"], options.get("ssl.key.location"), options.get("ssl.key.password")
            )
    except OSError as error:
        raise LogFault(f"The Kafka options ssl.*.location name no usable file: {error}.") from error
    return context
