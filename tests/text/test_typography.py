"""Quotes, apostrophes and dashes: found in a training text, and other text brought into that form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter import LanguageModel
from thereafter.cli import app
from thereafter.data.catalogue import CARDS
from thereafter.errors import FormatError
from thereafter.text.sources import Source, Texts, resolve
from thereafter.text.writing import Typography, find_typography, in_style, typography_of_run

CURLY = Typography("‘’", "“”", "—")
STRAIGHT = Typography("'", '"', "--")
BOOK = "“I don’t know,” she said—“not I.” ‘It isn’t so,’ he cried. The cat’s tail was long.\n"
TYPED = "\"I don't know,\" she said--\"not I.\" 'It isn't so,' he cried. The cat's tail was long.\n"

REWRITTEN = [
    ("don't", "don’t"),
    ("the boys' dog", "the boys’ dog"),
    ('She said, "Go!"', "She said, “Go!”"),
    ('He said, "', "He said, “"),
    ('"\'Tis so," he said', "“’Tis so,” he said"),
    ("\"'Go!' he said,\" she said", "“‘Go!’ he said,” she said"),
    ("'\"Go!\" he said'", "‘“Go!” he said’"),
    ("the '90s, rock 'n' roll", "the ’90s, rock ’n’ roll"),
    ("'t", "’t"),
    ('("Go," he said)', "(“Go,” he said)"),
    ('he said--"Go"--"no--"', "he said—“Go”—“no—”"),
    ("no -- never", "no — never"),
    ("try --option and --- and <!-- x -->", "try --option and --- and <!-- x -->"),
    ("a \" b ' c", "a \" b ' c"),
    ('""', '""'),
    ("“I don’t—”", "“I don’t—”"),
    ("", ""),
]


@pytest.mark.parametrize(("typed", "printed"), REWRITTEN)
def test_typed_marks_become_those_of_a_book(typed: str, printed: str) -> None:
    assert CURLY.rewritten(typed) == printed
    assert CURLY.applies(typed) == (typed != printed)
    assert CURLY.rewritten(printed) == printed


def test_printed_marks_become_typed_ones() -> None:
    assert STRAIGHT.rewritten(BOOK) == TYPED
    assert STRAIGHT.rewritten(TYPED) is TYPED or STRAIGHT.rewritten(TYPED) == TYPED
    assert not STRAIGHT.applies(TYPED)
    assert Typography(double='"').rewritten(BOOK).startswith('"I don’t know,"')
    assert Typography("’").rewritten("'Go,' don't") == "'Go,’ don’t"  # ‘ is not in the text


def test_the_form_of_a_text_is_found_in_all_of_it() -> None:
    assert find_typography([BOOK] * 20) == CURLY
    assert find_typography([TYPED] * 20) == STRAIGHT
    assert find_typography([BOOK] * 20 + [TYPED] * 20) is None
    assert find_typography([BOOK * 100, TYPED]) == CURLY
    assert find_typography([BOOK]) is None
    assert find_typography(["„Ja“, sagte er.\n"] * 20) == Typography(double="„“")
    assert find_typography(["”Ja”, sa han.\n"] * 20) == Typography(double="””")
    assert find_typography(["„Ja“ “yes”\n"] * 20) is None
    assert find_typography(["run it with --fast or --slow\n" + "-" * 70 + "\n"] * 30) is None
    assert find_typography([]) is None


def test_a_text_in_the_form_stays_and_a_few_others_in_a_long_one_do_too() -> None:
    long = BOOK * 40 + "don't\n"
    assert CURLY.rewritten(long) == long
    assert not CURLY.applies(long)
    assert CURLY.rewritten(BOOK + "don't") == BOOK + "don’t"  # as somebody types after what a model has written


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("form", [CURLY, STRAIGHT])
def test_a_text_in_pieces_is_the_same_text(form: Typography, size: int) -> None:
    text = "".join(typed + " " for typed, _ in REWRITTEN) * 10 + BOOK + TYPED
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(form.rewrite(pieces)) == form.rewritten(text)


def test_a_table_comes_back_and_a_damaged_one_is_refused() -> None:
    for form in (CURLY, STRAIGHT, Typography(dash="—")):
        assert Typography.from_table(form.to_table()) == form
    assert str(CURLY) == "apostrophes as ’, quotes as “ ”, dashes as —"
    for table in ({"apostrophe": "x"}, {"quotes": "“”"}, {"dash": 3}):
        with assert_refused(FormatError, "text.typography"):
            Typography.from_table(table)
    assert typography_of_run({"text": {}}) is None  # a run of an earlier version


@pytest.fixture(scope="module")
def book() -> LanguageModel:
    return thereafter.train(text=BOOK * 30 + "“We don’t know,” said the cat.\n" * 10, order=3)


def test_a_model_of_a_book_reads_what_is_typed_as_its_book_has_it(book: LanguageModel) -> None:
    assert book.style is None
    assert book.writing == CURLY
    printed, typed = book.score(text=BOOK), book.score(text=TYPED)
    assert (typed.nats, typed.bytes, typed.tokens, typed.unknown) == (
        printed.nats,
        printed.bytes,
        printed.tokens,
        printed.unknown,
    )
    assert printed.written == ""
    assert "apostrophes as ’" in typed.written
    assert book.next("I don'") == book.next("I don’")
    assert book.complete("the cat's ta").words == book.complete("the cat’s ta").words
    assert book.generate("I don't", 5, temperature=0).startswith("I don't")
    ranked = [score for _, score in book.rank([" don't", " cat"], "I")]
    assert ranked == [score for _, score in book.rank([" don’t", " cat"], "I")]


def test_the_words_of_a_surprisal_are_those_that_were_typed(book: LanguageModel) -> None:
    typed, printed = book.surprisal(text=TYPED), book.surprisal(text=BOOK)
    assert typed.texts == [*TYPED.split(), "\n"]
    assert typed.bits().tolist() == printed.bits().tolist()


def test_as_written_and_older_runs_leave_a_text_alone(book: LanguageModel, tmp_path: Path) -> None:
    loaded = thereafter.load(book.save(tmp_path / "run"), as_written=True)
    assert isinstance(loaded, LanguageModel)
    assert loaded.writing is None
    plain = loaded.score(text=TYPED)
    assert plain.written == ""
    assert plain.nats > 2 * book.score(text=TYPED).nats
    loaded.as_written = False
    assert loaded.writing == CURLY
    about = {name: value for name, value in book.config["text"].items() if name != "typography"}
    older = LanguageModel(book.trained.__class__(book.model, book.tokenizer, {**book.config, "text": about}, []))
    assert older.writing is None
    assert older.score(text=TYPED).nats == plain.nats


def test_named_corpora_and_the_models_own_parts_never_change(book: LanguageModel, tmp_path: Path) -> None:
    path = tmp_path / "typed.txt"
    path.write_text(TYPED, encoding="utf-8")
    texts = resolve(str(path))
    assert in_style(texts, texts.parts["text"], CURLY).text() == BOOK
    corpus = replace(texts, corpus=CARDS["tinyshakespeare"])
    assert in_style(corpus, corpus.parts["text"], CURLY).rewriting is None
    own = LanguageModel(book.trained, Texts("own", {"test": Source.of_text(TYPED)}))
    assert own.texts is not None
    assert own.score(own.texts, part="test").written == ""
    assert own.score(Texts("other", {"test": Source.of_text(TYPED)}), part="test").written != ""


def test_the_training_text_itself_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("It's odd, isn't it?\n" * 30 + "On and on.\n" * 9000 + BOOK * 2000, "utf-8")
    lm = thereafter.train(str(path), order=2)
    assert lm.writing is not None
    assert lm.score(str(path)).written == ""
    assert lm.score(str(path)).caveat.startswith("training score")
    path.write_text(path.read_text("utf-8") + "More.\n", "utf-8")
    assert lm.score(str(path)).written != ""  # another text, by its beginning


def test_a_run_that_is_gone_on_with_keeps_the_form(tmp_path: Path) -> None:
    small = {"model": "lstm", "hidden": 8, "layers": 1, "epochs": 1, "tokens": "char"}
    thereafter.train(text=BOOK * 30, out=tmp_path / "first", **small)
    path = tmp_path / "typed.txt"
    path.write_text(TYPED * 30, encoding="utf-8")
    further = thereafter.train(str(path), start_from=tmp_path / "first", epochs=1, out=tmp_path / "second")
    assert further.writing == CURLY
    assert any(note.startswith("rewritten as the text of") for note in further.summary()["notes"])
    assert further.texts is not None
    assert further.score(further.texts, part="valid").unknown == 0
    resumed = thereafter.resume(tmp_path / "second")
    assert isinstance(resumed, LanguageModel)
    assert resumed.writing == CURLY


def test_commands_say_once_what_was_rewritten_and_the_switch_turns_it_off(book: LanguageModel, tmp_path: Path) -> None:
    run = str(book.save(tmp_path / "run"))
    for words in (
        ["next", run, "I don'"],
        ["generate", run, "I don't", "--seed", "1"],
        ["rank", run, "I don't", "cat"],
    ):
        printed = CliRunner().invoke(app, words, catch_exceptions=False).stderr
        assert printed.count("don’") == 1
        assert "as the model's own text was written (--as-written" in printed
        assert "don’" not in CliRunner().invoke(app, [*words, "--as-written"], catch_exceptions=False).stderr
    scored = CliRunner().invoke(app, ["score", run, "--text", "I don't know"], catch_exceptions=False).stdout
    assert "written        apostrophes as ’, quotes as “ ”, dashes as —: as the model's own text was" in scored
    assert "don’t" not in CliRunner().invoke(app, ["next", run, "I don’t"], catch_exceptions=False).stderr
