"""A trace: what a model did over a text, as named arrays. The only bridge between models and pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import PlainTable, Row, Tabular
from thereafter.decoding.sampling import largest
from thereafter.errors import FormatError, OptionError
from thereafter.inspection import arrays as stored
from thereafter.inspection.arrays import array_rows, description_rows
from thereafter.inspection.measurement import DrawnFigure, draw
from thereafter.models.base import Ids, S, SequenceModel

LIMIT = 2000  # tokens recorded by default
_KEY = "trace"
MEANINGS = {
    "log_prob": "log p of the token, in nats",
    "top_token": "ids of the likeliest tokens before it was read",
    "top_log_prob": "their log p, in nats",
    "order": "length of the n-gram used",
    "context": "length of the known context",
    "attention": "attention of each head, by distance back",
}
"""What the arrays of every language model's trace mean; others are named layer.field."""


@dataclass(frozen=True, repr=False)
class Trace(Tabular):
    """Tokens and what was recorded at each of them.

    `arrays[name]` has the axes `axes[name]`; the first is "step", one for each token. For every language model:
    `log_prob` [step] of what came; `top_token`, `top_log_prob` [step, rank] the likeliest tokens *before* it was read.
    The traces of other tasks (`task_model.py`) have their own arrays instead, some of them along another axis.
    `about["cut"]` says it where the text went on after the tokens that were recorded.
    n-grams add `order` [step], the length of the n-gram used, and `context` [step], the length of the known context.
    """

    tokens: list[str]
    vocabulary: list[str]
    arrays: dict[str, NDArray[np.number]]
    axes: dict[str, tuple[str, ...]]
    about: Table = field(default_factory=dict)

    def __getitem__(self, name: str) -> NDArray[np.number]:
        return self.arrays[name]

    def __repr__(self) -> str:
        shown = [f"{name} {list(array.shape)}" for name, array in self.arrays.items()][:4]
        more = f" and {len(self.arrays) - len(shown):,} more" if len(self.arrays) > len(shown) else ""
        count = f"{len(self.tokens):,} token{'' if len(self.tokens) == 1 else 's'}"
        return f"<Trace of {count}, {self.about.get('model', 'model')}: {', '.join(shown)}{more}; see describe()>"

    def top(self, step: int) -> list[tuple[str, float]]:
        """The likeliest tokens before a step, with their probabilities."""
        if "top_token" not in self.arrays:
            raise OptionError(f"this trace has no likeliest tokens; it has {', '.join(self.arrays)}")
        ids, logs = self.arrays["top_token"][step], self.arrays["top_log_prob"][step]
        return [(self.vocabulary[i], float(p)) for i, p in zip(ids, np.exp(logs), strict=True)]

    def to_rows(self) -> list[Row]:
        """A row a step: its token, and every figure there is one of a step.

        Of a language model also `bits`, -log2 p of the token, its `rank` among the likeliest (1 is the likeliest;
        nothing where it is none of them), and the `likeliest` token with its `likeliest_probability`.
        """
        single = [name for name in self.arrays if self.axes[name] == ("step",)]
        columns = {name: self.arrays[name].tolist() for name in single}
        return [
            {"step": step, "token": token}
            | self._prediction(step)
            | {name: column[step] for name, column in columns.items()}
            for step, token in enumerate(self.tokens)
        ]

    def _prediction(self, step: int) -> Row:
        values: Row = {}
        if self.axes.get("log_prob") == ("step",):
            values["bits"] = float(self.arrays["log_prob"][step]) / -math.log(2)
        if self.axes.get("top_token") == ("step", "rank"):
            ranked = self.top(step)
            forms = [form for form, _ in ranked]
            values["rank"] = forms.index(self.tokens[step]) + 1 if self.tokens[step] in forms else None
            values["likeliest"], values["likeliest_probability"] = ranked[0]
        return values

    def table_of(self, array: str) -> PlainTable:
        """The table around any of the arrays, such as `l0.h`: a row for each of its places."""
        return PlainTable(tuple(array_rows(self.arrays, self.axes, array)))

    def describe(self) -> PlainTable:
        """Which arrays there are: name, axes, shape, meaning. The same names are the keys of the `.npz` file."""
        layers = {name: name.rpartition(".") for name in self.arrays if "." in name}
        meanings = {name: f"{field} of layer {layer}, each unit" for name, (layer, _, field) in layers.items()}
        return PlainTable(description_rows(self.arrays, self.axes, meanings | MEANINGS))

    def figure(self, name: str | None = None, **options: object) -> DrawnFigure:
        """The picture of that name (`thereafter figure` lists them), or the first that this trace has arrays for."""
        return draw("trace", self, name, **options)

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
    fields = model.record(ids, model.start(1))
    top_token, top_log_prob = _likeliest(model, ids, min(top, model.vocabulary_size))
    fields |= {"top_token": (("step", "rank"), top_token), "top_log_prob": (("step", "rank"), top_log_prob)}
    return Trace(
        tokens,
        vocabulary,
        {name: array for name, (_, array) in fields.items()},
        {name: axes for name, (axes, _) in fields.items()},
        {"model": type(model).__name__.removesuffix("Model").lower()},
    )


def say_what_is_cut(recorded: int, tokens: int) -> str:
    """The sentence for a trace of the first tokens of a longer text; "" where all of them were recorded."""
    if recorded >= tokens:
        return ""
    return (
        f"only the first {recorded:,} of {tokens:,} tokens were recorded; "
        f"a larger limit records more (limit={tokens}, --limit {tokens})"
    )


def _likeliest(model: SequenceModel[S], ids: Ids, ranks: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The likeliest tokens before each token and their log p, [step, rank]."""
    top_token = np.empty((len(ids), ranks), dtype=np.int32)
    top_log_prob = np.empty((len(ids), ranks), dtype=np.float32)
    at = 0
    for piece in model.predictions(ids, model.start(1)):
        logp_PV = np.asarray(piece)
        here = slice(at, at + len(logp_PV))
        top_token[here] = largest(logp_PV, ranks)
        top_log_prob[here] = np.take_along_axis(logp_PV, top_token[here].astype(np.int64), axis=1)
        at += len(logp_PV)
    return top_token, top_log_prob
