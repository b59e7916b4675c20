"""Every figure that can be drawn from a saved file: what it takes, which function draws it, what it shows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from thereafter.errors import FormatError, OptionError, UnknownNameError
from thereafter.figures import comparisons
from thereafter.figures.figure import Figure
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

LOG_NAME = "log.jsonl"


@dataclass(frozen=True)
class Entry:
    """`takes`: "trace", "log" (run folders or their log.jsonl), or the kind of a measurement. `made_by`: the command
    that writes such a file. `together`: several files are one figure; else each file is one of its own."""

    takes: str
    function: str
    shows: str
    made_by: str
    together: bool = False


_GRADIENTS = "thereafter inspect gradients RUN --out FILE.npz"
_JACOBIANS = "thereafter inspect jacobians RUN --out FILE.npz"
_DYNAMICS = 'thereafter inspect dynamics RUN --text "..." --out FILE.npz'
_UNITS = "thereafter inspect units RUN SOURCE --out FILE.npz"
_TRACE = 'thereafter inspect trace RUN "..." --out FILE.npz'
_MEMORY = "thereafter inspect memory ... --out FILE.npz"
_PROBE = "thereafter inspect probe RUN --out FILE.npz"
_PAIRS = "thereafter inspect pairs RUN PAIRS --out FILE.npz"
_COMPARED = "thereafter compare agreement --seeds 3 --out DIR, then DIR"
_LIBRARY = "Measurement.save of thereafter.inspection"
_TASKS = "measured_{} of thereafter.figures.tasks, .save(FILE.npz)"

FIGURES: dict[str, Entry] = {
    "training-curves": Entry(
        "log", "traces:training_curves", "perplexity while training", "thereafter train SOURCE --out RUN", True
    ),
    "gates": Entry("trace", "traces:gates", "every gate's mean over a text", _TRACE),
    "attention": Entry("trace", "attention:head_maps", "where each head looks", _TRACE),
    "gradient-decay": Entry("gradient-flow", "gradients:gradient_decay", "gradient by distance", _GRADIENTS, True),
    "gradient-depth": Entry("gradient-flow", "gradients:gradient_depth", "gradient by distance and layer", _GRADIENTS),
    "jacobian-paths": Entry("jacobians", "gradients:jacobian_paths", "direct path against all", _JACOBIANS, True),
    "jacobian-spectrum": Entry("jacobians", "gradients:jacobian_spectrum", "singular values by step", _JACOBIANS),
    "truncation": Entry("truncation", "gradients:truncation_kept", "gradient kept by length", _LIBRARY, True),
    "activation-stability": Entry(
        "activation-stability", "stability:activation_stability", "states and gradients by activation", _LIBRARY
    ),
    "repeated-multiplication": Entry(
        "repeated-multiplication", "stability:repeated_multiplication", "powers of a matrix", _LIBRARY
    ),
    "time-by-length": Entry("growth", "growth:time_by_length", "seconds by length of text", _LIBRARY),
    "memory-by-length": Entry("growth", "growth:memory_by_length", "bytes by length of text", _LIBRARY),
    "state-by-length": Entry("growth", "growth:state_by_length", "bytes of state by length of text", _LIBRARY),
    "bptt-memory": Entry("bptt-memory", "growth:bptt_memory_by_length", "bytes of BPTT by truncation", _LIBRARY),
    "trajectory": Entry("trajectory", "dynamics:trajectory", "the path of a state through a text", _DYNAMICS),
    "saturation": Entry("saturation", "dynamics:saturation", "how often gates are open or shut", _LIBRARY),
    "timescales": Entry("timescales", "dynamics:timescales", "how long each unit keeps", _LIBRARY),
    "senses": Entry("senses", "dynamics:senses", "one word, two contexts", _LIBRARY),
    "gate-surface": Entry("gate-surface", "dynamics:gate_surface", "a gate over two of its inputs", _LIBRARY),
    "prediction-surface": Entry(
        "prediction-surface", "dynamics:prediction_surface", "a word's probability over states", _LIBRARY
    ),
    "gates-by-class": Entry("gates-by-class", "traces:gates_by_class", "gates by class of word", _LIBRARY),
    "ngram-sparsity": Entry("sparsity", "text:sparsity", "n-grams seen by order", _LIBRARY),
    "information-decay": Entry("probe-number", "memory:information_decay", "what a probe reads", _PROBE, True),
    "word-class": Entry("probe-class", "memory:word_class_by_layer", "word class by layer", _PROBE, True),
    "memory": Entry("memory", "memory:accuracy_by_n", "accuracy by steps to remember", _MEMORY, True),
    "pairs": Entry("pairs", "pairs:accuracy_by_group", "good sentences found likelier", _PAIRS, True),
    "agreement": Entry("agreement", "agreement:accuracy_by_distance", "verbs right by distance", _COMPARED, True),
    "congruence": Entry("agreement", "agreement:accuracy_by_congruence", "verbs right by attractor", _COMPARED, True),
    "expectation": Entry("expectation", "agreement:expectation_along", "was or were, word by word", _LIBRARY, True),
    "units": Entry("units", "units:coloured", "text coloured by its best unit", _UNITS),
    "unit-ranking": Entry("units", "units:ranking", "how well units follow each property", _UNITS),
    "alignment": Entry("alignment", "tasks:alignment", "where a translator looks", _TASKS.format("alignment")),
    "bleu-by-length": Entry(
        "bleu-by-length", "tasks:bleu_by_length", "translations by source length", _TASKS.format("bleu"), True
    ),
    "confusion": Entry("confusion", "tasks:confusion", "what is taken for what", _TASKS.format("confusion")),
}


def draw(name: str, paths: Sequence[Path]) -> list[Figure]:
    """The figure of that name from saved files: one of all together, or one a file."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    entry = FIGURES[name]
    if not paths:
        raise OptionError(f"the figure {name!r} was given no file; expected what this writes: {entry.made_by}")
    function = drawer(entry)
    if entry.takes == "log":
        return [function({_run_name(path): _log(path) for path in paths}, text="their own text")]
    found = [one for path in paths for one in _read(path, name, entry)]
    groups: list[Any] = [found] if entry.together else found
    return [function(group, **_words(function, group)) for group in groups]


def drawer(entry: Entry) -> Callable[..., Figure]:
    """The function that draws an entry."""
    module, _, function = entry.function.partition(":")
    found: Callable[..., Figure] = getattr(import_module(f"thereafter.figures.{module}"), function)
    return found


def _read(path: Path, name: str, entry: Entry) -> Sequence[Trace | Measurement]:
    if entry.takes == "trace":
        return [Trace.load(path)]
    if entry.takes == "agreement" and comparisons.is_comparison(path):
        return comparisons.agreements(path)
    found = Measurement.load(path)
    if found.kind != entry.takes:
        fitting = [other for other, known in FIGURES.items() if known.takes == found.kind]
        remedy = f"try {' or '.join(fitting)}" if fitting else f"try the file that this writes: {entry.made_by}"
        raise OptionError(f"{path} is a measurement of {found.kind!r}; {name!r} takes {entry.takes!r}; {remedy}")
    return [found]


def _words(function: Callable[..., Figure], group: Any) -> dict[str, str]:
    """What a drawing function wants to be told of model and text, from what the file says about itself."""
    first = group[0] if isinstance(group, list) else group
    known = {"model": str(first.about.get("model", "the model")), "text": str(first.about.get("text", "a text"))}
    wanted = inspect.signature(function).parameters
    return {word: value for word, value in known.items() if word in wanted}


def _log(path: Path) -> list[dict[str, Any]]:
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
