"""One contract for everything registered, and what each tokenizer promises beyond it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.errors import EncodingError, FormatError, OptionError, StorageError, UnknownNameError
from thereafter.text import reading as cutting
from thereafter.text import reading as scripts_module
from thereafter.text.tokenizers import TOKENIZERS, byte_level, load_tokenizer, tokenizer_from_json
from thereafter.text.tokenizers.base import Tokenizer, join_ids
from thereafter.text.tokenizers.byte_level import ByteLevelTokenizer

PROSE = r"\n| ?[^\W\d_]+| ?\d+| ?[^\w\s]+| ?_+|[^\S\n]+"
NASTY = [
    "",
    " ",
    "\n",
    "\n\n  \n",
    "a",
    "\0",
    "\0\x01\x02\x1b[0m\x7f",
    "emoji 😀👩‍👩‍👧 done",
    "שלום עולם مرحبا",
    "漢字とかな。全角　空白",
    "e\u0301 o\u0308\u0304",
    "a\u2028b\u2029c",
    "next\x85line\x1cfile\x0bv\x0cf",
    "cr\rlf\r\n",
    "  edge  spaces \t tab \n x",
    "<s> </s> <unk> x</s>y </s>\n</s>",
    "under_score __x__ 12_3 3.14",
    "\ufeffmark \ufffd \U0010ffff",
    "a" * 300 + " " * 300,
]
TRAINING = "the cat sat on the mat. The dog, 12 of 12!\n\nthe end_of it 漢字 漢字 é é\n" * 2


def chunked(text: str, borders: list[int]) -> list[str]:
    places = sorted({min(border, len(text)) for border in borders} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(places)]


def spaceless_base(char: str) -> bool:
    """Whether a letter belongs to a script without spaces, by its name in the Unicode database."""
    names = ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA", "HENTAIGANA")
    names += ("IDEOGRAPHIC", "HANGZHOU", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "VERTICAL IDEOGRAPHIC", "MASU")
    return re.match(r"[^\W\d_]", char) is not None and unicodedata.name(char, "").startswith(names)


def spaceless_mark(char: str) -> bool:
    """Whether a character stands on a letter of such a script."""
    name = unicodedata.name(char, "")
    if char in "\u0e33\u0eb3\uff9e\uff9f":  # written onto the letter before, though letters themselves
        return True
    marks = (
        "THAI ",
        "LAO ",
        "KHMER ",
        "MYANMAR ",
        "VARIATION SELECTOR-",
        "COMBINING KATAKANA",
        "IDEOGRAPHIC ",
        "HANGUL",
    )
    return unicodedata.category(char) in ("Mn", "Mc") and name.startswith(marks)


def prose_by_hand(text: str) -> list[str]:
    """What prose cuts a text into, character by character."""
    pieces: list[str] = []
    rest = 0
    at = 0
    while at < len(text):
        if not spaceless_base(text[at]):
            at += 1
            continue
        pieces += re.findall(PROSE, text[rest:at])
        rest = at
        at += 1
        while at < len(text):
            if text[at] in "\u17d2\u1039" and at + 1 < len(text) and spaceless_base(text[at + 1]):
                at += 2
            elif spaceless_mark(text[at]):
                at += 1
            else:
                break
        pieces.append(text[rest:at])
        rest = at
    return pieces + re.findall(PROSE, text[rest:])


def as_decoded(name: str, text: str) -> str:
    """The text as `decode(encode(text))` gives it, said in another way than the code does."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n")) if name == "word" else text


@cache
def trained(name: str) -> Tokenizer:
    made: Tokenizer = TOKENIZERS.load(name).fit(lambda: [TRAINING])
    return made


def complete(name: str, text: str) -> Tokenizer:
    """A tokenizer that knows every form of the text."""
    options = {"min_count": 1} if name not in ("byte", "unigram") else {}
    made: Tokenizer = TOKENIZERS.load(name).fit(lambda: [text, "\n", text], **options)
    return made


@pytest.fixture(params=list(TOKENIZERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


scripts = "漢字カ\u3099ﾊﾟーしกำลังំក្ុမြန\u1039\ufe00ab 1.,_\n שלםم"
any_text = (
    st.text(max_size=60)
    | st.text(alphabet=" \n\t\r<>/sunk_a1,é漢😀\x85\u2028\0", max_size=60)
    | st.text(alphabet=scripts, max_size=60)
)


@pytest.mark.parametrize("text", NASTY)
def test_round_trip_of_nasty_texts(name: str, text: str) -> None:
    tokenizer = complete(name, text)
    expected = as_decoded(name, text)
    if name == "word":  # the names of our own marks are never forms
        expected = " ".join(re.sub(r"(?<!\S)</?s>(?!\S)", "<unk>", expected).split(" "))
    assert tokenizer.decode(tokenizer.encode(text)) == expected


@pytest.mark.parametrize("which", list(TOKENIZERS))
@given(text=any_text)
def test_any_text_encodes_in_range_and_comes_back(which: str, text: str) -> None:
    tokenizer = trained(which)
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int32
    assert len(ids) == 0 or (ids.min() >= 0 and ids.max() < len(tokenizer.vocabulary))
    if tokenizer.unknown_id is None or tokenizer.unknown_id not in ids:
        assert tokenizer.decode(ids) == as_decoded(which, text)


@pytest.mark.parametrize("which", list(TOKENIZERS))
@settings(max_examples=60)
@given(text=any_text, borders=st.lists(st.integers(0, 60)), data=st.data())
def test_a_stream_equals_the_whole_whatever_its_borders(
    which: str, text: str, borders: list[int], data: st.DataObject
) -> None:
    tokenizer = trained(which)
    with pytest.MonkeyPatch.context() as patch:  # so small that every cut is tried
        patch.setattr(cutting, "ENOUGH", data.draw(st.integers(1, 9)))
        patch.setattr(cutting, "PIECE", data.draw(st.integers(1, 9)))
        streamed = join_ids(tokenizer.encode_stream(chunked(text, borders)))
        whole = join_ids(tokenizer.encode_stream(chunked(text, borders), whole=True))
        measured = list(tokenizer.measure_stream(chunked(text, borders)))
        refit = TOKENIZERS.load(which).fit(lambda: chunked(text, borders))
        both, again = TOKENIZERS.load(which).fit_encode(lambda: chunked(text, borders))
    ids = tokenizer.encode(text)
    np.testing.assert_array_equal(streamed, ids)
    unended = bool(text) and not text.endswith("\n")
    np.testing.assert_array_equal(whole, [*ids, 1] if which == "word" and unended else ids)
    np.testing.assert_array_equal(join_ids(part.ids for part in measured), whole)
    spelled = as_decoded(which, text) + ("\n" if which == "word" and unended else "")
    assert sum(part.chars for part in measured) == len(spelled)
    assert sum(part.bytes for part in measured) == len(spelled.encode())
    assert sum(part.lines for part in measured) == text.count("\n") + unended
    unknown = int(np.count_nonzero(whole == tokenizer.unknown_id)) if tokenizer.unknown_id is not None else 0
    assert sum(part.unknown for part in measured) == unknown
    charged = [form for part in measured for form in part.unknown_forms]
    if which == "word":
        known = tokenizer.vocabulary.index
        expected = [word for line in text.split("\n") for word in line.split()]
        marks = {"<s>", "</s>"}
        assert charged == [word for word in expected if word in marks or word not in known]
    elif unknown:
        forms = prose_by_hand(text) if which == "prose" else list(text)
        assert charged == [form for form in forms if form not in tokenizer.vocabulary]
    assert (both.vocabulary.forms, both.vocabulary.counts) == (refit.vocabulary.forms, refit.vocabulary.counts)
    np.testing.assert_array_equal(again, join_ids(refit.encode_stream([text], whole=True)))
    assert refit.fingerprint() == TOKENIZERS.load(which).fit(lambda: [text]).fingerprint()


def test_saved_and_loaded_it_is_the_same(name: str, tmp_path: Path) -> None:
    tokenizer = trained(name)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    tokenizer.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["tokenizer.json"]
    again = load_tokenizer(path)
    assert type(again) is type(tokenizer)
    assert (again.fingerprint(), again.vocabulary) == (tokenizer.fingerprint(), tokenizer.vocabulary)
    assert again.vocabulary.counts == tokenizer.vocabulary.counts
    for text in (*NASTY, TRAINING):
        np.testing.assert_array_equal(again.encode(text), tokenizer.encode(text))
    with assert_refused(StorageError, "folder"):
        tokenizer.save(tmp_path / "absent" / "tokenizer.json")


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(FormatError):
        load_tokenizer(path)
    for content in (b"", b"\xff", b"[" * 100_000, b"[]", b"{}", b"NaN", b'{"format": "other"}'):
        path.write_bytes(content)
        with pytest.raises(FormatError):
            load_tokenizer(path)


def corrupted(name: str) -> Iterator[dict[str, Any]]:
    """Descriptions with one thing wrong."""
    text = json.dumps(trained(name).to_json())
    for key, value in (("format", "x"), ("version", 2), ("name", "wrd"), ("name", 3), ("name", None)):
        yield {**json.loads(text), key: value}
    payload = "tokenizers" if name in ("bpe", "wordpiece", "unigram") else "vocabulary"
    for value in (None, [], {}, "x", {"forms": ["a"]}, {"forms": 1}, {"model": {}}, {"model": {"vocab": {}}}):
        yield {**json.loads(text), payload: value}
    broken = json.loads(text)
    if name == "bpe":
        for change in (
            {"merges": [["a"]]},
            {"merges": [["a", "nowhere"]]},
            {"merges": ["a b c"]},
            {"merges": [3]},
            {"merges": [["!", '"'], ["\ud800", "x"]]},
            {"vocab": {"a": 0}},
        ):
            yield {**broken, "tokenizers": {"model": {**broken["tokenizers"]["model"], **change}}}
        pieces = dict(broken["tokenizers"]["model"]["vocab"])
        for piece, number in (("!", 77), (" ", len(pieces)), ("a", "0"), ("漢", len(pieces)), ("", len(pieces))):
            yield {**broken, "tokenizers": {"model": {"merges": [], "vocab": {**pieces, piece: number}}}}
    elif name == "wordpiece":
        pieces = dict(broken["tokenizers"]["model"]["vocab"])
        for piece, number in (("!", 77), (" ", len(pieces)), ("a", "0"), ("漢", len(pieces)), ("", len(pieces))):
            yield {**broken, "tokenizers": {"model": {"vocab": {**pieces, piece: number}}}}
        yield {**broken, "tokenizers": {"model": {"vocab": {"a": 0}}}}
    elif name == "unigram":
        scores = broken["tokenizers"]["model"]["vocab"]
        for wrong in (["a"], ["a", None], ["a", "x"], ["a", float("nan")], ["ab", True], ["漢", -1.0], ["", -1.0], 3):
            yield {**broken, "tokenizers": {"model": {"vocab": [*scores, wrong]}}}
        yield {**broken, "tokenizers": {"model": {"vocab": [*scores, scores[0]]}}}
        yield {**broken, "tokenizers": {"model": {"vocab": scores[:-1]}}}
    else:
        forms = broken["vocabulary"]["forms"]
        wrong = {"word": "a b", "prose": "a1", "char": "ab", "byte": "x"}[name]
        for change in ([*forms, wrong], forms[1:], [*forms, forms[-1]], [*forms, "\ud800"], [*forms, ""], [*forms, 1]):
            yield {**broken, "vocabulary": {"forms": change}}


def test_a_damaged_description_is_refused(name: str) -> None:
    for described in corrupted(name):
        with pytest.raises(FormatError):
            tokenizer_from_json(described)
    with pytest.raises(FormatError):
        TOKENIZERS.load("word" if name != "word" else "char").from_json(trained(name).to_json())


def test_pieces_and_continuations(name: str) -> None:
    tokenizer = trained(name)
    ids = tokenizer.encode("the cat sat.\nthe mat")
    if name != "word":
        assert "".join(tokenizer.piece(number) for number in ids.tolist()) == "the cat sat.\nthe mat"
        assert tokenizer.continuation("Then", ids) == "Thenthe cat sat.\nthe mat"
    assert tokenizer.continuation("so far", []) == "so far"
    assert tokenizer.start_id == len(tokenizer.vocabulary)
    assert tokenizer.line_end_id is not None
    assert tokenizer.piece(tokenizer.line_end_id) == "\n"
    for wrong in ([tokenizer.start_id], [-1], [0.5]):
        with pytest.raises(OptionError):
            tokenizer.decode(wrong)
    assert len(tokenizer.ordinary_forms) == len(tokenizer.vocabulary) - len(tokenizer.reserved)


def test_half_a_surrogate_pair_is_a_clear_error(name: str) -> None:
    for call in (
        lambda: trained(name).encode("a\ud800"),
        lambda: list(trained(name).encode_stream(["ok", "\udfff"])),
        lambda: list(trained(name).measure_stream(["\ud83d", "\ude00"])),
    ):
        with assert_refused(EncodingError, "surrogate"):
            call()


def test_an_empty_text_is_learned(name: str) -> None:
    tokenizer, ids = TOKENIZERS.load(name).fit_encode(list)
    assert len(ids) == 0
    assert len(tokenizer.vocabulary) == {"word": 2, "prose": 1, "char": 1}.get(name, 256)
    assert list(tokenizer.measure_stream([])) == []
    tokenizer.decode(tokenizer.encode("anything at all\n"))


def test_cutoffs_out_of_range(name: str) -> None:
    for wrong in ({"min_count": 0}, {"max_size": 0}, {"max_size": -3}):
        with assert_refused(OptionError):
            TOKENIZERS.load(name).fit(lambda: ["a"], **wrong)
    if name in ("byte", "bpe", "wordpiece", "unigram"):
        with assert_refused(OptionError, 256):
            TOKENIZERS.load(name).fit(lambda: ["a"], max_size=255)
    with assert_refused(UnknownNameError, "prose"):
        TOKENIZERS.load("pros")


# What each promises beyond the contract


@pytest.mark.corpus("ptb: 10,000 words, 82,430 test tokens, 442,423 bytes, 4,794 unknown")
def test_penn_treebank_figures(data: Path) -> None:
    def part(which: str) -> list[str]:
        return [(data / "ptb" / f"ptb.{which}.txt").read_text(encoding="utf-8")]

    word = TOKENIZERS.load("word")
    tokenizer, ids = word.fit_encode(lambda: part("train"))
    assert (len(tokenizer.vocabulary), len(ids)) == (10_000, 929_589)
    assert word.fit(lambda: part("train")).vocabulary == tokenizer.vocabulary
    measured = list(tokenizer.measure_stream(part("test")))
    assert sum(len(piece.ids) for piece in measured) == 82_430
    assert sum(piece.lines for piece in measured) == 3_761
    assert sum(piece.bytes for piece in measured) == 442_423
    assert sum(piece.unknown for piece in measured) == 4_794
    assert not any(piece.unknown_forms for piece in measured)


def test_word_vocabulary() -> None:
    word = TOKENIZERS.load("word")
    assert word.fit(lambda: ["b a b\n", "a c"]).vocabulary.forms == ["<unk>", "</s>", "a", "b"]
    assert word.fit(lambda: ["b a b\n", "a c"]).vocabulary.counts == [1, 2, 2, 2]
    assert word.fit(lambda: ["b <unk> b\na <s> </s>"]).vocabulary.forms == ["<unk>", "</s>", "b", "a"]
    assert word.fit(lambda: ["b <unk> b\na"], min_count=2).vocabulary.forms == ["<unk>", "</s>", "b"]
    assert word.fit(lambda: ["b b a a a"], max_size=3).vocabulary.forms == ["<unk>", "</s>", "a"]
    assert (word.context, word.unknown_id) == ("line", 0)


def test_word_lines_and_continuations() -> None:
    tokenizer = TOKENIZERS.load("word").fit(lambda: ["the cat sat\n" * 2])
    the, cat, sat = (tokenizer.vocabulary.index[form] for form in ("the", "cat", "sat"))
    assert tokenizer.encode("the cat").tolist() == [the, cat]
    assert tokenizer.encode(" the  cat \n\n sat").tolist() == [the, cat, 1, 1, sat]
    assert join_ids(tokenizer.encode_stream(["the\n", " "], whole=True)).tolist() == [the, 1, 1]
    assert join_ids(tokenizer.encode_stream([""], whole=True)).tolist() == []
    assert tokenizer.piece(cat) == "cat"
    assert tokenizer.continuation("", [the, cat, 1, sat, 1]) == "the cat\nsat\n"
    assert tokenizer.continuation("see", [the, 1, 1, cat]) == "see the\n\ncat"
    assert tokenizer.continuation("see ", [the]) == "see the"
    assert tokenizer.continuation("see\n", [the]) == "see\nthe"
    assert tokenizer.continuation("see", [1, the]) == "see\nthe"
    assert tokenizer.decode([0, the]) == "<unk> the"


@given(st.text(max_size=80) | st.text(alphabet=" \n\t_a1,é漢²٣\x85", max_size=80) | st.text(alphabet=scripts))
def test_prose_is_the_pattern(text: str) -> None:
    tokenizer = complete("prose", text)
    forms = [tokenizer.vocabulary.forms[number] for number in tokenizer.encode(text)]
    assert forms == prose_by_hand(text)
    assert "".join(forms) == text
    if not any(map(spaceless_base, text)):
        assert forms == re.findall(PROSE, text)


def test_bytes_and_their_names() -> None:
    tokenizer = trained("byte")
    assert tokenizer.encode("né\n").tolist() == list("né\n".encode())
    assert (tokenizer.decode([0xC3]), tokenizer.vocabulary.forms[0xC3]) == ("\ufffd", "<0xC3>")
    with assert_refused(OptionError):
        TOKENIZERS.load("byte").fit(lambda: [""], min_count=2)


PIECES = ["bpe", "wordpiece", "unigram"]


@pytest.mark.parametrize("which", PIECES)
def test_the_same_pieces_are_learned_in_another_process(which: str) -> None:
    text = TRAINING + "".join(f"the {word}ing of {word}s\n" for word in ("walk", "talk", "work", "sing", "ring")) * 3
    code = (
        "from thereafter.text.tokenizers import TOKENIZERS;"
        f"print(TOKENIZERS.load({which!r}).fit(lambda: [{text!r}], max_size=300).fingerprint())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tokenizer = TOKENIZERS.load(which).fit(lambda: [text[:50], text[50:]], max_size=300)
    assert run.stdout.strip() == tokenizer.fingerprint()
    assert 256 < len(tokenizer.vocabulary) <= 300
    assert len(tokenizer.encode("the walking")) < len("the walking")
    assert all("\n" not in tokenizer.piece(number)[1:] for number in range(len(tokenizer.vocabulary)))


@pytest.mark.parametrize("which", PIECES)
def test_endless_runs_are_cut_alike(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByteLevelTokenizer, "longest_form", 7)
    monkeypatch.setattr(cutting, "ENOUGH", 3)
    tokenizer = trained(which)
    text = "the" * 20 + " " * 15 + "end" + "_" * 30 + "\n" + "12" * 11
    whole = tokenizer.encode(text)
    for step in (1, 4, 5, 50):
        pieces = [text[start : start + step] for start in range(0, len(text), step)]
        np.testing.assert_array_equal(join_ids(tokenizer.encode_stream(pieces)), whole)
    assert tokenizer.decode(whole) == text


def test_bpe_learns_from_a_spread_sample_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_level, "SAMPLE_CHARS", 400)
    monkeypatch.setattr(byte_level, "DISTINCT_BYTES", 40)
    monkeypatch.setattr(cutting, "ENOUGH", 1)
    lines = [f"{'early' if number < 50 else 'later'} {chr(97 + number % 26) * 150}\n" for number in range(100)]
    tokenizer = TOKENIZERS.load("bpe").fit(lambda: lines)
    assert len(tokenizer.encode("early")) == 1
    assert tokenizer.decode(tokenizer.encode("".join(lines))) == "".join(lines)


def test_an_error_while_bpe_learns_reaches_the_caller() -> None:
    readings = iter([["fine " * 9], ["fine " * 9, "\ud800"]])
    with pytest.raises(EncodingError):
        TOKENIZERS.load("bpe").fit(lambda: next(readings))


def test_the_bpe_table_forgets_and_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.text.tokenizers import byte_level

    monkeypatch.setattr(byte_level, "MOST_FORMS", 3)
    monkeypatch.setattr(byte_level, "BATCH_CHARS", 4)
    fresh = tokenizer_from_json(trained("bpe").to_json())
    for text in NASTY:
        np.testing.assert_array_equal(fresh.encode(text), trained("bpe").encode(text))


@pytest.mark.parametrize("which", PIECES)
def test_wordpiece_is_greedy_and_unigram_the_likeliest(which: str) -> None:
    """Against brute force over all ways to cut a form into pieces."""
    words = ["walk", "walks", "walking", "walked", "talk", "talks", "talking", "singer", "sings", "singing"]
    text = " ".join(words * 20) + "\n"
    tokenizer = TOKENIZERS.load(which).fit(lambda: [text], max_size=290)
    model = tokenizer.to_json()["tokenizers"]["model"]
    scores = dict(model["vocab"]) if which == "unigram" else {}
    for form in (" walking", " talked", " singing", " king"):
        cut = [tokenizer.vocabulary.forms[number] for number in tokenizer.encode(form)]
        spelled = form.replace(" ", "\u0120")
        assert "".join(cut) == spelled
        if which == "wordpiece":
            rest = spelled
            for piece in cut:
                longest = max((known for known in tokenizer.vocabulary.forms if rest.startswith(known)), key=len)
                assert piece == longest
                rest = rest[len(piece) :]
        elif which == "unigram":
            best = {0: 0.0}
            for end in range(1, len(spelled) + 1):
                best[end] = max(best[k] + scores[spelled[k:end]] for k in range(end) if spelled[k:end] in scores)
            assert sum(scores[piece] for piece in cut) == pytest.approx(best[len(spelled)])


def test_a_unigram_piece_has_no_count() -> None:
    with assert_refused(OptionError):
        TOKENIZERS.load("unigram").fit(lambda: ["a"], min_count=2)


# Scripts without spaces


def test_characters_of_scripts_without_spaces_are_tokens() -> None:
    tokenizer = complete("prose", "我爱你，Tom爱 你们。")
    assert [tokenizer.piece(number) for number in tokenizer.encode("我爱你，Tom爱 你们。")] == [
        *("我", "爱", "你", "，", "Tom", "爱", " ", "你", "们", "。")
    ]
    for text, forms in {
        "กำลังไป 12": ["กำ", "ลั", "ง", "ไ", "ป", " 12"],
        "ក្រុមខ្មែរ": ["ក្រុ", "ម", "ខ្មែ", "រ"],
        "မြန်မာ": ["မြ", "န်", "မာ"],
        "カ\u3099が": ["カ\u3099", "が"],
        "葛\U000e0100城": ["葛\U000e0100", "城"],
        "한국어 문장": ["한국어", " 문장"],
        "שלום עולם مرحبا": ["שלום", " עולם", " مرحبا"],
    }.items():
        tokenizer = complete("prose", text)
        assert [tokenizer.piece(number) for number in tokenizer.encode(text)] == forms


def test_an_old_prose_tokenizer_cuts_as_it_did() -> None:
    old = tokenizer_from_json(
        {
            "format": "thereafter-tokenizer",
            "version": 1,
            "name": "prose",
            "vocabulary": {"forms": ["<unk>", "漢字", " 漢字", "a"], "counts": [0, 2, 2, 2]},
        }
    )
    assert old.encode("漢字 漢字.漢").tolist() == [1, 2, 0, 0]
    assert old.to_json()["vocabulary"]["forms"] == ["<unk>", "漢字", " 漢字", "a"]
    assert "scripts" not in old.to_json()
    stored = json.dumps(["prose", ["<unk>", "漢字", " 漢字", "a"]], ensure_ascii=True)
    assert old.fingerprint() == hashlib.sha256(stored.encode()).hexdigest()
    for borders in range(7):
        streamed = join_ids(old.encode_stream(["漢字 漢字.漢"[:borders], "漢字 漢字.漢"[borders:]]))
        assert streamed.tolist() == [1, 2, 0, 0]


def test_without_such_characters_nothing_changes() -> None:
    text = "the cat sat, on the mat. שלום é 12\n" * 2
    tokenizer = TOKENIZERS.load("prose").fit(lambda: [text])
    assert set(tokenizer.to_json()) == {"format", "version", "name", "vocabulary"}
    stored = json.dumps(["prose", tokenizer.vocabulary.forms], ensure_ascii=True)
    assert tokenizer.fingerprint() == hashlib.sha256(stored.encode()).hexdigest()
    marked = TOKENIZERS.load("prose").fit(lambda: [text, "漢"])
    assert marked.vocabulary.forms == tokenizer.vocabulary.forms
    assert marked.fingerprint() != tokenizer.fingerprint()
    assert len(marked.encode("漢字")) == 2
    with pytest.raises(FormatError):
        tokenizer_from_json({**marked.to_json(), "scripts": "syllables"})
    with pytest.raises(FormatError):
        tokenizer_from_json({**marked.to_json(), "vocabulary": {"forms": ["<unk>", "漢字"]}})


def test_the_note_on_scripts_without_spaces() -> None:
    assert scripts_module.advice(0.2) is None
    assert "--tokens bpe" in str(scripts_module.advice(0.5))
    assert scripts_module.share_of_characters([]) == 0.0
    assert scripts_module.share_of_characters([("ab", 1), ("漢", 2), (" ", 5)]) == 0.5
