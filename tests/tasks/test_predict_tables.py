"""Predictions as tables: raw text cut into sentences and words, CoNLL-U that is read back, rows that add up."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from toys import Shell, labelled, reversed_pairs
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks.answers import PredictionTable
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.tag.task import habits_of, reader_of
from thereafter.text.conll import is_set_off, read_tagged, split_sentence, split_text

TAGS = {"the": "DET", "he": "PRON", "said": "VERB", "fled": "VERB", "wretch": "NOUN", "cat": "NOUN", ",": "PUNCT",
        ".": "PUNCT", "?": "PUNCT", '"': "PUNCT", "do": "AUX", "n't": "PART", "know": "VERB", "-": "PUNCT"}  # fmt: skip
SMALL: dict[str, Any] = {"embed": 16, "hidden": 12, "layers": 1, "letter_embed": 8, "letter_hidden": 8, "rate": 0.02}
BOOK = "The wretch, he said, fled. “Do n't the cat know?”\nHe fled.  The cat\tfled.\n"
WORDS = [
    ("The", "wretch", ",", "he", "said", ",", "fled", "."),
    ("“", "Do", "n't", "the", "cat", "know", "?", "”"),
    ("He", "fled", "."),
    ("The", "cat", "fled", "."),
]


def tagged_file(path: Path, tags: dict[str, str] = TAGS) -> Path:
    draw = random.Random(1)
    rows = [[draw.choice(list(tags)) for _ in range(draw.randint(2, 8))] for _ in range(250)]
    path.write_text("\n\n".join("\n".join(f"{w}\t{tags[w]}" for w in row) for row in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tagger")
    return thereafter.train(tagged_file(folder / "tagged.tsv"), task="tag", epochs=3, seed=1, **SMALL)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("judge")
    return thereafter.train(labelled(folder / "texts.tsv"), task="classify", hidden=8, embed=8, epochs=2, seed=1)


# ---- words


def test_raw_text_is_cut_into_sentences_and_words_and_loses_nothing():
    cut = list(split_text([BOOK[:17], BOOK[17:]]))
    assert [one.words for one in cut] == WORDS
    assert [one.text for one in cut] == [
        "The wretch, he said, fled.",
        "“Do n't the cat know?”",
        "He fled.",
        "The cat fled.",
    ]
    assert " ".join(one.text for one in cut).split() == BOOK.split()


@pytest.mark.parametrize(
    "text",
    [
        "so long , he said .",
        "I do n't know , Mr. Rochester .",
        "the long-term plan failed , they say .",
        "`` So what ? '' he asked .",
        "The end",
        "Some 3,000 men , they say .",
        "It costs $ 3.50 ( in all ) .",
    ],
)
def test_what_is_set_off_stays_as_it_is(text: str):
    assert list(split_sentence(text).words) == text.split()
    again = split_sentence(" ".join(split_sentence("“Well,” he didn't say, “so long!”").words))
    assert again.words == split_sentence("“Well,” he didn't say, “so long!”").words


def test_whether_marks_stand_alone():
    assert is_set_off(["wretch", ",", "he"])
    assert not is_set_off(["wretch,", "he", ",", "said"])
    assert not is_set_off(["a", "dash", "-", "alone"])
    assert is_set_off(["he", "met", "Mr.", "Darcy", ",", "Jr."])


def test_words_are_cut_as_the_corpus_of_the_tagger_cuts_them():
    split = Lexicon.fit({"-": 9, "well-known": 1, "n't": 5}, remember=True)
    joined = Lexicon.fit({"-": 1, "well-known": 9, "don't": 5}, remember=True)
    assert (habits_of(split).hyphens, habits_of(split).clitics) == ("split", "n't")
    assert (habits_of(joined).hyphens, habits_of(joined).clitics) == ("joined", "")
    letters = Lexicon.fit(dict.fromkeys("abcdefghijklmnopqrstuvwxyz'-\"`", 9))
    words = Lexicon.fit(dict.fromkeys(["``", "''", "-lrb-", "--", "never", "'s"], 9))
    read = reader_of(words, letters)
    given = split_sentence("“_Never_—(it’s)”")
    assert given.words == ("“", "_Never_", "—", "(", "it", "’s", ")", "”")
    assert read(given).words == ("``", "Never", "--", "-lrb-", "it", "'s", ")", "''")
    assert read(given).forms == given.words


# ---- tags


def test_a_text_is_tagged_word_by_word(tagger: Any):
    table = tagger.tag(text=BOOK)
    rows = table.to_rows()
    assert [row["word"] for row in rows] == [word for words in WORDS for word in words]
    assert [row["sentence"] for row in rows] == [k for k, words in enumerate(WORDS, 1) for _ in words]
    assert [row["position"] for row in rows if row["sentence"] == 3] == [1, 2, 3]
    sentences = ["The wretch, he said, fled.", "“Do n't the cat know?”", "He fled.", "The cat fled."]
    assert [list(one.tags) for one in table.items] == tagger.predict(sentences)
    for one, explained in zip(table.items, tagger.explain(sentences), strict=True):
        likeliest = [best[0][1] for best in explained.likeliest]
        assert list(one.probabilities) == pytest.approx(likeliest, abs=1e-6)
        assert one.known == explained.known
    assert "softmax" in table.note
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["word"] for row in read] == [row["word"] for row in rows]
    assert "<table>" in table._repr_html_()


def test_two_words_where_a_mark_stands_at_a_word(tagger: Any):
    assert len(tagger.predict("wretch,")) == 2
    assert tagger.explain("wretch,").words == ("wretch", ",")
    assert tagger.predict("the wretch, he said.") == tagger.predict("the wretch , he said .")
    assert tagger.trace("wretch,").tokens == ["wretch", ","]


def test_conllu_is_read_back(tagger: Any, tmp_path: Path):
    table = tagger.tag(text=BOOK)
    path = table.to_conllu(tmp_path / "book.conllu")
    again = read_tagged(path)
    assert [one.words for one in again] == WORDS
    assert [one.tags for one in again] == [one.tags for one in table.items]
    text = path.read_text(encoding="utf-8")
    assert text == table.to_conllu()
    assert text.endswith("\n\n")
    lines = [line for line in text.splitlines() if line]
    assert all(line.startswith("#") or len(line.split("\t")) == 10 for line in lines)
    assert "# sent_id = 1\n# text = The wretch, he said, fled.\n" in text
    assert_forms_make_the_text(text)


def assert_forms_make_the_text(text: str) -> None:
    """The text of every sentence is its forms, with a space but after SpaceAfter=No: what validators check."""
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        (wanted,) = (line.removeprefix("# text = ") for line in lines if line.startswith("# text = "))
        words = [line.split("\t") for line in lines if not line.startswith("#")]
        assert [int(cells[0]) for cells in words] == list(range(1, len(words) + 1))
        written = "".join(cells[1] + ("" if "SpaceAfter=No" in cells[9] else " ") for cells in words)
        assert written.rstrip() == wanted


def test_tags_that_are_no_parts_of_speech_stand_in_the_other_column(tmp_path: Path):
    names = {word: f"T{len(word)}" for word in TAGS}
    other = thereafter.train(tagged_file(tmp_path / "t.tsv", names), task="tag", epochs=1, seed=1, crf=True, **SMALL)
    table = other.tag(text=BOOK)
    assert "marginals of the CRF" in table.note
    assert [list(one.tags) for one in table.items] == other.predict([" ".join(words) for words in WORDS])
    blocks = Path(table.to_conllu(tmp_path / "x.conllu")).read_text(encoding="utf-8").strip().split("\n\n")
    rows = [[line.split("\t") for line in block.split("\n") if not line.startswith("#")] for block in blocks]
    assert [tuple(cells[4] for cells in sentence) for sentence in rows] == [one.tags for one in table.items]
    assert all(0 < p <= 1 for one in table.items for p in one.probabilities)


def test_pretokenised_text_is_a_sentence_a_line(tagger: Any):
    table = tagger.tag(text="the wretch, fled\n\nhe said.  so\n", pretokenised=True)
    assert [one.words for one in table.items] == [("the", "wretch,", "fled"), ("he", "said.", "so")]
    assert "SpaceAfter" not in table.to_conllu()


def test_the_licence_of_a_book_is_left_out_and_its_lines_are_joined(tagger: Any, tmp_path: Path):
    draw = random.Random(3)
    words = [draw.choice(("the cat", "he said", "the wretch", "he fled")) for _ in range(1500)]
    body = ". ".join(" and ".join(words[k : k + 5]).capitalize() for k in range(0, 1500, 5)) + "."
    lines, line = [], ""
    for word in body.split():
        if len(line) + len(word) > 70:
            lines.append(line.strip())
            line = ""
        line += f" {word}"
    star = "*** {} OF THE PROJECT GUTENBERG EBOOK CATS ***"
    book = "\n".join(["The Project Gutenberg eBook of Cats", "", star.format("START"), "", *lines, line.strip(), "",
                      star.format("END"), "", "Licence words here."])  # fmt: skip
    path = tmp_path / "cats.txt"
    path.write_text(book + "\n", encoding="utf-8")
    table = tagger.tag(path)
    assert " ".join(word for one in table.items for word in one.words if word != ".") == body.replace(".", "")
    assert len(table) == 300
    assert any("Licence" in one.words for one in tagger.tag(path, keep_licence=True).items)
    assert len(tagger.tag(path, wrapped=True)) > 300
    page = tmp_path / "page.html"
    page.write_text("<p>He fled.</p>\n", encoding="utf-8")
    assert [one.words for one in tagger.tag(page).items] == [("He", "fled", ".")]
    assert any("<" in "".join(one.words) for one in tagger.tag(page, markup=True).items)


# ---- labels and other answers


def test_a_row_a_text_with_the_probability_of_every_label(judge: Any, tmp_path: Path):
    texts = ["a gripping film", "dull", "we saw one, dull film"]
    path = tmp_path / "reviews.txt"
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    table = judge.tabulate(path)
    rows = table.to_rows()
    assert [(row["number"], row["text"], row["label"]) for row in rows] == [
        (2 * k + 1, text, label) for k, (text, label) in enumerate(zip(texts, judge.predict(texts), strict=True))
    ]
    for row, explained in zip(rows, judge.explain(texts), strict=True):
        assert {"good": row["p_good"], "bad": row["p_bad"]} == pytest.approx(explained.probabilities)
        assert row["probability"] == max(row["p_good"], row["p_bad"])
    with assert_refused(OptionError, "CoNLL-U"):
        table.to_conllu()
    with assert_refused(OptionError, "classify", "tabulate"):
        judge.tag(path)
    with pytest.raises(EmptyCorpusError, match="nothing to predict"):
        judge.tabulate(text="\n \n")


def test_any_task_has_a_table(tmp_path: Path):
    turner = thereafter.train(reversed_pairs(tmp_path / "pairs.tsv", 60), task="translate", tokens="word", hidden=8,
                              embed=8, epochs=1, seed=1)  # fmt: skip
    table = turner.tabulate(text="a b d\nk l\n", beam=2)
    assert [row["text"] for row in table.to_rows()] == ["a b d", "k l"]
    assert [row["answer"] for row in table.to_rows()] == turner.predict(["a b d", "k l"], beam=2)
    assert isinstance(table, PredictionTable)
    with assert_refused(OptionError, "bream"):
        turner.tabulate(text="a b", bream=2)


def test_rows_are_numbered_by_the_line_of_the_text(judge: Any, shell: Shell, tmp_path: Path):
    assert [row["number"] for row in judge.tabulate(text="dull\n\ngripping\n").to_rows()] == [1, 3]
    cells, path = ["dull", "", "a gripping film", "", "", "dull, really"], tmp_path / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "text"], *([k, cell] for k, cell in enumerate(cells, 1))])
    rows = judge.tabulate(f"{path}:text").to_rows()
    assert [(row["number"], row["text"]) for row in rows] == [(k, cell) for k, cell in enumerate(cells, 1) if cell]
    run = judge.save(tmp_path / "run")
    printed, code = shell("predict", run, "--in", f"{path}:text")
    answers = dict(zip([1, 3, 6], judge.predict([cell for cell in cells if cell]), strict=True))
    assert (printed, code) == ([answers.get(k, "") for k in range(1, 7)], 0)
    printed, code = shell("predict", run, "--csv", "dull", " ", "gripping")
    assert [row["number"] for row in csv.DictReader(printed)] == ["1", "3"]


def test_pretokenised_is_for_taggers(judge: Any, shell: Shell, tmp_path: Path):
    with assert_refused(OptionError, "--pretokenised", "classify"):
        judge.tabulate(text="dull", pretokenised=True)
    assert shell("predict", judge.save(tmp_path / "run"), "--pretokenised", "dull") == ([], 2)


# ---- the command


def test_the_command_tags_a_file(tagger: Any, shell: Shell, tmp_path: Path):
    run, book = tagger.save(tmp_path / "run"), tmp_path / "book.txt"
    book.write_text(BOOK, encoding="utf-8")
    table = tagger.tag(book)
    for ending in ("conllu", "csv", "tsv", "json"):
        assert shell("predict", run, "--in", book, "--out", tmp_path / f"book.{ending}") == ([], 0)
    assert [one.words for one in read_tagged(tmp_path / "book.conllu")] == WORDS
    rows = list(csv.DictReader(io.StringIO((tmp_path / "book.tsv").read_text(encoding="utf-8")), delimiter="\t"))
    assert [row["tag"] for row in rows] == [row["tag"] for row in table.to_rows()]
    assert (tmp_path / "book.csv").read_text(encoding="utf-8") == table.to_csv()
    assert json.loads((tmp_path / "book.json").read_text(encoding="utf-8"))[0]["word"] == "The"
    printed, code = shell("predict", run, "--csv", "The wretch, he fled. He said.")
    assert code == 0
    assert [row["word"] for row in csv.DictReader(printed)] == [
        "The",
        "wretch",
        ",",
        "he",
        "fled",
        ".",
        "He",
        "said",
        ".",
    ]
    (line,), code = shell("predict", run, "--json", "--pretokenised", "the wretch, fled")
    assert code == 0
    assert [row["word"] for row in json.loads(line)] == ["the", "wretch,", "fled"]
    shown, code = shell("predict", run, "--in", book)
    assert code == 0
    assert len(shown) == 4
    assert shown[2].split("/")[0] == "He"
    assert len(shell("predict", run, "wretch,")[0][0].split()) == 2


def test_mistakes_are_refused_before_anything_is_predicted(judge: Any, shell: Shell, tmp_path: Path, capsys: Any):
    run = judge.save(tmp_path / "run")
    (tmp_path / "t.txt").write_text("dull\n", encoding="utf-8")
    for words in (
        ("--in", tmp_path / "t.txt", "--out", tmp_path / "t.conllu"),
        ("--in", tmp_path / "t.txt", "--out", tmp_path / "t.xls"),
        ("--in", tmp_path / "t.txt", "dull"),
        ("--in", tmp_path / "t.txt", "--explain"),
        ("--in", tmp_path / "t.txt", "--csv", "--json"),
        ("--score", tmp_path / "t.txt", "--csv"),
    ):
        assert shell("predict", run, *words)[1] == 2, words
    printed, code = shell("predict", run, "--in", tmp_path / "t.txt", "--csv")
    assert code == 0
    assert printed[0].split(",")[:4] == ["number", "text", "label", "probability"]


def test_how_a_file_is_read_is_asked_with_the_file(judge: Any, tmp_path: Path):
    run, page = str(judge.save(tmp_path / "run")), tmp_path / "page.html"
    page.write_text("<p>dull</p>\n", encoding="utf-8")
    for switch in (["--keep-licence"], ["--wrapped"], ["--keep-markup"], ["--encoding", "latin-1"]):
        refused = CliRunner().invoke(app, ["predict", run, "dull", *switch])
        assert isinstance(refused.exception, OptionError), switch
        assert re.search(rf"{switch[0]} .*without --in; .*try: .*--in FILE", str(refused.exception))
        printed = CliRunner().invoke(app, ["predict", run, "--in", str(page), "--json", *switch])
        assert printed.exit_code == 0, switch
        (row,) = json.loads(printed.stdout)
        assert row["text"] == ("<p>dull</p>" if switch == ["--keep-markup"] else "dull")


def test_mistakes_say_what_to_try(judge: Any, tmp_path: Path):
    run = str(judge.save(tmp_path / "run"))
    for words, match in (
        (["--score", "t.tsv", "--csv"], r"--score .*got --csv.*try: thereafter predict .*run --score t\.tsv"),
        (["--score", "t.tsv", "dull"], r"--score .*got 1 text.*try: thereafter predict .*run --score t\.tsv"),
        (["--explain", "--csv", "dull"], r"--explain .*got --csv.*try: thereafter predict .*run --explain INPUT"),
        (["--explain", "--beam", "2", "dull"], r"--explain .*got --beam.*try: thereafter predict .*--explain INPUT"),
        (["--in", "t.txt", "dull"], r"got both 1 text and --in t\.txt; expected one of them; try leaving"),
    ):
        refused = CliRunner().invoke(app, ["predict", run, *words])
        assert isinstance(refused.exception, OptionError), words
        assert re.search(match, str(refused.exception)), str(refused.exception)


def test_options_of_running_text_are_not_those_of_a_task(tmp_path: Path):
    source = labelled(tmp_path / "t.tsv", 20)
    for name, switch in (("keep_licence", "--keep-licence"), ("markup", "--keep-markup"), ("lower", "--lower")):
        with assert_refused(OptionError, switch):
            thereafter.train(source, task="classify", **{name: True})
