"""A trained model as its user holds it: scores, predicts, generates, explains itself, is saved and loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from thereafter import config as toml
from thereafter import progress
from thereafter.data.files import AnySource
from thereafter.decoding import generation, ranking
from thereafter.decoding.generation import Generated, GenerationOptions, GenerationSettings
from thereafter.decoding.warping import largest
from thereafter.errors import OptionError
from thereafter.evaluation.scores import Score, score_text
from thereafter.evaluation.switches import Switches
from thereafter.inspection import neighbours
from thereafter.inspection.trace import LIMIT, Trace, record
from thereafter.models.base import SequenceModel
from thereafter.runs import folder as files
from thereafter.terminal import TerminalReporter
from thereafter.text.sources import Source, Texts
from thereafter.text.spelling import Spelling
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training import mixing, protocol, roles, store
from thereafter.training.kinds import Trained

if TYPE_CHECKING:
    from thereafter.evaluation.dynamic_settings import DynamicSettings
    from thereafter.models.cache import CacheSettings


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
        cache: bool | Mapping[str, Any] | CacheSettings = False,
        dynamic: bool | Mapping[str, Any] | DynamicSettings = False,
        tune: AnySource | None = None,
    ) -> Score:
        """Score a source, or `text=`. Of a corpus with parts it is the test part, unless `part` names another.

        Switches: `cache=True` adds a memory of the last words (or its settings, `cache={"size": 2000}`); `dynamic=True`
        lets a neural model go on learning from what it has scored; each model of a mixture gets what it can have.
        `tune` is another text, of a corpus its valid part, on which what was left open is chosen: the cache's weight
        and theta, the rate of learning, a mixture's weights. The score says in `switches` what was on.
        """
        if text is not None and (part is not None or encoding is not None):
            raise OptionError("text= has no parts and no encoding; give part= and encoding= with a source")
        settings = self._text_settings(encoding)
        with visible():
            chosen = protocol.part_of(protocol.find_texts(source, text, settings, part), "test")
            held = None if tune is None else protocol.part_of(protocol.find_texts(tune, None, settings), "valid")
            with mixing.switched(self._trained, Switches.of(cache, dynamic), held) as on:
                return score_text(
                    on.model,
                    self.tokenizer,
                    chosen.chunks("scoring"),
                    name=chosen.name,
                    context=self._trained.context,
                    switches=mixing.said(self._trained, on, held, chosen),
                    weights=on.weights,
                    caveat=roles.caveat(self._trained, chosen, held),
                )

    def distribution(self, prompt: str = "") -> NDArray[np.float64]:
        """The probability of every token of the vocabulary after a prompt, [V]."""
        logp_V: NDArray[np.float64] = np.asarray(self.model.predict(self._read(prompt)))[0].astype(np.float64)
        return np.exp(logp_V)

    def next(self, prompt: str = "", k: int = 5) -> list[tuple[str, float]]:
        """The k likeliest continuations as (text to append, probability); the unknown word is not one of them."""
        return [(self.tokenizer.piece(token), p) for token, p in self.next_ids(self.encode(prompt), k)]

    def next_ids(self, ids: NDArray[np.int32], k: int = 5) -> list[tuple[int, float]]:
        """As `next`, over token ids: those of a prompt, and of what may follow."""
        if k < 1:
            raise OptionError(f"k is {k}; expected at least 1; try k=5")
        logp_V = np.asarray(self.model.predict(self._after(ids)))[0]
        return self.likeliest(logp_V, k)

    def likeliest(self, logp_V: NDArray[np.floating[Any]], k: int) -> list[tuple[int, float]]:
        """The k tokens of the greatest log probability with their probabilities; the unknown word is not one."""
        found = largest(logp_V, k + len(self._never_said)).tolist()
        said = [token for token in found if token not in self._never_said][:k]
        p_K = np.exp(logp_V[said].astype(np.float64)).astype(np.float32).tolist()
        return list(zip(said, p_K, strict=True))

    def encode(self, text: str) -> NDArray[np.int32]:
        """The token ids of a text, normalised as the training text was."""
        return self.tokenizer.encode(self._as_trained(text))

    @overload
    def generate(  # type: ignore[overload-overlap]  # a number that is known to be 1 is the narrower case
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: Literal[1] = 1,
        return_log_probs: Literal[False] = False,
        **options: Unpack[GenerationOptions],
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: int,
        return_log_probs: Literal[False] = False,
        **options: Unpack[GenerationOptions],
    ) -> list[str]: ...
    @overload
    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: int = 1,
        return_log_probs: Literal[True],
        **options: Unpack[GenerationOptions],
    ) -> list[Generated]: ...
    def generate(
        self,
        prompt: str = "",
        max_new_tokens: int = 40,
        *,
        num_return_sequences: int = 1,
        return_log_probs: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> str | list[str] | list[Generated]:
        """The prompt and what the model says after it: drawn, unless the options say otherwise.

        Options, named as Hugging Face names them: `temperature` (0 is greedy), `do_sample` (False is greedy), `top_k`,
        `top_p`, `min_p`, `repetition_penalty`; `num_beams`, `length_penalty`, `early_stopping` for a beam search;
        `stop_strings`, one or several, before the first of which the text ends; `seed`, the same for the same text.
        Several texts (`num_return_sequences`) are a list and cost little more than one. With `return_log_probs` the
        answer is a list of `Generated`: text, new tokens and their log probabilities under the model.
        """
        settings = _settings(
            {"max_new_tokens": max_new_tokens, "num_return_sequences": num_return_sequences, **options}
        )
        found = generation.generate(self._prompted(prompt), settings)
        if return_log_probs:
            return found
        return found[0].text if num_return_sequences == 1 else [one.text for one in found]

    def stream(self, prompt: str = "", max_new_tokens: int = 40, **options: Unpack[GenerationOptions]) -> Iterator[int]:
        """The token ids that `generate` draws, as they come; its options, but one text and no beams."""
        drawn = self._pieces_of(prompt, {"max_new_tokens": max_new_tokens, **options})
        return (piece.token for piece in drawn if piece.token is not None)

    def stream_text(
        self, prompt: str = "", max_new_tokens: int = 40, **options: Unpack[GenerationOptions]
    ) -> Iterator[str]:
        """What `generate` says after the prompt, as it is decided: half a character or stop string is held back."""
        drawn = self._pieces_of(prompt, {"max_new_tokens": max_new_tokens, **options})
        return (piece.text for piece in drawn if piece.text)

    def rank(self, candidates: Sequence[str], context: str = "", *, per: str = "sentence") -> list[tuple[str, float]]:
        """Candidates with their log probabilities after a context, best first, ties in the order given.

        A candidate is the text that follows the context as it stands (" mat" after "on the", or "mat" in `word`), and
        gets no line end that it does not bring. Unknown words pay their spelling, so that none wins by being unknown.
        `per` "sentence" compares whole candidates; "token" or "char" means, for candidates of different lengths.
        """
        if isinstance(candidates, str):
            raise OptionError(f"candidates are one text, {candidates!r}; expected several; try a list of texts")
        ranking.check_per(per)
        texts = [self._as_trained(candidate) for candidate in candidates]
        scored = ranking.measured(texts, self.tokenizer, self._spelling)
        found = ranking.log_probs(self.model, self._read(context), scored, per)
        return sorted(zip(candidates, found, strict=True), key=lambda pair: -pair[1])

    def neighbours(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The k tokens whose embeddings are most alike to that of a word, with their cosines: neural models only."""
        if k < 1:
            raise OptionError(f"k is {k}; expected at least 1; try k=10")
        embedding = self.model.input_embedding()
        if embedding is None:
            from thereafter.models.build import NEURAL

            raise OptionError(
                f"the model {self.config['model']!r} has no embeddings, so words have no neighbours in it; "
                f"these models have: {', '.join(NEURAL)}"
            )
        token = neighbours.find_token(word, self.tokenizer, self._as_trained)
        near = neighbours.nearest_rows(embedding, token, k, self._never_said)
        return [(self.tokenizer.piece(i), cosine) for i, cosine in near]

    def trace(self, text: str, *, limit: int = LIMIT, top: int = 10) -> Trace:
        """What the model did at every token of a text: see `Trace`. The first `limit` tokens are recorded."""
        if limit < 1 or top < 1:
            raise OptionError(f"limit is {limit} and top is {top}; expected at least 1 each")
        ids = self.encode(text)[:limit]
        if not len(ids):
            raise OptionError("the text to trace is empty; expected at least one token")
        return record(self.model, ids, [self._pieces[i] for i in ids], list(self._pieces), top)

    def save(self, run: str | PathLike[str]) -> Path:
        """Save as a run folder; a mixture is not saved, its models are."""
        mixing.check_savable(self._trained)
        return store.save(self._trained, Path(run))

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
            if line.get("event") not in ("step", "validation", "guard", "resumed"):  # what it came to, not each turn
                facts |= {name: value for name, value in line.items() if name != "event"}
        return {name: value for name, value in facts.items() if value is not None}

    def __repr__(self) -> str:
        about = self.config
        size = f"{len(self.tokenizer.vocabulary):,} {self.tokenizer.name}"
        return f"<LanguageModel {about['model']} over {size} tokens from {about['source']['name']}>"

    def _read(self, prompt: str) -> Any:
        """The state after a prompt, which is text and gets no line end."""
        return self._after(self.encode(prompt))

    def _after(self, ids: NDArray[np.int32]) -> Any:
        state = self.model.start(1)
        return self.model.read(ids.reshape(1, -1), state) if len(ids) else state

    def _prompted(self, prompt: str) -> generation.Prompted:
        ids = self.encode(prompt)
        return generation.Prompted(self.model, self.tokenizer, prompt, ids, self._after(ids), self._never_said)

    def _pieces_of(self, prompt: str, options: dict[str, Any]) -> Iterator[generation.Piece]:
        settings = _settings(options)
        generation.check_stream(settings)
        return generation.pieces(self._prompted(prompt), settings)

    def _text_settings(self, encoding: str | None) -> protocol.TextSettings:
        about = self.config["text"]
        return protocol.TextSettings(lower=about["lower"], letters_only=about["letters_only"], encoding=encoding)

    def _as_trained(self, text: str) -> str:
        """A prompt, normalised as the training text was."""
        about = self.config["text"]
        return Source.of_text(text, lower=about["lower"], letters_only=about["letters_only"]).text()

    @cached_property
    def _never_said(self) -> list[int]:
        unknown = self.tokenizer.unknown_id
        return [] if unknown is None else [unknown]

    @cached_property
    def _pieces(self) -> list[str]:
        return [self.tokenizer.piece(i) for i in range(len(self.tokenizer.vocabulary))]

    @cached_property
    def _spelling(self) -> Spelling | None:
        return None if self.tokenizer.unknown_id is None else Spelling.from_forms(self.tokenizer.ordinary_forms)


def load_language_model(run: str | PathLike[str], tokens: str = "word") -> LanguageModel:
    """The language model of a run folder or an ARPA file; FormatError where the run holds a task."""
    path = Path(run)
    if not files.is_run(path) and files.is_file(path):
        from thereafter.training import arpa

        with visible():
            return LanguageModel(arpa.read(path, tokens))
    return LanguageModel(store.load(path))


def resume_language_model(run: str | PathLike[str]) -> LanguageModel:
    """Go on with the training of a language model; see `api.resume`."""
    from thereafter.training.resume import resume

    with visible():
        trained = resume(Path(run))
    return LanguageModel(trained, trained.texts)


def _settings(options: dict[str, Any]) -> GenerationSettings:
    return toml.build(GenerationSettings, options, "generate")


@contextmanager
def visible() -> Iterator[None]:
    """Show progress to somebody who sits at a terminal, unless something above shows it already."""
    if progress.is_shown() or not sys.stderr.isatty():
        yield
    else:
        with progress.reporting(TerminalReporter()):
            yield
