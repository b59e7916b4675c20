"""Surprisals by word, token, sentence and line: their sums are the score's, their figures those of brute force."""

from __future__ import annotations

import csv
import io
import math
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError, UnknownNameError
from thereafter.evaluation.scores import score_text
from thereafter.evaluation.text_reading import entropy_bits, read_costs, read_predictions
from thereafter.evaluation.text_units import count_words, cut_units
from thereafter.models.build import NEURAL, build, settings_of
from thereafter.models.cache import CacheModel, CacheSettings
from thereafter.models.mixture import MixtureModel
from thereafter.text.tokenizers import TOKENIZERS

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish on the mat\nwhere is the dog\n" * 4
OTHER = "the  cat ate\tthe zebra, <unk> .\n\n on a mat the dog is é😀\u3000x \nwhere </s> is"
SMALL: dict[str, dict[str, Any]] = {
    "average": {"embed": 8, "window": 5},
    "window": {"embed": 6, "hidden": 10, "window": 3},
    "awd-lstm": {"embed": 8, "sizes": (12, 12, 8)},
    "transformer": {"hidden": 8, "layers": 1, "heads": 2, "context": 7},
}
CLOSE = {"rel": 1e-9}


@cache
def fitted(tokens: str) -> Any:
    return TOKENIZERS.load(tokens).fit(lambda: [TEXT])


@cache
def untrained(kind: str, tokens: str) -> Any:
    tokenizer = fitted(tokens)
    settings = settings_of(kind)(**SMALL.get(kind, {"hidden": 8}))
    context = tokenizer.context
    return build(kind, settings, vocabulary_size=tokenizer.size, context=context, line_end=tokenizer.line_end_id).eval()


@cache
def counted(tokens: str) -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, tokens=tokens, order=3)


def compare_sums(model: Any, tokens: str, chunks: list[str]) -> None:
    tokenizer = fitted(tokens) if tokens in TOKENIZERS else tokens
    score = score_text(model, tokenizer, chunks, name="text", context="stream")
    costs = read_costs(model, tokenizer, chunks, name="text")
    assert len(costs.ids) == score.tokens
    assert costs.unknown_T.sum() == score.unknown
    assert len(costs.text.encode()) == costs.ends_T[-1] or tokens == "word"  # space at the end of a line is no token
    for by in ("word", "line", "sentence"):
        units = cut_units(costs.text, costs.places(), by)
        assert units.sums(costs.nats_T).sum() == pytest.approx(score.nats, **CLOSE)
        assert units.sums(costs.spelling_T).sum() == pytest.approx(score.spelling_nats, **CLOSE)
        assert units.first_U1[0] == 0
        assert units.first_U1[-1] == score.tokens


@pytest.mark.parametrize(
    ("kind", "tokens"),
    core(product(NEURAL, TOKENIZERS), [*((kind, "prose") for kind in NEURAL), *(("lstm", one) for one in TOKENIZERS)]),
)
def test_the_words_of_every_neural_model_add_up_to_its_score(kind: str, tokens: str) -> None:
    compare_sums(untrained(kind, tokens), tokens, [OTHER[:11], OTHER[11:]])


@pytest.mark.parametrize("tokens", list(TOKENIZERS))
def test_so_do_those_of_mixtures_and_of_caches(tokens: str) -> None:
    one, other = untrained("lstm", tokens), untrained("window", tokens)
    compare_sums(MixtureModel([one, other], [0.3, 0.7]), tokens, [OTHER])
    compare_sums(CacheModel(one, CacheSettings(size=5)), tokens, [OTHER])
    compare_sums(CacheModel(MixtureModel([one, other], [0.5, 0.5]), CacheSettings()), tokens, [OTHER])


@pytest.fixture(scope="module")
def neural(tmp_path_factory: pytest.TempPathFactory) -> list[thereafter.LanguageModel]:
    """A neural model, and a mixture of it with itself."""
    lm = thereafter.train(text=TEXT, model="rnn", hidden=8, epochs=1, tokens="prose")
    return [
        lm,
        thereafter.mixture([lm, thereafter.load(lm.save(tmp_path_factory.mktemp("rnn") / "run"))], [0.25, 0.75]),
    ]


@pytest.mark.parametrize("switches", [{}, {"cache": True}, {"dynamic": True}, {"cache": True, "dynamic": True}])
def test_a_language_model_with_switches(switches: dict[str, Any], neural: list[thereafter.LanguageModel]) -> None:
    for one in neural:
        score = one.score(text=OTHER, **switches)
        table = one.surprisal(text=OTHER, detail=True, **switches)
        rows = table.to_rows()
        assert sum(row["bits"] for row in rows) * math.log(2) == pytest.approx(score.nats, **CLOSE)
        assert sum(row["spelling_bits"] for row in rows) * math.log(2) == pytest.approx(score.spelling_nats, **CLOSE)
        assert table.readings[0].notes[: bool(score.switches)] == tuple(filter(None, [score.switches]))
        assert "of the tokens are unknown" in table.readings[0].notes[-1]


def test_a_score_with_nothing_known_of_and_one_without_an_end() -> None:
    for text in ("zebra", "\n", "  ", "the cat \n\n", "<unk>", "x" * 50):
        for tokens in ("word", "prose", "char", "byte"):
            lm = counted(tokens)
            score, table = lm.score(text=text), lm.surprisal(text=text)
            assert table.bits().sum() * math.log(2) == pytest.approx(score.nats, **CLOSE)
            assert table.spelling_bits().sum() * math.log(2) == pytest.approx(score.spelling_nats, **CLOSE)
            assert table.unknown().sum() == score.unknown


@pytest.mark.parametrize("tokens", list(TOKENIZERS))
def test_words_are_the_text_as_it_is_written(tokens: str) -> None:
    table = counted(tokens).surprisal(text=OTHER)
    words = [text for text in table.texts if text != "\n"]
    assert words == OTHER.split()
    lines = [line.split() for line in OTHER.split("\n")]
    expected = [number for number, line in enumerate(lines, 1) for _ in line]
    pairs = zip(table.texts, table.lines.tolist(), strict=True)
    assert [line for text, line in pairs if text != "\n"] == expected
    assert table.texts.count("\n") == (4 if tokens == "word" else 3)


def test_a_text_in_any_pieces_is_the_same_text() -> None:
    for tokens in ("byte", "bpe", "prose", "word"):
        lm = counted(tokens)
        whole = read_costs(lm.model, lm.tokenizer, [OTHER], name="text")
        parts = read_costs(lm.model, lm.tokenizer, list(OTHER), name="text")
        np.testing.assert_array_equal(whole.ends_T, parts.ends_T)
        np.testing.assert_array_equal(whole.ids, parts.ids)
        assert whole.text == parts.text


def test_the_tokens_of_a_word_are_its_text() -> None:
    for tokens in ("char", "byte", "bpe"):
        lm = counted(tokens)
        text = "the cat sat\non the mat "
        table = lm.surprisal(text=text)
        pieces = table.readings[0].pieces()
        first = table.units[0].first_U1
        words = ["".join(pieces[a:b]) for a, b in pairwise(first.tolist())]
        assert "".join(words) == text
        assert [word.strip(" ") for word in words] == [*table.texts[:-1], ""]


def test_rank_and_entropy_and_alternatives_are_those_of_the_distribution() -> None:
    lm = counted("prose")
    text = "the cat ate the zebra on a mat"
    rows = lm.surprisal(text=text, by="token", detail=True, top=2).to_rows()
    ids = lm.tokenizer.encode(text)
    for step, row in enumerate(rows):
        p_V = lm.distribution("") if not step else np.exp(np.asarray(lm.model.predict(lm.state_after(ids[:step])))[0])
        p_V = p_V.astype(np.float64)
        assert row["rank"] == 1 + int((p_V > p_V[ids[step]]).sum())
        assert row["entropy"] == pytest.approx(-(p_V * np.log2(p_V)).sum(), rel=1e-5)
        best = np.argsort(-p_V, kind="stable")[:2]
        assert [row["top_1"], row["top_2"]] == [lm.tokenizer.piece(int(token)).replace("\n", "\\n") for token in best]
        assert [row["p_1"], row["p_2"]] == pytest.approx(p_V[best].tolist(), rel=1e-5)
        assert row["bits"] == pytest.approx(-math.log2(p_V[ids[step]]), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "tokens"),
    core(product(NEURAL, ("word", "char")), [*((kind, "word") for kind in NEURAL), ("lstm", "char")]),
)
def test_predictions_in_pieces_are_those_of_single_steps(kind: str, tokens: str) -> None:
    model, ids = untrained(kind, tokens), fitted(tokens).encode(TEXT)[:40]
    predicted = read_predictions(model, ids, top=3)
    state = model.start(1)
    logp_V = np.asarray(model.predict(state))[0]
    for step, token in enumerate(ids.tolist()):
        assert predicted.p_TK[step] == pytest.approx(np.sort(np.exp(logp_V))[::-1][:3], rel=1e-4)
        assert predicted.entropy_T[step] == pytest.approx(entropy_bits(logp_V[None])[0], rel=1e-4)
        rows, state = model.step(np.array([token]), state)
        logp_V = np.asarray(rows)[0]


def test_what_cannot_come_costs_infinitely_many_bits() -> None:
    lm = thereafter.train(text="a b\na b\n", tokens="word", smoothing="mle", order=2, min_count=1)
    table = lm.surprisal(text="b a", detail=True)
    assert table.bits()[0] == math.inf
    assert lm.score(text="b a").nats == math.inf
    assert table.to_rows()[0]["entropy"] == 0.0


def test_the_context_of_every_kind() -> None:
    ids = fitted("char").encode(TEXT)[:30]
    steps = np.arange(1, 31)
    np.testing.assert_array_equal(untrained("lstm", "char").context_sizes(ids), steps)
    np.testing.assert_array_equal(untrained("window", "char").context_sizes(ids), np.minimum(steps, 3))
    model = untrained("transformer", "char")
    state, held = model.start(1), []
    for token in ids.tolist():
        held.append(int(state.memory["held"][0]))
        _, state = model.step(np.array([token]), state)
    np.testing.assert_array_equal(model.context_sizes(ids), held)
    lined = untrained("gru", "word")
    words = fitted("word").encode("the cat\n\nthe mat sat\n")
    assert lined.context_sizes(words).tolist() == [1, 2, 3, 1, 1, 2, 3, 4]
    ngram = counted("word")
    known = ngram.model.record(words, ngram.model.start(1))["order"][1]
    np.testing.assert_array_equal(ngram.model.context_sizes(words), known - 1)


def test_several_models_stand_side_by_side_at_the_words() -> None:
    models = [counted(tokens) for tokens in ("word", "prose", "byte")]
    table = thereafter.surprisal(models, text=OTHER, detail=True, names=["a", "b", "c"])
    rows = table.to_rows()
    assert [row["word"] for row in rows][-1] == "\\n"
    assert rows[-1]["bits_b"] is None  # only a word model reads the end of a last line
    for number, (name, lm) in enumerate(zip("abc", models, strict=True)):
        bits = sum(row[f"bits_{name}"] for row in rows if row[f"bits_{name}"] is not None)
        assert bits * math.log(2) == pytest.approx(lm.score(text=OTHER).nats, **CLOSE)
        assert table.bits(number).sum() == pytest.approx(bits)
        assert table.readings[number].model == name


def test_models_that_read_a_text_in_different_forms_meet_where_both_have_a_border() -> None:
    lower = thereafter.train(text=TEXT, tokens="word", lower=True)
    plain = counted("prose")
    table = thereafter.surprisal([plain, lower], text="The Cat sat\nON the mat\n")
    assert table.texts == ["The", "Cat", "sat", "\n", "ON", "the", "mat", "\n"]
    letters = thereafter.train(text=TEXT, tokens="char", letters_only=True)
    table = thereafter.surprisal([plain, letters], text="the well-known cat, sat")
    for number, lm in enumerate((plain, letters)):
        nats = table.bits(number).sum() * math.log(2)
        assert nats == pytest.approx(lm.score(text="the well-known cat, sat").nats, **CLOSE)


def test_sentences_and_lines() -> None:
    lm = counted("prose")
    text = "The cat sat. The dog ate Mr. Fish!\nWhere is it?\n"
    rows = lm.surprisal(text=text, by="sentence").to_rows()
    assert [row["sentence"] for row in rows] == ["The cat sat.", "The dog ate Mr. Fish!", "Where is it?"]
    assert [row["line"] for row in rows] == [1, 1, 2]
    assert [row["words"] for row in rows] == [3, 5, 3]
    lines = lm.surprisal(text=text, by="line").to_rows()
    assert len(lines) == 2
    assert lines[0]["bits"] == pytest.approx(rows[0]["bits"] + rows[1]["bits"])
    assert lines[0]["bits_per_word"] == pytest.approx(lines[0]["bits"] / 8)
    word = counted("word").surprisal(text=text, by="sentence").to_rows()
    assert len(word) == 2  # such a model reads a sentence a line


def test_a_table_comes_back_from_csv() -> None:
    table = counted("prose").surprisal(text='the "cat", sat\non\tit', detail=True)
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["word"] for row in rows] == ["the", '"cat",', "sat", "\\n", "on", "it"]
    assert [row["line_end"] for row in rows] == ["False"] * 3 + ["True"] + ["False"] * 2
    assert sum(float(row["bits"]) for row in rows) == pytest.approx(table.bits().sum(), rel=1e-12)
    assert [int(row["position"]) for row in rows] == list(range(1, 7))
    assert table.measurement()["bits"].shape == (1, 6)


def test_what_cannot_be_asked_is_said() -> None:
    lm = counted("prose")
    one: Any = lm
    with assert_refused(OptionError, "by", "wrod"):
        lm.surprisal(text="a", by="wrod")
    with assert_refused(OptionError, "sentence"):
        lm.surprisal(text="a", by="sentence", detail=True)
    with assert_refused(OptionError, "tokens"):
        thereafter.surprisal([lm, counted("char")], text="the cat", by="token")
    with assert_refused(OptionError):
        thereafter.surprisal(one, text="a")
    with assert_refused(OptionError, "top", -1):
        lm.surprisal(text="a", detail=True, top=-1)


def test_a_model_of_a_pre_tokenised_corpus_has_the_words_as_they_were_written() -> None:
    corpus = "Raymond is selling this sketch .\nHe did n't see the well @-@ known cat , but she does .\n" * 60
    lm = thereafter.train(text=corpus, tokens="word", order=3)
    text = "She didn't see\nthe well-known sketch."
    table = lm.surprisal(text=text)
    assert table.texts == ["She", "didn't", "see", "\n", "the", "well-known", "sketch.", "\n"]
    assert [row["tokens"] for row in table.to_rows()][5:7] == ["well|@-@|known", "sketch|."]
    assert table.bits().sum() * math.log(2) == pytest.approx(lm.score(text=text).nats, **CLOSE)
    plain = thereafter.train(text=corpus, tokens="char", order=3)
    assert thereafter.surprisal([lm, plain], text=text).texts == table.texts


CORPUS = "Raymond is selling this sketch . He did n't see the well @-@ known cat , but she does . He is .\n" * 90
PLAIN = "She didn't see it. He is selling\tthis!\n\nThe well-known sketch. Raymond does."
SENTENCES = ["She didn't see it.", "He is selling\tthis!", "The well-known sketch.", "Raymond does."]


@cache
def pre_tokenised() -> thereafter.LanguageModel:
    return thereafter.train(text=CORPUS, tokens="word", order=3)


def test_words_are_counted_as_they_are_written_for_every_model() -> None:
    models = [counted("prose"), pre_tokenised(), counted("char")]
    for by in ("word", "sentence", "line"):
        assert thereafter.surprisal(models, text=PLAIN, by=by).words == len(PLAIN.split())
    for lm in models:
        for by in ("word", "token", "sentence", "line"):
            assert lm.surprisal(text=PLAIN, by=by).words == len(PLAIN.split())


@pytest.mark.parametrize("text", ["", "a b", " a\n\nb c ", "\n", "\u6211\u5011\u53bb ab\n"])
def test_words_of_a_text(text: str) -> None:
    expected = {"\u6211\u5011\u53bb ab\n": 4}.get(text, len(text.split()))  # in Chinese a character is a word
    assert count_words(text) == expected


@pytest.mark.parametrize(("by", "expected"), [("sentence", SENTENCES), ("line", PLAIN.split("\n"))])
def test_sentences_and_lines_are_those_of_the_text_as_it_is_written(by: str, expected: list[str]) -> None:
    count = 4 if by == "sentence" else 9  # words, and the line end
    formed, models = pre_tokenised(), [counted("prose"), pre_tokenised(), counted("char"), counted("word")]
    alone = formed.surprisal(text=PLAIN, by=by)
    assert [text for text in alone.texts if text != "\n"] == [text for text in expected if text]
    for order in (models, models[::-1]):
        table = thereafter.surprisal(order, text=PLAIN, by=by)
        assert table.texts == alone.texts
        assert table.lines.tolist() == alone.lines.tolist()
        for number, lm in enumerate(order):
            words = lm.surprisal(text=PLAIN)
            assert table.bits(number).sum() == pytest.approx(words.bits().sum(), **CLOSE)
            assert table.bits(number)[0] == pytest.approx(words.bits()[:count].sum(), **CLOSE)


def test_a_model_is_asked_for_by_its_name_or_its_number() -> None:
    table = thereafter.surprisal([counted("prose"), counted("char")], text="the cat", names=["ng", "letters"])
    np.testing.assert_array_equal(table.bits("letters"), table.bits(1))
    np.testing.assert_array_equal(table.spelling_bits("ng"), table.spelling_bits(0))
    np.testing.assert_array_equal(table.unknown("ng"), table.unknown())
    with assert_refused(UnknownNameError, "leters", "letters"):
        table.bits("leters")
    with assert_refused(OptionError, "model", 2, 0, 1):
        table.bits(2)


def test_a_table_is_shown_in_two_lines_at_most() -> None:
    table = thereafter.surprisal([counted("prose"), counted("char")], text=TEXT * 3, names=["ng", "letters"])
    assert len(repr(table)) < 240
    mean = table.bits("ng").sum() / len((TEXT * 3).split())
    assert f"{len((TEXT * 3).split()):,} words" in repr(table)
    assert f"ng {mean:.2f}" in repr(table)
    assert str(table) == repr(table)
