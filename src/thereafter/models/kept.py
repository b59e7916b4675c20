"""What others work out from a model's weights and keep beside it: a recorded graph that nobody uses just now."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock


class Kept:
    """A few things of any kind. One that is taken is in one hand until it is put back; the oldest go first.

    They belong to one model and its memory: a copy of the model has none of them.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # what is put back may come from a collected object, while its own thread takes
        self.things: list[object] = []

    def take(self, fits: Callable[[object], bool]) -> object | None:
        """The first thing that fits, which is here no longer; None where none does."""
        with self._lock:
            thing = next((one for one in self.things if fits(one)), None)
            self.things = [one for one in self.things if one is not thing]
        return thing

    def put(self, thing: object, most: int) -> None:
        """Keep a thing; no more than `most` of all are kept."""
        with self._lock:
            self.things = [*self.things, thing][-most:]

    def clear(self) -> None:
        """Nothing is kept any more."""
        with self._lock:
            self.things = []

    def __deepcopy__(self, memo: dict[int, object]) -> Kept:
        return Kept()

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()
