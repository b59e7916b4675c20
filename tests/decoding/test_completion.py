"""Completion of half-typed words equals brute force: plain enumeration of words, or of all sequences of tokens."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from small_models import made

import thereafter
from refusals import assert_refused
from thereafter.decoding.completion import PieceCompleter, complete, completer_of, split_at_space, split_forms
from thereafter.errors import OptionError
from thereafter.models.build import build, settings_of
from thereafter.ngram.model import estimate
from thereafter.text.tokenizers.base import Chunks, Ids, MeasuredText, Tokenizer, Vocabulary
from thereafter.text.tokenizers.byte_level import CharTokenizer
from thereafter.text.tokenizers.forms import prose_forms

TEXT = "the monk saw the monster , the month of mon .\nthe moth met the monks in 18 or 1818 .\n" * 3
EVERYTHING = 10_000
WORD = re.compile(r"[^\W\d_]+|\d+")


@cache
def trained(tokens: str) -> thereafter.LanguageModel:
    lm = thereafter.train(text=TEXT, tokens=tokens, order=3)
    assert len(lm.tokenizer.vocabulary) <= 50
    return lm


def lstm(size: int) -> Any:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(5)
        return build(
            "lstm",
            settings_of("lstm")(hidden=8, embed=8, layers=1),
            vocabulary_size=size,
            context="stream",
            line_end=None,
        )


# Forms: every word is a token


@pytest.mark.parametrize("tokens", ["word", "prose"])
@pytest.mark.parametrize("kind", ["ngram", "lstm"])
@pytest.mark.parametrize("typed", ["mon", "m", "monk", "1", "zebra", "t"])
@pytest.mark.parametrize("context", ["the monk saw the ", "the ", "the month .\n", ""])
def test_words_are_the_forms_that_begin_so_renormalised(tokens: str, kind: str, typed: str, context: str):
    lm = trained(tokens)
    model = lm.model if kind == "ngram" else lstm(len(lm.tokenizer.vocabulary))
    spaced = tokens == "prose" and context.endswith(" ")
    before = context[:-1] if spaced else context
    begun = " " + typed if spaced else typed
    state = model.start(1)
    ids = lm.tokenizer.encode(before)
    if len(ids):
        state = model.log_probs(ids.reshape(1, -1), state)[1]
    p_V = np.exp(np.asarray(model.predict(state))[0].astype(np.float64))
    ordinary = set(lm.tokenizer.ordinary_forms)
    expected = {
        form.strip(): p_V[number]
        for number, form in enumerate(lm.tokenizer.vocabulary.forms)
        if form in ordinary and form.startswith(begun)
    }
    mass = sum(expected.values())
    result = complete(model, lm.tokenizer, context + typed, k=EVERYTHING)
    assert {one.word: one.p for one in result} == pytest.approx({word: p / mass for word, p in expected.items()})
    assert result.mass == pytest.approx(mass)
    assert result.covered == 1.0
    assert result.ending == pytest.approx(expected.get(typed, 0.0) / mass if mass else 0.0)
    assert [one.p for one in result] == sorted((one.p for one in result), reverse=True)
    assert all(typed + one.append == one.word for one in result)


@pytest.mark.parametrize("tokens", ["word", "prose"])
def test_after_white_space_all_words_are_candidates_and_after_punctuation_none(tokens: str):
    lm = trained(tokens)
    after_space = lm.complete("the monk saw the ", k=EVERYTHING)
    p_V = lm.distribution("the monk saw the")
    forms = [form for form in lm.tokenizer.ordinary_forms if form.startswith(" ") or tokens == "word"]
    words = {form.strip() for form in forms if tokens == "word" or WORD.fullmatch(form.strip())}
    assert {one.word for one in after_space} == words
    assert after_space.mass == pytest.approx(
        sum(
            p_V[number]
            for number, form in enumerate(lm.tokenizer.vocabulary.forms)
            if form in forms and form.strip() in words
        )
    )
    assert not after_space.half_typed
    bare = lm.complete("the month .\n", k=EVERYTHING)
    assert all(one.append == one.word for one in bare)
    if tokens == "prose":
        assert {one.word for one in bare} == {form for form in lm.tokenizer.ordinary_forms if WORD.fullmatch(form)}
        assert len(lm.complete("the monk saw the,")) == 0


# Pieces: a word is spelled


class TinyPieces(Tokenizer):
    """Pieces with overlapping spellings, some of them parts of a character, one with the end of a word inside."""

    name: ClassVar[str] = "tiny"
    PIECES: ClassVar[list[bytes]] = [b"a", b"b", b" ", b".", b"ab", b" a", b"b.", b"1", b"\xc3", b"\xa9"]

    def __init__(self) -> None:
        super().__init__(Vocabulary([piece.hex() for piece in self.PIECES]))

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        return cls()

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return iter(chunks)

    def ids_of(self, group: str) -> Ids:
        rest, ids = group.encode(), []
        while rest:
            longest = max((piece for piece in self.PIECES if rest.startswith(piece)), key=len)
            ids.append(self.PIECES.index(longest))
            rest = rest[len(longest) :]
        return np.array(ids, np.int32)

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        return MeasuredText(self.ids_of(group), group.count("\n"), len(group), len(group.encode()))

    def bytes_of(self, id: int) -> bytes:
        return self.PIECES[id]

    @property
    def line_end_id(self) -> None:
        return None


def enumerate_words(
    model: Any, tokenizer: Tokenizer, context: str, begun: str, length: int
) -> tuple[dict[str, float], float]:
    """p of each word by all sequences of at most `length` tokens, scored whole; and p of all texts that begin so.

    A sequence is complete where it spells a character after the word. Sequences that spell something else than what is
    begun are not continued; all others are.
    """
    given = tokenizer.encode(context)
    spelled = [tokenizer.bytes_of(number) for number in range(tokenizer.size)]
    if tokenizer.unknown_id is not None:
        spelled[tokenizer.unknown_id] = b""
    words: dict[str, float] = defaultdict(float)
    mass, open_sequences, typed = 0.0, [(((), b""))], begun.encode()
    for _ in range(length):
        longer = [
            ((*tokens, number), text + piece)
            for tokens, text in open_sequences
            for number, piece in enumerate(spelled)
            if piece and ((text + piece).startswith(typed) or typed.startswith(text + piece))
        ]
        p = probabilities(model, given, [tokens for tokens, _ in longer])
        open_sequences = []
        for (tokens, text), one in zip(longer, p, strict=True):
            if len(text) >= len(typed) > len(text) - len(spelled[tokens[-1]]):
                mass += one
            readable = text.removesuffix(b"\xc3").decode(errors="replace")  # the first byte of a character of two
            word = WORD.match(readable.removeprefix(" ") if begun.startswith(" ") else readable)
            body = len(readable) - begun.startswith(" ")
            if word and len(word[0]) < body and text.startswith(typed):
                words[word[0]] += one
            else:
                open_sequences.append((tokens, text))
    return words, mass


def probabilities(model: Any, given: Ids, sequences: list[tuple[int, ...]]) -> list[float]:
    rows = np.array([[*given.tolist(), *tokens] for tokens in sequences])
    total: list[float] = []
    for begin in range(0, len(rows), 4096):
        batch = rows[begin : begin + 4096]
        logp_BT, _ = model.log_probs(batch, model.start(len(batch)))
        total += np.exp(np.asarray(logp_BT)[:, len(given) :].astype(np.float64).sum(axis=1)).tolist()
    return total


def tiny_ngram() -> Any:
    ids = np.random.default_rng(2).integers(0, len(TinyPieces.PIECES), 400)
    return estimate(ids, len(TinyPieces.PIECES), order=3)


SPELLED = [("b.", " a"), ("", "ab"), (" a", " ab"), ("a.", "1"), ("b", " é")]


@pytest.mark.parametrize(
    ("kind", "context", "begun"), [*(("ngram", *one) for one in SPELLED), *(("lstm", *one) for one in SPELLED[::4])]
)
def test_words_spelled_by_pieces_are_summed_over_all_their_spellings(kind: str, context: str, begun: str):
    tokenizer = TinyPieces()
    model = tiny_ngram() if kind == "ngram" else lstm(len(tokenizer.PIECES))
    expected, mass = enumerate_words(model, tokenizer, context, begun, 5)
    result = complete(
        model,
        tokenizer,
        context + begun,
        EVERYTHING,
        completer=PieceCompleter(tokenizer, expansions=1_000 if kind == "ngram" else 500),
    )
    assert result.typed == begun
    assert result.mass == pytest.approx(mass, rel=1e-6)
    share = {one.word: one.p for one in result}
    # n bytes have at most n pieces, and a broken character takes two to end a word
    sure = {word: p / mass for word, p in expected.items() if len(word.encode()) + begun.startswith(" ") <= 3}
    assert sure
    assert {word: share[word] for word in sure} == pytest.approx(sure, rel=1e-5)
    assert result.covered == pytest.approx(sum(share.values()))
    assert result.covered <= 1
    assert result.ending == pytest.approx(share[begun.strip()])


@pytest.mark.parametrize("kind", ["ngram", "lstm"])
@pytest.mark.parametrize(("context", "begun"), [("the", " mon"), ("the month .\n", "t"), ("saw the", " 18")])
def test_words_of_characters_are_those_of_all_sequences(kind: str, context: str, begun: str):
    lm = trained("char")
    assert isinstance(lm.tokenizer, CharTokenizer)
    model = lm.model if kind == "ngram" else lstm(lm.tokenizer.size)
    expected, mass = enumerate_words(model, lm.tokenizer, context, begun, len(begun) + 3)
    completer = PieceCompleter(lm.tokenizer, expansions=2_000 if kind == "ngram" else 800)
    result = complete(model, lm.tokenizer, context + begun, EVERYTHING, completer=completer)
    share = {one.word: one.p for one in result}
    assert result.mass == pytest.approx(mass, rel=1e-6)
    likely = {word: p / mass for word, p in expected.items() if p / mass > 1e-4}
    assert len(likely) > 5
    assert {word: share[word] for word in likely} == pytest.approx(likely, rel=1e-5)
    # the few that are asked for are the same, and known to be the likeliest when the search stops
    few = lm.complete(context + begun, 5) if kind == "ngram" else complete(model, lm.tokenizer, context + begun, 5)
    assert [one.p for one in few] == pytest.approx([one.p for one in result][:5], rel=1e-5)


def spellings(word: bytes, pieces: dict[bytes, int]) -> Iterator[tuple[int, ...]]:
    """All ways to spell a word."""
    if not word:
        yield ()
    for size in range(1, len(word) + 1):
        if word[:size] in pieces:
            for rest in spellings(word[size:], pieces):
                yield (pieces[word[:size]], *rest)


@pytest.mark.parametrize("tokens", ["bpe", "wordpiece", "unigram"])
def test_words_of_byte_pairs_are_summed_over_all_their_spellings(tokens: str):
    lm = thereafter.train(text=TEXT, tokens=tokens, order=2, vocabulary=290)
    tokenizer, context = lm.tokenizer, "the monk saw the"
    pieces = {tokenizer.bytes_of(number): number for number in range(tokenizer.size)}
    # a word is ended by what is no letter, and by bytes that no character begins with
    ends = [number for spelled, number in pieces.items() if not re.match(rb"[A-Za-z\xc2-\xf4]", spelled)]
    # and, after two pieces or more, by characters of several bytes that are no letters
    maybe = [number for spelled, number in pieces.items() if re.match(rb"[\xc2-\xf4]", spelled)]
    mass = sum_of_beginnings(lm.model, tokenizer, context, b" mon", pieces)
    completer = PieceCompleter(tokenizer, expansions=2_000)
    result = complete(lm.model, tokenizer, context + " mon", EVERYTHING, completer=completer)
    assert result.mass == pytest.approx(mass, rel=1e-6)
    share = {one.word: one.p for one in result}
    for word in ("mon", "monk", "monks", "month", "monster"):
        every = list(spellings(b" " + word.encode(), pieces))
        after_all = list(followed(lm.model, tokenizer.encode(context), every))
        least = sum(p * after[ends].sum() for p, after in after_all) / mass
        most = least + sum(p * after[maybe].sum() for p, after in after_all) / mass
        # the least likely of its spellings may still wait when the search stops
        assert least * (1 - 1e-3) <= share[word] <= most * (1 + 1e-6)
        assert most < 1.2 * least


def sum_of_beginnings(model: Any, tokenizer: Tokenizer, context: str, typed: bytes, pieces: dict[bytes, int]) -> float:
    given, total = tokenizer.encode(context), 0.0
    for size in range(len(typed)):
        covering = [number for spelled, number in pieces.items() if spelled.startswith(typed[size:])]
        for probability, after in followed(model, given, list(spellings(typed[:size], pieces))):
            total += probability * sum(after[number] for number in covering)
    return total


def followed(model: Any, given: Ids, sequences: list[tuple[int, ...]]) -> Iterator[tuple[float, Any]]:
    """p of each sequence after some ids, and the distribution after it."""
    for sequence in sequences:
        row = np.array([[*given.tolist(), *sequence]])
        logp_BT, state = model.log_probs(row, model.start(1))
        after = np.exp(np.asarray(model.predict(state))[0].astype(np.float64))
        yield float(np.exp(np.asarray(logp_BT)[0, len(given) :].astype(np.float64).sum())), after


@pytest.mark.parametrize("tokens", ["char", "byte", "bpe"])
@pytest.mark.parametrize("name", ["ngram", "lstm", "transformer"])
def test_every_model_completes_and_says_what_it_has_not_covered(tokens: str, name: str):
    result = made(name, tokens).complete("the cat sat on the ma", 3)
    assert len(result) == 3
    assert all(one.word == "ma" + one.append for one in result)
    assert 0 < sum(one.p for one in result) <= result.covered + 1e-9
    assert result.covered <= 1
    if name == "ngram":
        assert result[0].word == "mat"
        assert result[0].p > 0.5
        assert result.half_typed


@pytest.mark.parametrize("tokens", ["char", "byte", "bpe"])
def test_after_white_space_whole_words_are_spelled(tokens: str):
    result = made("ngram", tokens).complete("the cat sat on the ", 3)
    assert result.typed == " "
    assert {one.word for one in result} & {"mat", "cat"}
    assert all(one.append == one.word and WORD.fullmatch(one.word) for one in result)
    assert len(made("ngram", tokens).complete("the cat,")) == 0


@pytest.mark.parametrize("tokens", ["word", "prose", "char", "byte", "bpe"])
@pytest.mark.parametrize(
    "prompt", ["", " ", "\n", "\t x", "le caf", "日本", "ü\u0308", "\u200d", "_", "a" * 3_000, "x  y"]
)
def test_no_text_is_an_error(tokens: str, prompt: str):
    result = made("ngram", tokens).complete(prompt)
    assert 0 <= result.mass <= 1 + 1e-6
    assert 0 <= result.ending <= 1
    assert all(0 <= one.p <= 1 for one in result)


def test_characters_of_several_bytes_are_completed_whole():
    for tokens in ("char", "byte", "bpe"):
        assert made("ngram", tokens).complete("le caf", 1)[0].word == "café"


def test_where_the_last_word_begins():
    assert (split_at_space("a\n").context, split_at_space("a\n").begun) == ("a\n", "")
    assert split_at_space("it's don'").begun == "don'"
    split = {
        text: split_forms(text, prose_forms) for text in ("", "a", "a b", "a  b", "a ", "a  ", "a\n", "a 1", "(b", "a.")
    }
    begun = {text: typed and (typed.context, typed.begun) for text, typed in split.items()}
    assert begun == {
        "": ("", ""),
        "a": ("", "a"),
        "a b": ("a", " b"),
        "a  b": ("a  ", "b"),
        "a ": ("a", " "),
        "a  ": ("a  ", ""),
        "a\n": ("a\n", ""),
        "a 1": ("a", " 1"),
        "(b": ("(", "b"),
        "a.": None,
    }
    long = "so long " * 1_000 + "and thanks"
    last = split_forms(long, prose_forms)
    assert last is not None
    assert (last.context, last.begun) == (long[:-7], " thanks")


def test_a_prompt_is_read_as_the_training_text_was():
    lm = thereafter.train(text=TEXT, tokens="word", order=2, lower=True)
    assert [one.append for one in lm.complete("The MON", 2)] == [one.append for one in lm.complete("the mon", 2)]


def test_the_answer_is_a_table():
    result = trained("word").complete("the mon", 2)
    assert result.to_csv().splitlines()[0] == "word,append,p"
    assert len(result.to_rows()) == len(result) == 2
    assert result.to_rows()[0]["word"] == result[0].word
    assert "monster" in result._repr_html_() or "monk" in result._repr_html_()
    with assert_refused(OptionError, "k", 0, 1):
        trained("word").complete("the mon", 0)


def test_a_completer_is_made_once_for_a_tokenizer():
    lm = trained("prose")
    once = completer_of(lm.tokenizer)
    assert complete(lm.model, lm.tokenizer, "the mon", completer=once) == lm.complete("the mon")


def test_the_page_about_completion_runs_as_it_stands(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).resolve().parents[2] / "docs" / "completion.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "docs/completion.md", "exec"), {})  # noqa: S102, our own page
    assert "('monster', 'ster')" in capsys.readouterr().out
