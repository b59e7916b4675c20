"""What goes on side by side in an engine: rows that read their prompts, rows that are written, texts that are scored.

A row is one text that is being generated. Prompts are read, and given tokens scored, in pieces between the steps of the
rows that are written, so that a long one stops nobody.

Shapes: B rows, V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import RowDrawing, Warping, draw_rows, largest
from thereafter.errors import OptionError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids, Logs, State, rows_at_once

PIECE = 128
"""Tokens read or scored between two steps by all rows: less than a tenth of a second for an LSTM of 2 x 650 units."""


@dataclass
class _Reading:
    row: TextRow
    state: State
    done: int = 0

    @property
    def left(self) -> int:
        return len(self.row.request.prompt) - self.done


class PromptReader:
    """Rows that read their prompts; those that came first are read first.

    Rows that read at the same time read together: as many tokens of each as the shortest has left.
    """

    def __init__(self, model: AnyModel) -> None:
        self._model = model
        self._reading: list[_Reading] = []

    @property
    def rows(self) -> list[TextRow]:
        """All that read."""
        return [one.row for one in self._reading]

    def clear(self) -> None:
        """Nobody reads any more."""
        self._reading = []

    def add(self, row: TextRow) -> Events:
        """One more row; it may have ended already, by an error."""
        try:
            self._reading.append(_Reading(row, self._model.start(1)))
        except Exception as error:  # it belongs to the row
            return [end_by_error(row, error)]
        return []

    def read(self) -> tuple[list[TextRow], list[State], Events]:
        """Read a piece: the rows that are through with their prompts, their states, and rows that ended by an error."""
        self._reading = [one for one in self._reading if not one.row.gone]
        events: Events = []
        behind = [one for one in self._reading if one.left]
        if behind:
            size = min(PIECE, min(one.left for one in behind))
            events = self._read(behind[: max(1, PIECE // size)], size)
        done = [one for one in self._reading if not one.left and not one.row.gone]
        self._reading = [one for one in self._reading if one.left and not one.row.gone]
        return [one.row for one in done], [one.state for one in done], events

    def _read(self, group: list[_Reading], size: int) -> Events:
        tokens_BT = np.stack([one.row.request.prompt[one.done : one.done + size] for one in group])
        try:
            if len(group) == 1:
                group[0].state = self._model.read(tokens_BT, group[0].state)
            else:
                state: State = self._model.read(tokens_BT, self._model.stack([one.state for one in group]))
                for line, one in enumerate(group):
                    one.state = state.select(np.array([line]))
        except Exception as error:  # it belongs to the row that caused it
            if len(group) > 1:
                return [event for one in group for event in self._read([one], size)]
            return [end_by_error(group[0].row, error)]
        for one in group:
            one.done += size
        return []


@dataclass(frozen=True)
class ScoredTokens:
    """log p of each token of a text in nats, [T]; with `top` the likeliest tokens in each place, likeliest first."""

    log_probs: NDArray[np.float32]
    top: list[Top]


class ScoreJob:
    """log p of the tokens of given texts, worked out piece by piece for one who waits for `future`."""

    def __init__(self, model: AnyModel, texts: Sequence[NDArray[np.int32]], top: int) -> None:
        self.future: Future[list[ScoredTokens]] = Future()
        self._model, self._texts, self._top = model, texts, top
        # fewer where the likeliest of a large vocabulary are asked for
        self._size = min(PIECE, rows_at_once(model.vocabulary_size)) if top else PIECE
        self._scored: list[ScoredTokens] = []
        self._begin()

    def _begin(self) -> None:
        self._state: State | None = None
        self._done = 0
        self._parts: list[NDArray[np.floating]] = []
        self._likeliest: list[Top] = []

    def advance(self) -> bool:
        """Score a piece; says whether there is nothing left to do. What goes wrong reaches the one who waits."""
        if self.future.cancelled():
            return True
        try:
            if len(self._scored) < len(self._texts):
                self._score_piece(self._texts[len(self._scored)])
        except Exception as error:  # it belongs to the one who asked
            self._give(error)
            return True
        if len(self._scored) == len(self._texts):
            self._give(None)
            return True
        return False

    def fail(self, error: Exception) -> None:
        """Nothing will come of it."""
        self._give(error)

    def _give(self, error: Exception | None) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(self._scored)
        else:
            self.future.set_exception(error)

    def _score_piece(self, text: NDArray[np.int32]) -> None:
        state: State = self._model.start(1) if self._state is None else self._state
        piece_T = text[self._done : self._done + self._size]
        if len(piece_T):
            if self._top:
                for logp_PV in self._model.predictions(piece_T, state):
                    self._likeliest += top_of_rows(np.asarray(logp_PV), self._top)
            logp_1T, self._state = self._model.log_probs(piece_T.reshape(1, -1), state)
            self._parts.append(np.asarray(logp_1T)[0])
            self._done += len(piece_T)
        if self._done == len(text):
            logp_T = np.concatenate(self._parts, dtype=np.float32) if self._parts else np.empty(0, np.float32)
            self._scored.append(ScoredTokens(logp_T, self._likeliest))
            self._begin()


Top = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PausedRow:
    """A row outside of its batch: its state, and the token it reads next."""

    row: TextRow
    state: State
    token: int


class RowBatch:
    """Rows that share every step of a model: they join when their prompts are read and leave when they end.

    The state of all rows is one state of the model. It is moved only where rows come or go; while nobody does, a step
    takes the very state that the last one gave, which models have a quick way for. Events are those of the rows that
    were asked, in their order. Not for several threads at once.
    """

    def __init__(self, model: AnyModel) -> None:
        self._model = model
        self._state: State | None = None
        self._tokens: list[int] = []
        self.rows: list[TextRow] = []

    def join(self, rows: Sequence[TextRow], states: Sequence[State]) -> Events:
        """Rows that have read their prompts, a state of one row for each: their first tokens."""
        try:
            state: State = self._model.stack(states)
            logp_BV = np.asarray(self._model.predict(state))
        except Exception as error:  # it belongs to the row that caused it
            if len(rows) > 1:
                return [event for one in zip(rows, states, strict=True) for event in self.join([one[0]], [one[1]])]
            return [end_by_error(rows[0], error)]
        events, lines, tokens = _draw(rows, logp_BV)
        if lines:
            joined = state if len(lines) == len(rows) else state.select(np.array(lines))
            self._state = joined if self._state is None else self._model.stack([self._state, joined])
            self.rows += [rows[line] for line in lines]
            self._tokens += tokens
        return events

    def step(self) -> Events:
        """The next token of every row; those that were cancelled go."""
        there = [line for line, row in enumerate(self.rows) if not row.gone]
        if len(there) < len(self.rows):
            self._tokens = [self._tokens[line] for line in there]
            self._keep(there)
        if self._state is None:
            return []
        try:
            logp_BV, after = self._model.step(np.array(self._tokens), self._state)
        except Exception as error:  # it belongs to the row that caused it
            return self._step_apart(error)
        self._state = after
        events, lines, self._tokens = _draw(self.rows, np.asarray(logp_BV))
        self._keep(lines)
        return events

    def pause(self) -> list[PausedRow]:
        """Take out the rows whose receivers have fallen behind."""
        late = [row.must_pause for row in self.rows]  # once: receivers catch up meanwhile
        if self._state is None or not any(late):
            return []
        paused = [
            PausedRow(row, self._state if len(late) == 1 else self._state.select(np.array([line])), self._tokens[line])
            for line, row in enumerate(self.rows)
            if late[line]
        ]
        others = [line for line in range(len(late)) if not late[line]]
        self._tokens = [self._tokens[line] for line in others]
        self._keep(others)
        return paused

    def resume(self, paused: Sequence[PausedRow]) -> None:
        """Take such rows in again."""
        states = [one.state for one in paused]
        self._state = self._model.stack(states if self._state is None else [self._state, *states])
        self.rows += [one.row for one in paused]
        self._tokens += [one.token for one in paused]

    def _keep(self, lines: list[int]) -> None:
        if len(lines) == len(self.rows) or self._state is None:
            return
        self._state = self._state.select(np.array(lines)) if lines else None
        self.rows = [self.rows[line] for line in lines]

    def _step_apart(self, error: Exception) -> Events:
        """After an error: each row by itself, so that the error reaches the row that caused it and no other."""
        if len(self.rows) == 1 or self._state is None:
            rows, self.rows, self._tokens, self._state = self.rows, [], [], None
            return [end_by_error(row, error) for row in rows]
        parts = []
        for line, (row, token) in enumerate(zip(self.rows, self._tokens, strict=True)):
            alone = RowBatch(self._model)
            alone.rows, alone._tokens, alone._state = [row], [token], self._state.select(np.array([line]))
            parts.append((alone, alone.step()))
        going = [alone for alone, _ in parts if alone._state is not None]
        self.rows = [alone.rows[0] for alone in going]
        self._tokens = [alone._tokens[0] for alone in going]
        self._state = self._model.stack([alone._state for alone in going]) if going else None
        return [event for _, events in parts for event in events]


def end_by_error(row: TextRow, error: Exception) -> tuple[TextRow, RowEvent]:
    """The last event of a row whose model raised an error."""
    row.gone = True
    return row, RowEvent(None, end="error", error=error)


def _draw(rows: Sequence[TextRow], logp_BV: Logs) -> tuple[Events, list[int], list[int]]:
    """Draw a token for each row: what they say, which lines go on, and the tokens these read next.

    A row whose log p are no numbers ends in an error of its own.
    """
    lost_B = ~(logp_BV.max(axis=1) < np.inf)
    if lost_B.any():
        logp_BV = np.where(lost_B[:, None], logp_BV.dtype.type(-np.inf), logp_BV)
    drawn = draw_rows(logp_BV, [row.drawing for row in rows])
    tops = _likeliest(rows, logp_BV)
    token_B = np.array([0 if token is None else token for token in drawn])
    logp_B = logp_BV[np.arange(len(rows)), token_B].tolist()
    events: Events = []
    lines, tokens = [], []
    for line, (row, token, logp) in enumerate(zip(rows, drawn, logp_B, strict=True)):
        if lost_B[line]:
            events.append(end_by_error(row, FloatingPointError("the model's log probabilities are not numbers")))
            continue
        if token is None:
            row.gone = True
            events.append((row, RowEvent(None, end="dead end")))
            continue
        end = row.write(token)
        events.append((row, RowEvent(token, logp, tops.get(line, ()), end)))
        if end:
            row.gone = True
        else:
            lines.append(line)
            tokens.append(token)
    return events, lines, tokens


def _likeliest(rows: Sequence[TextRow], logp_BV: Logs) -> dict[int, Top]:
    """The likeliest tokens of the rows that report them, by line."""
    by_count: dict[int, list[int]] = {}
    for line, row in enumerate(rows):
        if row.request.top:
            by_count.setdefault(row.request.top, []).append(line)
    tops: dict[int, Top] = {}
    for count, lines in by_count.items():
        tops |= zip(lines, top_of_rows(logp_BV[lines], count), strict=True)
    return tops


def top_of_rows(logp_RV: Logs, count: int) -> list[Top]:
    """The likeliest tokens of each row with their log p, likeliest first."""
    ids_RK: Ids = largest(logp_RV, min(count, logp_RV.shape[1]))
    logp_RK = np.take_along_axis(logp_RV, ids_RK, axis=1)
    return [tuple(zip(ids, logs, strict=True)) for ids, logs in zip(ids_RK.tolist(), logp_RK.tolist(), strict=True)]


End = Literal["", "length", "dead end", "ending", "error"]
"""Why a row ends: it has its tokens; nothing can follow; the engine is closed; the model raised an error."""


@dataclass(frozen=True)
class TextRequest:
    """One row to be generated.

    `prompt`: token ids, may be empty. `seed`: the row's own generator (`decoding.sampling.generators`). `top`: how many
    of the likeliest tokens are reported beside each token. `forbidden`: tokens that are never drawn. `most_unread`: how
    many tokens may be delivered before `Engine.acknowledge` reports them as read; None: any number.
    """

    prompt: NDArray[np.int32]
    max_tokens: int
    warping: Warping
    seed: np.random.Generator
    top: int = 0
    forbidden: Sequence[int] = ()
    most_unread: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise OptionError(f"max_tokens is {self.max_tokens}; expected 1 or more; try 16")
        if self.top < 0:
            raise OptionError(f"top is {self.top}; expected 0 or more; try 5")
        if self.most_unread is not None and self.most_unread < 1:
            raise OptionError(f"most_unread is {self.most_unread}; expected 1 or more, or None; try 100")


@dataclass(frozen=True)
class RowEvent:
    """What a row says after a step. `token`: None where there is none, which is always an end.

    `log_prob`: log p of the token under the model, before warping. `top`: the likeliest tokens and their log p,
    likeliest first. `end`: why the row ends here, empty while it goes on. `error`: what the model raised.
    """

    token: int | None
    log_prob: float = 0.0
    top: tuple[tuple[int, float], ...] = ()
    end: End = ""
    error: Exception | None = None


class TextRow:
    """A text in an engine, waiting, reading its prompt or being written. The one who submitted it may keep it as a key.

    `written`: how many tokens it has. Nothing else is for those outside the engine.
    """

    def __init__(self, request: TextRequest, deliver: Deliver, vocabulary_size: int) -> None:
        self.request, self.deliver = request, deliver
        self.written = 0
        self.read = 0
        """Tokens that its receiver has acknowledged."""
        self.gone = False
        """It was cancelled, or has ended."""
        warping = request.warping
        self._seen_V: NDArray[np.bool_] | None = None
        if warping.repetition_penalty != 1:
            self._seen_V = np.zeros(vocabulary_size, dtype=bool)
            self._seen_V[request.prompt] = True
        self._drawing = RowDrawing(warping, request.seed, tuple(request.forbidden))

    @property
    def drawing(self) -> RowDrawing:
        """How its next token is drawn."""
        if self._seen_V is None:
            return self._drawing
        drawing = self._drawing
        return RowDrawing(drawing.warping, drawing.rng, drawing.forbidden, np.flatnonzero(self._seen_V))

    @property
    def must_pause(self) -> bool:
        """Whether its receiver has fallen behind by as many tokens as it may."""
        most = self.request.most_unread
        return most is not None and self.written - self.read >= most

    @property
    def may_resume(self) -> bool:
        """Whether a receiver that had fallen behind has caught up by half."""
        most = self.request.most_unread
        return most is None or 2 * (self.written - self.read) <= most

    def write(self, token: int) -> End:
        """Take a token; says whether it was the last."""
        self.written += 1
        if self._seen_V is not None:
            self._seen_V[token] = True
        return "length" if self.written >= self.request.max_tokens else ""


Events = list[tuple[TextRow, RowEvent]]
Deliver = Callable[[Events], None]
"""Takes what the rows it was submitted with say after a step, on the engine's thread: it must be quick."""
