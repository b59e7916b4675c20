"""Tagged sentences from CoNLL-U and from columns: what is read, and the sentence for every kind of bad data."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, FormatError, SourceError
from thereafter.text.conll import TaggedSentence, read_columns, read_conllu, read_tagged, require_known_tags
from thereafter.text.reading import read_lines


def row(number: str, form: str, upos: str = "_", xpos: str = "_") -> str:
    return "\t".join([number, form, form, upos, xpos, "_", "0", "root", "_", "_"]) + "\n"


CONLLU = (
    "# sent_id = 1\n# text = I didn't go\n"
    + row("1", "I", "PRON", "PRP")
    + row("2-3", "didn't")
    + row("2", "did", "AUX", "VBD")
    + row("3", "n't", "PART", "RB")
    + row("3.1", "ellipsis", "VERB", "VB")
    + row("4", "go", "VERB", "VB")
    + "\n# sent_id = 2\n"
    + row("1", "New York", "PROPN", "NNP")
    + row("2", "#", "SYM", "SYM")
    + "\n"
)


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str | bytes, name: str = "data.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@given(st.text(alphabet="ab\n\r\u2028\x85é", max_size=40), st.booleans())
def test_lines_are_those_of_the_text_split_at_newlines(tmp_path_factory, text: str, zipped: bool) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    expected = normal.split("\n")
    assert list(read_lines(path)) == (expected[:-1] if expected[-1] == "" else expected)


def test_a_line_of_many_chunks_is_one_line(write) -> None:
    path = write("a" * 3_000_000 + "\nb")
    assert [len(line) for line in read_lines(path)] == [3_000_000, 1]


def test_conllu_without_ranges_and_empty_nodes(write) -> None:
    first, second = read_conllu(write(CONLLU))
    assert first == TaggedSentence(("I", "did", "n't", "go"), ("PRON", "AUX", "PART", "VERB"))
    assert second == TaggedSentence(("New York", "#"), ("PROPN", "SYM"))
    assert (first.line, second.line, len(first)) == (3, 11, 4)


@pytest.mark.parametrize("encoding", core(["utf-8", "utf-8-sig", "utf-16"], ["utf-8", "utf-16"]))
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("end", core(["\n", "\r\n", "\r"], ["\r\n"]))
@pytest.mark.parametrize("text", [CONLLU, "größe NN\n. $.\n\nso ADV\n"])
def test_encodings_and_line_ends_as_everywhere(write, encoding: str, zipped: bool, end: str, text: str) -> None:
    data = text.replace("\n", end).encode(encoding)
    path = write(gzip.compress(data) if zipped else data, "other")
    assert read_tagged(path) == read_tagged(write(text, "plain"))


@pytest.mark.parametrize("separator", [" ", "\t", "   "])
def test_columns_words_and_tags_wherever_they_are(write, separator: str) -> None:
    lines = ["-DOCSTART- -X- -X- O", "", "EU NNP B-NP B-ORG", "rejects VBZ B-VP O", "", "", "# SYM O O"]
    path = write("\n".join(lines).replace(" ", separator))
    sentences = read_columns(path)
    assert sentences == [TaggedSentence(("EU", "rejects"), ("B-ORG", "O")), TaggedSentence(("#",), ("O",))]
    assert [one.line for one in sentences] == [3, 7]


def test_a_word_may_hold_spaces_between_tabs_and_no_break_spaces_anywhere(write) -> None:
    assert read_columns(write("New York\tLOC\n"))[0].words == ("New York",)
    assert read_columns(write("10\u00a0000 NUM\n"))[0].words == ("10\u00a0000",)


def test_which_format_it_is(write) -> None:
    assert read_tagged(write(CONLLU)) == read_conllu(write(CONLLU))
    two = write("1\tNUM\n2\tNUM\n")
    assert read_tagged(two) == [TaggedSentence(("1", "2"), ("NUM", "NUM"))]
    with assert_refused(FormatError, 1, "a.conllu", 9, 10, "CoNLL-U"):
        read_tagged(write(row("1", "a", "X").replace("\t_\n", "\n"), "a.conllu"))


def test_a_long_sentence_is_a_sentence(write) -> None:
    assert len(read_tagged(write("word TAG\n" * 5000))[0]) == 5000
    assert len(read_tagged(write("".join(row(str(n + 1), "word", "X") for n in range(5000))))[0]) == 5000


BAD_CONLLU = {
    "ragged": (row("1", "a", "X") + "2\tb\tb\tX\n", "line 2 of .* has 4 columns, expected the 10"),
    "spaces": (row("1", "a", "X").replace("\t", " "), "line 1 of .* has 1 column.* separated by tabs"),
    "no id": (row("one", "a", "X"), "line 1 of .* begins with 'one', expected the number"),
    "blank line missing": (row("1", "a", "X") + row("1", "b", "X"), "line 2 .* expected word 2; is the blank line"),
    "word missing": (row("1", "a", "X") + row("3", "b", "X"), "line 2 .* is word 3 .* expected word 2$"),
    "empty word": (row("1", "", "X"), "line 1 of .* has an empty word"),
    "no tags": (row("1", "a") + row("2", "b"), "line 1 .* no tag in the column upos .* none at all.* try another"),
    "a gap": (row("1", "a", "X") + row("2", "b"), "line 2 of .* has no tag in the column upos"),
    "no words": (row("1", "a", "X") + "\n# text =\n\n", "sentence at line 3 of .* has no words"),
    "no words at the end": (row("1", "a", "X") + "\n# text =\n", "sentence at line 3 of .* has no words"),
    "only a range": ("# text\n" + row("1-2", "a", "X") + "\n", "sentence at line 1 of .* has no words"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD_CONLLU.values(), ids=BAD_CONLLU)
def test_bad_conllu_is_a_sentence_with_its_line(write, text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_conllu(write(text))


BAD_COLUMNS = {
    "ragged": ("a X\n\nb\n", "line 3 of .* has 1 column and line 1 has 2; .* separated by spaces"),
    "mixed": ("a\tX\nb X\n", "line 2 of .* has 1 column and line 1 has 2; .* separated by tabs"),
    "no tags": ("\na\nb\n", "line 2 of .* has 1 column, so there are no tags"),
    "empty word": ("a\tX\n\tY\n", "line 2 of .* has an empty word in column 1"),
    "empty tag": ("a\tX\nb\t\n", "line 2 of .* has an empty tag in column 2"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_bad_columns_are_a_sentence_with_the_line(write, text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_columns(write(text))


def test_files_that_are_not(write, tmp_path: Path) -> None:
    for empty in ("", "\n \n", "-DOCSTART- O\n\n"):
        with assert_refused(EmptyCorpusError, "data.txt"):
            read_tagged(write(empty))
    with assert_refused(SourceError, "nothing"):
        read_tagged(tmp_path / "nothing")


def test_a_tag_that_training_never_has(write) -> None:
    path = write("a X\n\nb Y\n")
    require_known_tags(read_tagged(path), {"X", "Y"}, path)
    with assert_refused(FormatError, 3, "Y", "b", "X"):
        require_known_tags(read_tagged(path), {"X"}, path)


@pytest.mark.corpus("ud-english-ewt: sentences, words and tags of two parts")
@pytest.mark.parametrize(("part", "sentences", "words"), [("dev", 2001, 25147), ("test", 2077, 25094)])
def test_the_web_treebank_has_the_counts_of_its_card(data: Path, part: str, sentences: int, words: int) -> None:
    if not (data / "ud-english-ewt").is_dir():
        pytest.skip("SKIPPED LOUDLY: no ud-english-ewt in the folder of corpora")
    read = read_tagged(data / "ud-english-ewt" / f"en_ewt-ud-{part}.conllu.gz")
    assert (len(read), sum(map(len, read)), len({tag for one in read for tag in one.tags})) == (sentences, words, 17)
