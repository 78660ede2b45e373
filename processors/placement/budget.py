"""How much a decision may still say."""


class Budget:
    """Units of work: each item of a record is charged, so that what is decided fits one round."""

    def __init__(self, units: int) -> None:
        self.left = units
        self.cut = False
        """Whether it ended before all was decided."""
        self._spent = False

    def spend(self, units: int) -> None:
        """Something is decided that has so many items."""
        self.left -= units
        self._spent = self._spent or units > 0

    def holds(self, units: int) -> bool:
        """Whether there is room for something that can't be divided; else the decision is cut. What is larger than the
        whole budget is decided by itself.
        """
        if self.left <= 0 or (units > self.left and self._spent):
            self.cut = True
        return not self.cut
