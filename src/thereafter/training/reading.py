"""Trained models asked about a text: as one mixture, with switches on, for what each token of the text costs.

A score on a text that a model learned from, or that chose its weights or settings, is no test score, whatever the file
is called. Texts are known by a hash of what is read of them, so that a copy, a compressed file or the same text given
as it is are all one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import CorpusError, EmptyCorpusError, OptionError, SourceError
from thereafter.evaluation.conditions import WordCounts
from thereafter.evaluation.dynamic_settings import STATISTICS_TOKENS
from thereafter.evaluation.scores import unknown_caution, unknown_share
from thereafter.evaluation.switches import MOST_TOKENS, REMEDY, Switched, Switches, switched_on
from thereafter.evaluation.text_reading import TextReading, check_top, read_costs, read_predictions, walk_of
from thereafter.models.any_model import AnyModel
from thereafter.models.base import NOT_NORMALISED, Ids, is_normalised
from thereafter.models.mixture import MixtureModel
from thereafter.runs.folder import FORMAT
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers.base import Tokenizer, join_ids
from thereafter.text.writing import WritingForm, in_style
from thereafter.training.finding import describe_changes, find_again, find_texts, part_of
from thereafter.training.kinds import Trained
from thereafter.training.settings import TextSettings


def mix(members: Sequence[Trained], weights: Sequence[float] | None = None) -> Trained:
    """A mixture of trained models, by default in equal parts; all must read text alike."""
    if len(members) < 2:
        raise OptionError(f"a mixture of {len(members)} model was asked for; expected two or more")
    names = distinct_names([str(member.config["model"]) for member in members])
    _check_alike(members, names)
    given = [1 / len(members)] * len(members) if weights is None else weights
    model = MixtureModel([member.model for member in members], given, names)
    sources = dict.fromkeys(str(member.config["source"]["name"]) for member in members)
    contexts = sorted({part for member in members for part in member.context.split("+")})
    config = {
        "format": FORMAT,
        "model": "mixture",
        "source": {"name": " and ".join(sources)},
        "text": {**members[0].config["text"], "context": "+".join(contexts)},
        "mixture": {"members": names, "weights": list(model.weights)},
    }
    return Trained(model, members[0].tokenizer, config, members=tuple(members))


def distinct_names(models: list[str]) -> list[str]:
    """Every name once: lstm, lstm-2."""
    return [
        name if models.index(name) == at else f"{name}-{models[: at + 1].count(name)}" for at, name in enumerate(models)
    ]


def _check_alike(members: Sequence[Trained], names: Sequence[str]) -> None:
    """Models are mixed token by token: they must have the same tokens for the same text, and give probabilities."""
    first = members[0]
    for member, name in zip(members, names, strict=True):
        if not is_normalised(member.model):
            raise OptionError(f"{name} cannot be mixed with others: {NOT_NORMALISED}; {REMEDY}")
    for member, name in zip(members[1:], names[1:], strict=True):
        if member.tokenizer.fingerprint() != first.tokenizer.fingerprint():
            raise OptionError(
                f"{names[0]} and {name} have different tokenizers ({_tokenizer(first)}, {_tokenizer(member)}: "
                f"{_difference(first.tokenizer, member.tokenizer)}) and cannot be mixed; expected the same vocabulary; "
                "try training both on one text with the same tokens= and split= (neural models hold out a part of a "
                "text for validation, n-grams take all of it)"
            )
        for option in ("lower", "letters_only"):
            if first.config["text"][option] != member.config["text"][option]:
                raise OptionError(
                    f"{option} is {first.config['text'][option]} for {names[0]} and {member.config['text'][option]} "
                    f"for {name}; models that are mixed must read text alike; try training one of them again"
                )


def _difference(one: Tokenizer, other: Tokenizer) -> str:
    if one.name != other.name:
        return "their tokens are of two kinds"
    pairs = enumerate(zip_longest(one.vocabulary.forms, other.vocabulary.forms))
    return next(
        (f"token {number} is {a!r} in one and {b!r} in the other" for number, (a, b) in pairs if a != b),
        "they cut words differently",
    )


def _tokenizer(trained: Trained) -> str:
    return f"{trained.tokenizer.name} of {len(trained.tokenizer.vocabulary):,}"


@contextmanager
def switch_on(trained: Trained, wanted: Switches, tune: Source | None = None) -> Iterator[Switched]:
    """A trained model with switches on, for as long as the block lasts; what they leave open is tuned on a text."""
    ids = None
    if tune is not None:
        ids = first_ids(trained.tokenizer, tune, MOST_TOKENS)
        if not len(ids):
            raise EmptyCorpusError(f"{tune.name} holds no tokens: there is nothing to tune on; try another text")
        for warning in tuned_on_training(trained, tune):
            progress.warn(warning)
    with switched_on(trained.model, wanted, ids, lambda model: training_ids(trained, model)) as switches:
        yield switches


def describe_switches(trained: Trained, switches: Switched, tune: Source | None, scored: Source) -> str:
    """Which switches were on and on which text they were tuned; a score on that very text is a validation score."""
    if tune is None or not switches.description:
        return switches.description
    same = tune.text_hash() == scored.text_hash()
    learned = tuned_on_training(trained, tune)
    warned = f"; {learned[0]}" if learned else ""
    return f"{switches.description}; tuned on {'this very text: a validation score' if same else tune.name}{warned}"


def with_tuned_weights(trained: Trained, weights: Sequence[float], tune: Source) -> Trained:
    """The mixture with the weights that a text has chosen, which its configuration remembers."""
    chosen = mix(trained.members, weights)
    chosen.config["mixture"] |= {"tuned_on": tune.name, "tuned_sha256": tune.text_hash()}
    chosen.log.append({"event": "tuned", "tuned_on": tune.name, "notes": tuned_on_training(trained, tune)})
    return chosen


def check_savable(trained: Trained) -> None:
    """Mixtures have no run folder of their own."""
    if trained.members:
        about = trained.config["mixture"]
        weights = ", ".join(f"{weight:.4g}" for weight in about["weights"])
        raise OptionError(
            f"a mixture is not saved; save its models ({', '.join(about['members'])}) and mix them again: "
            f"thereafter.mixture([...], weights=[{weights}])"
        )


def training_ids(trained: Trained, model: AnyModel) -> Ids | None:
    """The first tokens of the text that one of the models was trained on; None where it cannot be found again."""
    owner = next((leaf for _, leaf in leaves(trained) if leaf.model is model), None)
    if owner is None:
        return None
    try:
        source = training_text(owner)
    except (SourceError, CorpusError, OptionError) as error:
        progress.note(f"dynamic evaluation by sgd, not rms, which needs the training text: {error}")
        return None
    return first_ids(owner.tokenizer, source, STATISTICS_TOKENS)


def training_text(trained: Trained) -> Source:
    """The text that a model was trained on; SourceError where it is gone or has changed."""
    about = trained.config["source"]
    if trained.texts is not None or "training" in trained.config:
        return part_of(trained.texts or find_again(trained.config, Path("trained here")), "train")
    if "text_sha256" not in about:
        raise SourceError(f"the text that {about['name']} was trained on is not known; try a run of its own")
    settings = TextSettings.of_config(trained.config["text"], trained.config["text"].get("encoding"))
    source = part_of(find_texts(str(about["name"]), None, settings), "train")
    if source.text_hash() != about["text_sha256"]:
        raise SourceError(f"{source.name} has changed since the model was trained on it; try putting that text back")
    return source


def first_ids(tokenizer: Tokenizer, source: Source, most: int) -> Ids:
    """The first tokens of a text, no more than `most`."""
    parts = []
    count = 0
    for ids in tokenizer.encode_stream(source.chunks(), whole=True):
        parts.append(ids[: most - count])
        count += len(parts[-1])
        if count >= most:
            break
    return join_ids(parts).astype(np.int64)


def read_surprisals(
    trained: Trained,
    text: Source,
    switches: Switches,
    tune: Source | None = None,
    *,
    detail: bool = False,
    top: int = 3,
    name: str | None = None,
    before: int | None = None,
    with_counts: bool = False,
) -> TextReading:
    """What each token of a text costs; with `detail` what was predicted before each, too. `name` is the model's.

    `before`: how many items are read before each, where items are read (`evaluation.text_reading`). `with_counts`:
    count the words of the training text too.
    """
    check_top(top)
    with switch_on(trained, switches, tune) as on:
        chunks, walk = walk_of(text, before)
        costs = read_costs(on.model, trained.tokenizer, chunks, name=text.name, walk=walk)
        # A second pass: log p of the whole pass and of single steps agree to rounding only, and sums are to be exact.
        predicted = read_predictions(on.model, costs.ids, top, costs.item_T, before) if detail else None
        # in `word` line ends are no words
        ends = int((costs.ids == trained.tokenizer.line_end_id).sum()) if trained.tokenizer.name == "word" else 0
        notes = [
            describe_switches(trained, on, tune, text),
            caveat(trained, text, tune),
            "" if is_normalised(on.model) else NOT_NORMALISED,
            unknown_caution(unknown_share(int(costs.unknown_T.sum()), len(costs.ids) - ends)),
            describe_changes(text),
            "" if text.rewriting is None else "the text was brought into the form of the training text",
        ]
    counts = None
    if with_counts:
        try:
            learned = (training_text(leaf) for _, leaf in leaves(trained))
            sources = {source.text_hash(): source for source in learned}.values()
            counts = WordCounts.of_text(chunk for source in sources for chunk in source.chunks("counting words"))
        except (SourceError, CorpusError, OptionError) as error:
            notes.append(f"no log_frequency, which needs the training text: {error}")
    return TextReading(
        model=name or str(trained.config["model"]),
        text=text.name,
        tokenizer=trained.tokenizer,
        context=trained.context,
        costs=costs,
        predicted=predicted,
        notes=tuple(filter(None, notes)),
        written="" if text.rewriting is None else replace(text, rewriting=None).text(),
        before=before,
        rows=text.table_rows(),
        counts=counts,
    )


_COMPARED = 32_000_000
"""Bytes of two texts that are held in memory to see whether one is part of the other."""


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
