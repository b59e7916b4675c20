"""The protocol every language model is trained under: hold some text out, fit the tokenizer, encode, train.

`resume` goes on with a training that was stopped or killed. A training may begin with a run (`Start`): then its weights
and its tokenizer go on with new text. What the weights depend on is the run's own: the kind of model, its sizes, how
text is cut. Options that say otherwise are refused. Dropout and other regularisation is free, as are all options of
training.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS, listed
from thereafter.base.storage import open_plain
from thereafter.errors import EmptyCorpusError, FormatError, OptionError, SourceError
from thereafter.evaluation.scores import MANY, unknown_share
from thereafter.runs import folder as files
from thereafter.runs import writer
from thereafter.runs.writer import Destination, Journal, Unfinished, begin
from thereafter.text import reading
from thereafter.text.encoded import IdArray, encode_source, fit_source
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers import TOKENIZERS, load_tokenizer
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.writing import describe_writing, describe_writing_of_run, texts_in_style, writing_of_run
from thereafter.training import finding
from thereafter.training.kinds import (
    MODELS,
    About,
    ModelKind,
    Sorted,
    Trained,
    TrainingJob,
    load_trained,
    read_config,
    save_trained,
)
from thereafter.training.settings import START, TextSettings, TrainingSettings, check_logs

LEAST_TOKENS = 16
"""Fewer training tokens teach a neural model nothing."""


def train(
    texts: Texts,
    model: str,
    text: TextSettings,
    options: Sorted,
    out: Path | None = None,
    valid: Texts | None = None,
    split: str | None = None,
    warnings: Sequence[str] = (),
    start: Start | None = None,
) -> Trained:
    """Train a model of the named kind on the training part of the texts.

    It is saved to the run folder `out`, if that is given; a kind that is trained step by step as it goes. `valid` is
    another text to validate on, `split` cuts the text itself: see `finding.split_texts`. `warnings` are what the caller
    has against these texts; the user sees them, and they stand in the log. `start`: a run to go on with, whose settings
    are among the options already (`Start.settle`).
    """
    kind: ModelKind = MODELS.load(model)
    training = toml.build(TrainingSettings, options.training, "training")
    check_logs(training, out)
    if start is not None:
        writing = writing_of_run(start.trained.config, start.trained.tokenizer)
        texts, valid = texts_in_style(texts, writing), None if valid is None else texts_in_style(valid, writing)
    parts, notes = finding.hold_out(texts, valid, split, needed=kind.trained_in_steps)
    source = finding.part_of(parts, "train")
    notes = [*texts.notes, *finding.form_notes(source), *notes]
    began = time.perf_counter()
    tokenizer, ids = tokenize(source, texts.tokens, text, start)
    if not len(ids):
        raise EmptyCorpusError(f"{source.name} holds no tokens; expected at least one; try a text that is not empty")
    validation = encode_source(tokenizer, parts.parts["valid"]) if kind.trained_in_steps else np.empty(0, np.int32)
    context = choose_context(kind, tokenizer, texts, text, training)
    about = measure(kind, tokenizer, ids, validation, context, source.name)
    settings, training, chosen = kind.complete(options.model, training, about)
    if start is not None:
        notes += [f"going on with the weights of {start.folder}"]
        if source.rewriting is not None:
            notes += [f"rewritten as the text of {start.folder}: {writing}"]
        notes += unknown_note(tokenizer, [ids, validation], start.folder)
    if text.tokens is None and tokenizer.name == "prose" and tokenizer.vocabulary.counts is not None:
        forms = zip(tokenizer.ordinary_forms, tokenizer.vocabulary.counts[len(tokenizer.reserved) :], strict=True)
        without_spaces = reading.advice(reading.share_of_characters(forms))
        notes += [] if without_spaces is None else [without_spaces]
    notes += [*chosen, *warnings]
    written = (  # of a run that is gone on with it is its own
        describe_writing(source)
        if start is None
        else describe_writing_of_run(start.trained.config, start.trained.tokenizer)
    )
    config: Table = {
        "format": files.FORMAT,
        "model": model,
        "source": finding.describe_source(texts, source),
        "text": asdict(text) | {"tokens": tokenizer.name, "context": context} | written,
        model: toml.as_table(settings),
        **({} if start is None else {START: start.describe()}),
    }
    figures: Table = {
        "tokens": len(ids),
        "vocabulary": len(tokenizer.vocabulary),
        "seconds_tokenizing": round(time.perf_counter() - began, 3),
    }
    if notes:
        figures["notes"] = notes
    for note in notes:
        progress.tell(note)
    if kind.trained_in_steps:
        config["source"] |= finding.describe_validation(parts, valid, split)
        config["training"] = asdict(training)
        figures |= {"validation_tokens": len(validation), "notes": notes}
        place = begin(out, config, tokenizer.save, figures, {} if start is None else start.weights)
    else:
        place = Destination(Journal())
    job = TrainingJob(tokenizer, ids, context, settings, training, place, figures, validation)
    trained = _run(kind, job, config, parts)
    if out is not None and not kind.trained_in_steps:
        save_trained(trained, out)
    return trained


def _run(kind: ModelKind, job: TrainingJob, config: Table, texts: Texts) -> Trained:
    """Train what is laid out."""
    with job.place.journal as journal:
        model = kind.train(job)
    return Trained(model, job.tokenizer, config, journal.lines, texts)


def resume(folder: Path) -> Trained:
    """Train a run to its end from its last checkpoint on, exactly as it would have gone on; a finished one is loaded,
    with a note.

    The text is found again by what `config.toml` says of it; the tokenizer and all settings are those of the run.
    """
    from thereafter.training.control import COUNTED  # imports torch, which counting does without

    read_config(folder)
    return writer.resume(folder, COUNTED, load_trained, _go_on)


def _go_on(run: Unfinished) -> Trained:
    config, kind = run.config, MODELS.load(run.config["model"])
    texts = finding.find_again(config, run.folder)
    tokenizer = load_tokenizer(run.folder / files.TOKENIZER)
    ids = encode_source(tokenizer, texts.parts["train"])
    valid = encode_source(tokenizer, texts.parts["valid"])
    settings = toml.build(kind.settings, config[config["model"]], config["model"])
    training = _on_this_machine(toml.build(TrainingSettings, config["training"], "training"))
    figures: Table = {"tokens": len(ids), "vocabulary": len(tokenizer.vocabulary), "validation_tokens": len(valid)}
    figures |= {"seconds_tokenizing": 0.0, "notes": run.notes}
    begins_with_run = run.snapshot is None and START in config
    place = run.destination(read_again(config[START], run.folder).weights if begins_with_run else {})
    context = str(config["text"]["context"])
    job = TrainingJob(tokenizer, ids, context, settings, training, place, figures, valid)
    return _run(kind, job, config, texts)


def _on_this_machine(training: TrainingSettings) -> TrainingSettings:
    """The settings of the run, on a CPU where its GPU is not here."""
    import torch

    if training.device != "cuda" or torch.cuda.is_available():
        return training
    progress.note("this run began on a GPU, and there is none here: it goes on on the CPU, in float32")
    return replace(training, device="cpu", precision="float32")


def choose_context(
    kind: ModelKind, tokenizer: Tokenizer, texts: Texts, text: TextSettings, training: TrainingSettings
) -> str:
    """The context of a model: "line" (the state begins anew at every line) or "stream".

    The default of an n-gram model is that of its tokenizer, that of a neural model is "stream". Texts with independent
    lines are read line by line: a carried state is noise there, and many a network does not learn what a line asks for
    (docs/claims.md).
    """
    alone = texts.independent_lines and training.batching is None and tokenizer.line_end_id is not None
    stepwise = "line" if training.batching == "lines" or alone else "stream"
    context = text.context or (stepwise if kind.trained_in_steps else tokenizer.context)
    if context not in ("line", "stream"):
        raise OptionError(f"context is {context!r}; expected 'line' (every line starts afresh) or 'stream'")
    if context == "line" and tokenizer.line_end_id is None:
        raise OptionError(f"the tokens {tokenizer.name!r} have no line end, so context cannot be 'line'; try 'stream'")
    return context


def measure(kind: ModelKind, tokenizer: Tokenizer, ids: IdArray, valid: IdArray, context: str, name: str) -> About:
    """What defaults are chosen by; refuses a text that is too short to train on in steps."""
    if kind.trained_in_steps and len(ids) < LEAST_TOKENS:
        raise EmptyCorpusError(
            f"{name} has {len(ids)} {tokenizer.name} tokens to train on; a neural model needs at least {LEAST_TOKENS}; "
            "try a longer text, or model='ngram'"
        )
    if kind.trained_in_steps and not len(valid):
        raise EmptyCorpusError(f"the validation text of {name} holds no tokens; try another (valid=, --valid)")
    longest = 0
    if context == "line" and kind.trained_in_steps:
        ends = np.flatnonzero(np.asarray(ids) == tokenizer.line_end_id)
        longest = int(np.diff(np.concatenate([[-1], ends, [len(ids) - 1]])).max())
    return About(len(ids), len(valid), len(tokenizer.vocabulary), tokenizer.name, context, longest)


def tokenize(
    source: Source, default: str, settings: TextSettings, start: Start | None = None
) -> tuple[Tokenizer, IdArray]:
    """Fit the tokenizer that was asked for, else the one that suits the source, and encode the text.

    A run that is gone on with has its own tokenizer.
    """
    if start is not None:
        return start.trained.tokenizer, encode_source(start.trained.tokenizer, source)
    kind: type[Tokenizer] = TOKENIZERS.load(settings.tokens or default)
    return fit_source(kind, source, min_count=settings.min_count, max_size=settings.vocabulary)


def run_name(source: str, model: str) -> str:
    """A name for a run folder that says what was trained on what."""
    name = "standard-input" if source == "-" else source
    stem = Path(name).name.split(".")[0] or "text"
    plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem)[:40]
    return f"{plain}-{model}"


_OF_TOKENS = ("tokens", "context", "min_count", "vocabulary", "lower", "letters_only")
"""The options of the text that the vocabulary, and so the weights, depend on."""
_FREE = ("dropout", "weight_drop", "alpha", "beta")
"""How options begin that change how a model learns and not what it is."""


@dataclass(frozen=True)
class Start:
    """A finished language model that another training begins with."""

    folder: Path
    sha256: str
    """Of its weights."""
    trained: Trained

    @property
    def model(self) -> str:
        """The kind of model."""
        return str(self.trained.config["model"])

    @property
    def weights(self) -> dict[str, NDArray[np.generic]]:
        kind: ModelKind = MODELS.load(self.model)
        return kind.arrays(self.trained.model)[0]

    def describe(self) -> Table:
        """What the configuration says of it. `texts`: hashes of what it has learned from, whatever comes after."""
        source, before = self.trained.config["source"], self.trained.config.get(START, {})
        hashes = [source[key] for key in ("text_sha256", "whole_text_sha256") if source.get(key)]
        texts = [*hashes, *before.get("texts", ())]
        return {"run": str(self.folder.absolute()), "sha256": self.sha256, "texts": texts}

    def settle(self, given: Sorted, tokens: str | None) -> Sorted:
        """The options of a training that goes on with this run; OptionError for one that contradicts it."""
        config, text = self.trained.config, dict(given.text)
        if tokens is not None:
            text["tokens"] = tokens
        own = {name: config["text"].get(name) for name in _OF_TOKENS}
        self.check_own(text, own, "reads its text with")
        fixed = {name: config[self.model].get(name) for name in given.model if not name.startswith(_FREE)}
        self.check_own(given.model, fixed, "is a model with")
        return Sorted(text | own, dict(config[self.model]) | given.model, dict(given.training))

    def check_own(self, options: Mapping[str, object], own: Mapping[str, object], how: str) -> None:
        """Refuse options that contradict what the run decides; a list and a tuple say the same."""
        for name, value in own.items():
            if name in options and _plain(options[name]) != _plain(value):
                raise OptionError(
                    f"{name} is {options[name]!r}, and training goes on from {self.folder}, which {how} "
                    f"{name}={value!r}; expected the run's own; try leaving {name} out"
                )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def read_start(run: Path, model: str | None = None) -> Start:
    """The language model of a run folder, to begin with; OptionError where nothing can go on from it.

    `model`: the kind that was asked for, where one was.
    """
    kind = check_start(run)
    if model not in (None, kind):
        raise OptionError(
            f"model is {model!r}, and training goes on from {run}, which is {kind!r}; try leaving model out"
        )
    return Start(run, _sha256(run), load_trained(run))


def check_start(run: Path) -> str:
    """The kind of model in a run that another training can begin with."""
    if files.holds_task(run):
        raise FormatError(f"{run} holds a task; expected a language model to start from; try one of `thereafter train`")
    config, _ = read_config(run)
    kind: ModelKind = MODELS.load(config["model"])
    if not kind.trained_in_steps:
        neural = listed([name for name, row in KINDS.items() if row.neural])
        raise OptionError(
            f"{run} holds the model {config['model']!r}, which counts and has no weights to go on with; expected one "
            f"of {neural}; to use it beside a model of other text, mix them: "
            f"thereafter.mixture([{str(run)!r}, OTHER], tune=TEXT)"
        )
    files.check_weights(config, run)
    return str(config["model"])


def read_again(about: Table, run: Path) -> Start:
    """The run that another one began with, which must be the same still."""
    folder = Path(str(about["run"]))
    try:
        same = _sha256(folder) == about["sha256"]
    except OSError:
        same = False
    if not same:
        raise SourceError(
            f"{run} was stopped before its first checkpoint, and the run {folder} that it begins with is not there any "
            "more, or has changed; try putting that back, or training anew with another --out"
        )
    return read_start(folder)


def _sha256(run: Path) -> str:
    with open_plain(run / files.WEIGHTS) as weights:
        return hashlib.file_digest(weights, "sha256").hexdigest()


def unknown_note(tokenizer: Tokenizer, ids: Iterable[IdArray], run: Path) -> list[str]:
    """How much of new text a tokenizer does not know; nothing for one that knows every text."""
    if tokenizer.unknown_id is None:
        return []
    counts = [(int(np.count_nonzero(np.asarray(one) == tokenizer.unknown_id)), len(one)) for one in ids]
    unknown, total = (sum(column) for column in zip(*counts, strict=True))
    remedy = "little of this text can be learned with its vocabulary; try training anew"
    return [describe_unknown(unknown, total, f"{tokenizer.name} tokens", run, remedy)]


def describe_unknown(unknown: int, total: int, what: str, run: Path, remedy: str) -> str:
    """A sentence; where much is unknown a warning, with what can be done."""
    share = unknown_share(unknown, total)
    note = f"{unknown:,} of {total:,} {what} ({100 * share:.1f} %) are unknown to {run}"
    return note if share <= MANY else f"{progress.WARNING}{note}: {remedy}"
