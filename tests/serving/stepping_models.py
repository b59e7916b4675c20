"""A model that counts upwards and can be stopped at any step, and one who waits for rows; for the tests of engines."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from thereafter.decoding.sampling import Warping, generators
from thereafter.models.base import Fields, Ids, Logs, ModelFacts, SequenceModel
from thereafter.serving.engine_prompts import Events, RowEvent, TextRequest, TextRow

V = 1000


@dataclass(frozen=True)
class Last:
    """The last token of each row."""

    tokens: np.ndarray

    def select(self, index: Ids) -> Last:
        return Last(self.tokens[index])

    def key(self) -> Hashable:
        return tuple(self.tokens.tolist())


class Upwards(SequenceModel[Last]):
    """After a token comes the next number, with certainty; after the last one nothing can. `bad` tokens raise an error.

    `together`: the rows of each step; `pieces`: the shapes that were read. While `gate` is closed steps wait.
    """

    vocabulary_size = V

    def __init__(self, bad: Sequence[int] = ()) -> None:
        self.bad = set(bad)
        self.together: list[int] = []
        self.pieces: list[tuple[int, ...]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(vocabulary_size=V, parameters=1)

    def start(self, batch: int) -> Last:
        return Last(np.zeros(batch, dtype=np.int64))

    def predict(self, state: Last) -> Logs:
        return np.where(np.arange(V) == state.tokens[:, None] + 1, np.float32(0), np.float32(-np.inf))

    def step(self, token_B: Ids, state: Last) -> tuple[Logs, Last]:
        self.at_gate.set()
        assert self.gate.wait(60)
        self._check(token_B)
        self.together.append(len(token_B))
        after = Last(np.asarray(token_B))
        return self.predict(after), after

    def log_probs(self, tokens_BT: Ids, state: Last) -> tuple[Logs, Last]:
        self.pieces.append(tokens_BT.shape)
        self._check(tokens_BT)
        before = np.concatenate([state.tokens[:, None], tokens_BT[:, :-1]], axis=1)
        after = Last(tokens_BT[:, -1]) if tokens_BT.size else state
        return np.where(tokens_BT == before + 1, np.float32(0), np.float32(-np.inf)), after

    def stack(self, states: Sequence[Last]) -> Last:
        return Last(np.concatenate([state.tokens for state in states]))

    def record(self, tokens_T: Ids, state: Last) -> Fields:
        return {}

    def _check(self, tokens: Ids) -> None:
        wrong = self.bad & set(np.ravel(tokens).tolist())
        if wrong:
            raise ZeroDivisionError(f"token {wrong}")


class Lonely(Upwards):
    """The same, but its rows cannot be stacked."""

    def stack(self, states: Sequence[Last]) -> Last:
        return SequenceModel.stack(self, states)


@dataclass
class Inbox:
    """Takes the events of rows and knows when they have ended."""

    events: dict[TextRow, list[RowEvent]] = field(default_factory=dict)
    calls: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def deliver(self, events: Events) -> None:
        with self.changed:
            self.calls += 1
            for row, event in events:
                self.events.setdefault(row, []).append(event)
            self.changed.notify_all()

    def wait(self, rows: Sequence[TextRow]) -> None:
        """Until all of the rows have ended."""
        with self.changed:
            assert self.changed.wait_for(lambda: all(self.end_of(row) for row in rows), 60)

    def wait_for_tokens(self, row: TextRow, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.tokens(row)) >= count, 60)

    def end_of(self, row: TextRow) -> str:
        return self.events[row][-1].end if row in self.events else ""

    def tokens(self, row: TextRow) -> list[int]:
        return [event.token for event in self.events.get(row, ()) if event.token is not None]


def ask(
    first: int,
    count: int,
    *,
    prompt: int = 1,
    warping: Warping | None = None,
    top: int = 0,
    most_unread: int | None = None,
) -> TextRequest:
    """A row that counts on from `first`, after a prompt of so many numbers."""
    ids = np.arange(first - prompt, first, dtype=np.int32) + 1
    return TextRequest(ids, count, warping or Warping(), generators(0, 1)[0], top, most_unread=most_unread)
