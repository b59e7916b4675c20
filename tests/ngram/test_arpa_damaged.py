"""ARPA files that are not: one sentence that names the file, the line where there is one, and what to try."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from test_arpa import FORMS, UNIGRAMS, random_model, small

import thereafter
from refusals import assert_refused
from thereafter.errors import FormatError, OptionError
from thereafter.ngram.arpa import read_arpa, write_arpa

PAIRS = "-0.2\ta b\t-0.15;-0.25\tb c\t-0.1"
TRIPLE = "-0.1\ta b c"
GOOD = small(UNIGRAMS, PAIRS, TRIPLE)


def refusal_of(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        read_arpa(path)
    said = str(caught.value)
    assert str(path) in said  # whose fault it is
    assert re.search(r"try|expected|cut short\?", said)  # and what to do
    assert len(said) < 400
    return said


def line_of(text: str, start: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), start=1) if line.startswith(start))


def test_the_good_one_is_good(tmp_path: Path) -> None:
    (tmp_path / "m.arpa").write_text(GOOD)
    assert read_arpa(tmp_path / "m.arpa")[0].tables.sizes() == [5, 2, 1]


DAMAGED = {
    "an empty file": ("", r"begins with \\data\\; got no such line"),
    "white space": (" \n\n\t\n", r"begins with \\data\\; got no such line"),
    "some other text": ("The cat sat on the mat.\n" * 50, r"begins with \\data\\; got no such line"),
    "no counts": ("\\data\\\n", "announces no words"),
    "no words": (small("", sizes=(0,)), "announces no words"),
    "a count that is no count": (GOOD.replace("ngram 2=2", "ngram 2=many"), "line 3: got 'ngram 2=many'; expected 'ng"),
    "counts out of order": (GOOD.replace("ngram 2=2", "ngram 3=2"), "line 3.*expected 'ngram 2=COUNT'"),
    "more digits than Python reads": (GOOD.replace("ngram 2=2", "ngram 2=" + "9" * 5000), "line 3.*expected 'ngram 2"),
    "too high an order": (small(*["-1\ta"] * 11), "order 11; expected at most 10"),
    "fewer words than announced": (GOOD.replace("ngram 1=6", "ngram 1=7"), "fewer than the announced 7 1-grams"),
    "more words than announced": (
        GOOD.replace("ngram 1=6", "ngram 1=5"),
        r"line 12: got '-0.7\\tc.*expected '.2-grams",
    ),
    "fewer pairs than announced": (GOOD.replace("ngram 2=2", "ngram 2=3"), "fewer than the announced 3 2-grams"),
    "more pairs": (GOOD.replace("ngram 2=2", "ngram 2=1"), r"line 16: got '-0.25.*expected '.3-grams"),
    "fewer triples than announced": (GOOD.replace("ngram 3=1", "ngram 3=2"), "fewer than the announced 2 3-grams"),
    "more triples than announced": (
        small(UNIGRAMS, PAIRS, TRIPLE + ";-1\tb c a", sizes=(6, 2, 1)),
        r"got '-1\\tb c a'; expected \\end\\",
    ),
    "an absurd promise": (
        GOOD.replace("ngram 3=1", "ngram 3=999999999999999"),
        "announced 999,999,999,999,999 3-grams",
    ),
    "numbers for words, one too few": (
        small("-1\t5\t-0.5;-1\t7\t-0.5", "-1\t5 7", sizes=(3, 1)),
        "fewer than the announced 3 1-grams",
    ),
    "a section left out": (re.sub(r"\\2-grams:\n.*\n.*\n", "", GOOD), r"got '..3-grams:'; expected '.2-grams:'"),
    "an unknown word in a pair": (
        GOOD.replace("b c\t-0.1", "b fish\t-0.1"),
        "line 16: .*'fish'.*not among the 1-grams",
    ),
    "a word twice": (small(UNIGRAMS.replace("\tc\t", "\tb\t"), PAIRS), "'b' occurs twice among the 1-grams"),
    "a pair twice": (small(UNIGRAMS, PAIRS + ";-1\ta b", TRIPLE), "the 2-gram 'a b' occurs twice"),
    "a triple twice": (small(UNIGRAMS, PAIRS, TRIPLE + ";" + TRIPLE), "the 3-gram 'a b c' occurs twice"),
    "not a number": (GOOD.replace("-0.25\tb c", "nan\tb c"), "line 16: got 'nan.*expected a logarithm"),
    "a weight that is not a number": (GOOD.replace("a b\t-0.15", "a b\tnan"), "line 15: got '.*nan.*expected a log"),
    "infinity": (GOOD.replace("-0.1\ta b c", "inf\ta b c"), "line 19: got 'inf.*expected a logarithm"),
    "a word for a number": (GOOD.replace("-0.25\tb c", "often\tb c"), "line 16: got 'often.*expected numbers"),
    "a word too many": (GOOD.replace("-0.25\tb c", "-0.25\tb c a b"), "line 16: got .*expected a log, 2 words"),
    "a blank line inside": (GOOD.replace("-0.25\tb c", "\n-0.25\tb c"), "line 16: fewer than the announced 2 2-grams"),
    "no end": (GOOD.replace("\\end\\\n", ""), r"got the end of the file; expected \\end\\"),
    "half an end": (GOOD.replace("\\end\\\n", "\\en"), r"got '\\\\en'; expected \\end\\"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged(tmp_path: Path, what: str) -> None:
    text, said = DAMAGED[what]
    path = tmp_path / "m.arpa"
    path.write_text(text)
    assert re.search(said, refusal_of(path))
    path.write_bytes(gzip.compress(text.encode()))
    assert re.search(said, refusal_of(path))


def test_cut_short_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    whole = GOOD.encode()
    for size in range(len(whole.rstrip()) - 1):
        path.write_bytes(whole[:size])
        refusal_of(path)


def test_gzip_cut_short_or_damaged(tmp_path: Path) -> None:
    packed = write_arpa(random_model(), FORMS, tmp_path / "good.gz").read_bytes()
    path = tmp_path / "m.arpa.gz"
    for size in (2, 9, 15, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        path.write_bytes(packed[:size])
        assert "gzip file that is damaged or cut short" in refusal_of(path)
    path.write_bytes(packed[:200] + bytes(b ^ 0x55 for b in packed[200:300]) + packed[300:])
    refusal_of(path)
    path.write_bytes(packed[:-8] + b"\0" * 8)  # the checksum itself
    assert "gzip file that is damaged" in refusal_of(path)


def test_other_kinds_of_file(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(range(256)) * 9)
    assert "KenLM binary" in refusal_of(path)
    assert "try the ARPA file it was built from" in refusal_of(path)
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(range(256)) * 40)
    assert "looks like a binary file" in refusal_of(path)
    path.write_bytes(GOOD.encode("utf-16"))
    assert "looks like a binary file" in refusal_of(path)
    path.write_bytes(b"x" * 2_000_000)
    assert "looks like a binary file" in refusal_of(path)


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    assert "directory" in refusal_of(tmp_path).lower()
    assert "No such file" in refusal_of(tmp_path / "nowhere.arpa")


def test_words_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.arpa"
    path.write_bytes(GOOD.replace("\tc\t", "\tcafé\t").replace(" c", " café").encode("latin-1"))
    assert read_arpa(path)[1][-1] == b"caf\xe9"  # bytes are bytes below the tokenizer
    with assert_refused(FormatError, "latin.arpa", "UTF-8", "iconv"):
        thereafter.load(path)


def test_a_file_without_lines_is_not_read_as_lines_of_words(tmp_path: Path) -> None:
    path = tmp_path / "stream.arpa"
    path.write_text(small("-0.3\ta\t-0.1;-0.4\tb", "-0.2\ta b"))
    with assert_refused(FormatError, "stream.arpa", "</s>", "tokens='prose'"):
        thereafter.read_arpa(path)
    with assert_refused(OptionError, "byte", "word, prose, char"):
        thereafter.read_arpa(path, tokens="byte")


def test_a_failed_reading_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text(GOOD[:-20])
    refusal_of(path)  # an open file left behind would warn, and warnings are errors here
    assert line_of(GOOD, "-0.25") == 16
