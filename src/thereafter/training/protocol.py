"""The protocol every model is trained under: find the text, hold some out, fit the tokenizer, encode, train."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, OptionError, SourceError
from thereafter.runs.folder import FORMAT
from thereafter.runs.journal import Journal
from thereafter.runs.writer import RunWriter
from thereafter.text import spaces
from thereafter.text.chunks import IdArray
from thereafter.text.encoded import encode_source, fit_source
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.writing import describe_writing, describe_writing_of_run, texts_in_style, writing_of_run
from thereafter.training import roles, starting
from thereafter.training.kinds import MODELS, About, ModelKind, Trained, TrainingJob
from thereafter.training.options import Sorted, TextSettings
from thereafter.training.settings import TrainingSettings, check_logs
from thereafter.training.split import split_texts
from thereafter.training.starting import Start
from thereafter.vision.pictures.archives import IDX_ENDINGS, is_picture, members_of
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS

__all__ = ["TextSettings", "find_texts", "part_of", "run_name", "tokenize", "train"]

_SWITCH = re.compile(r" \(--[^)]*\)")  # switches of training, which decides how a run reads files

LEAST_TOKENS = 16
"""Fewer training tokens teach a neural model nothing."""


_NO_TEXT = {
    "series": ("series of numbers", "forecast"),
    "labelled-series": ("series of numbers", "classify"),
    "pictures": ("pictures with labels", "classify"),
    "captioned": ("pictures with captions", "caption"),
    "clips": ("clips of moving pictures", "video"),
    "games": ("games to play", "act"),
}
"""What corpora without running text hold, and the task that reads it."""


def find_texts(
    source: AnySource | None,
    text: str | None,
    settings: TextSettings,
    part: str | None = None,
    *,
    parts: bool = True,
) -> Texts:
    """The text that `source` or `text` means; one of the two must be given. `parts` as in `data.sources.locate`."""
    if text is not None and source is None:
        return Texts.of_text(text, lower=settings.lower, letters_only=settings.letters_only)
    if source is None or text is not None:
        got = "both" if text is not None else "neither"
        one = "a path or a corpus name, or"
        raise SourceError(f"got {got} of a source and a text; expected one", f"{one} text='...'", f"{one} --text '...'")
    refuse_pictures(source)
    try:
        texts = resolve(
            source,
            encoding=settings.encoding,
            lower=settings.lower,
            letters_only=settings.letters_only,
            part=part,
            forming=settings.forming,
            parts=parts,
        )
    except SourceError:
        refuse_folders_of_pictures(source)
        raise
    if texts.corpus is None and not isinstance(source, Files | Parts):
        for own in texts.parts.values():
            own.require_column()
    if texts.kind in _NO_TEXT:
        content, task = _NO_TEXT[texts.kind]
        others = f"{texts.name} holds {content}, not running text; try the task that reads them"
        raise SourceError(others, f"task={task!r}", f"--task {task}")
    if texts.kind != "text":
        named = ", ".join(f"{texts.name}:{name}" for name in texts.parts)
        raise SourceError(f"{texts.name} holds {texts.kind} lines, not running text; name one of its files: {named}")
    # A source made for another model keeps its files and their form, not how that model normalised them.
    sources = {
        name: replace(given, lower=settings.lower, letters_only=settings.letters_only)
        for name, given in texts.parts.items()
    }
    return replace(texts, parts=sources)


def form_notes(source: Source) -> list[str]:
    """What was made of the files of a user's own, one sentence for each form among them."""
    reasons = Counter(form.reason for form in source.forms)
    if len(source.files) == 1:
        return [f"form: {reason}" for reason in reasons]
    return [f"form of {count:,} of {len(source.files):,} files: {reason}" for reason, count in reasons.most_common()]


def describe_changes(source: Source) -> str:
    """What was made of the files of a user's own, in a sentence; nothing where all of them stay as they are."""
    reasons = dict.fromkeys(form.reason for form in source.forms if form.changes)
    return _SWITCH.sub("", "; ".join(reasons))


def part_of(texts: Texts, *wanted: str) -> Source:
    """The first of the wanted parts that there is, else the whole text."""
    for name in (*wanted, "text"):
        if name in texts.parts:
            return texts.parts[name]
    listed = ", ".join(f"{texts.name}:{name}" for name in texts.parts)
    raise SourceError(f"{texts.name} is not one running text; name one of its parts: {listed}")


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

    Kinds that are trained step by step are saved to the run folder `out` as they go, if it is given; others are left to
    the caller. `valid` is another text to validate on, `split` cuts the text itself: see `split.split_texts`.
    `warnings` are what the caller has against these texts; the user sees them, and they stand in the log. `start`: a
    run to go on with, whose settings are among the options already (`Start.settle`).
    """
    kind: ModelKind = MODELS.load(model)
    training = toml.build(TrainingSettings, options.training, "training")
    check_logs(training, out)
    if start is not None:
        writing = writing_of_run(start.trained.config, start.trained.tokenizer)
        texts, valid = texts_in_style(texts, writing), None if valid is None else texts_in_style(valid, writing)
    parts, notes = hold_out(texts, valid, split, needed=kind.trained_in_steps)
    source = part_of(parts, "train")
    notes = [*texts.notes, *form_notes(source), *notes]
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
        notes += starting.unknown_note(tokenizer, [ids, validation], start.folder)
    if text.tokens is None:
        notes += _script_note(tokenizer)
    notes += [*chosen, *warnings]
    config: Table = {
        "format": FORMAT,
        "model": model,
        "source": describe_source(texts, source) | roles.describe_training(source),
        "text": asdict(text) | {"tokens": tokenizer.name, "context": context} | _writing(source, start),
        model: toml.as_table(settings),
        **({} if start is None else {starting.TABLE: start.describe()}),
    }
    figures: Table = {
        "tokens": len(ids),
        "vocabulary": len(tokenizer.vocabulary),
        "seconds_tokenizing": round(time.perf_counter() - began, 3),
    }
    if notes:
        figures["notes"] = notes
    writer, journal = None, Journal()
    for note in notes:
        progress.tell(note)
    if kind.trained_in_steps:
        config["source"] |= describe_validation(parts, valid, split)
        config["source"] |= roles.describe_validation(parts.parts["valid"])
        config["training"] = asdict(training)
        figures |= {"validation_tokens": len(validation), "notes": notes}
        if out is not None:
            writer = RunWriter(out)
            journal = writer.begin(config, tokenizer, _first_line(figures))
        else:
            journal.write(_first_line(figures))
    initial = {} if start is None else start.weights
    job = TrainingJob(
        tokenizer, ids, context, settings, training, journal, figures, validation, writer, initial=initial
    )
    return run(kind, job, config, parts)


def run(kind: ModelKind, job: TrainingJob, config: Table, texts: Texts) -> Trained:
    """Train what is laid out."""
    try:
        model = kind.train(job)
    finally:
        job.journal.close()
    return Trained(model, job.tokenizer, config, job.journal.lines, texts)


def _writing(source: Source, start: Start | None) -> Table:
    """How the training text was written, as tables; of a run that is gone on with they are its own."""
    if start is None:
        return describe_writing(source)
    return describe_writing_of_run(start.trained.config, start.trained.tokenizer)


def _first_line(figures: Table) -> Table:
    """The first line of the log of a training that goes step by step."""
    return {"event": "began", **figures}


def hold_out(texts: Texts, valid: Texts | None, split: str | None, *, needed: bool) -> tuple[Texts, list[str]]:
    """The texts with a validation part, where one is needed or asked for, and notes on how it was chosen."""
    if valid is None:
        return split_texts(texts, split, hold_out=needed)
    if split is not None:
        raise OptionError(f"got both valid= ({valid.name}) and split={split!r}; expected one of them")
    parts = {name: part for name, part in texts.parts.items() if name != "text"}
    parts |= {"train": part_of(texts, "train"), "valid": part_of(valid, "valid")}
    return replace(texts, parts=parts), [f"validation on {valid.name}"]


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


def _script_note(tokenizer: Tokenizer) -> list[str]:
    """What to try for a text without spaces between words, where the tokenizer was not chosen by the user."""
    vocabulary = tokenizer.vocabulary
    if tokenizer.name != "prose" or vocabulary.counts is None:
        return []
    forms = zip(tokenizer.ordinary_forms, vocabulary.counts[len(tokenizer.reserved) :], strict=True)
    note = spaces.advice(spaces.share_of_characters(forms))
    return [] if note is None else [note]


def describe_source(texts: Texts, source: Source) -> Table:
    """What the configuration says of the text, so that it can be found again."""
    about: Table = {"name": texts.name, "part": source.name, "detail": texts.detail, "sha256": source.fingerprint()}
    return about | named_files(texts)


def named_files(given: Parts) -> Table:
    """For the configuration: the user's own files of each part; or that they are one because that was asked for."""
    files = given.part_files
    return ({"parts": False} if given.joined else {}) | ({} if files is None else {"part_files": files})


def describe_validation(parts: Texts, valid: Texts | None, split: str | None) -> Table:
    """Where the text and its validation text are found again: files by their full names, corpora by theirs."""
    held_out = parts.parts["valid"]
    about: Table = {"valid": held_out.name, "valid_sha256": held_out.fingerprint(), "split": split}
    train = part_of(parts, "train")
    about |= {"files": _files(parts.name, train), "formed": train.forming is not None, "column": train.column}
    if valid is not None:
        about |= {"valid_source": valid.name, "valid_files": _files(valid.name, held_out)}
        about |= {"valid_column": held_out.column, "valid_formed": held_out.forming is not None}
    return about


def _files(name: str, source: Source) -> list[str] | None:
    """The files of a source that is not a named corpus; none where it cannot be read a second time."""
    from thereafter.data import corpora

    corpus, _, part = name.partition(":")
    if corpus in corpora.names() and " " not in part:  # "ptb:train (cut)" is a file that was cut out of one
        return None
    return [] if source.content is not None or source.spools else [str(path.absolute()) for path in source.files]


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


_ENDINGS = (*PICTURE_ENDINGS, *IDX_ENDINGS, ".npz", ".npy")
_DOCUMENTS = {"mimetype", "META-INF/container.xml", "word/document.xml"}  # of EPUB and others, which are archives too


def refuse_pictures(source: AnySource) -> None:
    """A file of pictures is no text in an unusual encoding; the error names the tasks that read pictures."""
    for name in _names(source):
        if name.lower().removesuffix(".gz").endswith(_ENDINGS) or _is_archive(Path(name)):
            raise _no_text(name)


def refuse_folders_of_pictures(source: AnySource) -> None:
    """A folder without text files may have pictures."""
    for name in _names(source):
        try:
            pictures = Path(name).expanduser().is_dir() and find_files(name, FileKind("pictures", (_ENDINGS,)))
        except (SourceError, OSError, ValueError, RuntimeError):  # none, or no such folder: said elsewhere
            continue
        if pictures:
            raise _no_text(name)


def _names(source: AnySource) -> Iterator[str]:
    for path in source if isinstance(source, list | tuple) else [source]:
        if isinstance(path, str | os.PathLike):
            yield os.fspath(path)


def _is_archive(path: Path) -> bool:
    if path.suffix.lower() != ".zip":
        return False
    try:
        names = [one.filename for one in members_of(path)]
    except SourceError:
        return False
    return any(map(is_picture, names)) and _DOCUMENTS.isdisjoint(names)


def _no_text(name: str) -> SourceError:
    return SourceError(
        f"{name} holds pictures, not running text; try the task that reads them",
        "task='caption', task='classify' or task='video'",
        "--task caption, --task classify or --task video",
    )
