"""Bindings and tokens as they stood at each position of paceline.pools, folded from the facts that entitlement took."""

from bisect import bisect_right
from dataclasses import dataclass, field

from events.cell_settings import DEFAULTS
from events.records.base import Event
from events.records.pools import CellConfigured, PoolRemoved, RoleBound, RoleUnbound, TokenIssued, TokenRevoked
from events.signatures import Keys


@dataclass
class Span:
    """From where to where something held. `end`: the offset of the fact that ended it; None: none did. `end_ms`: when
    it ended, by that fact or by itself; 0: it didn't.
    """

    offset: int
    end: int | None = None
    end_ms: int = 0

    def ended(self, offset: int, at_ms: int) -> None:
        """Takes the fact that ends it."""
        self.end = offset
        self.end_ms = min(self.end_ms or at_ms, at_ms)


@dataclass
class HeldRole(Span):
    """A role that somebody had."""

    binding_id: str = ""
    subject: str = ""
    group: str = ""
    role: str = ""
    pool: str = ""
    from_ms: int = 0


@dataclass
class HeldToken(Span):
    """A token that proved a subject."""

    subject: str = ""
    groups: tuple[str, ...] = ()
    public_key: bytes = b""


@dataclass
class AccessHistory:
    """All of it. `roles`: by the offset of the fact; `start`, `end`: of the log of pools."""

    start: int = 0
    end: int = 0
    roles: dict[int, HeldRole] = field(default_factory=dict)
    _present: dict[str, HeldRole] = field(default_factory=dict)
    _tokens: dict[str, list[HeldToken]] = field(default_factory=dict)
    """By id, in their order: an id is free again once its token has ended."""
    _keys: list[Keys] = field(default_factory=lambda: [Keys()])
    _keys_from: list[int] = field(default_factory=lambda: [0])
    _late_from: list[int] = field(default_factory=lambda: [0])
    _late_after: list[int] = field(default_factory=lambda: [DEFAULTS.late_after_ms])

    def apply(self, offset: int, at_ms: int, fact: Event) -> None:
        """Takes a fact that entitlement has carried out."""
        match fact:
            case RoleBound():
                self._end(fact.binding_id, offset, at_ms)
                role = HeldRole(offset, None, fact.until_ms, fact.binding_id, fact.subject, fact.group, fact.role)
                role.pool, role.from_ms = fact.pool, fact.from_ms
                self.roles[offset] = self._present[fact.binding_id] = role
            case RoleUnbound():
                self._end(fact.binding_id, offset, at_ms)
            case TokenIssued():
                token = HeldToken(offset, None, fact.until_ms, fact.subject, fact.groups, fact.public_key)
                self._tokens.setdefault(fact.token_id, []).append(token)
            case TokenRevoked():
                if fact.token_id in self._tokens:
                    self._tokens[fact.token_id][-1].ended(offset, at_ms)
            case PoolRemoved():
                for role in [role for role in self._present.values() if role.pool == fact.path]:
                    self._end(role.binding_id, offset, at_ms)
            case CellConfigured() if fact.late_after_ms is not None:
                self._late_from.append(at_ms)
                self._late_after.append(fact.late_after_ms)

    def token(self, token_id: str, read_to: int | None) -> HeldToken | None:
        """The token of an id to who has read so far, else the first that got it; None: none ever did."""
        tokens = self._tokens.get(token_id, [])
        before = [each for each in tokens if read_to is None or each.offset <= read_to]
        return before[-1] if before else next(iter(tokens), None)

    def learn(self, at_ms: int, fact: Event) -> None:
        """Takes what a fact says of keys, whatever entitlement said of it."""
        if (isinstance(fact, TokenIssued) and fact.public_key) or isinstance(fact, TokenRevoked):
            keys = Keys(self._keys[-1].by_key, self._keys[-1].has_root)
            keys.take(fact, at_ms)
            self._keys.append(keys)
            self._keys_from.append(at_ms)

    def keys(self, at_ms: int) -> Keys:
        """The keys that vouched for facts of that time."""
        return self._keys[bisect_right(self._keys_from, at_ms) - 1]

    def _end(self, binding_id: str, offset: int, at_ms: int) -> None:
        role = self._present.pop(binding_id, None)
        if role is not None:
            role.ended(offset, at_ms)

    def late_after_ms(self, at_ms: int) -> int:
        """The setting `late_after` at a time."""
        return self._late_after[bisect_right(self._late_from, at_ms) - 1]
