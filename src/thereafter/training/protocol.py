"""The protocol every model is trained under: find the text, fit the tokenizer, encode, hand it to the kind of model."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from thereafter import config as toml
from thereafter.errors import EmptyCorpusError, OptionError, SourceError, nearest
from thereafter.text.encoded import fit_source
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.kinds import MODELS, ModelKind, Trained
from thereafter.training.run_folder import FORMAT


@dataclass(frozen=True)
class TextSettings:
    """How the text is read and cut. None means the rule of the tokenizer or the corpus."""

    tokens: str | None = None
    context: str | None = None
    min_count: int | None = None
    vocabulary: int | None = None
    lower: bool = False
    letters_only: bool = False
    encoding: str | None = None


def find_texts(source: Any, text: str | None, settings: TextSettings, part: str | None = None) -> Texts:
    """The text that `source` or `text` means; one of the two must be given."""
    if (source is None) == (text is None):
        got = "both" if text is not None else "neither"
        raise SourceError(f"got {got} of a source and text=; expected one: a path or a corpus name, or text='...'")
    if text is not None:
        return Texts.of_text(text, lower=settings.lower, letters_only=settings.letters_only)
    texts = resolve(
        source, encoding=settings.encoding, lower=settings.lower, letters_only=settings.letters_only, part=part
    )
    if texts.kind != "text":
        named = ", ".join(f"{texts.name}:{name}" for name in texts.parts)
        raise SourceError(f"{texts.name} holds {texts.kind} lines, not running text; name one of its files: {named}")
    # A source made for another model keeps its files, not how that model read them.
    parts = {
        name: replace(given, lower=settings.lower, letters_only=settings.letters_only)
        for name, given in texts.parts.items()
    }
    return replace(texts, parts=parts)


def part_of(texts: Texts, *wanted: str) -> Source:
    """The first of the wanted parts that there is, else the whole text."""
    for name in (*wanted, "text"):
        if name in texts.parts:
            return texts.parts[name]
    listed = ", ".join(f"{texts.name}:{name}" for name in texts.parts)
    raise SourceError(f"{texts.name} is not one running text; name one of its parts: {listed}")


def train(texts: Texts, model: str, text: TextSettings, options: dict[str, Any]) -> Trained:
    """Train a model of the named kind on the training part of the texts."""
    kind: ModelKind = MODELS.load(model)
    own = {field.name for field in fields(kind.settings)}
    for name in options:
        if name not in own:
            known = sorted(own | {field.name for field in fields(TextSettings)})
            raise OptionError(f"the model {model!r} has no option {name!r}; {nearest(name, known)}")
    settings = toml.build(kind.settings, options, model)
    source = part_of(texts, "train")
    began = time.perf_counter()
    tokenizer, ids = tokenize(source, texts.tokens, text)
    if not len(ids):
        raise EmptyCorpusError(f"{source.name} holds no tokens; expected at least one; try a text that is not empty")
    context = text.context or tokenizer.context
    if context not in ("line", "stream"):
        raise OptionError(f"context is {context!r}; expected 'line' (every line starts afresh) or 'stream'")
    if context == "line" and tokenizer.line_end_id is None:
        raise OptionError(f"the tokens {tokenizer.name!r} have no line end, so context cannot be 'line'; try 'stream'")
    tokenized = time.perf_counter()
    trained = kind.train(source, tokenizer, ids, context, settings)
    ended = time.perf_counter()
    used = asdict(text) | {"tokens": tokenizer.name, "context": context}
    config = {
        "format": FORMAT,
        "model": model,
        "source": {"name": texts.name, "part": source.name, "detail": texts.detail, "sha256": source.fingerprint()},
        "text": used,
        model: asdict(settings),
    }
    line = {
        "event": "trained",
        "tokens": len(ids),
        "vocabulary": len(tokenizer.vocabulary),
        "seconds_tokenizing": round(tokenized - began, 3),
        "seconds_training": round(ended - tokenized, 3),
        **kind.describe(trained),
    }
    return Trained(trained, tokenizer, config, [line])


def tokenize(source: Source, default: str, settings: TextSettings) -> tuple[Tokenizer, NDArray[Any]]:
    """Fit the tokenizer that was asked for, else the one that suits the source, and encode the text."""
    kind: type[Tokenizer] = TOKENIZERS.load(settings.tokens or default)
    return fit_source(kind, source, min_count=settings.min_count, max_size=settings.vocabulary)


def run_name(texts: Texts, model: str) -> str:
    """A name for a run folder that says what was trained on what."""
    stem = Path(texts.name).name.split(".")[0] or "text"
    plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem)[:40]
    return f"{plain}-{model}"
