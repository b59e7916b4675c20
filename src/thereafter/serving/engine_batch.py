"""Rows that share every step of a model: they join when their prompts are read and leave when they end.

The state of all rows is one state of the model. It is moved only where rows come or go; while nobody does, a step takes
the very state that the last one gave, which models have a quick way for.

Shapes: B rows, V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thereafter.decoding.sampling_rows import draw_rows
from thereafter.decoding.warping import largest
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids, Logs, State
from thereafter.serving.engine_rows import Events, RowEvent, TextRow

Top = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PausedRow:
    """A row outside of its batch: its state, and the token it reads next."""

    row: TextRow
    state: State
    token: int


class RowBatch:
    """Not for several threads at once. Events are those of the rows that were asked, in their order."""

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
        """The next token of every row."""
        self._leave()
        if self._state is None:
            return []
        try:
            logp_BV, after = self._model.step(np.array(self._tokens), self._state)
        except Exception as error:  # it belongs to the row that caused it
            return self._step_apart(error)
        self._state = after
        return self._go_on(_draw(self.rows, np.asarray(logp_BV)))

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

    def _go_on(self, drawn: tuple[Events, list[int], list[int]]) -> Events:
        events, lines, self._tokens = drawn
        self._keep(lines)
        return events

    def _leave(self) -> None:
        """Rows that were cancelled go."""
        lines = [line for line, row in enumerate(self.rows) if not row.gone]
        if len(lines) < len(self.rows):
            self._tokens = [self._tokens[line] for line in lines]
            self._keep(lines)

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
