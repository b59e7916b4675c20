"""A trial of a comparison: one model trained or taken up again, scored, timed, asked what its corpus asks, and sampled.

`make_trial` puts together what was measured. The studio measures models that were trained elsewhere, by the same
functions. Speeds are tokens a second in training, and the time from one token to the next when a model is used.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.comparing.budget import Entry, SharedText
from thereafter.comparing.differences import LineSums, sum_lines
from thereafter.comparing.probes import Questions
from thereafter.comparing.rows import Trial
from thereafter.decoding import generation
from thereafter.errors import OptionError
from thereafter.evaluation.agreement import Stored
from thereafter.evaluation.scores import Score, ScoredPiece, score_text, spelling_of
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids, Logs
from thereafter.runs.folder import CONFIG, TOKENIZER, WEIGHTS, is_run, owning
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training import protocol
from thereafter.training.kinds import Trained, load_trained, sort_options
from thereafter.training.settings import TextSettings

NEEDED = (CONFIG, TOKENIZER, WEIGHTS)
"""The files that using a model takes."""
_TIMED_TOKENS = 4096
_PROMPT_WORDS = 4
_SAMPLE_TOKENS = {"char": 240, "byte": 240}
_SAMPLE_DEFAULT = 50
_TEMPERATURE = 0.8
_OF_A_SCORE = ("tokens", "lines", "unknown", "chars", "bytes", "vocabulary", "context", "normalised")


@dataclass(frozen=True)
class ValidationCurve:
    """What the validation part says of a model: its best bits per byte, and its curve (none without steps).

    `perplexities`: one for each point of the curve, or the one of a model without steps.
    """

    bits_per_byte: float = math.inf
    curve: list[list[float]] = field(default_factory=list)
    perplexities: tuple[float, ...] = ()


def run_trial(
    entry: Entry,
    seed: int | None,
    text: SharedText,
    options: Table,
    folder: Path,
    questions: Mapping[str, Questions],
    lines: Path | None = None,
) -> Trial:
    """Train and measure one model; `folder` is its run folder, and a training broken off there goes on.

    `lines`: a file for what each line of the test part costs.
    """
    trained = _train(entry, seed, text, options, folder)
    test = text.parts["test"]
    score, sums = _score_lines(trained, test)
    if lines is not None and sums is not None:
        sums.save(lines)
    trial = make_trial(
        trained,
        entry.name,
        folder,
        score=score,
        validation=measure_validation(trained, text.parts["valid"]),
        latency=next_token_latency(trained.model, _first_tokens(trained.tokenizer, test)),
        probes=ask_all(trained, questions),
    )
    prompt, sample = _sample(trained, test)
    kept = {name: value for name, value in trial.score.items() if name in _OF_A_SCORE}
    return replace(trial, score=kept, prompt=prompt, sample=sample)


def make_trial(
    trained: Trained,
    name: str,
    run: Path,
    *,
    score: Score,
    validation: ValidationCurve,
    latency: float,
    probes: dict[str, Stored],
) -> Trial:
    """All that is compared of a model, from what was measured of it, its configuration, its log and its folder."""
    kind = str(trained.config["model"])
    training = trained.config.get("training", {})
    done = last_line(trained.log)
    return Trial(
        name=name,
        model=kind,
        tokens=trained.tokenizer.name,
        seed=training.get("seed"),
        bits_per_byte=score.bits_per_byte,
        perplexity=score.perplexity,
        validation=validation.bits_per_byte,
        parameters=trained.model.facts.parameters,
        tokens_per_second=training_speed(trained.log),
        latency=latency,
        size=sum((run / file).stat().st_size for file in NEEDED),
        seconds=float(done.get("seconds_training", math.nan)),
        seen=int(done["seen"] if "seen" in done else done.get("tokens", 0)),
        score=score.as_dict(),
        settings=dict(trained.config[kind]),
        training=dict(training),
        run=run.name,
        curve=validation.curve,
        probes=probes,
    )


def measure_lines(trained: Trained, part: Source) -> LineSums | None:
    """What each line of a text costs a model; None where its tokens cross the ends of lines."""
    return _score_lines(trained, part)[1]


def measure_validation(trained: Trained, valid: Source) -> ValidationCurve:
    """By the log of a training in steps that was validated on this text; any other model is scored on it."""
    if "training" not in trained.config:
        level = _score(trained, valid)
        return ValidationCurve(level.bits_per_byte, [], (level.perplexity,))
    curve = validation_curve(trained, valid)
    perplexities = tuple(float(line["perplexity"]) for line in _validations(trained.log))
    return ValidationCurve(min((point[2] for point in curve), default=math.inf), curve, perplexities)


def ask_all(trained: Trained, questions: Mapping[str, Questions]) -> dict[str, Stored]:
    """What a model answers to the questions of its corpus, by the name of the probe."""
    reader = SentenceReader.of(trained.model, trained.tokenizer, trained.config)
    asked = {name: several(reader) for name, several in questions.items()}
    return {name: verdicts.as_dict() for name, verdicts in asked.items() if verdicts is not None}


def _score_lines(trained: Trained, part: Source) -> tuple[Score, LineSums | None]:
    """The score of a text, and what each of its lines costs."""
    log_p: list[Logs] = []
    score = _score(trained, part, lambda piece: log_p.append(piece.logp_T))
    return score, sum_lines(trained.tokenizer, part.chunks(), np.concatenate(log_p))


def _score(trained: Trained, part: Source, watch: Callable[[ScoredPiece], None] | None = None) -> Score:
    model, tokenizer, chunks = trained.model, trained.tokenizer, part.chunks("scoring")
    return score_text(model, tokenizer, chunks, name=part.name, context=trained.context, watch=watch)


def _train(entry: Entry, seed: int | None, text: SharedText, options: Table, folder: Path) -> Trained:
    if is_run(folder):
        if not entry.kind.trained_in_steps:
            return load_trained(folder)
        return protocol.resume(folder)
    given = dict(options) if seed is None else {**options, "training.seed": seed}
    settings = TextSettings(**{**asdict(text.settings), "tokens": entry.tokens})
    with owning(folder):
        sorted_options = sort_options(entry.model, given)
        return protocol.train(text.texts, entry.model, settings, sorted_options, folder, text.valid)


def validation_curve(trained: Trained, valid: Source) -> list[list[float]]:
    """Seconds, tokens and bits per byte at each validation of a training; empty for models without any."""
    lines = _validations(trained.log)
    if not lines:
        return []
    steps = [(0, 0)] + [(line["step"], line["seen"]) for line in trained.log if line.get("event") == "step"]
    done = last_line(trained.log)
    if "seen" in done and "steps" in done:
        steps.append((done["steps"], done["seen"]))
    at, seen = zip(*sorted(set(steps)), strict=True)
    tokens, spelling, size = _text_costs(trained.tokenizer, valid.chunks())
    return [
        [
            float(line["seconds"]),
            float(np.interp(line["step"], at, seen)),
            (line["loss"] * tokens + spelling) / math.log(2) / size,
        ]
        for line in lines
    ]


def _validations(log: Sequence[Table]) -> list[Table]:
    return [line for line in log if line.get("event") == "validation"]


def _text_costs(tokenizer: Tokenizer, chunks: Iterable[str]) -> tuple[int, float, int]:
    """What turns nats a token into bits per byte: tokens, nats for the spelling of unknown forms, bytes."""
    spelling = spelling_of(tokenizer)
    tokens, nats, size = 0, 0.0, 0
    for piece in tokenizer.measure_stream(chunks, whole=True):
        tokens, size = tokens + len(piece.ids), size + piece.bytes
        if spelling is not None and piece.unknown_forms:
            nats += spelling.total(piece.unknown_forms)
    return tokens, nats, size


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


STEPS = 256
_WARM_UP = 32


def next_token_latency(model: AnyModel, tokens: Ids, *, steps: int = STEPS) -> float:
    """The median time of reading one token and predicting the next, in seconds, one row, over tokens of a text.

    The first steps are not counted: what is compiled or cached on first use is no part of it.
    """
    given = np.asarray(tokens).ravel()
    if not len(given) or steps < 1:
        raise OptionError(f"got {len(given)} tokens and {steps} steps to time; expected at least one of each")
    read = np.resize(given, steps + _WARM_UP)
    state, taken = model.start(1), []
    for number in range(len(read)):
        token_B = read[number : number + 1]
        began = time.perf_counter()
        _, state = model.step(token_B, state)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[_WARM_UP:])


def last_line(log: Sequence[Table]) -> Table:
    """The line of a log that says what came of the training; empty where it has not ended."""
    return next((line for line in reversed(log) if line.get("event") == "trained"), {})


def training_speed(log: Sequence[Table]) -> float | None:
    """Tokens a second by the last line of a training's log; None where it does not say."""
    done = last_line(log)
    if done.get("tokens_per_second"):
        return float(done["tokens_per_second"])
    seconds = done.get("seconds_training")
    return float(done["tokens"]) / max(float(seconds), 1e-3) if seconds is not None and "tokens" in done else None
