"""What is asked of an engine and what comes back: a row is one text that is being generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling_rows import RowDrawing
from thereafter.decoding.warping import Warping
from thereafter.errors import OptionError

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
