"""The functions that `import thereafter` offers: train, resume, compare, surprisal, load, read_arpa, mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from thereafter.base import config as toml
from thereafter.base.progress import show_progress
from thereafter.data.corpora import require_own
from thereafter.data.files import AnySource, Files, Parts
from thereafter.errors import OptionError
from thereafter.evaluation.scores import Score
from thereafter.evaluation.switches import Switches
from thereafter.evaluation.text_reading import TOP, Context
from thereafter.inspection.surprisal import Surprisals, tabulate
from thereafter.inspection.trace import Trace
from thereafter.language_model import (
    LanguageModel,
    load_language_model,
    load_several,
    loaded,
    resume_language_model,
)
from thereafter.runs import folder as files
from thereafter.training import protocol, reading
from thereafter.training.finding import find_texts, part_of
from thereafter.training.kinds import MODELS, ModelKind, sort_options
from thereafter.training.settings import TextSettings

if TYPE_CHECKING:
    from thereafter.comparing.compare import Comparison
    from thereafter.comparing.differences import ComparedRuns
    from thereafter.comparing.task_trials import TaskComparison
    from thereafter.series.frames import AnyTable
    from thereafter.task_model import TaskModel


@overload
def train(
    source: AnySource | None = None,
    *,
    task: None = None,
    text: str | None = None,
    model: str | None = None,
    tokens: str | None = None,
    out: str | PathLike[str] | None = None,
    valid: AnySource | None = None,
    split: str | None = None,
    parts: bool = True,
    start_from: str | PathLike[str] | None = None,
    **options: object,
) -> LanguageModel: ...
@overload
def train(
    source: AnyTable,
    *,
    task: str,
    text: None = None,
    model: str | None = None,
    tokens: str | None = None,
    out: str | PathLike[str] | None = None,
    valid: AnyTable | None = None,
    split: str | None = None,
    parts: bool = True,
    start_from: str | PathLike[str] | None = None,
    **options: object,
) -> TaskModel: ...
def train(
    source: AnyTable | None = None,
    *,
    task: str | None = None,
    text: str | None = None,
    model: str | None = None,
    tokens: str | None = None,
    out: str | PathLike[str] | None = None,
    valid: AnyTable | None = None,
    split: str | None = None,
    parts: bool = True,
    start_from: str | PathLike[str] | None = None,
    **options: object,
) -> LanguageModel | TaskModel:
    """Train a language model on a path, several paths, a folder, a glob or a named corpus (or on `text=`).

    `model`: a name of `thereafter.base.kinds.KINDS`, `ngram` by default.
    `tokens`: word, prose, char, byte, bpe, wordpiece or unigram; by default the tokenizer that suits the source.
    `out`: a run folder to save to; a neural model is saved there during training, and `resume` continues it after an
    interruption.
    `valid`: a validation set; `split="90/10"` cuts it from the text instead. By default it is the valid part of a
    corpus, else neural models hold out the last 5 % of lines; n-grams need none.
    `parts`: a folder with train, valid and test files, by their names, is trained on the first, validated on the second
    and never trained on the third (docs/reading.md); `parts=False` reads all files as one.
    Options of the text: context, min_count, vocabulary, lower, letters_only, encoding, keep_licence, wrapped, markup.
    Options of `model="ngram"`: order, smoothing, cutoffs, alpha, factor. Those of neural models are the fields of
    `thereafter.models.settings` and of `thereafter.training.settings.TrainingSettings`: hidden, layers, epochs, rate...
    `start_from`: the run folder of a neural language model to continue from: its weights, its tokenizer, its sizes.
    If two tables have an option of the same name, write the full name: `**{"transformer.context": 512}`.

    With `task` (a name of `thereafter.tasks.TASKS`) a network for that task is trained on examples instead: a file, or
    the name of a corpus; validated on its valid part, else on the last tenth. Options are the fields of the task's
    settings and of `TrainingSettings`. With `start_from` the network of `classify` and `tag` begins with the word
    vectors and the recurrent layers of a language model; `unfreeze` and `layer_decay` control how they are trained.
    `task="forecast"` takes a table of series as a path, a data frame of pandas or polars or a numpy array; `model`
    is a kind of forecaster, `split="70/10/20"` divides the rows by time (docs/forecasting.md).

    >>> lm = train(text="the cat sat on the mat\\nthe cat ate\\n", tokens="word", order=2, smoothing="mle", min_count=1)
    >>> lm.next("the", k=1)
    [('cat', 0.6666666865348816)]
    """
    if task is not None:
        from thereafter.task_model import train_task

        if text is not None:
            raise OptionError(f"got text= with task={task!r}; text is for language models; try leaving it out")
        named = {"model": model, "tokens": tokens, "split": split}
        options |= {name: value for name, value in named.items() if value is not None}
        return train_task(task, source, options, valid=valid, out=out, start_from=start_from, parts=parts)
    source, valid = _no_frame(source), _no_frame(valid)
    start = None if start_from is None else protocol.read_start(Path(start_from), model)
    model = model or "ngram" if start is None else start.model
    sorted_options = sort_options(model, options)
    if start is not None:
        sorted_options, tokens = start.settle(sorted_options, tokens), start.trained.tokenizer.name
    settings = toml.build(TextSettings, {"tokens": tokens, **sorted_options.text}, "text")
    folder = None if out is None else Path(out)
    if folder is not None:
        files.check_free(folder)
    with show_progress(), nullcontext() if folder is None else files.owning(folder):
        if folder is not None:
            files.say_replaced(folder)
        texts = find_texts(source, text, settings, parts=parts)
        if not parts:
            require_own(texts)
        validation = None if valid is None else find_texts(valid, None, settings)
        kind: ModelKind = MODELS.load(model)
        warnings: list[str] = []
        if validation is not None and kind.trained_in_steps:
            warnings = reading.validated_on_training(part_of(texts, "train"), part_of(validation, "valid"))
        trained = protocol.train(texts, model, settings, sorted_options, folder, validation, split, warnings, start)
    return LanguageModel(trained)


def _no_frame(source: AnyTable | None) -> AnySource | None:
    """A source of text; OptionError for a table in memory."""
    if source is None or isinstance(source, str | PathLike | Files | Parts):
        return source
    if isinstance(source, Sequence):
        return list(source)
    raise OptionError(
        f"the source of a language model is a {type(source).__name__}; expected a path, several paths or the name of a "
        "corpus; try text= for text, task='forecast' for a table of numbers"
    )


def resume(run: str | PathLike[str]) -> LanguageModel | TaskModel:
    """Resume a training run that was stopped or killed; a finished run is loaded.

    Returns what `load` returns. On a CPU, and with a budget in epochs or tokens, the final weights are those of a run
    that was never stopped, to the last bit: it uses the same number of threads as before, and warns if the processor or
    the version of torch has changed.

    Example: thereafter.resume("runs/book")
    """
    path = Path(run)
    if files.holds_task(path):
        from thereafter.task_model import resume_task

        return resume_task(path)
    return resume_language_model(path)


def load(
    run: str | PathLike[str], tokens: str = "word", *, as_written: bool = False, device: str = "auto"
) -> LanguageModel | TaskModel:
    """Load a run folder or an ARPA file (`tokens` as in `read_arpa`). Nothing in it is executed.

    `device`: "cpu", "cuda", or "auto", a GPU if there is one, as in training: it pays off for whole texts and many
    examples. A GPU gives the same answers; for a few short calls the CPU is often faster. What is
    returned is the same on every device: strings, numbers, numpy arrays. An n-gram answers on the CPU. What `train`
    returns stays on the device it was trained on.

    A model brings plain text into the way its own was written, pre-tokenised or with ’ for ' (docs/plain-text.md);
    `as_written=True` leaves every text as it is.

    Example: thereafter.load("runs/book").next("the cat sat on the")
    """
    path = Path(run)
    if files.holds_task(path):
        from thereafter.task_model import load_task

        return load_task(path, as_written=as_written, device=device)
    return load_language_model(path, tokens, as_written=as_written, device=device)


def read_arpa(path: str | PathLike[str], tokens: str = "word") -> LanguageModel:
    """Read an n-gram model from an ARPA file, plain or gzip, written by any toolkit.

    `tokens` is the tokenizer of its words: `word`, or `prose` or `char` for files that `to_arpa` wrote for such models.

    Example: thereafter.read_arpa("model.arpa.gz", tokens="word")
    """
    from thereafter.training import ngram

    with show_progress():
        return LanguageModel(ngram.read_arpa(Path(path), tokens))


def mixture(
    models: Sequence[LanguageModel | str | PathLike[str]],
    weights: Sequence[float] | None = None,
    *,
    tune: AnySource | None = None,
) -> LanguageModel:
    """Several models as one, p = sum of weight times p, such as an n-gram and an LSTM: often better than either.

    `models`: trained ones, or run folders; they must share a tokenizer. `weights`: one for each, adding up to 1; or
    `tune`: a text (of a corpus its valid part) on which the weights are fitted; else equal weights. They are in
    `.config["mixture"]`. It does all that a LanguageModel does, except that it cannot be saved: save its models.

    >>> text = "the cat sat on the mat\\nthe cat ate\\n" * 3
    >>> one, two = (train(text=text, tokens="word", order=order) for order in (1, 3))
    >>> mixture([one, two], weights=[0.25, 0.75]).config["mixture"]
    {'members': ['ngram', 'ngram-2'], 'weights': [0.25, 0.75]}
    """
    if isinstance(models, str | PathLike):
        raise OptionError(f"models are one path, {models!r}; expected several; try a list")
    if weights is not None and tune is not None:
        raise OptionError("got both weights= and tune=; expected one of them: weights that you pass are not tuned")
    members = [loaded(model).trained for model in models]
    plain = reading.mix(members, weights)
    lm = LanguageModel(plain)
    if tune is None:
        return lm
    with show_progress():
        text = part_of(find_texts(tune, None, lm.text_settings()), "valid")
        with reading.switch_on(lm.trained, Switches(), text) as tuned:
            return LanguageModel(reading.with_tuned_weights(plain, tuned.weights, text))


def surprisal(
    models: Sequence[LanguageModel | str | PathLike[str]],
    source: AnySource | None = None,
    *,
    text: str | None = None,
    part: str | None = None,
    encoding: str | None = None,
    by: str = "word",
    names: Sequence[str] | None = None,
    detail: bool | None = None,
    top: int = TOP,
    cache: bool | Mapping[str, object] = False,
    dynamic: bool | Mapping[str, object] = False,
    tune: AnySource | None = None,
    context: Context = None,
) -> Surprisals:
    """-log2 p of every word of a text under several models: one table, columns for each of them.

    `models`: trained ones, or run folders. Their tokens may differ: words as they are written are the rows. `names`
    are those of the columns; by default the kinds of model. Other options are those of `LanguageModel.surprisal`.

    >>> text = "the cat sat on the mat\\nthe cat ate\\n" * 3
    >>> one, two = (train(text=text, tokens=tokens, order=2) for tokens in ("word", "char"))
    >>> surprisal([one, two], text="the cat").texts
    ['the', 'cat', '\\n']
    """
    readings = []
    for name, lm in load_several(models, names).items():
        table = lm.surprisal(
            source,
            text=text,
            part=part,
            encoding=encoding,
            by=by,
            detail=detail,
            top=top,
            cache=cache,
            dynamic=dynamic,
            tune=tune,
            context=context,
        )
        readings.append(replace(table.readings[0], model=name))
    return tabulate(readings, by)


@overload
def compare(source: AnySource | None = None, *, task: None = None, on: None = None, **options: Any) -> Comparison: ...
@overload
def compare(source: AnyTable, *, task: str, on: None = None, **options: Any) -> TaskComparison: ...
@overload
def compare(
    source: Sequence[LanguageModel | str | PathLike[str]], *, on: AnySource, task: None = None, **options: object
) -> ComparedRuns: ...
def compare(
    source: AnyTable | Sequence[LanguageModel | str | PathLike[str]] | None = None,
    *,
    task: str | None = None,
    on: AnySource | None = None,
    **options: Any,
) -> Comparison | TaskComparison | ComparedRuns:
    """Train models on the same text with the same budget and compare them on its test part.

    Options (`thereafter.comparing.compare.compare` explains them): `models`, names as `train` takes them, with a
    tokenizer (`lstm:char`) or an order (`ngram-3`) if wanted; `epochs`, `tokens_budget` or `minutes` for each model and
    seed; `seeds`, or one `seed`; `match="parameters"`; `out`, a folder that keeps everything, from which a stopped
    comparison continues; and all options of `train`. The result has `rows`, `table()`, `advice()` and `save(folder)`.

    With `task` networks for that task are compared on its examples: `models` are names with the options in which they
    differ, `{"gru": {"cell": "gru"}, "lstm": {"cell": "lstm"}}`; `seeds`, `seed`, `valid`, `out` and the options of
    `train` as above. The result has `trials`, `figures(name)` and `table()`. With `task="forecast"` kinds of forecaster
    are models by themselves: `models=["naive", "linear", "gru"]`.

    With `on`, a text, nothing is trained: `source` are trained models or run folders, compared on that text in bits per
    byte, with paired intervals by line. Options are those of `surprisal`: `names`, `part`, `encoding`, `context`, ...

    Example: thereafter.compare("book.txt", models=["ngram", "lstm"], epochs=3).to_csv("models.csv")

    Example: print(thereafter.compare(["runs/ngram", "runs/lstm"], on="other.txt"))
    """
    if on is not None:
        from thereafter.comparing.differences import ComparedRuns, SeedSpread

        if not isinstance(source, Sequence) or isinstance(source, str) or task is not None:
            raise OptionError(f"got on={on!r} with {source!r}; expected several models or run folders; try a list")
        models = [loaded(model) for model in source]
        seeds = [SeedSpread(int("training" in lm.config)) for lm in models]
        return ComparedRuns.of(surprisal(models, on, by="line", **options), seeds)
    source = _no_models(source)
    if task is not None:
        if source is None:
            raise OptionError(f"the task {task!r} needs examples; expected a file or the name of a corpus")
        from thereafter.comparing.task_trials import compare_task

        with show_progress():
            return compare_task(source, task, **options)
    from thereafter.comparing.compare import compare as run

    with show_progress():
        return run(_no_frame(source), **options)


def _no_models(source: AnyTable | Sequence[LanguageModel | str | PathLike[str]] | None) -> AnyTable | None:
    """A source to train on; OptionError for models that are trained already."""
    if isinstance(source, str | PathLike | Files | Parts) or not isinstance(source, Sequence):
        return source
    paths = [path for path in source if not isinstance(path, LanguageModel)]
    if len(paths) < len(source):
        raise OptionError("got trained models and no text to compare them on; try on='other.txt'")
    return paths


__all__ = [
    "LanguageModel",
    "Score",
    "Trace",
    "compare",
    "load",
    "mixture",
    "read_arpa",
    "resume",
    "train",
]
