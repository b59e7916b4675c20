"""Going on with a training that was stopped or killed, exactly where its last checkpoint was taken.

The text is found again by what `config.toml` says of it and must be the same to the last byte; the tokenizer and all
settings are those of the run.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from thereafter import config as toml
from thereafter import progress
from thereafter.errors import FormatError, SourceError
from thereafter.text.encoded import encode_source
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers import load_tokenizer
from thereafter.training import ownership, protocol, run_folder
from thereafter.training.kinds import MODELS, Job, ModelKind, Trained
from thereafter.training.options import TextSettings
from thereafter.training.run_folder import RunWriter
from thereafter.training.settings import TrainingSettings


def resume(folder: Path) -> Trained:
    """Train a run to its end; one that is there already is loaded, and said to be."""
    config, _ = run_folder.read_config(folder)
    kind: ModelKind = MODELS.load(config["model"])
    if not kind.trained_in_steps or run_folder.is_finished(folder):
        return _finished(folder)
    with ownership.owning(folder):
        return _go_on(folder, kind)


def _go_on(folder: Path, kind: ModelKind) -> Trained:
    """Train an unfinished run that is ours alone to its end."""
    from thereafter.training import checkpoint  # torch is needed from here on

    config, log = run_folder.read_config(folder)
    snapshot = checkpoint.read(folder / run_folder.STATE) if run_folder.is_file(folder / run_folder.STATE) else None
    if run_folder.is_finished(folder):  # by another process, while this one waited for the lock
        return _finished(folder)
    if snapshot is not None and not run_folder.is_file(folder / run_folder.WEIGHTS) and _had_weights(snapshot.facts):
        raise FormatError(
            f"{folder} has lost its {run_folder.WEIGHTS}; expected the best weights so far; try training again"
        )
    texts = find_again(config, folder)
    tokenizer = load_tokenizer(folder / run_folder.TOKENIZER)
    ids = encode_source(tokenizer, texts.parts["train"])
    valid = encode_source(tokenizer, texts.parts["valid"])
    settings = toml.build(kind.settings, config[config["model"]], config["model"])
    training = _on_this_machine(toml.build(TrainingSettings, config["training"], "training"))
    writer = RunWriter(folder)
    writer.tidy()
    writer.resumed(None if snapshot is None else snapshot.facts)
    journal = writer.journal(
        keep=writer.first_line() if snapshot is None else int(snapshot.facts["log_bytes"]),
        tensorboard=training.tensorboard,
    )
    figures: dict[str, Any] = {
        "tokens": len(ids),
        "vocabulary": len(tokenizer.vocabulary),
        "validation_tokens": len(valid),
    }
    figures |= {"seconds_tokenizing": 0.0, "notes": _notes(log)}
    context = str(config["text"]["context"])
    job = Job(tokenizer, ids, context, settings, training, journal, figures, valid, writer, snapshot)
    return protocol.run(kind, job, config, texts)


def find_again(config: dict[str, Any], folder: Path) -> Texts:
    """The text of a run with its train and valid parts; SourceError where it is gone or has changed."""
    about, how = config["source"], config["text"]
    known = {field.name for field in fields(TextSettings)}
    settings = toml.build(TextSettings, {name: value for name, value in how.items() if name in known}, "text")
    texts = _texts(str(about["name"]), about.get("files"), settings, folder)
    valid = None
    if "valid_source" in about:
        valid = _texts(str(about["valid_source"]), about.get("valid_files"), settings, folder)
    parts, _ = protocol.hold_out(texts, valid, about.get("split"), needed=True)
    for part, key in (("train", "sha256"), ("valid", "valid_sha256")):
        source = protocol.part_of(parts, part)
        if source.fingerprint() != about.get(key):
            raise SourceError(
                f"{source.name} has changed since the run {folder} began (its sha256 is another), and a run goes on "
                "with its own text only; try putting that back, or training anew with another --out"
            )
    return parts


def _texts(name: str, files: Any, settings: TextSettings, folder: Path) -> Texts:
    if files is None:
        return protocol.find_texts(name, None, settings)
    if not files:
        raise SourceError(
            f"the run {folder} cannot go on: its text was given as it is ({name}) and cannot be found again; "
            "try training again from a file"
        )
    source = Source(name, tuple(Path(str(file)) for file in files), encoding=settings.encoding)
    missing = next((path for path in source.files if not run_folder.is_file(path)), None)
    if missing is not None:
        raise SourceError(
            f"{missing}, which the run {folder} is trained on, is not there any more; try putting it back"
        )
    return protocol.find_texts(Texts(name, {"text": source}), None, settings)


def _finished(folder: Path) -> Trained:
    progress.note(f"the training in {folder} has finished: there is nothing to go on with")
    return run_folder.load(folder)


def _on_this_machine(training: TrainingSettings) -> TrainingSettings:
    """The settings of the run, on a CPU where its GPU is not here."""
    import torch

    if training.device != "cuda" or torch.cuda.is_available():
        return training
    progress.note("this run began on a GPU, and there is none here: it goes on on the CPU, in float32")
    return replace(training, device="cpu", precision="float32")


def _had_weights(facts: Any) -> bool:
    return int(facts["at"]["validated"]) >= 0


def _notes(lines: list[dict[str, Any]]) -> list[str]:
    return next((list(line["notes"]) for line in lines if line.get("event") == "began" and "notes" in line), [])
