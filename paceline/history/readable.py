"""Records for people: columns as lists of numbers, digests in hexadecimal, decisions of rounds decoded."""

from events.codec import CodecError, decode
from paceline.client.json_type import Json
from projections.record_json import whole


def readable(data: bytes) -> Json:
    """The record in bytes, its name under `event`; where they are none, what is wrong with them."""
    try:
        event = decode(data)
        return {"event": type(event).__name__, **whole(event)}
    except CodecError as error:
        return {"event": None, "code": error.code, "bytes": data.hex()}
