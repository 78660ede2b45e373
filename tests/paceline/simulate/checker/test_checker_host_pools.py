"""What is admitted within host pools, in rounds of this test alone."""

import re
from typing import Any

import pytest

from events.records.entitlement import GangsAdmitted
from events.records.parts import HostPoolCapacity
from events.records.placement import CapacityChanged
from events.records.pools import PoolDefined
from paceline.simulate.checker.history import Round, Taken, Violation
from paceline.simulate.checker.host_pools import Reachable
from paceline.simulate.checker.pools import Pools
from tests.paceline.simulate.checker.checked import START, admitted, job, queued

LOAN, CLAIM = admitted("lent", 2, entitled=0), admitted("claimed", 2)


@pytest.mark.parametrize(
    ("decisions", "says"),
    [
        ((LOAN, CLAIM), None),  # the claim preempts the loan
        ((CLAIM, LOAN), "lends to lent: 4000 cpu of admitted work reach nothing but ['shared'], which have 3000"),
    ],
)
def test_a_loan_counts_the_claims_before_it_in_a_round(decisions: tuple[GangsAdmitted, ...], says: str | None) -> None:
    facts: Any = type("Facts", (), {"fact": lambda self, topic, offset: PoolDefined(path="/a", command_id="")})()
    pools = Pools(facts, 0)
    reachable = Reachable(pools)
    host_pools = tuple(
        HostPoolCapacity(name=name, kinds=(), capacity={"cpu": cpu}, hosts=1)
        for name, cpu in (("own", 1000), ("shared", 3000))
    )
    inputs = [
        CapacityChanged(capacity={"cpu": 4000}, hosts=2, version=1, host_pools=host_pools),
        *(each for name in ("lent", "claimed") for each in (job(name, "/a"), queued(name, 2))),
    ]
    round_ = Round("entitlement", 1, 0, [Taken("", 0, each, START) for each in inputs], [*decisions], START)
    pools.round(round_)
    if says is None:
        reachable.round(round_)
        return
    with pytest.raises(Violation, match=re.escape(says)):
        reachable.round(round_)
