"""Budgets of time for making views: of all readers without the token, and of each address."""

BUDGET_S = 60.0
BUDGET_SHARE = 0.25
"""The part of the budget that all readers have at once, and how fast it comes back; one address has half of both, so it
can't use up that of all.
"""
DEBT_S = 30.0
"""Seconds that a reader may owe."""
ADDRESSES_MAX = 1000


class Budget:
    """Seconds that come back as time passes."""

    def __init__(self, most: float, share: float, now: float) -> None:
        self._most, self._share = most, share
        self._left, self._at = most, now

    def left(self, now: float) -> float:
        """The rest of the budget in seconds; below zero: that is owed."""
        self._left = min(self._most, self._left + (now - self._at) * self._share)
        self._at = now
        return self._left

    def spend(self, seconds: float, now: float) -> None:
        """Takes some away."""
        self._left = max(-DEBT_S, self.left(now) - seconds)

    def full(self, now: float) -> bool:
        """Whether nothing is spent."""
        return self.left(now) >= self._most


class ReaderBudgets:
    """The budgets of readers without the token: one of all, and one of each address."""

    def __init__(self, now: float) -> None:
        self._all = Budget(BUDGET_S, BUDGET_SHARE, now)
        self._of: dict[str, Budget] = {}

    def used_up_by(self, client: str, now: float) -> str:
        """Says who has used up the time that an address may have; empty: there is some left."""
        own = self._of.get(client)
        if own is not None and own.left(now) <= 0:
            return client or "this client"
        return "readers without the token" if self._all.left(now) <= 0 else ""

    def spend(self, client: str, seconds: float, now: float) -> None:
        """Takes from both."""
        if len(self._of) >= ADDRESSES_MAX:
            self._of = {each: budget for each, budget in self._of.items() if not budget.full(now)}
        own = self._of.setdefault(client, Budget(BUDGET_S / 2, BUDGET_SHARE / 2, now))
        for budget in (own, self._all):
            budget.spend(seconds, now)
