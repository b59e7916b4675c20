"""The form of a user's own file: what is recognised, what is left out, what is joined, and what stays as it is."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import lookalikes as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadth import core
from thereafter.data import corpora
from thereafter.text.form import Forming, recognise
from thereafter.text.sources import resolve

PROSE = make.paragraphs(40)
WRAPPED = {
    "a novel": make.wrapped(PROSE),
    "a narrow column": make.wrapped(PROSE, 48),
    "wide lines": make.wrapped(PROSE, 100),
    "paragraphs by indentation": make.wrapped(PROSE, 66, indent="    ", between="\n"),
    "a book of Project Gutenberg": make.gutenberg(make.wrapped(PROSE)),
    "an old book of Project Gutenberg": make.gutenberg(make.wrapped(PROSE), old=True),
    "two short paragraphs": make.wrapped(PROSE[:3]),
    "Chinese in lines of 36": make.chinese(36),
    "Arabic in lines of 70": make.arabic(70),
}
KEPT = {
    "one paragraph a line": "\n".join(PROSE) + "\n",
    "paragraphs with blank lines between": "\n\n".join(PROSE) + "\n",
    "stanzas": make.verse(),
    "blank verse": make.blank_verse(),
    "a play": make.play(),
    "dialogue": make.dialogue(),
    "a dictionary": make.dictionary(),
    "code": make.code(),
    "a log": make.log(),
    "a chat": make.chat(),
    "subtitles": make.subtitles(),
    "one sentence a line": make.sentence_a_line(),
    "sentences of one length": make.equal_lines(),
    "a numbered list": make.numbered_list(),
    "a genome": make.letters_of_a_genome(),
    "a table": make.table(),
    "Chinese": make.chinese(),
    "Arabic": make.arabic(),
    "one line": "so long and thanks for all the fish",
    "nothing": "",
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrapped_prose_is_recognised(kind: str) -> None:
    form = recognise(WRAPPED[kind])
    assert form.wrapping is not None, form.reason
    assert "unwrapped" in form.reason


@pytest.mark.parametrize("kind", KEPT)
def test_other_texts_keep_their_lines(kind: str) -> None:
    form = recognise(KEPT[kind])
    assert not form.changes, form.reason
    assert "lines kept" in form.reason
    assert "".join(form.apply([KEPT[kind]])) == KEPT[kind]


def test_unwrapping_gives_the_paragraphs_back() -> None:
    for width in (48, 66, 72, 100):
        text = make.wrapped(PROSE, width) + "\n"
        assert "".join(recognise(text).apply([text])) == "\n".join(PROSE) + "\n"


def test_chinese_is_joined_without_spaces() -> None:
    assert "".join(recognise(make.chinese(36)).apply([make.chinese(36)])) == make.chinese()


@pytest.mark.parametrize("old", [False, True])
def test_header_licence_and_credits_of_project_gutenberg_are_left_out(old: bool) -> None:
    book = "\n\n".join(["CHAPTER I", *PROSE])
    text = make.gutenberg(book, old=old)
    form = recognise(text)
    assert "header and licence left out" in form.reason
    assert "".join(form.apply([text])).rstrip("\n") == book


def test_several_books_in_one_file_are_all_read() -> None:
    text = "".join(make.gutenberg(make.wrapped(PROSE[at : at + 10])) for at in (0, 10, 20))
    form = recognise(text)
    assert "header and licence of 3 books left out" in form.reason
    assert "".join(form.apply([text])) == "\n".join(PROSE[:30]) + "\n"


def test_a_licence_without_its_header_is_left_out_too() -> None:
    text = make.gutenberg("\n".join(PROSE)).split("EBOOK A BOOK ***\n", 1)[1]
    form = recognise(text)
    assert not form.header
    assert form.licence
    assert "General terms" not in "".join(form.apply([text]))


def test_what_a_user_wants_kept_is_kept() -> None:
    text = WRAPPED["a book of Project Gutenberg"]
    form = recognise(text, Forming(keep_licence=True, wrapped=True))
    assert not form.changes
    assert form.reason.count("as asked for") == 2
    lines = "".join(recognise(text, Forming(wrapped=True)).apply([text])).split("\n")
    assert max(map(len, lines)) <= 72
    assert "".join(recognise(text, Forming(keep_licence=True)).apply([text])).startswith("The Project Gutenberg eBook")


def test_headings_verse_and_addresses_inside_a_book_stay_lines() -> None:
    poem = "    Tyger Tyger, burning bright,\n    In the forests of the night;"
    text = "\n\n".join(["CHAPTER I\nThe Storm", make.wrapped(PROSE[:20]), poem, make.wrapped(PROSE[20:])]) + "\n"
    lines = "".join(recognise(text).apply([text])).split("\n")
    assert lines[:3] == ["CHAPTER I", "The Storm", PROSE[0]]
    at = lines.index("Tyger Tyger, burning bright,")
    assert lines[at + 1 : at + 3] == ["In the forests of the night;", PROSE[20]]


def test_dashes_and_compounds_at_line_ends() -> None:
    text = make.wrapped(PROSE) + "\n\n" + "x" * 60 + " drawing-\nroom and the rest of it goes on here--\nwith a dash.\n"
    assert f"{'x' * 60} drawing-room and the rest" in "".join(recognise(text).apply([text]))


def test_divided_words_are_joined_and_compounds_keep_their_hyphen() -> None:
    prose = " ".join(PROSE).replace("stranger", "strange-looking stranger")
    lines, line = [], ""
    for word in prose.split():
        if len(line) + len(word) + 1 > 60 and len(word) > 6 and "-" not in word:
            lines.append(f"{line} {word[:4]}-")
            line = word[4:]
        elif len(line) + len(word) + 1 > 66:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    text = "\n".join([*lines, line]) + "\n"
    form = recognise(text)
    assert form.wrapping is not None
    assert form.wrapping.divided
    assert "".join(form.apply([text])) == prose + "\n"


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 9000), max_size=12))
def test_the_form_is_the_same_wherever_chunks_end(cuts: list[int]) -> None:
    text = make.gutenberg(make.wrapped(PROSE[:8]))
    places = sorted({0, *(cut % len(text) for cut in cuts), len(text)})
    chunks = [text[low:high] for low, high in pairwise(places)]
    form = recognise(text)
    assert "".join(form.apply(chunks)) == "".join(form.apply([text]))


def test_a_file_is_read_in_its_form_whatever_its_encoding(tmp_path: Path) -> None:
    text = make.gutenberg(make.wrapped(PROSE))
    expected = "\n".join(PROSE) + "\n"
    (tmp_path / "utf8.txt").write_text(text)
    (tmp_path / "crlf.txt").write_bytes(text.replace("\n", "\r\n").encode())
    (tmp_path / "utf16.txt").write_text(text, encoding="utf-16")
    (tmp_path / "zipped.txt.gz").write_bytes(gzip.compress(text.encode()))
    for path in sorted(tmp_path.iterdir()):
        assert resolve(path, forming=Forming()).parts["text"].text() == expected, path
        assert resolve(path).parts["text"].text() == text
    (tmp_path / "latin.txt").write_text(text.replace("Other", "Öther"), encoding="latin-1")
    latin = resolve(tmp_path / "latin.txt", encoding="latin-1", forming=Forming()).parts["text"]
    assert latin.text() == expected
    both = resolve([tmp_path / "utf8.txt", tmp_path / "utf16.txt"], forming=Forming()).parts["text"]
    assert both.text() == expected * 2


MARKED_UP = {
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\n{}\n",
    "a.vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n",
    "a.md": "*{}*\n",
    "a.html": "<p>{}</p>",
}


@pytest.mark.parametrize("name", MARKED_UP)
def test_documents_of_western_europe_are_read_as_plain_text_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(MARKED_UP[name].format("Die Mühle am Bach").encode("latin-1"))
    source = resolve(tmp_path / name, forming=Forming()).parts["text"]
    assert source.text() == "Die Mühle am Bach\n"
    assert "Windows-1252" in source.forms[0].reason
    assert "left out" in source.forms[0].reason


def test_html_that_declares_its_encoding_is_believed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes("<meta charset=iso-8859-2><p>Dom był pusty, a żona spała".encode("iso-8859-2"))
    source = resolve(tmp_path / "a.html", forming=Forming()).parts["text"]
    assert source.text() == "Dom był pusty, a żona spała\n"
    assert "Windows-1252" not in source.forms[0].reason


THAI = "กำลังเดินทางไปที่ตลาดเพื่อซื้อผลไม้และดอกไม้สำหรับแม่ของเขาในวันเกิดที่จะมาถึงเร็วๆนี้"


def test_scripts_without_spaces_are_one_list() -> None:
    thai = "".join(f"{THAI[k:]}{THAI[:k]}。" for k in range(0, 60, 3))
    lines = [thai[k : k + 60] for k in range(0, len(thai), 60)]
    text = "\n".join(lines) + "\n"
    form = recognise(text)
    assert form.wrapping is not None, form.reason
    assert "".join(form.apply([text])) == thai + "\n"


def test_fingerprints_tell_forms_apart_and_old_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(make.wrapped(PROSE))
    plain, formed = resolve(path).parts["text"], resolve(path, forming=Forming()).parts["text"]
    kept = resolve(path, forming=Forming(wrapped=True)).parts["text"]
    assert plain.fingerprint() == kept.fingerprint() != formed.fingerprint()


def test_a_file_that_was_written_again_is_recognised_again(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(make.wrapped(PROSE))
    source = resolve(path, forming=Forming()).parts["text"]
    assert source.forms[0].changes
    path.write_text("one line\n")
    assert not source.forms[0].changes


@pytest.mark.parametrize("name", core(["python-docs", "agreement", "python-code"], ["python-docs"]))
def test_named_corpora_are_never_changed(name: str) -> None:
    assert all(part.forming is None for part in resolve(name, forming=Forming()).parts.values())
    assert "time-machine" in corpora.names()
