"""The text that a file is checked with, and the one that a page opens on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thereafter.data import corpora
from thereafter.data.files import AnySource
from thereafter.errors import CorpusError, OptionError, SourceError
from thereafter.export.recalling import training_text
from thereafter.export.targets import Opening
from thereafter.models.base import Ids
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import join_ids
from thereafter.training import reading
from thereafter.training.finding import find_again, find_texts, part_of
from thereafter.training.kinds import Trained
from thereafter.training.settings import TextSettings

SEED = 7
_BITS = 2.0  # entropy of the next token where a page opens: about four bars of some length
_READ, _SHORTEST, _LONGEST = 200_000, 16, 80  # characters of the text, and of a prompt
NO_TEXT = (SourceError, CorpusError, OptionError, KeyError)
"""What is raised when the text of a model is not there any more."""


def text_of_check(trained: Trained, given: AnySource | None, steps: int) -> tuple[Ids, str]:
    """At most `steps` tokens, [T], and what they are: of the given text, else of one held out, else the model's own.

    A text of the training part is refused.
    """
    if given is None:
        source = _held_out(trained)
        if source is None:
            return _written(trained, steps), "a text that the model writes"
        return _first(trained, source, steps), source.name
    texts = find_texts(given, None, TextSettings.of_config(trained.config["text"], None))
    source = part_of(texts, "test", "valid")
    if reading.trained_on(trained, source.text_hash()):
        raise OptionError(
            f"{source.name} is what the model learned from; a check reads other text; try another --check"
        )
    return _first(trained, source, steps), source.name


def _held_out(trained: Trained) -> Source | None:
    """The validation part of the text it was trained on, where that is still there and was not learned from."""
    try:
        check_here(trained)
        texts = trained.texts or find_again(trained.config, Path("exported here"))
    except NO_TEXT:
        return None
    return texts.parts.get("valid", texts.parts.get("test"))


def _first(trained: Trained, source: Source, most: int) -> Ids:
    parts, count = [], 0
    for ids in trained.tokenizer.encode_stream(source.chunks(), whole=True):
        parts.append(ids[: most - count])
        count += len(parts[-1])
        if count >= most:
            break
    return join_ids(parts)


def _written(trained: Trained, steps: int) -> Ids:
    """Tokens drawn from the model itself: it has not learned from them."""
    model, drawing = trained.model, np.random.default_rng(SEED)
    state = model.start(1)
    logp_1V, tokens = np.asarray(model.predict(state)), []
    for _ in range(steps):
        p_V = np.exp(logp_1V[0].astype(np.float64))
        tokens.append(int(drawing.choice(len(p_V), p=p_V / p_V.sum())))
        logp_1V, state = model.step(np.array(tokens[-1:]), state)
    return np.array(tokens, dtype=np.int32)


def check_here(trained: Trained) -> None:
    """CorpusError or SourceError if the text of a model would have to be downloaded, or read from standard input."""
    about = trained.config["source"]
    for name in (str(about["name"]), str(about.get("valid_source", ""))):
        if name == "-" and trained.texts is None:
            raise SourceError("the model learned from standard input, which cannot be read again; try a file")
        if trained.texts is None and name.partition(":")[0] in corpora.names():
            corpora.locate(name.partition(":")[0], download=False)


def opening_of(trained: Trained) -> Opening:
    """The beginning of a training line with something to see: `best_openings`.

    Without the training text, a text that the model writes.
    """
    try:
        check_here(trained)
        source = training_text(trained)
        name = f"the training text, {Path(source.name).name}"  # no folders: pages are handed on
        text = beginning(source)
    except NO_TEXT:
        text, name = model_text(trained), "a text that the model writes"
    return Opening(next(iter(best_openings(trained, text)), ""), name)


def model_text(trained: Trained) -> str:
    """A line that the model writes itself."""
    return trained.tokenizer.decode(_written(trained, _LONGEST))


def beginning(source: Source) -> str:
    """The first characters of a text."""
    text = ""
    for chunk in source.chunks():
        text += chunk
        if len(text) >= _READ:
            break
    return text[:_READ]


def best_openings(trained: Trained, text: str, most_lines: int = 40) -> list[str]:
    """Beginnings of lines, best first: cut after a letter or digit where the entropy of the next token is nearest to
    `_BITS`, so that a few bars can be seen. The lines are spread over the text; all of it if none is long enough."""
    tokenizer, model = trained.tokenizer, trained.model
    lines = [line for line in text.splitlines() if len(line) >= 1.5 * _SHORTEST] or [text]
    openings = []
    for line in lines[:: max(1, len(lines) // most_lines)][:most_lines]:
        ids_T = tokenizer.encode(line[:_LONGEST])
        p_TV = np.exp(np.concatenate([np.empty((0, model.vocabulary_size)), *model.predictions(ids_T, model.start(1))]))
        bits_T = -(p_TV * np.log2(np.maximum(p_TV, 1e-30))).sum(axis=1)  # before each token
        for count in np.argsort(np.abs(bits_T - _BITS)).tolist():
            prompt = tokenizer.decode(ids_T[:count])
            exact = len(prompt) >= _SHORTEST and prompt[-1].isalnum() and tokenizer.unknown_id not in ids_T[:count]
            if exact and np.array_equal(tokenizer.encode(prompt), ids_T[:count]):  # as the page will read it
                openings.append((abs(float(bits_T[count]) - _BITS), prompt))
                break
    return [prompt for _, prompt in sorted(openings)]
