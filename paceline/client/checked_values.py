"""Checks what a request is made of, ids and the address of a server, before anything is sent."""

import re
from urllib.parse import quote, urlsplit

from paceline.client.errors import InvalidValue

ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}")
"""Ids as `events.bounds` has them, which a client of its own doesn't import."""
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?|\[[0-9A-Fa-f:.]+(%25?[A-Za-z0-9._-]+)?\]"
)
PORT = 7117
"""The port of the API, where a server is named without one; that of `paceline.services.processes`."""
_PORT = re.compile(r"[0-9]{1,5}")
_NAMED = {"jobs": "job", "hosts": "host", "secrets": "secret"}


def path_of(*parts: str) -> str:
    """The path of what these parts name, such as "jobs" and an id. Raises `InvalidValue` for what can be no id."""
    if len(parts) > 1 and (what := _NAMED.get(parts[0])) and not ID.fullmatch(parts[1]):
        raise InvalidValue(
            f"{_shown(parts[1])} is no id of a {what}: an id has 1 to 128 letters, digits, dots, dashes and underscores"
        )
    return "/v1/" + "/".join(map(_quoted, parts))


def pool_path(path: str, noun: str = "pools") -> str:
    """The path of a pool. Raises `InvalidValue` for what can be no path of one."""
    names = path.strip("/")
    return f"/v1/{noun}/" + "/".join(map(_quoted, names.split("/") if names else ()))


def _quoted(part: str) -> str:
    if not part:
        raise InvalidValue("the name is empty")
    if part in (".", "..") or "/" in part or any(ord(each) < ord(" ") for each in part):
        raise InvalidValue(f"{_shown(part)} is no name of anything")
    try:
        return quote(part, safe="")
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{_shown(part)} is no text in UTF-8") from error


def _shown(text: str) -> str:
    """A text as an error may show it: quoted, and not too long."""
    return repr(text) if len(text) <= 130 else f"{text[:60]!r}..."


def server_url(address: str) -> str:
    """The URL of a server that is named by HOST, HOST:PORT or a URL. Raises `InvalidValue`."""
    url = address if "://" in address else f"http://{address}"
    scheme, _, rest = url.partition("://")
    place = rest.partition("/")[0]
    host, colon, port = place.rpartition(":") if not place.endswith("]") and ":" in place else (place, "", "")
    right_port = not colon or (_PORT.fullmatch(port) and 0 < int(port) < 65536)
    if scheme not in ("http", "https") or not _HOST.fullmatch(host) or not right_port or not _whole(url):
        raise InvalidValue(
            f"{_shown(address)} is no address of a server: write HOST:PORT, such as 127.0.0.1:7117 or [::1]:7117, or a "
            "URL, such as https://cell.example.org"
        )
    return url if colon or "://" in address or rest != place else f"{url}:{PORT}"


def _whole(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return url.isascii() and url.isprintable() and " " not in url and not parts.query and not parts.fragment
