"""A trained model as its user holds it: scores, predicts, generates, explains itself, is saved and loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter import progress
from thereafter.decoding.sampling import check_sampling, continue_from
from thereafter.errors import OptionError
from thereafter.evaluation.scores import Score, score_text
from thereafter.inspection.trace import LIMIT, Trace, record
from thereafter.models.base import SequenceModel
from thereafter.terminal import TerminalReporter
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training import protocol, run_folder
from thereafter.training.kinds import Trained

AnySource = str | PathLike[str] | Sequence[str | PathLike[str]] | Source | Texts


class LanguageModel:
    """A trained model with its tokenizer: scores, predicts, generates, explains itself, is saved and loaded."""

    def __init__(self, trained: Trained, texts: Texts | None = None) -> None:
        self._trained = trained
        self.texts = texts
        """What it was trained on, where that is still at hand."""

    @property
    def model(self) -> SequenceModel[Any]:
        """The model itself, over token ids."""
        return self._trained.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self._trained.tokenizer

    @property
    def config(self) -> dict[str, Any]:
        """The complete configuration of the run."""
        return self._trained.config

    @property
    def log(self) -> list[dict[str, Any]]:
        """What happened in training, a line each."""
        return self._trained.log

    def score(
        self,
        source: AnySource | None = None,
        *,
        text: str | None = None,
        part: str | None = None,
        encoding: str | None = None,
    ) -> Score:
        """Score a source, or `text=`. Of a corpus with parts it is the test part, unless `part` names another."""
        if text is not None and (part is not None or encoding is not None):
            raise OptionError("text= has no parts and no encoding; give part= and encoding= with a source")
        about = self.config["text"]
        settings = protocol.TextSettings(lower=about["lower"], letters_only=about["letters_only"], encoding=encoding)
        with visible():
            texts = protocol.find_texts(source, text, settings, part)
            chosen = protocol.part_of(texts, "test")
            chunks = chosen.chunks("scoring")
            return score_text(self.model, self.tokenizer, chunks, name=chosen.name, context=self._trained.context)

    def distribution(self, prompt: str = "") -> NDArray[np.float64]:
        """The probability of every token of the vocabulary after a prompt, [V]."""
        logp_V: NDArray[np.float64] = np.asarray(self.model.predict(self._read(prompt)))[0].astype(np.float64)
        return np.exp(logp_V)

    def next(self, prompt: str = "", k: int = 5) -> list[tuple[str, float]]:
        """The k likeliest continuations as (text to append, probability); the unknown word is not one of them."""
        if k < 1:
            raise OptionError(f"k is {k}; expected at least 1; try k=5")
        p_V = self.distribution(prompt)
        p_V[self._never_said()] = -1.0
        order = np.argsort(-p_V, kind="stable")[: min(k, len(p_V) - len(self._never_said()))]
        return [(self.tokenizer.piece(int(i)), float(np.float32(p_V[i]))) for i in order]

    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
    ) -> str:
        """The prompt and a sampled continuation. The same seed gives the same text; temperature 0 is greedy."""
        drawn = self.stream(prompt, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed)
        return self.tokenizer.continuation(prompt, list(drawn))

    def stream(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
    ) -> Iterator[int]:
        """The token ids that `generate` draws, as they come."""
        if max_new_tokens < 0:
            raise OptionError(f"max_new_tokens is {max_new_tokens}; expected 0 or more; try 40")
        if seed is not None and seed < 0:
            raise OptionError(f"seed is {seed}; expected 0 or more, or none for another text every time")
        check_sampling(temperature, top_k)
        tokens = continue_from(
            self.model,
            self._read(prompt),
            np.random.default_rng(seed),
            temperature=temperature,
            top_k=top_k,
            forbidden=self._never_said(),
        )
        return (token for _, token in zip(range(max_new_tokens), tokens, strict=False))

    def trace(self, text: str, *, limit: int = LIMIT, top: int = 10) -> Trace:
        """What the model did at every token of a text: see `Trace`. The first `limit` tokens are recorded."""
        if limit < 1 or top < 1:
            raise OptionError(f"limit is {limit} and top is {top}; expected at least 1 each")
        ids = self.tokenizer.encode(self._as_trained(text))[:limit]
        if not len(ids):
            raise OptionError("the text to trace is empty; expected at least one token")
        pieces = [self.tokenizer.piece(i) for i in range(len(self.tokenizer.vocabulary))]
        return record(self.model, ids, [pieces[i] for i in ids], pieces, top)

    def save(self, run: str | PathLike[str]) -> Path:
        """Save as a run folder."""
        return run_folder.save(self._trained, Path(run))

    def to_arpa(self, path: str | PathLike[str]) -> Path:
        """Write an n-gram model as an ARPA file, gzip where the name ends in `.gz`."""
        from thereafter.training import arpa

        with visible():
            return arpa.write(self._trained, Path(path))

    def summary(self) -> dict[str, Any]:
        """What it is, in figures: kind, settings, tokens, vocabulary, what training had to say."""
        about = self.config
        facts: dict[str, Any] = {"model": about["model"], **about.get(about["model"], {}), **about["text"]}
        for line in self.log:
            facts |= {name: value for name, value in line.items() if name != "event"}
        return {name: value for name, value in facts.items() if value is not None}

    def __repr__(self) -> str:
        about = self.config
        size = f"{len(self.tokenizer.vocabulary):,} {self.tokenizer.name}"
        return f"<LanguageModel {about['model']} over {size} tokens from {about['source']['name']}>"

    def _read(self, prompt: str) -> Any:
        """The state after a prompt, which is text and gets no line end."""
        ids = self.tokenizer.encode(self._as_trained(prompt))
        state = self.model.start(1)
        return self.model.log_probs(ids.reshape(1, -1), state)[1] if len(ids) else state

    def _as_trained(self, text: str) -> str:
        """A prompt, normalised as the training text was."""
        about = self.config["text"]
        return Source.of_text(text, lower=about["lower"], letters_only=about["letters_only"]).text()

    def _never_said(self) -> list[int]:
        unknown = self.tokenizer.unknown_id
        return [] if unknown is None else [unknown]


@contextmanager
def visible() -> Iterator[None]:
    """Show progress to somebody who sits at a terminal, unless something above shows it already."""
    if progress.is_shown() or not sys.stderr.isatty():
        yield
    else:
        with progress.reporting(TerminalReporter()):
            yield
