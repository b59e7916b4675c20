"""A trace: what a model did over a text, as named arrays. The only bridge between models and pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.inspection import arrays as stored
from thereafter.models.base import Ids, S, SequenceModel

LIMIT = 2000  # tokens recorded by default
_KEY = "trace"


@dataclass(frozen=True)
class Trace:
    """Tokens and what was recorded at each of them.

    `arrays[name]` has the axes `axes[name]`; the first is "step", one for each token. For every language model:
    `log_prob` [step] of what came; `top_token`, `top_log_prob` [step, rank] the likeliest tokens *before* it was read.
    The traces of other tasks (`tasks/tracing.py`) have their own arrays instead, some of them along another axis.
    n-grams add `order` [step], the length of the n-gram used, and `context` [step], the length of the known context.
    """

    tokens: list[str]
    vocabulary: list[str]
    arrays: dict[str, NDArray[np.number]]
    axes: dict[str, tuple[str, ...]]
    about: Table = field(default_factory=dict)

    def __getitem__(self, name: str) -> NDArray[np.number]:
        return self.arrays[name]

    def top(self, step: int) -> list[tuple[str, float]]:
        """The likeliest tokens before a step, with their probabilities."""
        if "top_token" not in self.arrays:
            raise OptionError(f"this trace has no likeliest tokens; it has {', '.join(self.arrays)}")
        ids, logs = self.arrays["top_token"][step], self.arrays["top_log_prob"][step]
        return [(self.vocabulary[i], float(p)) for i, p in zip(ids, np.exp(logs), strict=True)]

    def save(self, path: str | Path) -> Path:
        """Write as `.npz`: every array by its name, and one JSON text `trace` with tokens, axes and vocabulary."""
        described: stored.Description = {
            "tokens": self.tokens,
            "vocabulary": self.vocabulary,
            "axes": self.axes,
            "about": self.about,
        }
        return stored.write(path, _KEY, described, self.arrays)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote; nothing is unpickled."""
        try:
            described, arrays = stored.read(path, _KEY)
            axes = {name: tuple(names) for name, names in described["axes"].items()}
            return cls(described["tokens"], described["vocabulary"], arrays, axes, described["about"])
        except stored.UNREADABLE as error:
            raise FormatError(
                f"{path} is not a trace ({stored.reason(error)}); expected a .npz file written by Trace.save"
            ) from error


def record(model: SequenceModel[S], ids: Ids, tokens: list[str], vocabulary: list[str], top: int = 10) -> Trace:
    """Run a model over one row of token ids and keep what it did, its own fields and the likeliest tokens."""
    state = model.start(1)
    fields = model.record(ids, state)
    ranks = min(top, model.vocabulary_size)
    top_token = np.empty((len(ids), ranks), dtype=np.int32)
    top_log_prob = np.empty((len(ids), ranks), dtype=np.float32)
    logp = np.asarray(model.predict(state))[0]
    for step, token in enumerate(ids.tolist()):
        top_token[step] = np.argsort(-logp, kind="stable")[:ranks]
        top_log_prob[step] = logp[top_token[step]]
        rows, state = model.step(np.array([token]), state)
        logp = np.asarray(rows)[0]
    fields |= {"top_token": (("step", "rank"), top_token), "top_log_prob": (("step", "rank"), top_log_prob)}
    return Trace(
        tokens,
        vocabulary,
        {name: array for name, (_, array) in fields.items()},
        {name: axes for name, (axes, _) in fields.items()},
        {"model": type(model).__name__.removesuffix("Model").lower()},
    )
