"""What `import thereafter` offers: train, load, read_arpa and the LanguageModel they return."""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from thereafter import config as toml
from thereafter.evaluation.scores import Score
from thereafter.inspection.trace import Trace
from thereafter.language_model import AnySource, LanguageModel, visible
from thereafter.training import protocol, run_folder


def train(
    source: AnySource | None = None,
    *,
    text: str | None = None,
    model: str = "ngram",
    tokens: str | None = None,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> LanguageModel:
    """Train a language model on a path, several paths, a folder, a glob or a named corpus (or on `text=`).

    `tokens`: word, prose, char, byte or bpe; by default what suits the source. `out`: a run folder to save to.
    Options of the text: context, min_count, vocabulary, lower, letters_only, encoding.
    Options of `model="ngram"`: order, smoothing, cutoffs, alpha, factor.

    >>> lm = train(text="the cat sat on the mat\\nthe cat ate\\n", tokens="word", order=2, smoothing="mle", min_count=1)
    >>> lm.next("the", k=1)
    [('cat', 0.6666666865348816)]
    """
    about_text = {field.name for field in fields(protocol.TextSettings)}
    about = {name: options.pop(name) for name in list(options) if name in about_text}
    settings = toml.build(protocol.TextSettings, {"tokens": tokens, **about}, "text")
    if out is not None:
        run_folder.check_free(Path(out))
    with visible():
        texts = protocol.find_texts(source, text, settings)
        lm = LanguageModel(protocol.train(texts, model, settings, options), texts)
        if out is not None:
            lm.save(out)
    return lm


def load(run: str | PathLike[str], tokens: str = "word") -> LanguageModel:
    """Load a run folder, or an ARPA file (`tokens` as in `read_arpa`). Executes nothing that is in it."""
    path = Path(run)
    if not run_folder.is_run(path) and run_folder.is_file(path):
        return read_arpa(path, tokens)
    return LanguageModel(run_folder.load(path))


def read_arpa(path: str | PathLike[str], tokens: str = "word") -> LanguageModel:
    """Read an n-gram model from an ARPA file, plain or gzip, written by any toolkit.

    `tokens` says what its words are: `word`, or `prose` or `char` for files that `to_arpa` wrote from such a model.
    """
    from thereafter.training import arpa

    with visible():
        return LanguageModel(arpa.read(Path(path), tokens))


__all__ = ["LanguageModel", "Score", "Trace", "load", "read_arpa", "train"]
