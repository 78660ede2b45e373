"""Checks the answers to facts about roles and tokens: each has one, and is done if and only if it may be."""

from typing import NamedTuple

from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.pools import PoolDefined, PoolRemoved, RoleBound, RoleUnbound, TokenIssued, TokenRevoked
from paceline.simulate.checker.history import History, Round, Violation

Judged = RoleBound | RoleUnbound | TokenIssued | TokenRevoked


class Grant(NamedTuple):
    """A binding or a token that was answered DONE."""

    fact: RoleBound | TokenIssued
    until_ms: int


class Access:
    """Follows the answers of entitlement. Knows facts alone, and looks at all that holds."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._pools = {"/"}
        self._live: dict[tuple[type[Event], str], Grant] = {}
        self._commands: set[str] = set()
        self._waiting: set[int] = set()
        """Facts that have no answer yet, by offset."""

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        self._waiting |= {offset for _, offset, event, _ in round_.inputs if isinstance(event, Judged)}
        for event in round_.decisions:
            if isinstance(event, PoolAnswered):
                self._answered(event, round_)

    def settled(self) -> None:
        """Nothing more is to be answered. Raises `Violation`."""
        if self._waiting:
            raise Violation(f"paceline.pools:{min(self._waiting)} has no answer")

    def _answered(self, event: PoolAnswered, round_: Round) -> None:
        fact = self._history.fact("paceline.pools", event.pools_offset)
        if isinstance(fact, Judged):
            self._judge(fact, event, round_)
        if event.code == "DONE":
            self._commands.add(event.command_id)
            if isinstance(fact, PoolDefined):
                self._pools.add(fact.path)
            elif isinstance(fact, PoolRemoved):
                self._pools.discard(fact.path)
                self._live = {key: each for key, each in self._live.items() if _pool_of(each.fact) != fact.path}

    def _judge(self, fact: Judged, event: PoolAnswered, round_: Round) -> None:
        if event.pools_offset not in self._waiting:
            raise Violation(f"{round_} answers paceline.pools:{event.pools_offset} which isn't open")
        self._waiting.discard(event.pools_offset)
        expected = self._expected(fact, round_.now_ms)
        if event.code != expected:
            raise Violation(f"{round_} answers {fact} with {event.code}, not {expected}")
        if event.code != "DONE":
            return
        match fact:
            case RoleBound() | TokenIssued():
                self._live[_key(fact)] = Grant(fact, fact.until_ms)
            case _:
                self._live.pop(_key(fact))

    def _expected(self, fact: Judged, now_ms: int) -> str:
        """The code that a fact of a trial is answered with: its words and numbers are within their bounds."""
        if fact.command_id in self._commands:
            return "REPEATED"
        live = self._live.get(_key(fact))
        holds = live is not None and (not live.until_ms or now_ms < live.until_ms)
        match fact:
            case RoleUnbound():
                return "DONE" if holds else "NO_SUCH_BINDING"
            case TokenRevoked():
                return "DONE" if holds else "NO_SUCH_TOKEN"
            case RoleBound() if fact.pool not in self._pools:
                return "NO_SUCH_POOL"
        if 0 < fact.until_ms <= now_ms:
            return "INVALID_ACCESS"
        if live is not None and holds:
            same = _content(live.fact) == _content(fact)
            return "REPEATED" if same else "DONE" if isinstance(fact, RoleBound) else "INVALID_ACCESS"
        return "DONE"


def _key(fact: Judged) -> tuple[type[Event], str]:
    if isinstance(fact, RoleBound | RoleUnbound):
        return RoleBound, fact.binding_id
    return TokenIssued, fact.token_id


def _pool_of(fact: RoleBound | TokenIssued) -> str:
    return fact.pool if isinstance(fact, RoleBound) else ""


def _content(fact: RoleBound | TokenIssued) -> tuple[object, ...]:
    if isinstance(fact, RoleBound):
        return fact.subject, fact.group, fact.role, fact.pool, fact.from_ms, fact.until_ms
    return fact.subject, fact.groups, fact.token_hash, fact.public_key, fact.until_ms
