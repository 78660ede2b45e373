"""The bench of what a pool takes back runs to its end."""

from bench import _reclaim
from events.topics import MACHINES


def test_each_claim_has_its_order() -> None:
    spent = _reclaim.cpu_s(20)
    assert spent.keys() == {*MACHINES}
    assert spent["entitlement"] > 0 < spent["placement"]
