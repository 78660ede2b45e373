"""Whatever happens, no more instances are disturbed than a job allows."""

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.drawn import examples
from tests.processors.sla.harness import World, let_go

INSTANCES = 4
WHAT = ("ask", "end", "up", "withdraw", "stopping", "stop", "start", "restart")
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, INSTANCES - 1)), max_size=40)


class Twin:
    """The same rules, one instance at a time."""

    def __init__(self, max_unavailable: int) -> None:
        self.max = max_unavailable
        self.run = [1] * INSTANCES
        self.up = [True] * INSTANCES
        self.held = [0] * INSTANCES
        self.asked = [0] * INSTANCES
        self.wanted = [True] * INSTANCES

    def gone(self) -> list[bool]:
        return [self.wanted[at] and (not self.up[at] or self.held[at] > 0) for at in range(INSTANCES)]

    def settle(self) -> list[int]:
        allowed = []
        for at in range(INSTANCES):
            if self.asked[at] and (not self.wanted[at] or self.gone()[at] or sum(self.gone()) < self.max):
                self.held[at], self.asked[at] = self.asked[at], 0
                allowed.append(at)
        return allowed


@examples(60)
@given(st.integers(0, INSTANCES), STEPS)
def test_sla_agrees_with_its_twin_and_never_exceeds_the_budget(
    max_unavailable: int, steps: list[tuple[str, int]]
) -> None:
    world, twin = World(), Twin(max_unavailable)
    world.service("web", INSTANCES, max_unavailable=max_unavailable)
    for step, at in steps:
        run = ("web", at, twin.run[at])
        before = sum(twin.gone())
        if step == "ask":
            twin.asked[at] = twin.run[at]
            allowed = world.ask(run)
        elif step == "end":
            allowed = world.down(run)
            twin.run[at] += 1
            twin.up[at], twin.asked[at] = False, 0
        elif step == "up":
            twin.up[at] = True
            twin.held[at] = 0 if twin.held[at] < twin.run[at] else twin.held[at]
            allowed = world.up(run)
        elif step == "withdraw":
            twin.asked[at] = 0
            twin.held[at] = 0 if twin.held[at] == twin.run[at] else twin.held[at]
            allowed = world.withdraw(run)
        elif step == "stopping":
            twin.up[at] = False
            allowed = world.stopping(run)
        elif step in ("stop", "start"):
            twin.wanted[at] = step == "start"
            allowed = world.stop("web", at, 1) if step == "stop" else world.start("web", at, 1)
        else:
            world.restart()
            allowed = let_go(world.quiet())
        assert sorted(instance for _, instance, _ in allowed) == twin.settle()
        assert world.machine.unavailable("web") == sum(twin.gone())
        if step not in ("end", "stopping", "start"):  # what ends by itself, or is stopped by a user, asks nobody
            assert sum(twin.gone()) <= max(before, max_unavailable)
