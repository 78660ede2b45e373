"""The units of work that a decision may still take."""


class Budget:
    """Units of work: each item of a record is charged, so that what is decided fits one round."""

    def __init__(self, units: int) -> None:
        self.whole = units
        """The units at first."""
        self.left = units
        """Never below 0."""
        self.cut = False
        """Whether it ended before all was decided."""
        self._spent = False

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return self.left > 0

    def spend(self, units: int) -> None:
        """Something is decided that has so many items; what can't be divided may have more than are left."""
        self.left = max(0, self.left - units)
        self._spent = self._spent or units > 0

    def holds(self, units: int) -> bool:
        """Whether there is room for something that can't be divided; else the decision is cut. What is larger than the
        whole budget is decided by itself.
        """
        if self.left <= 0 or (units > self.left and self._spent):
            self.cut = True
        return not self.cut
