"""Each fact that wasn't allowed is found, and none that was."""

from typing import Any

import msgspec
import pytest

from events.hashed_names import NameHashes
from events.records import BY_NAME
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from events.records.pools import RoleBound, RoleUnbound, TokenIssued, TokenRevoked, TokenUsed
from events.roles import ROLES, Verb
from paceline.audit.rules import NEEDS, OWN, WITHOUT_NEED, WRITES
from paceline.audit.verify import Verdict, verify
from tests.helpers.written_cell import Cell, job

READS = {Verb.READ, Verb.EXPORT, Verb.AUDIT}


class Audited:
    """A cell with a submitter and an admin of pools, and a token of each."""

    def __init__(self) -> None:
        self.cell = Cell()
        self.ci = self.done(RoleBound(command_id="1", binding_id="ci", subject="ci", role="submitter", pool="/maps"))
        self.crew = self.done(
            RoleBound(command_id="2", binding_id="crew", group="crew", role="pool-admin", pool="/maps")
        )
        self.ads = self.done(RoleBound(command_id="3", binding_id="ads", subject="ci", role="pool-admin", pool="/ads"))
        self.done(TokenIssued(command_id="4", token_id="t-ci", subject="ci", token_hash=bytes(32)))
        self.token = self.done(
            TokenIssued(command_id="5", token_id="t-ann", subject="ann", groups=("crew",), token_hash=bytes(32))
        )

    def done(self, fact: Any, code: str = "DONE") -> int:
        offset = self.cell.fact(fact)
        answer = PoolAnswered(path="/", pools_offset=offset, command_id=fact.command_id, code=code)
        self.cell.decide("entitlement", answer)
        return offset

    def actor(self, **other: Any) -> Actor:
        fields = {"how": "token", "binding": self.ci, "read_to": self.token, "credential": "t-ci", **other}
        return Actor(fields.pop("subject", "ci"), **fields)

    def submit(self, job_id: str = "a", pool: str = "/maps/tiles", **other: Any) -> None:
        self.accept(job_id, pool, self.actor(**other))

    def accept(self, job_id: str, pool: str, actor: Actor | None) -> None:
        offset = self.cell.fact(msgspec.structs.replace(job(job_id, pool=pool), actor=actor))
        self.cell.accept(job_id, offset, pool=pool)

    def stop(self, job_id: str = "a", **other: Any) -> None:
        self.cell.fact(JobStopRequested(job_id=job_id, command_id="s", actor=self.actor(**other)))

    def verified(self) -> Verdict:
        return verify(self.cell.log, lambda topic, offset: None)

    def codes(self) -> list[str]:
        return [each.code for each in self.verified().findings]


def test_what_was_allowed_passes() -> None:
    audited = Audited()
    audited.submit()
    audited.stop()
    audited.stop(subject="ann", credential="t-ann", binding=audited.crew)
    verdict = audited.verified()
    assert (verdict.findings, verdict.verified, verdict.allowed) == ([], 3, 3)


def test_facts_without_proof_are_counted_by_producer() -> None:
    audited = Audited()
    audited.submit(how="environment")
    assert audited.verified().unverified == {"environment": 1, "not said": 5}


def test_uses_of_tokens_that_the_cell_notes_by_itself_are_no_facts_of_users() -> None:
    audited = Audited()
    before = audited.verified().facts
    audited.cell.fact(TokenUsed(token_id="t-ci"))
    audited.submit()
    verdict = audited.verified()
    assert (before, verdict.facts) == (5, 6)
    assert verdict.facts == verdict.verified + sum(verdict.unverified.values())


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"binding": None}, "NO_BINDING"),
        ({"binding": 4}, "NO_SUCH_BINDING"),
        ({"binding": 1}, "OTHER_SUBJECT"),
        ({"read_to": None}, "NOT_READ"),
        ({"read_to": 2}, "NOT_YET"),
        ({"binding": 2, "read_to": -1}, "NOT_YET"),
        ({"read_to": 99}, "READ_AHEAD"),
        ({"credential": "t-no"}, "NO_SUCH_TOKEN"),
        ({"credential": "t-ann"}, "OTHER_TOKEN"),
        ({"binding": 2}, "OTHER_POOL"),
        ({"signature": b"x" * 72}, "FORGED"),
        ({"how": "run", "credential": "r"}, "OTHER_VERB"),
    ],
)
def test_a_fact_that_is_broken_in_one_way_is_found(other: dict[str, Any], code: str) -> None:
    audited = Audited()
    audited.submit(**other)
    assert audited.codes() == [code]


def test_a_pool_or_a_job_elsewhere_is_found() -> None:
    audited = Audited()
    audited.submit(pool="/mapsets")
    audited.accept("b", "/maps", None)
    audited.stop("b")
    assert audited.codes() == ["OTHER_POOL", "OTHER_VERB"]


def test_a_second_submission_under_the_same_id_moves_no_job() -> None:
    audited = Audited()
    audited.accept("b", "/ads", None)
    audited.cell.fact(msgspec.structs.replace(job("b", pool="/maps"), actor=audited.actor()))  # never accepted
    audited.stop("b")
    assert audited.codes() == ["OTHER_POOL"]


def test_what_lands_after_an_end_is_late_and_fails_after_ten_seconds() -> None:
    audited = Audited()
    audited.done(RoleUnbound(command_id="6", binding_id="ci"))
    audited.cell.ms += 10_000
    audited.submit("b")
    audited.cell.ms += 1
    audited.submit("c")
    findings = audited.verified().findings
    assert [(each.code, each.late_ms, each.fails) for each in findings] == [
        ("LATE", 10_000, False),
        ("LATE", 10_001, True),
    ]


def test_an_end_that_was_read_fails_at_once() -> None:
    audited = Audited()
    end = audited.done(TokenRevoked(command_id="6", token_id="t-ci"))
    audited.submit(read_to=end)
    assert audited.codes() == ["ENDED"]


def test_a_binding_that_was_refused_allows_nothing() -> None:
    audited = Audited()
    fact = RoleBound(command_id="6", binding_id="x", subject="ci", role="admin", pool="/")
    refused = audited.done(fact, code="INVALID_ACCESS")
    audited.submit(binding=refused, read_to=refused)
    assert audited.codes() == ["NO_SUCH_BINDING"]


def test_the_rule_of_the_audit_is_that_of_the_api() -> None:
    writes = {name: set(words.split()) for name, words in WRITES.items()}
    assert writes == {name: set(role.verbs) - READS for name, role in ROLES.items()}
    assert {name: set(words.split()) for name, words in OWN.items()} == {
        name: set(role.own) for name, role in ROLES.items() if role.own
    }


def test_each_kind_of_fact_with_an_actor_has_its_need() -> None:
    with_actor = {name for name, kind in BY_NAME.items() if "actor" in kind.__struct_fields__}
    assert with_actor == NEEDS.keys() | WITHOUT_NEED


def test_hashed_names_are_checked_by_their_key_and_are_unknown_without_it():
    names = NameHashes()
    audited = Audited()
    audited.submit("plain")
    audited.submit("hashed", subject=names.of("ci"))
    audited.stop("plain", subject=names.of("ci"))
    audited.stop("hashed")
    audited.stop("hashed", subject=names.of("ann"))

    def codes(by: NameHashes | None) -> tuple[int, int, list[str]]:
        verdict = verify(audited.cell.log, lambda topic, offset: None, by)
        return verdict.allowed, verdict.unknown, [each.code for each in verdict.findings]

    assert codes(names) == (4, 0, ["OTHER_TOKEN"])
    assert codes(None) == (1, 3, ["OTHER_VERB"]), "two hashes differ without the key, too"
    assert codes(NameHashes())[2] == ["OTHER_TOKEN", "OTHER_TOKEN", "OTHER_VERB", "OTHER_TOKEN"]
