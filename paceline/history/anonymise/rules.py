"""Rules of text fields: which names their texts are made of, and which words in them stay."""

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from events import override_chunks
from events.abilities import DEVICE, IMAGE, IMAGE_DIGITS, PREFIX, VALUE, is_own
from events.actors import (
    API,
    CERTIFICATE,
    ENVIRONMENT,
    HEADER,
    OF_RUN,
    OIDC,
    RUN,
    SESSION,
    SYSTEM_USER,
    TOKEN,
)
from events.bounds import DIGEST, ISOLATIONS, NETWORKS, STOP_SIGNALS, VALUES_MAX
from events.cell_settings import TYPES, choices
from events.codec import CodecError, decode, encode
from events.codes import Code, JobState, UpdateState
from events.conditions import COMBINED, OPERATORS, meets, values_fault
from events.devices import WITHIN
from events.host_devices import CORE
from events.host_health import Policy
from events.host_pools import KINDS as HOST_POOL_KINDS
from events.id_digests import split
from events.records.base import Event
from events.resources import Unit
from events.roles import ROLES
from events.schedules import schedule_fault
from events.sla import SLA_GROUP as OF_SLA_GROUP
from events.strategies import DEFAULT, STRATEGIES
from events.taints import EFFECTS
from events.topics import EVERY, MACHINES
from events.topology import HOST, LINK_GROUP
from events.words import SEGMENTS
from events.words import WITHIN as WITHIN_ATTRIBUTE
from paceline.history.anonymise import kinds
from paceline.history.anonymise.kinds import Kind
from processors.placement.explain import MARK_NAMES
from processors.placement.neighbours import RULE_NAMES
from processors.placement.states import STAGES, STATES

COMPARED = ("greater", "less", "version", "glob")
"""Operators that look into values."""
HEX_DIGITS = re.compile(rf"[0-9a-f]{{{IMAGE_DIGITS}}}")
_INSTANCES = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
_OF_KIND = re.compile(r"(.+):([0-9]+)")
_CORE = re.compile(rf"{CORE}[0-9]{{1,5}}")
_EVENT_ID = re.compile(rf"[0-9]+/({'|'.join(MACHINES)})/[0-9]+/[0-9]+/[0-9]+")
_USER_WORDS = (
    *("batch", "stateless", "stateful", "daemon", "requeue", "fail", "end", "wait", "keep", "stop_after", "before"),
    *("command", "http", "tcp", "start", "restart", "pause", "resume", "abort", "roll_back", "promote", "hold"),
    *("release", "delete", "move", "preempt", "force", "cordon", "paced", "cheapest", "name", "reboot", "time"),
    *("manual", "create", "update"),
)
_MACHINE_WORDS = (
    *("VOID", "VICTIM_GONE", "NO_RIGHT", "LEFT", "DEFERRED", "STARTED", "ENDED", "SLICE_USED", "GIVEN_UP", "RESERVED"),
    *("PLACED", "IN_VAIN", "WITHDRAWN", "PAUSED", "ABORTING", "ABORTED", "SET", "LEADING", "OPEN", "CLOSED", "MISSED"),
    *("REMOVED", "INITIALIZED", "QUEUED", "ORDERED", "STOPPING", "LOST", "STOPPED", "PREEMPTED", "WITH_GANG"),
    *("SUCCEEDED", "FAILED", "operator", "campaign", "window", "health", "taint", "host-pool"),
    *("NOT_AVRO", "UNKNOWN_SCHEMA", "TRUNCATED", "TRAILING_BYTES", "TOO_LARGE", "BAD_VALUE", "WRONG_TOPIC"),
)
WORDS = frozenset(
    (
        *(*Code, *JobState, *UpdateState, *Unit, *Policy, *STRATEGIES, DEFAULT, *STOP_SIGNALS, *ISOLATIONS, *NETWORKS),
        *(*OPERATORS, *COMBINED, *WITHIN, *HOST_POOL_KINDS, *ROLES, *EFFECTS, *MACHINES, *_USER_WORDS, *_MACHINE_WORDS),
        *(ENVIRONMENT, SYSTEM_USER, HEADER, SESSION, API, TOKEN, OIDC, CERTIFICATE, RUN),
        *(topic.name for topic in EVERY),
        *(word for setting in TYPES for word in choices(setting)),
    )
)
"""All words of Paceline's own that stand in text fields."""

REASONS = frozenset(
    (
        *(each.name for each in (*STATES.values(), *STAGES.values())),
        *(*RULE_NAMES, *MARK_NAMES, "kept for others", "port taken", "spread target"),
    )
)
"""The words for why a host takes no task, resources and attributes aside."""
_DRAINED_BY = {
    "campaign": kinds.CAMPAIGN,
    "window": kinds.WINDOW,
    "health": kinds.CHECK,
    "host-pool": kinds.HOST_POOL,
}
OF_ATTRIBUTE = ("constraint:", WITHIN_ATTRIBUTE, SEGMENTS)
"""They stand before the name of an attribute."""


class Names(Protocol):
    """The names of a log: noted in a first pass, replaced in a second."""

    @property
    def hashes(self) -> Mapping[bytes, bytes]:
        """The hashes of what was rewritten, by those of what stood there."""
        ...

    def of(self, kind: Kind, text: str) -> str:
        """The new name for a text."""
        ...

    def note_value(self, attribute: str, value: str) -> None:
        """Notes that a host has a value of an attribute."""
        ...

    def matches(self, attribute: str, met: Callable[[str], bool]) -> tuple[str, ...]:
        """The values of an attribute that hosts have and that meet a condition, sorted."""
        ...

    def record(self, event: Event) -> Any:
        """A record within another one, rewritten."""
        ...


Rule = Callable[[Names, str, Any], str]
"""Rewrites a text of a field, each one of a list; the last argument is the record that has the field."""


class Pairs(NamedTuple):
    """The rules for keys and texts of a map."""

    keys: Rule
    values: Rule | None = None


class Whole(NamedTuple):
    """The rule for the value of a field as a whole."""

    rewrite: Callable[[Names, Any, Any], Any]


class Derived(NamedTuple):
    """The rule for what a machine makes of names, such as a sentence: it comes with the replay. `rewrite`: where
    another build has decided.
    """

    rewrite: Callable[[Names, Any, Any], Any]


FieldRule = Rule | Pairs | Whole | Derived


def named(kind: Kind) -> Rule:
    """The rule for names of a kind."""
    return lambda names, text, _: names.of(kind, text)


def word(names: Names, text: str, _: Any = None) -> str:
    """A word of Paceline's own stays."""
    return text if text in WORDS else names.of(kinds.WORD, text)


def words(names: Names, text: str, _: Any) -> str:
    """Words with commas between them."""
    return ",".join(word(names, each) for each in text.split(","))


def job(names: Names, text: str, _: Any = None) -> str:
    """A job, or a group of jobs where an answer names one in its place."""
    if text.startswith(OF_SLA_GROUP):
        return OF_SLA_GROUP + names.of(kinds.SLA_GROUP, text.removeprefix(OF_SLA_GROUP))
    return names.of(kinds.JOB, text)


def pool(names: Names, text: str, _: Any = None) -> str:
    """The path of a pool, name by name."""
    return "/".join(names.of(kinds.POOL, each) for each in text.split("/"))


def attribute(names: Names, text: str, _: Any = None) -> str:
    """An attribute of hosts; those of agents may end with the path of a device or with digits of an image."""
    if text.startswith(f"{DEVICE}/"):
        return DEVICE + names.of(kinds.DEVICE_FILE, text.removeprefix(DEVICE))
    if text.startswith(f"{IMAGE}/"):
        return f"{IMAGE}/{image_digits(names, text.removeprefix(f'{IMAGE}/'))}"
    if is_own(text) and text not in kinds.ATTRIBUTE.fixed:  # of a newer agent
        return PREFIX + names.of(kinds.ATTRIBUTE, text.removeprefix(PREFIX))
    return names.of(kinds.ATTRIBUTE, text)


def value_of(names: Names, of: str, text: str) -> str:
    """A value of an attribute."""
    if of in (HOST, "hostname"):
        return names.of(kinds.HOST_ID, text)
    return text if is_own(of) and text == VALUE else names.of(kinds.VALUE, text)


def offered(names: Names, values: dict[str, str], _: Any) -> dict[str, str]:
    """The attributes of a host."""
    for name, value in values.items():
        names.note_value(name, value)
    return {attribute(names, name): value_of(names, name, value) for name, value in values.items()}


def _looks_into(constraint: Any) -> bool:
    return constraint.operator in COMPARED and not values_fault(constraint.operator, constraint.values)


def operator(names: Names, text: str, constraint: Any) -> str:
    """An operator; those that look into values are met by a list of names."""
    return "glob" if _looks_into(constraint) else word(names, text)


def condition_values(names: Names, values: tuple[str, ...], constraint: Any) -> tuple[str, ...]:
    """The values of a condition; where its operator looks into them, a name of its own, and the values that hosts have
    and that meet it.
    """
    of = constraint.attribute
    if not _looks_into(constraint):
        return tuple(value_of(names, of, each) for each in values)
    own = names.of(kinds.PATTERN, "\0".join((constraint.operator, *values)))
    met = names.matches(of, lambda value: meets(constraint, value))
    return (own, *(value_of(names, of, each) for each in met))[:VALUES_MAX]


def reasons(names: Names, counts: dict[str, int], _: Any) -> dict[str, int]:
    """Counts of hosts by reason: a resource, a condition on an attribute, or words."""
    return {_reason(names, text): count for text, count in counts.items()}


def _reason(names: Names, text: str) -> str:
    what, sign, of = text.partition(":")
    if sign and f"{what}:" in OF_ATTRIBUTE:
        combined = of.startswith("(")
        return f"{what}:{names.of(kinds.TEXT, of) if combined else attribute(names, of)}"
    return text if text in REASONS else names.of(kinds.RESOURCE, text)


def targets(names: Names, values: tuple[Any, ...], rules: Any) -> tuple[Any, ...]:
    """Shares of the values of the attribute that tasks are spread over."""
    return tuple(replace(each, value=value_of(names, rules.spread_over, each.value)) for each in values)


def groups(names: Names, values: tuple[Any, ...], unplaced: Any) -> tuple[Any, ...]:
    """Groups of hosts at a level: by a value, a host, or a host and a link group."""
    return tuple(replace(each, value=_group(names, each.value, unplaced.level)) for each in values)


def _group(names: Names, text: str, level: str) -> str:
    if level != LINK_GROUP:
        return value_of(names, level, text)
    host, space, group = text.partition(" ")
    return names.of(kinds.HOST_ID, host) + space + names.of(kinds.LINKED, group)


def toleration(names: Names, text: str, _: Any = None) -> str:
    """KEY or KEY=VALUE."""
    key, sign, value = text.partition("=")
    return names.of(kinds.TAINT, key) + sign + names.of(kinds.TAINT_VALUE, value)


def device(names: Names, text: str, _: Any) -> str:
    """A device of a host, a core, or a device of which only the kind is known; several with commas between them."""
    return ",".join(_device(names, each) for each in text.split(","))


def _device(names: Names, text: str) -> str:
    if _CORE.fullmatch(text):
        return text
    if match := _OF_KIND.fullmatch(text):
        return f"{names.of(kinds.RESOURCE, match[1])}:{match[2]}"
    return names.of(kinds.DEVICE_ID, text)


def drained_by(names: Names, text: str, changed: Any) -> str:
    """The campaign, window, condition, taint or host pool that a host is drained for."""
    if changed.by == "taint":
        return toleration(names, text)
    return names.of(_DRAINED_BY.get(changed.by, kinds.TEXT), text)


def user(names: Names, text: str, _: Any = None) -> str:
    """A user, or a run that acts as one."""
    if match := OF_RUN.fullmatch(text):
        return f"job/{names.of(kinds.JOB, match[1])}/task/{match[2]}/run/{match[3]}"
    return names.of(kinds.USER, text)


def credential(names: Names, text: str, actor: Any) -> str:
    """The proof of the name of an actor."""
    if actor.how == TOKEN:
        return names.of(kinds.TOKEN, text)
    return user(names, text) if OF_RUN.fullmatch(text) else names.of(kinds.CREDENTIAL, text)


def image_digits(names: Names, text: str, _: Any = None) -> str:
    """The digits by which hosts tell an image."""
    return names.of(kinds.IMAGE_DIGITS if HEX_DIGITS.fullmatch(text) else kinds.TEXT, text)


def image_digest(names: Names, text: str, _: Any) -> str:
    """The digest of an image, sha256:HEX: its first digits are those by which hosts tell it."""
    if not DIGEST.fullmatch(text):
        return names.of(kinds.TEXT, text)
    scheme, _, digits = text.partition(":")
    first, rest = digits[:IMAGE_DIGITS], digits[IMAGE_DIGITS:]
    return f"{scheme}:{names.of(kinds.IMAGE_DIGITS, first)}{names.of(kinds.IMAGE_REST, rest)}"


def schedule(names: Names, text: str, _: Any) -> str:
    """Times of a window, in numbers and names of days: they stay, as all times do."""
    return names.of(kinds.TEXT, text) if schedule_fault(text) else text


def instances(names: Names, text: str, _: Any) -> str:
    """Numbers of instances."""
    return text if _INSTANCES.fullmatch(text) else names.of(kinds.TEXT, text)


def event_id(names: Names, text: str, _: Any) -> str:
    """The position of a decision."""
    return text if _EVENT_ID.fullmatch(text) else names.of(kinds.TEXT, text)


def opaque(names: Names, value: bytes, _: Any = None) -> bytes:
    """Another hash or key of as many bytes."""
    text = names.of(kinds.HASH, value.hex())
    return bytes.fromhex(text.zfill(max(2 * len(value), len(text) + len(text) % 2)))


def content_hash(names: Names, value: bytes, _: Any = None) -> bytes:
    """The hash of content that was rewritten."""
    return names.hashes.get(value) or opaque(names, value)


def content_hashes(names: Names, values: tuple[bytes, ...], _: Any) -> tuple[bytes, ...]:
    """Hashes of content that was rewritten."""
    return tuple(content_hash(names, each) for each in values)


def job_digests(names: Names, value: bytes, _: Any) -> bytes:
    """Digests of names of jobs, one after another."""
    return b"".join(content_hash(names, each) for each in split(value))


def spec(names: Names, value: bytes, _: Any) -> bytes:
    """An encoded record; what is none becomes none."""
    try:
        return encode(names.record(decode(value)))
    except (CodecError, ValueError):
        return b""


def chunk(names: Names, value: bytes, _: Any) -> bytes:
    """Overrides of a job, compressed; what is none becomes none."""
    overrides = override_chunks.read(value)
    return b"" if overrides is None else zlib.compress(encode(names.record(overrides)))


def dropped(_names: Names, _value: Any, _: Any) -> Any:
    """Nothing, in place of a text."""
    return ""


def unsigned(_names: Names, _value: bytes, _: Any) -> bytes:
    """No signature: what was signed is another text now."""
    return b""


def kept(_names: Names, value: Any, _: Any) -> Any:
    """Hashes and decisions of rounds, which come with the round itself."""
    return value
