"""A trained model as instruments read with it: the models they apply to, their tokenizer and how their text was
prepared; rows of a text, states over a long one, an excerpt.

Rows are read from `<s>`, as the model reads a text. States come piece by piece: nothing as long as the text is ever in
memory. The text is read as several stretches side by side, since a product of many rows is much faster than many
products of one. Each stretch starts from `<s>` some tokens before its own part; the states of these are not given.

Shapes: B or R rows, T steps, N places shown, U units of a field.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.config import Table
from thereafter.base.kinds import listed, recurrent_names
from thereafter.base.progress import task
from thereafter.errors import EmptyCorpusError, OptionError, SourceError
from thereafter.evaluation.scores import MANY
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids
from thereafter.models.neural import NeuralModel
from thereafter.text.form import Forming
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.writing import WritingForm, in_style, writing_of_run


def neural(model: object, purpose: str) -> NeuralModel:
    """The model itself where it has gradients; else an error that says which have."""
    if isinstance(model, NeuralModel):
        return model
    from thereafter.models.build import NEURAL

    raise OptionError(f"only a neural model has {purpose}; got {model_name(model)}; try a run of: {', '.join(NEURAL)}")


def recurrent(model: object, purpose: str) -> NeuralModel:
    """The model itself where its layers carry a state from token to token."""
    network = neural(model, purpose)
    if not network.fields:
        raise OptionError(
            f"{purpose} needs a recurrent model and got {model_name(model)!r}; try {listed(recurrent_names())}"
        )
    return network


def with_units(model: object) -> NeuralModel:
    """The same, for those who look for units."""
    return recurrent(model, "a unit")


def still_copy(model: NeuralModel) -> NeuralModel:
    """A copy to measure on: evaluation mode, no gradients of weights, float64 since long products leave float32."""
    return deepcopy(model).eval().requires_grad_(False).double()


def model_name(model: object) -> str:
    """What a model is called in captions where nobody gave it a name."""
    return type(model).__name__.removesuffix("Model").lower()


@dataclass(frozen=True)
class TextRows:
    """`inputs_BT` begin with `<s>`, `targets_BT` are the tokens themselves; the mask is false beyond a row's end."""

    inputs_BT: Tensor
    targets_BT: Tensor
    mask_BT: Tensor

    @property
    def steps(self) -> int:
        return self.inputs_BT.shape[1]


def longest(model: NeuralModel, ids: Ids) -> int:
    """How many tokens the model can see in one go: of the text, of a line where lines stand alone, of its context."""
    most = max(map(len, _pieces(model, ids)), default=0)
    return min(most, model.most_at_once or most)


def cut_rows(model: NeuralModel, ids: Ids, *, least: int, most: int, rows: int) -> TextRows:
    """At most `rows` rows of `least` to `most` tokens. A [rows, steps] array is taken as it is, each row cut at `most`.

    Where lines stand alone the rows are the first lines that are long enough; else pieces spread evenly over the text.
    """
    seen = longest(model, ids)
    if seen < least:
        what = "line" if model.restart is not None else "text"
        raise OptionError(
            f"the longest {what} the model can see at once has {seen} tokens; expected at least {least}; "
            "try a longer text, or fewer steps back"
        )
    most = min(most, model.most_at_once or most)
    pieces = [piece for piece in _pieces(model, ids) if len(piece) >= least]
    if np.ndim(ids) == 1 and model.restart is None:
        size = min(most, len(pieces[0]))
        places = np.unique(np.linspace(0, len(pieces[0]) - size, min(rows, len(pieces[0]) // size)).astype(int))
        pieces = [pieces[0][place : place + size] for place in places]
    pieces = [piece[:most] for piece in pieces[:rows]]
    width = max(map(len, pieces))
    targets = np.zeros((len(pieces), width), dtype=np.int64)
    mask = np.zeros((len(pieces), width), dtype=np.bool_)
    for row, piece in enumerate(pieces):
        targets[row, : len(piece)], mask[row, : len(piece)] = piece, True
    inputs = np.concatenate([np.full((len(pieces), 1), model.vocabulary_size), targets[:, :-1]], axis=1)
    model.checked(targets)  # ids of another vocabulary raise here
    tensors = (torch.from_numpy(array).to(model.device) for array in (inputs, targets, mask))
    return TextRows(*tensors)


def _pieces(model: NeuralModel, ids: Ids) -> list[Ids]:
    ids = np.asarray(ids)
    if ids.ndim == 2:
        return list(ids)
    if ids.ndim != 1:
        raise OptionError(f"ids have {ids.ndim} axes; expected one row of tokens, or [rows, steps]")
    if model.restart is None:
        return [ids] if len(ids) else []
    ends = np.flatnonzero(ids == model.restart) + 1
    return [line for line in np.split(ids, ends) if len(line)]


WARM = 300
"""Tokens a stretch reads before it is shown; the first stretch begins where the text does and needs none."""
MOST_ROWS = 64
_ROW = 2000  # tokens worth a stretch of their own
_NUMBERS = 1 << 23  # recorded at once, 32 MB


@dataclass(frozen=True)
class StatesChunk:
    """States after some tokens: `places_N` says which, `fields["l0.c"]` is [N, U], in the same order."""

    places_N: NDArray[np.int64]
    fields: dict[str, NDArray[np.float32]]


def stream_states(
    model: object, ids: Ids, *, gates: bool = False, rows: int | None = None, warm: int = WARM, label: str = "reading"
) -> Iterator[StatesChunk]:
    """The state fields of every layer (h, and c where there is one; with `gates` also these) after every token.

    Chunks come in no order of the text, and each place in one of them. One row is the text as `lm.trace` reads it; with
    more, a state knows what came since at least `warm` tokens before it.
    """
    network = with_units(model)
    if not len(ids):
        raise OptionError("the text is empty; expected at least one token")
    count = max(1, min(MOST_ROWS, len(ids) // _ROW)) if rows is None else max(1, min(rows, len(ids)))
    stretch = math.ceil(len(ids) / count)
    shown_R = np.arange(count) * stretch
    begin_R = np.maximum(shown_R - warm, 0)
    steps = int((shown_R - begin_R).max()) + stretch
    cells = network.cells.values()
    width = sum(cell.hidden_size * (len(cell.gates) + len(network.fields)) for cell in cells)  # numbers a token, about
    at_once = max(1, _NUMBERS // (count * width))
    with task(label, total=len(ids), unit="tokens") as advance, network.quietly():
        state = network.begin(count)
        for done in range(0, steps, at_once):
            places_RT = begin_R[:, None] + np.arange(done, min(done + at_once, steps))
            inside_RT = places_RT < len(ids)
            tokens_RT = np.where(inside_RT, ids[np.minimum(places_RT, len(ids) - 1)], 0)
            tokens = torch.from_numpy(tokens_RT.astype(np.int64)).to(network.device)
            # reading a line end may be starting again with `<s>`
            reset_RT = None if network.restart is None else torch.eq(tokens, network.restart)
            if reset_RT is not None:
                tokens = tokens.masked_fill(reset_RT, network.vocabulary_size)
            look = network.look(tokens, state, reset_BT=reset_RT)
            state = look.state
            wanted_RT = inside_RT & (places_RT >= shown_R[:, None]) & (places_RT < shown_R[:, None] + stretch)
            if wanted_RT.any():
                chosen = torch.from_numpy(wanted_RT)
                fields = {
                    name: array.cpu()[chosen].float().numpy()
                    for name, array in look.arrays.items()
                    if gates or name.rpartition(".")[2] in network.fields
                }
                yield StatesChunk(places_RT[wanted_RT], fields)
            advance(int(wanted_RT.sum()))


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
        cls, model: AnyModel, tokenizer: Tokenizer, config: Table, name: str | None = None, *, as_written: bool = False
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
