"""One model trained once for a comparison: trained or taken up again, scored, timed, judged, and asked to go on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.comparing import timing
from thereafter.comparing.entries import Entry
from thereafter.comparing.shared_text import SharedText
from thereafter.decoding import generation
from thereafter.errors import FormatError
from thereafter.evaluation.agreement import measure_agreement
from thereafter.evaluation.scores import Score, score_text
from thereafter.runs import ownership
from thereafter.runs.folder import CONFIG, TOKENIZER, WEIGHTS, is_run
from thereafter.text.agreement import Sentence
from thereafter.text.sources import Source
from thereafter.text.spelling import Spelling
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training import protocol, store
from thereafter.training.kinds import Trained
from thereafter.training.options import sort_options

_TIMED_TOKENS = 4096
_PROMPT_WORDS = 4
_SAMPLE_TOKENS = {"char": 240, "byte": 240}
_SAMPLE_DEFAULT = 50
_TEMPERATURE = 0.8
_NEEDED = (CONFIG, TOKENIZER, WEIGHTS)


@dataclass(frozen=True)
class Trial:
    """What came of one model with one seed (None where nothing is random), as plain values.

    `validation` is the bits per byte that chose the weights, `latency` the seconds from token to token, `size` the
    bytes of the files that using the model takes. `curve` has a point for each validation: seconds of training, tokens
    trained on, bits per byte.
    """

    name: str
    model: str
    tokens: str
    seed: int | None
    bits_per_byte: float
    perplexity: float
    validation: float
    parameters: int
    tokens_per_second: float | None
    latency: float
    size: int
    seconds: float
    seen: int
    score: dict[str, Any]
    settings: dict[str, Any]
    training: dict[str, Any]
    run: str
    prompt: str = ""
    sample: str = ""
    curve: list[list[float]] = field(default_factory=list)
    agreement: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are none or infinite become null."""
        return dict(finite(asdict(self)))

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What `as_dict` gave; FormatError for anything else."""
        known = {one.name for one in fields(cls)}
        try:
            values = {name: stored[name] for name in known}
            none = math.inf if values["score"].get("normalised", True) else math.nan
            endless = {name: none for name in ("bits_per_byte", "perplexity", "validation") if values[name] is None}
            return cls(**{**values, **endless})
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"the result of a comparison is incomplete or damaged ({error!r}); remove it") from error


def run_trial(
    entry: Entry,
    seed: int | None,
    text: SharedText,
    options: Mapping[str, Any],
    folder: Path,
    sentences: list[Sentence] | None,
) -> Trial:
    """Train and measure one model; `folder` is its run folder, and a training broken off there goes on."""
    trained = _trained(entry, seed, text, options, folder)
    model, tokenizer = trained.model, trained.tokenizer
    scores = {
        name: score_text(model, tokenizer, part.chunks("scoring"), name=part.name, context=trained.context)
        for name, part in text.parts.items()
        if name == "test" or (name == "valid" and not entry.kind.trained_in_steps)
    }
    score = scores["test"]
    done = timing.last_line(trained.log)
    curve = validation_curve(trained, text.parts["valid"])
    settings = trained.config[entry.model]
    prompt, sample = _sample(trained, text.parts["test"])
    return Trial(
        name=entry.name,
        model=entry.model,
        tokens=tokenizer.name,
        seed=seed,
        bits_per_byte=score.bits_per_byte,
        perplexity=score.perplexity,
        validation=min((point[2] for point in curve), default=math.inf)
        if curve
        else scores.get("valid", score).bits_per_byte,
        parameters=_parameters(done),
        tokens_per_second=timing.training_speed(trained.log),
        latency=timing.next_token_latency(model, _first_tokens(tokenizer, text.parts["test"])),
        size=sum((folder / name).stat().st_size for name in _NEEDED),
        seconds=float(done.get("seconds_training", 0.0)),
        seen=int(done.get("seen", done.get("tokens", 0))),
        score=_described(score),
        settings=dict(settings),
        training=dict(trained.config.get("training", {})),
        run=folder.name,
        prompt=prompt,
        sample=sample,
        curve=curve,
        agreement=None if sentences is None else _agreement(trained, sentences, text),
    )


def _trained(entry: Entry, seed: int | None, text: SharedText, options: Mapping[str, Any], folder: Path) -> Trained:
    if is_run(folder):
        if not entry.kind.trained_in_steps:
            return store.load(folder)
        from thereafter.training.resume import resume

        return resume(folder)
    given = dict(options) if seed is None else {**options, "training.seed": seed}
    settings = protocol.TextSettings(**{**asdict(text.settings), "tokens": entry.tokens})
    with ownership.owning(folder):
        sorted_options = sort_options(entry.model, given)
        trained = protocol.train(text.texts, entry.model, settings, sorted_options, folder, text.valid)
        if not entry.kind.trained_in_steps:
            store.save(trained, folder)
    return trained


def validation_curve(trained: Trained, valid: Source) -> list[list[float]]:
    """Seconds, tokens and bits per byte at each validation of a training; empty for models without any."""
    lines = [line for line in trained.log if line.get("event") == "validation"]
    if not lines:
        return []
    steps = [(0, 0)] + [(line["step"], line["seen"]) for line in trained.log if line.get("event") == "step"]
    done = timing.last_line(trained.log)
    if "seen" in done and "steps" in done:
        steps.append((done["steps"], done["seen"]))
    at, seen = zip(*sorted(set(steps)), strict=True)
    tokens, spelling, size = _charged(trained.tokenizer, valid.chunks())
    return [
        [
            float(line["seconds"]),
            float(np.interp(line["step"], at, seen)),
            (line["loss"] * tokens + spelling) / math.log(2) / size,
        ]
        for line in lines
    ]


def _charged(tokenizer: Tokenizer, chunks: Iterable[str]) -> tuple[int, float, int]:
    """What turns nats a token into bits per byte: tokens, nats for the spelling of unknown forms, bytes."""
    spelling = Spelling.from_forms(tokenizer.ordinary_forms) if tokenizer.unknown_id is not None else None
    tokens, nats, size = 0, 0.0, 0
    for piece in tokenizer.measure_stream(chunks, whole=True):
        tokens, size = tokens + len(piece.ids), size + piece.bytes
        if spelling is not None and piece.unknown_forms:
            nats += spelling.total(piece.unknown_forms)
    return tokens, nats, size


def _agreement(trained: Trained, sentences: list[Sentence], text: SharedText) -> dict[str, Any]:
    about = text.settings

    def prepare(sentence: str) -> str:
        return Source.of_text(sentence, lower=about.lower, letters_only=about.letters_only).text()

    asked = prepare if about.lower or about.letters_only else None
    found = measure_agreement(trained.model, trained.tokenizer, sentences, context=trained.context, prepare=asked)
    return found.as_dict()


def _sample(trained: Trained, test: Source) -> tuple[str, str]:
    """The first words of the test text, and how the model goes on from there."""
    opening = next((line for chunk in test.chunks() for line in chunk.split("\n") if line.strip()), "")
    prompt = " ".join(opening.split()[:_PROMPT_WORDS])
    model, tokenizer = trained.model, trained.tokenizer
    ids = tokenizer.encode(prompt)
    state = model.start(1)
    if len(ids):
        state = model.read(ids.reshape(1, -1), state)
    never = [] if tokenizer.unknown_id is None else [tokenizer.unknown_id]
    most = _SAMPLE_TOKENS.get(tokenizer.name, _SAMPLE_DEFAULT)
    settings = generation.GenerationSettings(max_new_tokens=most, temperature=_TEMPERATURE, seed=0)
    (one,) = generation.generate(generation.Prompted(model, tokenizer, prompt, ids, state, never), settings)
    return prompt, one.text.removeprefix(prompt)


def _first_tokens(tokenizer: Tokenizer, source: Source) -> NDArray[np.int32]:
    pieces: list[NDArray[np.int32]] = []
    for ids in tokenizer.encode_stream(source.chunks()):
        pieces.append(ids[:_TIMED_TOKENS])
        if sum(map(len, pieces)) >= _TIMED_TOKENS:
            break
    return np.concatenate(pieces)[:_TIMED_TOKENS]


def _parameters(done: Mapping[str, Any]) -> int:
    """What a model has learned, in numbers: those of an n-gram are the probabilities it stores."""
    return int(done["parameters"]) if "parameters" in done else int(sum(done.get("ngrams", ())))


def _described(score: Score) -> dict[str, Any]:
    names = ("tokens", "lines", "unknown", "chars", "bytes", "vocabulary", "context", "normalised")
    return {name: value for name, value in score.as_dict().items() if name in names}


def finite(value: Any) -> Any:
    """The same values with None for numbers that JSON cannot say."""
    if isinstance(value, dict):
        return {name: finite(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
