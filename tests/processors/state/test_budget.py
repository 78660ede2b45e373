"""What a decision may still say."""

from processors.state.budget import Budget


def test_what_is_spent_is_gone_and_never_less_than_nothing() -> None:
    budget = Budget(3)
    assert budget
    assert budget.holds(3)
    budget.spend(2)
    assert budget.left == 1
    budget.spend(5)
    assert (budget.left, bool(budget), budget.whole) == (0, False, 3)
    assert not budget.holds(1)
    assert budget.cut


def test_what_is_larger_than_all_of_it_is_said_by_itself() -> None:
    assert Budget(3).holds(10)
    budget = Budget(3)
    budget.spend(1)
    assert budget.holds(2)
    assert not budget.cut
    assert not budget.holds(3)
    assert budget.cut
