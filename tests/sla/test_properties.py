"""Whatever happens, no more instances are disturbed than a job allows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sla.harness import World, let_go

INSTANCES = 4
STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "end", "up", "withdraw", "restart"]), st.integers(0, INSTANCES - 1)), max_size=40
)


class Twin:
    """The same rules, one instance at a time."""

    def __init__(self, max_unavailable: int) -> None:
        self.max = max_unavailable
        self.run = [1] * INSTANCES
        self.up = [True] * INSTANCES
        self.held = [0] * INSTANCES
        self.asked = [0] * INSTANCES

    def gone(self) -> list[bool]:
        return [not up or held > 0 for up, held in zip(self.up, self.held, strict=True)]

    def settle(self) -> list[int]:
        allowed = []
        for at in range(INSTANCES):
            if self.asked[at] and (self.gone()[at] or sum(self.gone()) < self.max):
                self.held[at], self.asked[at] = self.asked[at], 0
                allowed.append(at)
        return allowed


@settings(max_examples=60)
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
        else:
            world.restart()
            allowed = let_go(world.quiet())
        assert sorted(instance for _, instance, _ in allowed) == twin.settle()
        assert world.machine.unavailable("web") == sum(twin.gone())
        if step != "end":  # what ends by itself asks nobody
            assert sum(twin.gone()) <= max(before, max_unavailable)
