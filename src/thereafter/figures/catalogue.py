"""Every figure that can be drawn from a saved file, a measurement, a trace or a comparison.

It says what a figure takes, which function draws it and what it shows. `Measurement.figure`, `Trace.figure` and
`Comparison.figure` draw the figure that is named, or the first that fits. The results of `thereafter compare` become
measurements: scores of all models, agreement of each model and seed.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError, UnknownNameError
from thereafter.evaluation.agreement import Verdicts
from thereafter.figures import style
from thereafter.figures.figure import DOOR, Figure
from thereafter.figures.traces import LogLine
from thereafter.inspection.arrays import holds
from thereafter.inspection.dynamics import GATES
from thereafter.inspection.measurement import KEY as MEASUREMENT
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.memory import from_tallies
from thereafter.inspection.trace import Trace

M = TypeVar("M")
LOG_NAME = "log.jsonl"
TRACE, SURPRISAL = "trace", "surprisal"


@dataclass(frozen=True)
class FigureEntry:
    """`takes`: "trace", "log" (run folders or their log.jsonl), or the kind of a measurement. `function`: its name in
    `figures`. `together`: several files make one figure; otherwise each file makes its own. `needs`: the array that a
    trace must have, or "gates"."""

    takes: str
    function: str
    shows: str
    together: bool = False
    needs: str = ""

    @property
    def made_by(self) -> str:
        """The command, or the call, that writes such a file."""
        return _MADE_BY.get(self.needs) or _MADE_BY.get(self.takes, _LIBRARY)


FIGURES: dict[str, FigureEntry] = {
    "training-curves": FigureEntry("log", "training_curves", "perplexity while training", together=True),
    "series-gates": FigureEntry("trace", "gates_over_series", "gates of a forecaster over its window", needs="past"),
    "gates": FigureEntry("trace", "gates", "every gate's mean over a text", needs="gates"),
    "attention": FigureEntry("trace", "head_maps", "where each head looks", needs="attention"),
    "gradient-decay": FigureEntry("gradient-flow", "gradient_decay", "gradient by distance", together=True),
    "gradient-depth": FigureEntry("gradient-flow", "gradient_depth", "gradient by distance and layer"),
    "jacobian-paths": FigureEntry("jacobians", "jacobian_paths", "direct path against all", together=True),
    "jacobian-spectrum": FigureEntry("jacobians", "jacobian_spectrum", "singular values by step"),
    "truncation": FigureEntry("truncation", "truncation_kept", "gradient kept by length", together=True),
    "activation-stability": FigureEntry(
        "activation-stability", "activation_stability", "states and gradients by activation"
    ),
    "repeated-multiplication": FigureEntry("repeated-multiplication", "repeated_multiplication", "powers of a matrix"),
    "time-by-length": FigureEntry("growth", "time_by_length", "seconds by length of text"),
    "memory-by-length": FigureEntry("growth", "memory_by_length", "bytes by length of text"),
    "state-by-length": FigureEntry("growth", "state_by_length", "bytes of state by length of text"),
    "bptt-memory": FigureEntry("bptt-memory", "bptt_memory_by_length", "bytes of BPTT by truncation"),
    "trajectory": FigureEntry("trajectory", "trajectory", "the path of a state through a text"),
    "saturation": FigureEntry("saturation", "saturation", "how often gates are open or closed"),
    "timescales": FigureEntry("timescales", "timescales", "how long each unit keeps"),
    "senses": FigureEntry("senses", "senses", "one word, two contexts"),
    "gate-surface": FigureEntry("gate-surface", "gate_surface", "a gate over two of its inputs"),
    "prediction-surface": FigureEntry("prediction-surface", "prediction_surface", "a word's probability over states"),
    "gates-by-class": FigureEntry("gates-by-class", "gates_by_class", "gates by class of word"),
    "ngram-sparsity": FigureEntry("sparsity", "sparsity", "n-grams seen by order"),
    "information-decay": FigureEntry(
        "probe-number", "information_decay", "bits a probe reads by distance", together=True
    ),
    "word-class": FigureEntry("probe-class", "word_class_by_layer", "word class by layer", together=True),
    "memory": FigureEntry("memory", "accuracy_by_n", "accuracy by steps to remember", together=True),
    "pairs": FigureEntry("pairs", "accuracy_by_group", "how often the good sentence is likelier", together=True),
    "agreement": FigureEntry("agreement", "accuracy_by_distance", "verbs right by distance", together=True),
    "congruence": FigureEntry("agreement", "accuracy_by_congruence", "verbs right by attractor", together=True),
    "bits-per-byte": FigureEntry("comparison", "bits_by_model", "models side by side"),
    "expectation": FigureEntry("expectation", "expectation_along", "was or were, word by word", together=True),
    "surprisal": FigureEntry("surprisal", "coloured_words", "text coloured by the surprisal of its words"),
    "units": FigureEntry("units", "coloured_units", "text coloured by its best unit"),
    "unit-ranking": FigureEntry("units", "unit_ranking", "how well units follow each property"),
    "steps-ahead": FigureEntry("steps-ahead", "steps_ahead", "a series k steps ahead"),
    "error-by-steps": FigureEntry("steps-ahead", "error_by_steps", "error by steps ahead", together=True),
    "alignment": FigureEntry("alignment", "alignment", "where a translator looks"),
    "attended-picture": FigureEntry("caption-attention", "attended_picture", "where a captioner looks"),
    "belief-by-frame": FigureEntry("clip-belief", "belief_by_frame", "labels of a clip, frame by frame"),
    "predicted-frames": FigureEntry("frames-ahead", "predicted_frames", "frames that come next", together=True),
    "nats-by-step": FigureEntry("frame-nats", "nats_by_step", "nats a frame by frames ahead", together=True),
    "glimpse-path": FigureEntry("glimpse-path", "glimpse_path", "where a network looked at a picture"),
    "drawn-strokes": FigureEntry("drawn-strokes", "drawn_strokes", "a picture drawn stroke by stroke"),
    "bleu-by-length": FigureEntry("bleu-by-length", "bleu_by_length", "translations by source length", together=True),
    "confusion": FigureEntry("confusion", "confusion", "which class is predicted as which"),
}

_LIBRARY = "Measurement.save of thereafter.inspection"
_MADE_BY = {
    "log": "thereafter train SOURCE --out RUN",
    "past": "model.trace(...).save(FILE.npz) of a recurrent forecaster",
    "trace": 'thereafter inspect trace RUN "..." --out FILE.npz',
    "gradient-flow": "thereafter inspect gradients RUN --out FILE.npz",
    "jacobians": "thereafter inspect jacobians RUN --out FILE.npz",
    "trajectory": 'thereafter inspect dynamics RUN --text "..." --out FILE.npz',
    "probe-number": "thereafter inspect probe RUN --out FILE.npz",
    "probe-class": "thereafter inspect probe RUN --out FILE.npz",
    "memory": "thereafter inspect memory ... --out FILE.npz",
    "pairs": "thereafter inspect pairs RUN PAIRS --out FILE.npz",
    "agreement": "thereafter compare agreement --seeds 3 --out DIR, then DIR",
    "comparison": "thereafter compare SOURCE --out DIR, then DIR",
    "surprisal": "thereafter surprisal RUN SOURCE --out FILE.npz",
    "units": "thereafter inspect units RUN SOURCE --out FILE.npz",
    "steps-ahead": "thereafter inspect ahead RUN SOURCE --out FILE.npz",
    "alignment": "measured_alignment of thereafter.figures.tasks, .save(FILE.npz)",
    "caption-attention": "measured_caption of thereafter.figures, .save(FILE.npz)",
    "clip-belief": "measured_belief of thereafter.figures, .save(FILE.npz)",
    "frames-ahead": "measured_frames of thereafter.figures, .save(FILE.npz)",
    "frame-nats": "measured_nats of thereafter.figures, .save(FILE.npz)",
    "glimpse-path": "measured_glimpses of thereafter.figures, .save(FILE.npz)",
    "drawn-strokes": "measured_strokes of thereafter.figures, .save(FILE.npz)",
    "bleu-by-length": "measured_bleu of thereafter.figures.tasks, .save(FILE.npz)",
    "confusion": "measured_confusion of thereafter.figures.tasks, .save(FILE.npz)",
}
"""Who writes the file of a figure, by what it needs or takes; `_LIBRARY` of all others."""


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
        names = [path.name if path.is_dir() else path.resolve().parent.name for path in paths]
        return [function(dict(zip(names, map(_log, paths), strict=True)), text="their own text")]
    loaded = [one for path in paths for one in _read(path, name, entry)]
    if entry.together:
        return [function(loaded, **captions(function, loaded[0]))]
    return [function(one, **captions(function, one)) for one in loaded]


def drawer(entry: FigureEntry) -> Callable[..., Figure]:
    """The function that draws an entry."""
    function: Callable[..., Figure] = DOOR.load(entry.function)
    return function


def _read(path: Path, name: str, entry: FigureEntry) -> Sequence[Trace | Measurement]:
    if holds(path, TRACE):
        return [_of_trace(path, name, entry)]
    if entry.takes == TRACE and not holds(path, MEASUREMENT):
        return [Trace.load(path)]
    if entry.takes in _OF_COMPARISONS and ((path / FILE).is_file() if path.is_dir() else path.name == FILE):
        return (
            measure_comparison(path, agreements_of)
            if entry.takes == "agreement"
            else [measure_comparison(path, scores_of)]
        )
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
    about = {"model": str(arrays["model"][0]), "text": trace.about.get("text", "a traced text"), "by": "token"}
    return Measurement.of(SURPRISAL, arrays, about)


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


_OF_COMPARISONS = ("comparison", "agreement")


def draw_measurement(measured: Measurement, name: str | None = None, *others: Measurement, **options: object) -> Figure:
    """A figure of a measurement, together with others of its kind where the figure compares models."""
    chosen, entry = _entry(name, figures_of(measured.kind), f"a measurement of {measured.kind!r}")
    for other in others:
        if other.kind != measured.kind:
            raise OptionError(f"got measurements of {measured.kind!r} and {other.kind!r}; expected one kind")
    if others and not entry.together:
        raise OptionError(f"the figure {chosen!r} shows one measurement; got {1 + len(others)}; draw each by itself")
    shown: object = [measured, *others] if entry.together else measured
    return _call(chosen, drawer(entry), shown, measured, options)


def draw_trace(trace: Trace, name: str | None = None, **options: object) -> Figure:
    """A figure of a trace; without a name, the first for which the trace has the arrays."""
    if has_surprisal(trace) and name in (None, SURPRISAL):
        if name is None and not any(_has_arrays(trace, entry.needs) for entry in figures_of(TRACE).values()):
            name = SURPRISAL
        if name is not None:
            return draw_measurement(surprisal_of(trace), name, **options)
    known = figures_of(TRACE)
    fitting = {one: entry for one, entry in known.items() if _has_arrays(trace, entry.needs)}
    if name is None and not fitting:
        needs = ", ".join(f"{one} ({entry.needs})" for one, entry in known.items())
        raise OptionError(
            f"this trace has {', '.join(trace.arrays)}; the figures of a trace need other arrays: {needs}"
        )
    chosen, entry = _entry(name, fitting if name is None else known, "a trace")
    return _call(chosen, drawer(entry), trace, trace, options)


def draw_comparison(stored: Table, name: str | None = None, **options: object) -> Figure:
    """A figure of all that a comparison keeps: its scores, or what the corpus asked about agreement."""
    known = {one: entry for kind in _OF_COMPARISONS for one, entry in figures_of(kind).items()}
    chosen, entry = _entry(name, known, "a comparison")
    if entry.takes == "agreement":
        first, *others = agreements_of(stored)
        return draw_measurement(first, chosen, *others, **options)
    return draw_measurement(scores_of(stored), chosen, **options)


def figures_of(kind: str) -> dict[str, FigureEntry]:
    """The figures that can be drawn of a kind, by name; the first is drawn where none is named."""
    return {name: entry for name, entry in FIGURES.items() if entry.takes == kind}


def _entry(name: str | None, known: Mapping[str, FigureEntry], what: str) -> tuple[str, FigureEntry]:
    if not known:
        raise OptionError(f"there is no figure of {what}; it has a table: try .to_rows() or .to_csv()")
    if name is None:
        name = next(iter(known))
    if name not in FIGURES:
        raise UnknownNameError("figure", name, known)
    if name not in known:
        raise OptionError(f"the figure {name!r} is not one of {what}; try {' or '.join(known)}")
    return name, known[name]


def _call(
    name: str, function: Callable[..., Figure], shown: object, first: Trace | Measurement, options: Table
) -> Figure:
    allowed = list(inspect.signature(function).parameters)[1:]
    for option in options:
        if option not in allowed:
            raise UnknownNameError(f"option of the figure {name}", option, allowed)
    return function(shown, **{**captions(function, first), **options})


def _has_arrays(trace: Trace, needs: str) -> bool:
    if needs == "gates":
        return any("." in name and name.rpartition(".")[2] in GATES for name in trace.arrays)
    return not needs or needs in trace.arrays


FILE = "compare.json"


def agreements_of(stored: Table) -> list[Measurement]:
    """The verdicts of every trial, from all that a comparison keeps (`Comparison.as_dict`)."""
    source = str(stored["source"])
    measurements = []
    for trial in (trial for row in stored["rows"] for trial in row["trials"] if trial.get("agreement")):
        tallies = Verdicts.from_dict(trial["agreement"])
        text = f"{tallies.overall.total:,} test sentences of {source}"
        measurements.append(from_tallies(tallies, {"model": str(trial["name"]), "trained_on": source, "text": text}))
    if not measurements:
        raise FormatError("the comparison has no agreement results; expected that of: thereafter compare agreement")
    return measurements


def scores_of(stored: Table) -> Measurement:
    """Arrays [model]: `bits_per_byte` and its `spread` over seeds, `seconds`, `parameters`."""
    rows = stored["rows"]
    bits = [row["bits_per_byte"] for row in rows]
    arrays = {
        "model": np.array([str(row["name"]) for row in rows]),
        "bits_per_byte": np.array([_number(one["mean"]) for one in bits]),
        "spread": np.array([_number(one["spread"]) for one in bits]),
        "seconds": np.array([_number(row["seconds"]) for row in rows]),
        "parameters": np.array([int(row["parameters"]) for row in rows]),
    }
    seeds = max((len(row["trials"]) for row in rows), default=0)
    names = ", ".join(arrays["model"].tolist())
    about = {"model": names, "text": f"the test part of {stored['source']}", "seeds": seeds}
    return Measurement.of("comparison", arrays, about)


def measure_comparison(path: Path, measure: Callable[[Table], M]) -> M:
    """What is measured of a comparison in a file; FormatError that names it where it is something else."""
    file = path / FILE if path.is_dir() else path
    try:
        return measure(json.loads(file.read_text(encoding="utf-8")))
    except FormatError as error:
        raise FormatError(f"{file}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{file} is not a comparison ({error}); expected what thereafter compare writes") from error


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


_ROW = 34  # pixels a model


def bits_by_model(measurement: Measurement) -> Figure:
    """Bits per byte of every model of a comparison, the best first, with the spread over seeds.

    Example: figures.bits_by_model(scores_of(comparison.as_dict()))
    """
    bits, spread = measurement["bits_per_byte"], measurement["spread"]
    order = [int(place) for place in np.argsort(bits, kind="stable") if np.isfinite(bits[place])]
    if not order:
        raise OptionError("no model of the comparison has bits per byte; expected at least one whose scores are finite")
    names = [str(measurement["model"][place]) for place in order]
    plot = style.canvas("bits per byte (less is better)", "model", height=150 + _ROW * len(order))
    plot.add_bar(
        x=bits[order].tolist(),
        y=names,
        orientation="h",
        marker={"color": [style.colour(name, place) for place, name in enumerate(names)]},
        text=[f"{value:.3f}" for value in bits[order]],
        textposition="inside",
        insidetextanchor="start",
        error_x={"array": np.nan_to_num(spread[order]).tolist(), "color": style.GREY, "thickness": 1.5},
    )
    plot.update_layout(showlegend=False)
    plot.update_yaxes(autorange="reversed", automargin=True, title_standoff=14, type="category")
    seeds = int(measurement.about["seeds"])
    lines = f"; lines: standard deviation over {seeds} seeds" if seeds > 1 else ""
    return Figure(
        "bits-per-byte",
        "Bits per byte of each model",
        f"Bits per byte on {measurement.about['text']}, less is better{lines}.",
        plot,
        {
            "model": names,
            "bits per byte": bits[order].tolist(),
            "spread": [float(value) if np.isfinite(value) else None for value in spread[order]],
            "seconds of training": measurement["seconds"][order].tolist(),
            "parameters": measurement["parameters"][order].tolist(),
        },
    )
