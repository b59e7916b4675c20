"""What a text has been to a trained model: what it learned from, what chose its weights or settings, or neither.

A score on a text that chose anything is a validation score, whatever the file is called. Texts are known by a hash of
what is read of them, so that a copy, a compressed file or the same text given as it is are all one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.text.sources import Source, Texts
from thereafter.text.writing import WritingForm, in_style
from thereafter.training.kinds import Trained
from thereafter.training.split import SourceSlice

_COMPARED = 32_000_000
"""Bytes of two texts that are held in memory to see whether one is part of the other."""


def describe_training(source: Source) -> Table:
    """For the configuration: the hash of the training text, and of the whole that it was cut from."""
    whole = {"whole_text_sha256": source.whole().text_hash()} if isinstance(source, SourceSlice) else {}
    return {"text_sha256": source.text_hash(), **whole}


def describe_validation(source: Source) -> Table:
    """For the configuration: the hash of the text that chooses the weights."""
    return {"valid_text_sha256": source.text_hash()}


def leaves(trained: Trained, name: str = "it") -> Iterator[tuple[str, Trained]]:
    """The trained models that a mixture is made of, each with its name; of any other the model itself."""
    members = trained.members
    if not members:
        yield name, trained
    for inner, member in zip(trained.config["mixture"]["members"] if members else (), members, strict=True):
        yield from leaves(member, str(inner))


def trained_on(trained: Trained, text: str) -> list[str]:
    """The names of the models that learned from the text of this hash, or from a part of it."""
    known = ("text_sha256", "whole_text_sha256")
    return [
        name
        for name, leaf in leaves(trained)
        if text in [leaf.config["source"].get(key) for key in known]
        or text in leaf.config.get("start", {}).get("texts", ())
    ]


def caveat(trained: Trained, scored: Source, tune: Source | None = None) -> str:
    """Why the score of a text is no test score; "" where nothing is known against it."""
    text = scored.text_hash()
    learned = trained_on(trained, text)
    if learned:
        return f"training score, not a test: {', '.join(learned)} learned from this very text"
    chosen = [
        "the weights" if name == "it" else f"the weights of {name}"
        for name, leaf in leaves(trained)
        if "training" in leaf.config and leaf.config["source"].get("valid_text_sha256") == text
    ]
    chosen += ["the shares of the mixture" for mixture in mixtures(trained) if mixture.get("tuned_sha256") == text]
    if tune is not None and tune.text_hash() == text:
        chosen.append("the settings of the switches")
    return f"validation score, not a test: {', '.join(chosen)} were chosen by this very text" if chosen else ""


def in_own_form(trained: Trained, texts: Texts, source: Source, writing: WritingForm | None) -> Source:
    """A source of these texts, written as the training text is; that text itself, a few other marks and all, stays."""
    rewritten = in_style(texts, source, writing)
    plain = replace(rewritten, rewriting=None)
    return plain if rewritten.rewriting is not None and caveat(trained, plain) else rewritten


def mixtures(trained: Trained) -> Iterator[Table]:
    """What the configurations of a mixture, and of mixtures in it, say of their weights."""
    if "mixture" in trained.config:
        yield trained.config["mixture"]
    for member in trained.members:
        yield from mixtures(member)


def validated_on_training(train: Source, valid: Source) -> list[str]:
    """A warning where the validation text is the training text, or one of them is part of the other."""
    how = _overlap(train, valid)
    if how is None:
        return []
    warning = (
        f"{progress.WARNING}the validation text ({valid.name}) {how} the training text ({train.name}): the weights "
        "that are kept are those that know it by heart, and validation scores say nothing about other text; "
        "try another text (valid=, --valid), or leave it out"
    )
    return [warning]


def tuned_on_training(trained: Trained, tune: Source) -> list[str]:
    """A warning where what is tuned is tuned on text that a model learned from."""
    names = trained_on(trained, tune.text_hash())
    if not names:
        for name, leaf in leaves(trained):
            train = None if leaf.texts is None else leaf.texts.parts.get("train", leaf.texts.parts.get("text"))
            names += [name] if train is not None and _overlap(train, tune) is not None else []
    if not names:
        return []
    warning = (
        f"{progress.WARNING}tuning on {tune.name}, which {', '.join(names)} learned from: what is tuned is right for a "
        "text known by heart and for no other; try another text (tune=, --tune)"
    )
    return [warning]


def _overlap(train: Source, other: Source) -> str | None:
    """How another text lies to the training text, where they are not apart; large ones are compared as wholes only."""
    if train.text_hash() == other.text_hash():
        return "is"
    if train.size + other.size > _COMPARED:
        return None
    one, two = (f"\n{source.text().strip(chr(10))}\n" for source in (train, other))  # whole lines, not words of some
    if not two.strip() or not one.strip():
        return None
    if two in one:
        return "is a part of"
    return "contains" if one in two else None
