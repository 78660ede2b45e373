"""Decides about bindings, tokens and lockdowns: facts are answered by its rules, and followed once they are.

They stand beside the pools, so that each has a position in their topic and ends by log time (decision 099). Nothing
else in entitlement looks at them.
"""

from typing import Any, Protocol

from events.actors import SUBJECT_MAX
from events.bounds import BINDINGS_MAX, DESCRIPTION_MAX, LABELS_MAX, NAME, TIME_MAX_MS, TOKENS_MAX, WORD_MAX
from events.codes import Code
from events.roles import ROLES
from events.unsafe_text import name_fault
from processors.entitlement.access_rows import (
    AccessFact,
    BindingRow,
    BoundRow,
    IssuedRow,
    LockdownRow,
    LockedRow,
    RevokedRow,
    TokenRow,
    UnboundRow,
    binding_row,
    token_row,
)
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

KEY_BYTES = 32
"""Bytes of a hash of a token, and of a public key."""
Verdict = tuple[Code, str]


class Cells(Protocol):
    """The pools that the cell knows."""

    cell: int

    def cell_of(self, path: str) -> int | None:
        """The cell of a pool; None: there is none of that path, or it is the root."""
        ...


class Access:
    """Bindings and tokens by their ids, lockdowns by their pools."""

    def __init__(self) -> None:
        self.bindings: Table[str, BindingRow] = struct_table("bindings", BindingRow)
        self.tokens: Table[str, TokenRow] = struct_table("tokens", TokenRow)
        self.lockdowns: Table[str, LockdownRow] = struct_table("lockdowns", LockdownRow)
        self.ends: Deadlines[tuple[str, str]] = Deadlines()
        """The ends of rows that have one, by table and key."""

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All of its tables."""
        return self.bindings, self.tokens, self.lockdowns

    def restored(self) -> None:
        """The tables were loaded."""
        timed = (self.bindings, self.tokens)
        self.ends.restore(
            ((table.name, key), row.until_ms) for table in timed for key, row in table.items() if row.until_ms
        )

    def copy(self) -> "Access":
        """A copy to try facts on."""
        copied = Access()
        for table, rows in zip(copied.tables, self.tables, strict=True):
            table.update(rows)
        return copied

    def expire(self, now: int) -> None:
        """Drops what has ended by itself."""
        for name, key in self.ends.due(now):
            self._end(self.bindings if name == self.bindings.name else self.tokens, key)

    def path_of(self, fact: AccessFact) -> str:
        """The pool that a fact is about, as its answer names it."""
        match fact:
            case BoundRow(pool=pool) | LockedRow(pool=pool):
                return pool
            case UnboundRow(binding_id=key) if key in self.bindings:
                return self.bindings[key].pool
        return "/"

    def judge(self, fact: AccessFact, pools: Cells, now: int) -> Verdict:
        """Whether a fact may be done, at a time of the log."""
        match fact:
            case BoundRow():
                return self._bound(fact, pools, now)
            case UnboundRow(binding_id=key):
                if (binding := self.bindings.get(key)) is None or is_over(binding, now):
                    return Code.NO_SUCH_BINDING, f"there is no binding {key[:WORD_MAX]!r}"
            case IssuedRow():
                return self._issued(fact, now)
            case RevokedRow(token_id=key):
                if (token := self.tokens.get(key)) is None or is_over(token, now):
                    return Code.NO_SUCH_TOKEN, f"there is no token {key[:WORD_MAX]!r}"
            case LockedRow():
                return self._locked(fact, pools)
        return Code.DONE, ""

    def take(self, offset: int, fact: AccessFact) -> None:
        """Follows a fact that was answered DONE."""
        match fact:
            case BoundRow(binding_id=key):
                self.bindings.put(key, binding_row(offset, fact))
                self.ends.set((self.bindings.name, key), fact.until_ms or None)
            case UnboundRow(binding_id=key):
                self._end(self.bindings, key)
            case IssuedRow(token_id=key):
                self.tokens.put(key, token_row(offset, fact))
                self.ends.set((self.tokens.name, key), fact.until_ms or None)
            case RevokedRow(token_id=key):
                self._end(self.tokens, key)
            case LockedRow(locked=True):
                self.lockdowns.put(fact.pool, LockdownRow(offset, fact.reason))
            case LockedRow():
                self.lockdowns.remove(fact.pool)

    def pool_removed(self, path: str) -> None:
        """Ends what was said of a pool with it: a pool that gets the same path later belongs to others."""
        for key in [key for key, row in self.bindings.items() if row.pool == path]:
            self._end(self.bindings, key)
        if path in self.lockdowns:
            self.lockdowns.remove(path)

    def _end(self, table: Table[str, Any], key: str) -> None:
        table.remove(key)
        self.ends.clear((table.name, key))

    def _bound(self, fact: BoundRow, pools: Cells, now: int) -> Verdict:
        if fault := _id_fault("binding_id", fact.binding_id) or _holder_fault(fact):
            return Code.INVALID_ACCESS, fault
        if fact.role not in ROLES:
            return Code.INVALID_ACCESS, f"role is {fact.role[:40]!r}, it must be one of {', '.join(ROLES)}"
        if fact.pool != "/" and pools.cell_of(fact.pool) is None:
            return Code.NO_SUCH_POOL, f"there is no pool {fact.pool[:200]}"
        if fault := _times_fault(fact.from_ms, fact.until_ms, now):
            return Code.INVALID_ACCESS, fault
        old = self.bindings.get(fact.binding_id)
        if old is None and len(self.bindings) >= BINDINGS_MAX:
            return Code.INVALID_ACCESS, f"the cell has {BINDINGS_MAX} bindings, more aren't allowed; unbind one first"
        if old is not None and binding_row(old.offset, fact) == old:
            return Code.REPEATED, "the role is bound like this already"
        return Code.DONE, ""

    def _issued(self, fact: IssuedRow, now: int) -> Verdict:
        if fault := _id_fault("token_id", fact.token_id) or name_fault("subject", fact.subject, SUBJECT_MAX):
            return Code.INVALID_ACCESS, fault
        if len(fact.groups) > LABELS_MAX:
            return Code.INVALID_ACCESS, f"{len(fact.groups)} groups are named, at most {LABELS_MAX} are allowed"
        for group in fact.groups:
            if fault := name_fault("a group", group, WORD_MAX):
                return Code.INVALID_ACCESS, fault
        if sorted((len(fact.token_hash), len(fact.public_key))) != [0, KEY_BYTES]:
            return Code.INVALID_ACCESS, f"either token_hash or public_key must have {KEY_BYTES} bytes, the other none"
        if fault := _times_fault(0, fact.until_ms, now):
            return Code.INVALID_ACCESS, fault
        old = self.tokens.get(fact.token_id)
        if old is not None and not is_over(old, now):
            if token_row(old.offset, fact) == old:
                return Code.REPEATED, "the token is there already"
            return Code.INVALID_ACCESS, f"there is another token {fact.token_id}; revoke it first"
        if old is None and len(self.tokens) >= TOKENS_MAX:
            return Code.INVALID_ACCESS, f"the cell has {TOKENS_MAX} tokens, more aren't allowed; revoke one first"
        return Code.DONE, ""

    def _locked(self, fact: LockedRow, pools: Cells) -> Verdict:
        if fact.pool != "/" and (cell := pools.cell_of(fact.pool)) != pools.cell:
            if cell is None:
                return Code.NO_SUCH_POOL, f"there is no pool {fact.pool[:200]}"
            return Code.WRONG_CELL, f"{fact.pool} belongs to cell {cell}, which locks it down"
        if len(fact.reason) > DESCRIPTION_MAX:
            fault = f"the reason has {len(fact.reason)} characters, at most {DESCRIPTION_MAX} are allowed"
            return Code.INVALID_ACCESS, fault
        old = self.lockdowns.get(fact.pool)
        if not fact.locked and old is None:
            return Code.REPEATED, "it isn't locked down"
        if fact.locked and old is not None and old.reason == fact.reason:
            return Code.REPEATED, "it is locked down already"
        return Code.DONE, ""


def is_over(row: BindingRow | TokenRow, now: int) -> bool:
    """Whether it has ended by itself; it is dropped when the machine wakes for that."""
    return 0 < row.until_ms <= now


def _id_fault(what: str, name: str) -> str:
    if NAME.fullmatch(name):
        return ""
    return f"{what} is {name[:40]!r}, it must have 1 to 128 letters, digits, dots, underscores and dashes"


def _holder_fault(fact: BoundRow) -> str:
    if bool(fact.subject) == bool(fact.group):
        return "either subject or group must be named, not both"
    if fact.subject:
        return name_fault("subject", fact.subject, SUBJECT_MAX)
    return name_fault("group", fact.group, WORD_MAX)


def _times_fault(from_ms: int, until_ms: int, now: int) -> str:
    for name, at in (("from", from_ms), ("until", until_ms)):
        if not 0 <= at <= TIME_MAX_MS:
            return f"{name}_ms is {at}, it must be 0 to {TIME_MAX_MS}"
    if until_ms and until_ms <= from_ms:
        return "until must be later than from"
    return "until is in the past already" if 0 < until_ms <= now else ""
