"""Going on with a training that was stopped or killed, exactly where its last checkpoint was taken.

The text is found again by what `config.toml` says of it and must be the same to the last byte; the tokenizer and all
settings are those of the run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import SourceError
from thereafter.runs import writer
from thereafter.runs.folder import TOKENIZER, is_file
from thereafter.runs.writer import Unfinished
from thereafter.text.encoded import encode_source
from thereafter.text.form import Forming
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers import load_tokenizer
from thereafter.text.writing import stored_writing, texts_in_style
from thereafter.training import protocol, starting, store
from thereafter.training.counters import COUNTED
from thereafter.training.kinds import MODELS, Trained, TrainingJob
from thereafter.training.options import TextSettings
from thereafter.training.settings import TrainingSettings


def resume(folder: Path) -> Trained:
    """Train a run to its end; a finished one is loaded, with a note."""
    store.read_config(folder)
    return writer.resume(folder, COUNTED, store.load, _go_on)


def _go_on(run: Unfinished) -> Trained:
    config, kind = run.config, MODELS.load(run.config["model"])
    texts = find_again(config, run.folder)
    tokenizer = load_tokenizer(run.folder / TOKENIZER)
    ids = encode_source(tokenizer, texts.parts["train"])
    valid = encode_source(tokenizer, texts.parts["valid"])
    settings = toml.build(kind.settings, config[config["model"]], config["model"])
    training = on_this_machine(toml.build(TrainingSettings, config["training"], "training"))
    figures: Table = {"tokens": len(ids), "vocabulary": len(tokenizer.vocabulary), "validation_tokens": len(valid)}
    figures |= {"seconds_tokenizing": 0.0, "notes": run.notes}
    initial = {} if run.snapshot is not None else starting.weights_again(config, run.folder)
    journal = run.journal()
    context = str(config["text"]["context"])
    job = TrainingJob(
        tokenizer, ids, context, settings, training, journal, figures, valid, run.writer, run.snapshot, initial
    )
    return protocol.run(kind, job, config, texts)


def find_again(config: Table, folder: Path) -> Texts:
    """The text of a run with its train and valid parts; SourceError where it is gone or has changed."""
    about, how = config["source"], config["text"]
    settings = TextSettings.of_config(how, how.get("encoding"))
    forming = settings.forming if about.get("formed") else None
    files = about.get("part_files", about.get("files"))
    texts = _texts(str(about["name"]), files, settings, forming, folder, about.get("column"))
    valid = None
    if "valid_source" in about:
        column, forming = about.get("valid_column"), settings.forming if about.get("valid_formed") else None
        valid = _texts(str(about["valid_source"]), about.get("valid_files"), settings, forming, folder, column)
    if starting.TABLE in config:  # as the text of the run that it began with is written
        writing = stored_writing(config)
        texts, valid = texts_in_style(texts, writing), None if valid is None else texts_in_style(valid, writing)
    parts, _ = protocol.hold_out(texts, valid, about.get("split"), needed=True)
    for part, key in (("train", "sha256"), ("valid", "valid_sha256")):
        source = protocol.part_of(parts, part)
        if source.fingerprint() != about.get(key):
            raise SourceError(
                f"{source.name} has changed since the run {folder} began (its sha256 is another), and a run goes on "
                "with its own text only; try putting that back, or training anew with another --out"
            )
    return parts


def _texts(
    name: str,
    files: dict[str, list[str]] | list[str] | None,
    settings: TextSettings,
    forming: Forming | None,
    folder: Path,
    column: str | None,
) -> Texts:
    if files is None:
        return protocol.find_texts(name, None, settings)
    if not files:
        raise SourceError(
            f"the run {folder} cannot go on: its text was given as it is ({name}) and cannot be found again; "
            "try training again from a file"
        )
    parts = {}
    for part, own in (files if isinstance(files, dict) else {"text": files}).items():
        called, paths = name if part == "text" else f"{name}:{part}", tuple(Path(str(file)) for file in own)
        if part != "test" or all(map(is_file, paths)):  # a training goes on without its test files
            parts[part] = Source(called, paths, encoding=settings.encoding, forming=forming, column=column)
    missing = next((path for one in parts.values() for path in one.files if not is_file(path)), None)
    if missing is not None:
        raise SourceError(
            f"{missing}, which the run {folder} is trained on, is not there any more; try putting it back"
        )
    return protocol.find_texts(Texts(name, parts), None, settings)


def on_this_machine(training: TrainingSettings) -> TrainingSettings:
    """The settings of the run, on a CPU where its GPU is not here."""
    import torch

    if training.device != "cuda" or torch.cuda.is_available():
        return training
    progress.note("this run began on a GPU, and there is none here: it goes on on the CPU, in float32")
    return replace(training, device="cpu", precision="float32")
