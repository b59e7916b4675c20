"""What a trained model says by heart of the text it learned from: asked before its file is handed over."""

from __future__ import annotations

from pathlib import Path

from thereafter.errors import OptionError, SourceError
from thereafter.evaluation.recitation import LINES, SHORTEST, Recitation, recite
from thereafter.text.sources import Source
from thereafter.training import protocol, resume
from thereafter.training.kinds import MODELS, ModelKind, Trained
from thereafter.training.options import TextSettings


def training_text(trained: Trained, run: Path | None = None) -> Source:
    """What a model learned from; SourceError where that is gone or has changed."""
    if trained.members:
        raise OptionError(
            "a mixture has no training text of its own; expected one model; try each of its models by itself"
        )
    if trained.texts is not None:
        return protocol.part_of(trained.texts, "train")
    kind: ModelKind = MODELS.load(trained.config["model"])
    if kind.trained_in_steps:
        return protocol.part_of(resume.find_again(trained.config, run or Path("of this model")), "train")
    about, how = trained.config["source"], trained.config["text"]
    settings = TextSettings.of_config(how, how.get("encoding"))
    texts = protocol.find_texts(str(about["name"]), None, settings, parts="part_files" in about)
    source = protocol.part_of(texts, "train")
    if source.fingerprint() != about.get("sha256"):
        raise SourceError(
            f"{source.name} has changed since the model learned from it (its sha256 is another); try the text itself"
        )
    return source


def check_memory(
    trained: Trained, source: Source | None = None, *, lines: int = LINES, shortest: int = SHORTEST, seed: int = 0
) -> Recitation:
    """Training lines that a model says verbatim when it is given their first half: `evaluation/recitation.py`.

    `source`: another text, such as one with the names and numbers that must not come out.
    """
    text = source or training_text(trained)
    return recite(trained.model, trained.tokenizer, text.chunks, text.name, lines=lines, shortest=shortest, seed=seed)
