"""Prompts are read in pieces between the steps of the rows that are written, so that a long one stops nobody.

Rows that read at the same time read together: as many tokens of each as the shortest has left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thereafter.models.any_model import AnyModel
from thereafter.models.base import State
from thereafter.serving.engine_batch import end_by_error
from thereafter.serving.engine_rows import Events, TextRow

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
    """Rows that read their prompts; those that came first are read first."""

    def __init__(self, model: AnyModel) -> None:
        self._model = model
        self._reading: list[_Reading] = []

    def __len__(self) -> int:
        return len(self._reading)

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
