"""Pairs of sentences from one file or two, and the sentence for every kind of bad data."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, FormatError, OptionError, SourceError
from thereafter.text.tables import SentencePair, read_pairs, read_two

TWO = [SentencePair("Go.", "Va !"), SentencePair("Run!", "Cours\u202f!")]


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str | bytes, name: str = "pairs.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize("end", core(["\n", "\r\n"], ["\r\n"]))
@pytest.mark.parametrize("encoding", core(["utf-8", "utf-8-sig", "utf-16"], ["utf-8", "utf-16"]))
@pytest.mark.parametrize("zipped", [False, True])
def test_pairs_of_one_file_and_of_two(write, end: str, encoding: str, zipped: bool) -> None:
    def stored(text: str, name: str) -> Path:
        data = text.replace("\n", end).encode(encoding)
        return write(gzip.compress(data) if zipped else data, name)

    one = stored("Go.\tVa !\tCC-BY 2.0\n\nRun! \t Cours\u202f!", "both")
    assert read_pairs(one) == TWO
    assert [pair.line for pair in read_pairs(one)] == [1, 3]
    assert read_two(stored("Go.\nRun!\n", "a"), stored("Va !\nCours\u202f!", "b")) == TWO


def test_columns_can_be_given(write) -> None:
    path = write("1\tVa !\tGo.\n2\tCours\u202f!\tRun!\n")
    assert read_pairs(path, source=3, target=2) == TWO
    for source, target in ((0, 1), (2, 2), (1, -1)):
        with assert_refused(OptionError, "columns"):
            read_pairs(path, source=source, target=target)


def test_other_line_separators_do_not_part_lines(write) -> None:
    one, other = write("a\u2028b\x85c\nd\n", "a"), write("e\nf\n", "b")
    assert len(read_two(one, other)) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a\tb\nc d\n", r"line 2 of .*pairs\.txt has 1 column, expected at least 2"),
        ("a\tb\n\nc\t \n", r"line 3 of .*pairs\.txt has an empty target, .* remove it"),
        ("\tb\n", r"line 1 of .*pairs\.txt has an empty source"),
    ],
)
def test_bad_lines_are_a_sentence(write, text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_pairs(write(text))


def test_files_of_unequal_length_are_named_with_their_counts(write) -> None:
    long, short = write("a\n" * 1002, "long.de"), write("b\n" * 1001, "short.en")
    for pair in ((long, short), (short, long)):
        with pytest.raises(FormatError) as caught:
            read_two(*pair)
        for part in ("long.de", "short.en", "1,002", "1,001", "short.en ends after line 1001"):
            assert part in str(caught.value)


def test_an_empty_side_is_named_with_its_line(write) -> None:
    with assert_refused(FormatError, 2):
        read_two(write("a\n\nc\n", "a"), write("d\ne\nf\n", "b"))


def test_files_without_pairs(write, tmp_path: Path) -> None:
    with assert_refused(EmptyCorpusError, "pairs"):
        read_pairs(write("\n\n"))
    with assert_refused(SourceError, "nothing"):
        read_two(write("a"), tmp_path / "nothing")


@pytest.mark.corpus("multi30k: 1,000 test pairs; eng-fra: 121,453 pairs")
def test_multi30k_and_eng_fra_have_the_counts_of_their_cards(data: Path) -> None:
    if not (data / "multi30k").is_dir():
        pytest.skip("SKIPPED LOUDLY: no multi30k in the folder of corpora")
    if not (data / "eng-fra").is_dir():
        pytest.skip("SKIPPED LOUDLY: no eng-fra in the folder of corpora")
    folder = data / "multi30k"
    assert len(read_two(folder / "test_2016_flickr.de.gz", folder / "test_2016_flickr.en.gz")) == 1000
    pairs = read_pairs(data / "eng-fra" / "fra.txt.gz")
    assert (len(pairs), pairs[0]) == (121_453, SentencePair("Go.", "Va !"))
