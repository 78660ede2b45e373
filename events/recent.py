"""A cache of recent results that readers of one process share."""

from typing import ClassVar, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Recent results by key; at most about twice as many and twice as large as given.

    Any thread may get and put: the older half is dropped as a whole, so nothing is counted or walked through.
    """

    _every: ClassVar[list["Recent[object, object]"]] = []

    def __init__(self, entries_max: int, size_max: int) -> None:
        self._entries_max = entries_max
        self._size_max = size_max
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._size = 0
        self._every.append(self)  # type: ignore[arg-type]

    def get(self, key: K) -> V | None:
        """The result for a key; None: it isn't recent."""
        recent = self._new.get(key)
        return self._old.get(key) if recent is None else recent

    def put(self, key: K, value: V, size: int) -> None:
        """Remembers what was found; `size` in bytes, or what else the bound is in."""
        if len(self._new) >= self._entries_max or self._size >= self._size_max:
            self._old, self._new, self._size = self._new, {}, 0
        self._new[key] = value
        self._size += size

    def clear(self) -> None:
        """Forgets everything."""
        self._new, self._old, self._size = {}, {}, 0

    @classmethod
    def clear_all(cls) -> None:
        """Forgets everything everywhere: what was found may be something else now."""
        for each in cls._every:
            each.clear()
