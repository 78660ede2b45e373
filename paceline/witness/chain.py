"""Checks published heads against a key: signatures, the chain of heads, and changes of keys."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paceline.witness.alarms import Alarmed, Finding
from paceline.witness.head import SignedHead
from paceline.witness.notes import PublicKey
from paceline.witness.published import Heads, Published, forked, no_heads


@dataclass(slots=True)
class CheckedChain:
    """The result: how many heads were looked at, the first and the newest, and the keys that have signed them in their
    order. `finding`: the first thing that is wrong; then the newest is the last one before it.
    """

    count: int = 0
    first: SignedHead | None = None
    newest: SignedHead | None = None
    keys: list[PublicKey] = field(default_factory=list)
    finding: Finding | None = None


def check_chain(heads: Heads, cell: int, trust: PublicKey) -> CheckedChain:
    """Follows the chain of heads from the first to the newest. Those before the first one that `trust` has signed are
    believed for the sake of the later ones, which have their hashes. Raises `PacelineError` where there are none.
    """
    numbers = heads.numbers()
    if not numbers:
        raise no_heads(heads, cell)
    result = CheckedChain()
    try:
        for each in _followed(heads.read_all(numbers), trust, result):
            result.count += 1
            result.first = result.first or each.head
            result.newest = each.head
    except Alarmed as alarmed:
        result.finding = alarmed.finding
    return result


def _followed(heads: Iterable[Published], trust: PublicKey, result: CheckedChain) -> Iterator[Published]:
    key: PublicKey | None = None
    before: SignedHead | None = None
    last: Published | None = None
    for each in heads:
        head = each.head
        if before is not None:
            _continues(before, head)
        if key is None and each.note.is_signed_by(trust):
            key = trust
            result.keys.append(key)
        if key is not None:
            key = _next_key(each, key, result)
        before, last = head, each
        yield each
    if key is None and last is not None:
        signers = ", ".join(f"{each.name}+{each.id.hex()}" for each in last.note.signatures) or "nobody"
        raise Alarmed(
            forked(last.head.number, f"no head is signed by {trust}; head {last.head.number} is by {signers}")
        )


def _continues(before: SignedHead, head: SignedHead) -> None:
    """Raises `Alarmed` where a head doesn't follow the one before."""
    number = head.number
    if number != before.number + 1:
        missing = (
            f"head {before.number + 1} is"
            if number == before.number + 2
            else f"heads {before.number + 1} to {number - 1} are"
        )
        raise Alarmed(forked(number, f"{missing} missing"))
    if head.before != before.hash:
        raise Alarmed(forked(number, f"head {number} follows another head {before.number}"))
    if (head.cell, head.log) != (before.cell, before.log):
        raise Alarmed(forked(number, f"head {number} is of another log"))
    if head.at_ms < before.at_ms:
        raise Alarmed(forked(number, f"head {number} is of an earlier time than head {before.number}"))
    for name, at in before.machines.items():
        now = head.machines.get(name)
        if now is None or now.round < at.round or (now.round == at.round and now.hash != at.hash):
            raise Alarmed(forked(number, f"head {number} takes back round {at.round} of {name}"))


def _next_key(each: Published, key: PublicKey, result: CheckedChain) -> PublicKey:
    """The key that signs the next head. Raises `Alarmed` where the one that must hasn't signed this one."""
    number, following = each.head.number, each.head.key
    if not each.note.is_signed_by(key):
        raise Alarmed(forked(number, f"head {number} isn't signed by {key}"))
    if following is None or following == key:
        return key
    if not each.note.is_signed_by(following):
        raise Alarmed(forked(number, f"head {number} names the key {following}, which hasn't signed it"))
    result.keys.append(following)
    return following
