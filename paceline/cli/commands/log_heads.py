"""Heads of a witness, as `paceline log verify` compares a log with them."""

from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from paceline.client.json_type import Json
from paceline.output import say

if TYPE_CHECKING:
    from events.log.port import Log
    from paceline.witness.alarms import Finding
    from paceline.witness.chain import CheckedChain
    from paceline.witness.notes import PublicKey
    from processors.runtime.replay import Difference


class ComparedHeads(NamedTuple):
    """The chain of heads, the first thing that is wrong with it or with the log, and the rounds that the log has since
    the newest head. The log begins after that in the topics `lacking`: there it isn't compared; and after so many
    `older` heads.
    """

    chain: "CheckedChain"
    finding: "Finding | None"
    since: int
    lacking: list[str]
    older: int

    @property
    def difference(self) -> "Difference | None":
        """The first thing that is wrong, as a verification tells it."""
        if self.finding is None:
            return None
        return replace(self.finding.difference, reason=f"{self.finding.alarm}: {self.finding.difference.reason}")

    def body(self) -> Json:
        """As JSON has it."""
        chain, finding = self.chain, self.finding
        return {
            "heads": chain.count,
            "first": chain.first.number if chain.first else None,
            "newest": chain.newest.number if chain.newest else None,
            "newest_at": chain.newest.time if chain.newest else None,
            "keys": [str(each) for each in chain.keys],
            "rounds_since": self.since,
            "not_compared": self.lacking,
            "older_not_held": self.older,
            "alarm": finding.alarm.value if finding else None,
        }

    def print(self) -> None:
        """The chain for people; what differs is said elsewhere."""
        chain = self.chain
        if chain.first is None or chain.newest is None:
            return
        keys = ", then ".join(f"{each.name}+{each.id.hex()}" for each in chain.keys)
        signed = f"are signed by {keys}" if keys else "are signed by no key that is trusted"
        good = "" if chain.finding is None else " before what is wrong"
        say(f"heads {chain.first.number} to {chain.newest.number}{good} {signed}, each after the one before")
        applied = [f"{name} before {at.first}" for name, at in chain.newest.machines.items() if at.first > 1]
        if applied:
            say(f"the witness has applied only, not decided, rounds of {', '.join(applied)}")
        if self.older:
            say(
                f"the log begins after {self.older} older head{'s' * (self.older > 1)}: "
                "of those the chain alone is checked"
            )
        if self.finding is None and self.lacking:
            say(
                f"head {chain.newest.number} of {chain.newest.time} can't be compared: the log begins after it in "
                f"{', '.join(self.lacking)}. Name the archive of the log (PACELINE_ARCHIVE, or `archive` in the "
                "settings), or restore its records."
            )
        elif self.finding is None:
            say(f"head {chain.newest.number} of {chain.newest.time} fits the log, which has {self.since} rounds more")


def trusted_key(text: str) -> "PublicKey":
    """The public key that an option names: itself, or a file with it. What is in the file isn't shown: it may be a
    secret.
    """
    from paceline.witness.notes import NoteFault, PublicKey

    if not text.strip():
        raise click.BadParameter("it is empty: name the public key of the witness", param_hint="--trust")
    file = None if "+" in text and not Path(text).is_file() else Path(text)
    try:
        return PublicKey.parse(text if file is None else file.read_text(errors="replace"))
    except OSError as error:
        raise click.BadParameter(f"{text}: {error.strerror}", param_hint="--trust") from error
    except NoteFault as fault:
        what = "what is given" if file is None else file
        raise click.BadParameter(f"{what} is no public key of a witness: {fault}", param_hint="--trust") from fault


def compare_heads(url: str, trust: "PublicKey", log: "Log") -> ComparedHeads:
    """Checks the chain of heads at a URL, and compares the log with the newest good one. Raises `PacelineError`."""
    from events.log.port import LogGap
    from events.topics import rounds_of
    from paceline.witness.chain import check_chain
    from paceline.witness.head import check, not_compared
    from paceline.witness.published import Heads

    heads = Heads(url, log.cell)
    chain = check_chain(heads, log.cell, trust)
    finding, since, older = chain.finding, 0, 0
    lacking: list[str] = []
    if chain.first is not None and chain.newest is not None:
        finding = finding or check(log, chain.newest)
        if finding is None:
            lacking = not_compared(log, chain.newest)
            before = range(chain.first.number, chain.newest.number)
            older = bisect_left(before, True, key=lambda number: not not_compared(log, heads.read(number).head))
            try:
                since = sum(_rounds(log, rounds_of(name), at.position) for name, at in chain.newest.machines.items())
            except LogGap:  # it is lacking
                since = 0
    return ComparedHeads(chain, finding, since, lacking, older)


def _rounds(log: "Log", topic: str, start: int) -> int:
    from events.acceptance import ROUND, parse

    keys = (parse(record.key) for record in log.scan(topic, start))
    return sum(1 for key in keys if key is not None and key.kind == ROUND)
