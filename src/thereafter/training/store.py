"""A language model as a run folder: what `runs` writes and reads of it."""

from __future__ import annotations

from pathlib import Path

from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError, nearest
from thereafter.runs import folder as files
from thereafter.runs import writer
from thereafter.runs.journal import Line
from thereafter.runs.narrow import check_dtype
from thereafter.text.tokenizers import load_tokenizer
from thereafter.training.kinds import MODELS, ModelKind, Trained

_TEXT = {"tokens": str, "context": str, "lower": bool, "letters_only": bool}


def save(trained: Trained, folder: Path, dtype: str = "float32") -> Path:
    """Write a model as a run, in the place of one that is there already; `dtype` as in `runs/narrow.py`."""
    files.check_free(folder)
    name = trained.config["model"]
    kind: ModelKind = MODELS.load(name)
    check_dtype(dtype)
    if dtype != "float32" and not kind.trained_in_steps:
        raise OptionError(
            f"dtype is {dtype!r}, and the model {name!r} counts: it has tables of log probabilities and no weights to "
            "round; expected 'float32'; try leaving dtype out, or cutoffs when training"
        )
    saved = writer.Saved(trained.config, trained.tokenizer, *kind.arrays(trained.model), trained.log)
    return writer.save(saved, folder, dtype)


def load(folder: Path) -> Trained:
    """Read a run back; n-gram tables are mapped, not copied."""
    config, log = read_config(folder)
    arrays, facts = writer.read_weights(folder, config)
    kind: ModelKind = MODELS.load(config["model"])
    tokenizer = load_tokenizer(folder / files.TOKENIZER)
    model = kind.restore(arrays, facts, config)
    if model.vocabulary_size != len(tokenizer.vocabulary):
        raise FormatError(
            f"the run {folder} mixes a model of {model.vocabulary_size:,} words with a tokenizer of "
            f"{len(tokenizer.vocabulary):,}; try training again"
        )
    return Trained(model, tokenizer, config, log)


def read_config(folder: Path) -> tuple[Table, list[Line]]:
    """The configuration and the log of a language model's run, checked."""
    config, log = files.read_config(folder)
    if "task" in config:
        raise FormatError(
            f"{folder} holds the task {config['task']!r}; expected a language model; try: thereafter predict {folder}"
        )
    model = config["model"]
    if model not in MODELS:
        raise FormatError(
            f"{folder / files.CONFIG}: no model is called {model!r}; {nearest(model, list(MODELS))}. If it is a cell "
            "of your own, register its class in this process first: thereafter.register(MyCell)"
        )
    files.check_tables(config, folder, {"source": ("name",), "text": tuple(_TEXT), model: ()})
    for name, kind in _TEXT.items():
        if not isinstance(config["text"][name], kind):
            raise FormatError(
                f"{folder / files.CONFIG}: {name} of [text] is {str(config['text'][name])[:80]!r}; expected a "
                f"{kind.__name__}; try training again"
            )
    if not isinstance(config["source"]["name"], str):
        raise FormatError(f"{folder / files.CONFIG}: name of [source] is no text; expected one; try training again")
    return config, log
