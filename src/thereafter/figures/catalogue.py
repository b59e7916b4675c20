"""Every figure that can be drawn from a saved file: what it takes, which function draws it, what it shows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from thereafter.errors import FormatError, OptionError, UnknownNameError
from thereafter.figures import comparisons
from thereafter.figures.figure import Figure
from thereafter.figures.traces import LogLine
from thereafter.inspection.arrays import holds
from thereafter.inspection.measurement import KEY as MEASUREMENT
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.trace import Trace

LOG_NAME = "log.jsonl"
TRACE, SURPRISAL = "trace", "surprisal"


@dataclass(frozen=True)
class FigureEntry:
    """`takes`: "trace", "log" (run folders or their log.jsonl), or the kind of a measurement. `made_by`: the command
    that writes such a file. `together`: several files make one figure; otherwise each file makes its own. `needs`: the
    array that a trace must have, or "gates"."""

    takes: str
    function: str
    shows: str
    made_by: str
    together: bool = False
    needs: str = ""


_GRADIENTS = "thereafter inspect gradients RUN --out FILE.npz"
_JACOBIANS = "thereafter inspect jacobians RUN --out FILE.npz"
_DYNAMICS = 'thereafter inspect dynamics RUN --text "..." --out FILE.npz'
_UNITS = "thereafter inspect units RUN SOURCE --out FILE.npz"
_TRACE = 'thereafter inspect trace RUN "..." --out FILE.npz'
_MEMORY = "thereafter inspect memory ... --out FILE.npz"
_PROBE = "thereafter inspect probe RUN --out FILE.npz"
_PAIRS = "thereafter inspect pairs RUN PAIRS --out FILE.npz"
_COMPARED = "thereafter compare agreement --seeds 3 --out DIR, then DIR"
_COMPARISON = "thereafter compare SOURCE --out DIR, then DIR"
_WINDOW = "model.trace(...).save(FILE.npz) of a recurrent forecaster"
_AHEAD = "thereafter inspect ahead RUN SOURCE --out FILE.npz"
_LIBRARY = "Measurement.save of thereafter.inspection"
_CAPTIONED = "measured_caption of thereafter.figures, .save(FILE.npz)"
_CLIPS = "measured_{} of thereafter.figures, .save(FILE.npz)"
_TASKS = "measured_{} of thereafter.figures.tasks, .save(FILE.npz)"

FIGURES: dict[str, FigureEntry] = {
    "training-curves": FigureEntry(
        "log", "traces:training_curves", "perplexity while training", "thereafter train SOURCE --out RUN", True
    ),
    "series-gates": FigureEntry(
        "trace", "series.lines:gates_over_series", "gates of a forecaster over its window", _WINDOW, needs="past"
    ),
    "gates": FigureEntry("trace", "traces:gates", "every gate's mean over a text", _TRACE, needs="gates"),
    "attention": FigureEntry("trace", "attention:head_maps", "where each head looks", _TRACE, needs="attention"),
    "gradient-decay": FigureEntry(
        "gradient-flow", "gradients:gradient_decay", "gradient by distance", _GRADIENTS, True
    ),
    "gradient-depth": FigureEntry(
        "gradient-flow", "gradients:gradient_depth", "gradient by distance and layer", _GRADIENTS
    ),
    "jacobian-paths": FigureEntry("jacobians", "gradients:jacobian_paths", "direct path against all", _JACOBIANS, True),
    "jacobian-spectrum": FigureEntry("jacobians", "gradients:jacobian_spectrum", "singular values by step", _JACOBIANS),
    "truncation": FigureEntry("truncation", "gradients:truncation_kept", "gradient kept by length", _LIBRARY, True),
    "activation-stability": FigureEntry(
        "activation-stability", "stability:activation_stability", "states and gradients by activation", _LIBRARY
    ),
    "repeated-multiplication": FigureEntry(
        "repeated-multiplication", "stability:repeated_multiplication", "powers of a matrix", _LIBRARY
    ),
    "time-by-length": FigureEntry("growth", "memory:time_by_length", "seconds by length of text", _LIBRARY),
    "memory-by-length": FigureEntry("growth", "memory:memory_by_length", "bytes by length of text", _LIBRARY),
    "state-by-length": FigureEntry("growth", "memory:state_by_length", "bytes of state by length of text", _LIBRARY),
    "bptt-memory": FigureEntry("bptt-memory", "memory:bptt_memory_by_length", "bytes of BPTT by truncation", _LIBRARY),
    "trajectory": FigureEntry("trajectory", "dynamics:trajectory", "the path of a state through a text", _DYNAMICS),
    "saturation": FigureEntry("saturation", "dynamics:saturation", "how often gates are open or closed", _LIBRARY),
    "timescales": FigureEntry("timescales", "dynamics:timescales", "how long each unit keeps", _LIBRARY),
    "senses": FigureEntry("senses", "dynamics:senses", "one word, two contexts", _LIBRARY),
    "gate-surface": FigureEntry("gate-surface", "dynamics:gate_surface", "a gate over two of its inputs", _LIBRARY),
    "prediction-surface": FigureEntry(
        "prediction-surface", "dynamics:prediction_surface", "a word's probability over states", _LIBRARY
    ),
    "gates-by-class": FigureEntry("gates-by-class", "traces:gates_by_class", "gates by class of word", _LIBRARY),
    "ngram-sparsity": FigureEntry("sparsity", "text:sparsity", "n-grams seen by order", _LIBRARY),
    "information-decay": FigureEntry(
        "probe-number", "memory:information_decay", "bits a probe reads by distance", _PROBE, True
    ),
    "word-class": FigureEntry("probe-class", "memory:word_class_by_layer", "word class by layer", _PROBE, True),
    "memory": FigureEntry("memory", "memory:accuracy_by_n", "accuracy by steps to remember", _MEMORY, True),
    "pairs": FigureEntry(
        "pairs", "agreement:accuracy_by_group", "how often the good sentence is likelier", _PAIRS, True
    ),
    "agreement": FigureEntry("agreement", "agreement:accuracy_by_distance", "verbs right by distance", _COMPARED, True),
    "congruence": FigureEntry(
        "agreement", "agreement:accuracy_by_congruence", "verbs right by attractor", _COMPARED, True
    ),
    "bits-per-byte": FigureEntry("comparison", "comparisons:bits_by_model", "models side by side", _COMPARISON),
    "expectation": FigureEntry(
        "expectation", "agreement:expectation_along", "was or were, word by word", _LIBRARY, True
    ),
    "surprisal": FigureEntry(
        "surprisal",
        "surprisal:coloured",
        "text coloured by the surprisal of its words",
        "thereafter surprisal RUN SOURCE --out FILE.npz",
    ),
    "units": FigureEntry("units", "units:coloured", "text coloured by its best unit", _UNITS),
    "unit-ranking": FigureEntry("units", "units:ranking", "how well units follow each property", _UNITS),
    "steps-ahead": FigureEntry(
        "steps-ahead", "series.forecasting.ahead_figures:steps_ahead", "a series k steps ahead", _AHEAD
    ),
    "error-by-steps": FigureEntry(
        "steps-ahead", "series.forecasting.ahead_figures:error_by_steps", "error by steps ahead", _AHEAD, True
    ),
    "alignment": FigureEntry("alignment", "tasks:alignment", "where a translator looks", _TASKS.format("alignment")),
    "attended-picture": FigureEntry(
        "caption-attention", "vision.captioning.figure:attended_picture", "where a captioner looks", _CAPTIONED
    ),
    "belief-by-frame": FigureEntry(
        "clip-belief",
        "vision.clips.figures:belief_by_frame",
        "labels of a clip, frame by frame",
        _CLIPS.format("belief"),
    ),
    "predicted-frames": FigureEntry(
        "frames-ahead", "vision.clips.figures:predicted_frames", "frames that come next", _CLIPS.format("frames"), True
    ),
    "nats-by-step": FigureEntry(
        "frame-nats", "vision.clips.figures:nats_by_step", "nats a frame by frames ahead", _CLIPS.format("nats"), True
    ),
    "glimpse-path": FigureEntry(
        "glimpse-path",
        "vision.glimpsing.figure:glimpse_path",
        "where a network looked at a picture",
        _CLIPS.format("glimpses"),
    ),
    "drawn-strokes": FigureEntry(
        "drawn-strokes",
        "vision.drawing.figure:drawn_strokes",
        "a picture drawn stroke by stroke",
        _CLIPS.format("strokes"),
    ),
    "bleu-by-length": FigureEntry(
        "bleu-by-length", "tasks:bleu_by_length", "translations by source length", _TASKS.format("bleu"), True
    ),
    "confusion": FigureEntry(
        "confusion", "tasks:confusion", "which class is predicted as which", _TASKS.format("confusion")
    ),
}


def draw(name: str, paths: Sequence[Path]) -> list[Figure]:
    """Draw the figure of that name from saved files: one figure of all files, or one for each.

    Example: figures.draw("training-curves", [Path("runs/lstm")])
    """
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    entry = FIGURES[name]
    if not paths:
        raise OptionError(f"the figure {name!r} needs a file; write one with: {entry.made_by}")
    function = drawer(entry)
    if entry.takes == "log":
        return [function({_run_name(path): _log(path) for path in paths}, text="their own text")]
    loaded = [one for path in paths for one in _read(path, name, entry)]
    if entry.together:
        return [function(loaded, **captions(function, loaded[0]))]
    return [function(one, **captions(function, one)) for one in loaded]


def drawer(entry: FigureEntry) -> Callable[..., Figure]:
    """The function that draws an entry."""
    module, _, function = entry.function.partition(":")
    draw_function: Callable[..., Figure] = getattr(
        import_module(f"thereafter.{module if '.' in module else f'figures.{module}'}"), function
    )
    return draw_function


def _read(path: Path, name: str, entry: FigureEntry) -> Sequence[Trace | Measurement]:
    if holds(path, TRACE):
        return [_of_trace(path, name, entry)]
    if entry.takes == TRACE and not holds(path, MEASUREMENT):
        return [Trace.load(path)]
    if entry.takes in ("agreement", "comparison") and comparisons.is_comparison(path):
        return comparisons.agreements(path) if entry.takes == "agreement" else [comparisons.scores(path)]
    measurement = Measurement.load(path)
    if measurement.kind != entry.takes:
        fitting = [other for other, known in FIGURES.items() if known.takes == measurement.kind]
        remedy = f"try {' or '.join(fitting)}" if fitting else f"try the file that this writes: {entry.made_by}"
        raise OptionError(f"{path} is a measurement of {measurement.kind!r}; {name!r} takes {entry.takes!r}; {remedy}")
    return [measurement]


def _of_trace(path: Path, name: str, entry: FigureEntry) -> Trace | Measurement:
    """A saved trace as a figure takes it."""
    trace = Trace.load(path)
    if entry.takes == TRACE:
        return trace
    if entry.takes == SURPRISAL and has_surprisal(trace):
        return surprisal_of(trace)
    fitting = [other for other, known in FIGURES.items() if known.takes == TRACE] + [SURPRISAL] * has_surprisal(trace)
    raise OptionError(
        f"{path} is a trace; {name!r} takes {entry.takes!r}; try {' or '.join(fitting)}, or the file that this writes: "
        f"{entry.made_by}"
    )


def has_surprisal(trace: Trace) -> bool:
    """Whether a trace has log p of every token."""
    return trace.axes.get("log_prob") == ("step",)


def surprisal_of(trace: Trace) -> Measurement:
    """The bits of every token of a trace, which any language model has, as a measurement "surprisal"."""
    bits_1T = trace["log_prob"].astype(np.float64).reshape(1, -1) / -np.log(2)
    arrays: Arrays = {
        "model": np.array([str(trace.about.get("model", "the model"))]),
        "text": np.array([token if token == "\n" else token.strip(" ") or token for token in trace.tokens]),
        "line": 1 + np.cumsum([0, *("\n" in token for token in trace.tokens[:-1])]),
        "bits": bits_1T,
        "spelling_bits": np.zeros_like(bits_1T),
        "unknown": np.zeros(bits_1T.shape, np.int64),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("model", "step"))
    axes |= {"model": ("model",)} | dict.fromkeys(("text", "line"), ("step",))
    about = {"model": str(arrays["model"][0]), "text": trace.about.get("text", "a traced text"), "by": "token"}
    return Measurement(SURPRISAL, arrays, axes, about)


def captions(function: Callable[..., Figure], loaded: Trace | Measurement) -> dict[str, str]:
    """The names of model and text, from what the file says about itself, as far as the function takes them."""
    about = loaded.about
    known = {"model": str(about.get("model", "the model")), "text": str(about.get("text", "a text"))}
    parameters = inspect.signature(function).parameters
    return {word: value for word, value in known.items() if word in parameters}


def _log(path: Path) -> list[LogLine]:
    """The lines of a run's log."""
    file = path / LOG_NAME if path.is_dir() else path
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise FormatError(
            f"{file} is not the log of a run ({error}); expected a run folder or its {LOG_NAME}"
        ) from error


def _run_name(path: Path) -> str:
    return path.name if path.is_dir() else path.resolve().parent.name
