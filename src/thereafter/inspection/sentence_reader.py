"""A trained model as instruments read with it: the model, its tokenizer, how its text was prepared; an excerpt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.errors import EmptyCorpusError, OptionError, SourceError
from thereafter.evaluation.scores import MANY
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids
from thereafter.text.form import Forming
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.writing import WritingForm, in_style, writing_of_run


@dataclass(frozen=True)
class SentenceReader:
    """A model that reads sentences, each from a fresh start.

    In `stream` context a line end is read first, since that is how lines begin for such a model. `name` is the model's
    in captions, `source` the text it was trained on.
    """

    model: AnyModel
    tokenizer: Tokenizer
    context: str
    name: str = "model"
    source: str = "text"
    lower: bool = False
    letters_only: bool = False
    writing: WritingForm | None = None
    """How its training text was written, where sentences are brought into that form; None reads them as they are."""

    @classmethod
    def of(
        cls,
        model: AnyModel,
        tokenizer: Tokenizer,
        config: Table,
        name: str | None = None,
        *,
        as_written: bool = False,
    ) -> SentenceReader:
        """From a model and the configuration of its run; `as_written` reads sentences as they are."""
        text = config["text"]
        return cls(
            model,
            tokenizer,
            str(text["context"]),
            str(config["model"]) if name is None else name,
            Path(str(config["source"]["name"])).name,  # of a path the file is enough
            bool(text["lower"]),
            bool(text["letters_only"]),
            None if as_written else writing_of_run(config, tokenizer),
        )

    @property
    def begin(self) -> str:
        """What a line begins with."""
        return "" if self.context == "line" else "\n"

    def prepare(self, text: str) -> str:
        """A text as the training text was prepared and written."""
        if self.lower or self.letters_only:
            text = Source.of_text(text, lower=self.lower, letters_only=self.letters_only).text()
        return text if self.writing is None else self.writing.rewritten(text)

    def ids(self, sentence: str) -> Ids:
        """The tokens of a sentence, the line end before it included where there is one."""
        return self.tokenizer.encode(self.begin + self.prepare(sentence))

    def whole_words(self) -> None:
        """Refuse a tokenizer whose tokens are not the words of a line, one each."""
        if self.tokenizer.name != "word":
            raise OptionError(
                f"the model reads {self.tokenizer.name} tokens; expected word tokens, one for each word of a sentence; "
                "try: thereafter train SOURCE --tokens word"
            )

    def word(self, word: str) -> int:
        """The id of a word; refused where the model does not know it."""
        self.whole_words()
        ids = self.tokenizer.encode(self.prepare(word))
        if len(ids) != 1 or ids[0] == self.tokenizer.unknown_id:
            raise OptionError(
                f"the model does not know the word {word!r}; it was trained on {self.source}; expected one trained on "
                "sentences with that word; try: thereafter data list, then thereafter train CORPUS"
            )
        return int(ids[0])

    def knows(self, word: str) -> bool:
        """Whether a word has no unknown token, at the beginning of a line or inside it."""
        forms = (self.tokenizer.encode(self.prepare(text)) for text in (word, f" {word}"))
        return any(len(ids) and self.tokenizer.unknown_id not in ids for ids in forms)

    def check_words(
        self, sentences: Iterable[Iterable[str]], questions: Sequence[Iterable[str]], asked: str, corpus: str
    ) -> Table:
        """How many different words of `sentences` the model knows, for `about`, with a caution where it knows few.

        Each question needs words that the model must know to answer it; they are called `asked`. OptionError where it
        can answer none.
        """
        needed = [tuple(words) for words in questions]
        words = {word for sentence in sentences for word in sentence} | {word for need in needed for word in need}
        known = {word for word in words if self.knows(word)}
        answered = sum(known.issuperset(need) for need in needed)
        facts: Table = {"words": len(words), "known_words": len(known)}
        of_them = f"{self.name} knows {len(known):,} of the {len(words):,} words of these sentences of {corpus}"
        if not answered:
            raise OptionError(
                f"{of_them}, and {asked} in none of {len(needed):,} cases; it was trained on {self.source}; expected a "
                f"model that knows them; try: thereafter train {corpus} --model lstm --tokens word --out RUN"
            )
        if answered < (1 - MANY) * len(needed) or len(known) < (1 - MANY) * len(words):
            others = "the other cases say nothing of what it learned" if answered < len(needed) else "the rest is <unk>"
            facts["caution"] = f"{of_them}, and {asked} in {answered:,} of {len(needed):,} cases; {others}"
        return facts

    def about(self, **more: object) -> Table:
        """What a measurement says of its model."""
        return {"model": self.name, "trained_on": self.source} | more


CHARACTERS = 60_000
PARTS = ("test", "valid", "text")


def padded(rows: Sequence[Ids]) -> NDArray[np.int64]:
    """Tokens of sentences, [B, T]; what fills short rows up is read after all that counts, since models are causal."""
    tokens_BT = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for row, ids in enumerate(rows):
        tokens_BT[row, : len(ids)] = ids
    return tokens_BT


def excerpt(
    tokenizer: Tokenizer,
    *,
    text: str | None = None,
    source: str | None = None,
    lower: bool = False,
    letters_only: bool = False,
    writing: WritingForm | None = None,
    forming: Forming | None = None,
    characters: int = CHARACTERS,
) -> tuple[Ids, str]:
    """Ids of a text, or of the first `characters` of a source (of a corpus its test part), and its name for a caption.

    `lower`, `letters_only` and `forming` as the model's own text was read, `writing` as it was written.
    """
    if text is not None and source is None:
        given = Source.of_text(text, lower=lower, letters_only=letters_only)
        chosen, caption = in_style(Texts(given.name, {"text": given}), given, writing), _short(text)
    elif source is None or text is not None:
        got = "neither" if source is None else "both"
        raise SourceError(f"got {got} of a text and a source; expected one; try --text 'the cat sat on the mat'")
    else:
        texts = resolve(source, lower=lower, letters_only=letters_only, forming=forming)
        part = next((name for name in PARTS if name in texts.parts), next(iter(texts.parts)))
        chosen = in_style(texts, texts.parts[part], writing)
        caption = f"{texts.name}, {part} part" if part != "text" else texts.name
    read = ""
    for chunk in chosen.chunks():
        read += chunk
        if len(read) >= characters:
            break
    ids = tokenizer.encode(read[:characters])
    if not len(ids):
        raise EmptyCorpusError(f"{caption} has no tokens; expected at least a few words")
    return ids, caption


def _short(text: str) -> str:
    """A text as it is named in a caption.

    >>> _short("the cat sat on the mat and slept until the evening came")
    'the text "the cat sat on the mat and slept until ..."'
    """
    line = " ".join(text.split())
    return f'the text "{line}"' if len(line) <= 40 else f'the text "{line[:40].rsplit(" ", 1)[0]} ..."'
