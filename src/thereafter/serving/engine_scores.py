"""log p of given tokens, worked out piece by piece between the steps of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.models.any_model import AnyModel
from thereafter.models.base import State, rows_at_once
from thereafter.serving.engine_batch import Top, top_of_rows
from thereafter.serving.engine_prompts import PIECE


@dataclass(frozen=True)
class ScoredTokens:
    """log p of each token of a text in nats, [T]; with `top` the likeliest tokens in each place, likeliest first."""

    log_probs: NDArray[np.float32]
    top: list[Top]


class ScoreJob:
    """Texts to be scored for one who waits for `future`."""

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
