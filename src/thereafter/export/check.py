"""The same tokens through a model and through the file that was written of it, with the state carried.

A file's own encoder is compared with the tokenizer over texts that are easily encoded wrongly.

Here is also the text that a file is checked with, and the one that a page opens on.

Shapes: B rows (one here), T steps, V words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data import corpora
from thereafter.data.files import AnySource
from thereafter.errors import CorpusError, ExportError, OptionError, SourceError
from thereafter.export.plan import Exportable
from thereafter.export.recalling import training_text
from thereafter.export.targets import EncodingRunner, Opening, Runner, SequenceRunner
from thereafter.models.base import Ids
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Tokenizer, join_ids
from thereafter.training import reading
from thereafter.training.finding import find_again, find_texts, part_of
from thereafter.training.kinds import Trained
from thereafter.training.settings import TextSettings

_WRITING_SEED = 7
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
    model, drawing = trained.model, np.random.default_rng(_WRITING_SEED)
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


STEPS, MEASURED_STEPS = 200, 1000
"""Steps of a check where log p are compared, and where bits per byte are measured (int8)."""
PIECE = 128
"""Tokens that a file of whole sequences reads at a time."""
MORE_BITS = 0.01
"""The share of bits per byte that int8 weights may cost."""
_LOWEST = -200.0
"""log p below it count as it: formats that cannot write log 0 write a number as low."""


@dataclass(frozen=True)
class Checked:
    """What a check has seen.

    `largest`: the largest |difference| of a log p over all steps and all words. `bits`, `bits_exported`: bits per byte
    of the text by the model and by the file. `text`: what was read. `what`: the numbers that were compared. `tokens`:
    how many the text has, where it is read again and again until there are enough steps, else 0. `texts`: how many odd
    texts the file's own encoder turned into the tokens of the tokenizer.
    """

    steps: int
    largest: float
    bits: float
    bits_exported: float
    text: str
    what: str = "log p"
    unit: str = "steps"
    tokens: int = 0
    texts: int = 0

    @property
    def read(self) -> str:
        """What was read, in words."""
        again = f"over the {self.tokens:,} tokens of {self.text}, read again and again"
        steps = f"{self.steps:,} {self.unit} {again if self.tokens else f'of {self.text}'}"
        return f"{steps}, {self.texts:,} odd texts encoded" if self.texts else steps

    @property
    def loss(self) -> float:
        """The share by which the file needs more bits."""
        return self.bits_exported / self.bits - 1 if self.bits else 0.0


def count_steps(asked: int | None, tolerance: float | None, context: int = 0) -> int:
    """How many steps a check takes: as requested, else `STEPS` or `MEASURED_STEPS`, past the end of a context."""
    if asked is not None and asked < 1:
        raise OptionError(f"check_steps is {asked}; expected 1 or more; try --check-steps {STEPS}")
    return asked or max(MEASURED_STEPS if tolerance is None else STEPS, context + 50)


def check(lm: Exportable, runner: Runner, ids_T: Ids, name: str, steps: int) -> Checked:
    """The tokens through both, each predicted by both before it is read; tokens begin again where they are too few.

    A file of whole sequences reads the same, `PIECE` tokens at a time with its state carried.
    """
    texts = check_encoder(lm, runner) if isinstance(runner, EncodingRunner) else 0
    tokens: NDArray[np.int64] = np.resize(np.asarray(ids_T, dtype=np.int64), steps)
    if not len(ids_T):
        raise ExportError("the text of the check is empty; expected at least one token; try another --check")
    model = lm.model
    state = model.start(1)
    ours_1V, theirs_1V = np.asarray(model.predict(state)), runner.start(1)
    largest, nats, exported, in_pieces, last = 0.0, 0.0, 0.0, 0.0, lm.tokenizer.start_id
    with progress.task("checking", total=steps, unit="tokens") as advance:
        for begin in range(0, steps, PIECE):
            piece, ours_TV = tokens[begin : begin + PIECE].tolist(), []
            for token in piece:
                largest = max(largest, difference(ours_1V, theirs_1V))
                nats, exported = nats - float(ours_1V[0, token]), exported - float(theirs_1V[0, token])
                ours_TV.append(np.asarray(ours_1V)[0])
                ours_1V, state = model.step(np.array([token]), state)
                theirs_1V = runner.step(np.array([token]))
                advance(1)
            if isinstance(runner, SequenceRunner):
                theirs_TV = runner.whole(np.array([[last, *piece[:-1]]]))[0]
                largest = max(largest, difference(np.stack(ours_TV), theirs_TV))
                in_pieces -= float(theirs_TV[np.arange(len(piece)), piece].sum())
                last = piece[-1]
    largest, exported = max(largest, difference(np.asarray(ours_1V), theirs_1V)), max(exported, in_pieces)
    size = int(lm.tokenizer.token_sizes[tokens].sum()) * math.log(2)
    again = len(ids_T) if len(ids_T) < steps else 0
    return Checked(steps, largest, nats / size, exported / size, name, tokens=again, texts=texts)


def check_encoder(lm: Exportable, runner: EncodingRunner) -> int:
    """How many odd texts the file's own encoder turned into the tokens of the tokenizer; ExportError if one differs."""
    about, texts = lm.config["text"], odd_texts(lm.tokenizer)
    encoded = runner.encode(texts)
    if encoded is None:
        return 0
    for text, tokens in zip(texts, encoded, strict=True):
        normal = Source.of_text(text, lower=bool(about["lower"]), letters_only=bool(about["letters_only"])).text()
        ours = lm.tokenizer.encode(normal).tolist()
        if tokens != ours:
            at = next((i for i, pair in enumerate(zip(tokens, ours, strict=False)) if pair[0] != pair[1]), None)
            at = min(len(tokens), len(ours)) if at is None else at
            raise ExportError(
                f"the file encodes {text[:60]!r} as {len(tokens)} tokens, {tokens[at : at + 5]} from token {at} on; "
                f"expected {len(ours)} tokens, {ours[at : at + 5]}; nothing was written; "
                "try another --to, and please report it"
            )
    return len(texts)


def difference(ours: NDArray[np.floating], theirs: NDArray[np.floating]) -> float:
    """The largest |difference|; infinite where a number is none or the shapes differ."""
    if ours.shape != theirs.shape or not np.array_equal(np.isnan(ours), np.isnan(theirs)):
        return math.inf
    one, two = (np.maximum(part.astype(np.float64), _LOWEST) for part in (ours, theirs))
    return float(np.max(np.abs(one - two), initial=0.0))


def refuse(
    checked: Checked, tolerance: float | None, what: str, *, form: str = "int8", advice: str = "try it without --int8"
) -> None:
    """ExportError where a file computes something else than its model; there is then no file."""
    if tolerance is not None and not checked.largest <= tolerance:
        raise ExportError(
            f"{what} differs from its model by {checked.largest:.2g} in {checked.what} after at most "
            f"{checked.steps:,} steps; expected at most {tolerance:g}; nothing was written; "
            "try another --to, and please report it"
        )
    if tolerance is None and not checked.loss <= MORE_BITS:
        raise ExportError(
            f"{what} in {form} needs {checked.bits_exported:.4f} bits per byte where its model needs "
            f"{checked.bits:.4f}, {checked.loss:.1%} more; expected at most {MORE_BITS:.0%}; "
            f"nothing was written; {advice}"
        )


COUNT = 200
SEED = 11
_MOST_PIECES = 400
_LONG_WORDS = 8
_LONG = 3000
_REPEATED = 400

_TEXTS = (
    "",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\n\r\n\r",
    "one\r\ntwo\rthree\n\nfour\r\r\nfive",
    "\ufeff",
    "\ufeffThe first line\r\n",
    "\ufeff\ufeffTwo marks, and one \ufeff inside",
    "THE CAT SAT, 12 YEARS OLD; it ran_away -- or DID it?",
    "don't can't WON'T it\u2019s \u201cquoted\u201d\u2014dash\u2026",
    "İSTANBUL Iıi İİ İ\u0307",
    "STRASSE Straße ẞ ß",
    "ΟΔΟΣ ΟΔΟΣ. Σ ΣΣ \u0391Σ\u0391 \u0391\u0301Σ\u0301 \u0391.Σ \u0391Σ'\u0391",
    "ΣΙΣΥΦΟΣ\r\nΜέγαΣ\u00ad αΣ:β αΣ\U0001f600",
    "Ǆ ǅ ǆ \u212a \u212b \u2126 ᾈ ﬃ \u2160\u2161 Ⓐ \U00010400 \u10a0 \u13a0 \uff21",
    "e\u0301 E\u0301 a\u0328\u0301 \u0301 alone z\u0351\u036b\u0343",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd",
    "漢字 ひら カタ 한국어 ไทย नमस्ते Русский עברית العربية",
    "1 ² ½ Ⅷ ٣ १ \uff15 ① 一 12,345.67 1e-5",
    "a\tb\vc\fd\x1ce\x1df\x1eg\x1fh\x85i\u00a0j\u1680k\u2003l\u2028m\u2029n\u202fo\u205fp\u3000q\u200br",
    "\x01\x02\x07\x08\x1b[31mred\x1b[0m\x7f\x80\x9f",
    "</s> <s> <unk> <UNK> <0xE2> </S> a</s> <s>b",
    "___ a_b __init__ _1_ \u203f",
    "\ue000 \uf8ff \uffff \ufffd \U000e0001 \U0010ffff \U000f0000",
    "A" * _LONG,
    "aB1İ" * (_LONG // 4),
    "Σ" * 50 + "\u0301" * 50 + "Σ",
    " " * 200 + "\n" * 50 + "\r" * 50,
    "x\u0308" * 100 + "!" * 100,
)
_MARKS = ("\r\n", "\r", "\n", " ", "  ", "\t", "\ufeff", ".", "'", "-", "_", "7", "²", "\u00ad", "\u0301", "\u200d")
_LETTERS = ("A", "z", "İ", "ı", "ß", "ẞ", "É", "Σ", "σ", "ς", "\u0391", "Ж", "漢", "ก", "א", "\U00010428")
_OTHERS = ("\U0001f600", "\U0001f3fd", "\ufffd", "\u2028", "</s>", "<unk>")


def odd_texts(tokenizer: Tokenizer) -> list[str]:
    """`COUNT` texts: those above, then marks, letters and pieces of a vocabulary in any case, drawn together."""
    drawing = np.random.default_rng(SEED)
    chosen = drawing.permutation(tokenizer.size)[:_MOST_PIECES].tolist()
    pieces = [piece for id in chosen if "\0" not in (piece := tokenizer.piece(id))]
    words = [word for piece in pieces for word in (piece, piece.upper(), piece.title())]
    longest = sorted((piece.strip() for piece in pieces), key=len)[-_LONG_WORDS:]
    sorts = [sort for sort in (_MARKS, _LETTERS, _OTHERS, words) if sort]
    texts = dict.fromkeys([*_TEXTS, *(word[-1:] + word * (_REPEATED // (1 + len(word))) for word in longest)])
    while len(texts) < COUNT:
        drawn = [sorts[drawing.integers(len(sorts))] for _ in range(drawing.integers(5, 40))]
        texts["".join(sort[drawing.integers(len(sort))] for sort in drawn)] = None
    return list(texts)
