"""Files that are made to cost memory or time: a small one stays cheap, or it is refused with a sentence."""

from __future__ import annotations

import gc
import gzip
import html
import json
import multiprocessing
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from test_documents import CONTAINER, book, package, text_of, written

from breadth import core
from refusals import assert_refused
from thereafter.data import files
from thereafter.errors import FormatError, SourceError, ThereafterError, UnknownNameError
from thereafter.inspection.pairs import read_pairs
from thereafter.text.documents import hypertext, packed
from thereafter.text.documents.hypertext import declared_encoding, text_of_html
from thereafter.text.documents.markup import text_of_cues, text_of_markdown
from thereafter.text.form import measure_wrapping, unwrap
from thereafter.text.labelled import read_column, read_labelled

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MIB = 1 << 20
FORK = multiprocessing.get_context("fork")


def word(path: Path, body: str, head: str = "") -> Path:
    """A .docx with nothing but the XML of its body."""
    document = f'{head}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("word/document.xml", document)
    return path


def assert_peak_below(most: int, read: Callable[[], object]) -> None:
    """Fewer bytes are in use at any time while something is read, whether it is refused or not."""
    peak = _peak_of(read)
    assert peak < most, f"{peak:,} bytes, expected fewer than {most:,}"


def _peak_of(read: Callable[[], object]) -> int:
    """Measured in a forked process: servers that other tests share go on allocating in threads of this one, and its
    garbage collector, with millions of objects behind it, comes rarely."""
    ours, theirs = FORK.Pipe(duplex=False)

    def measure() -> None:
        gc.collect()
        gc.freeze()
        tracemalloc.start()
        with suppress(ThereafterError):
            read()
        theirs.send(tracemalloc.get_traced_memory()[1])

    process = FORK.Process(target=measure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which are not forked
        process.start()
    theirs.close()
    try:
        return int(ours.recv())
    finally:
        process.join()


def listed(extra: str = "", spine: str = "") -> str:
    """A list of contents with one chapter and more that nobody needs."""
    return package(["a.xhtml"]).replace("</manifest>", f"{extra}</manifest>").replace("</spine>", f"{spine}</spine>")


def attributes(count: int) -> str:
    return "<item " + " ".join(f'a{k}=""' for k in range(count)) + "/>"


def books(path: Path) -> Iterator[tuple[str, Path]]:
    """Books of a few kilobytes whose lists of contents unpack to megabytes, and what they are refused with."""
    page = {"a.xhtml": "<p>so long</p>"}
    many = "<i/>" * (MIB // 2)
    for number, (message, members) in enumerate(
        [
            ("has more than 50,000 elements", {"OEBPS__content.opf": listed(many)}),
            ("has more than 50,000 elements", {"OEBPS__content.opf": listed(spine='<itemref idref="c0"/>' * 60_000)}),
            ("has more than 50,000 elements", {"META-INF__container.xml": CONTAINER.replace("<rootfiles>", many)}),
            ("has more than 50,000 elements", {"META-INF__encryption.xml": f"<e>{many}</e>"}),
            ("nested over 1,000 deep", {"OEBPS__content.opf": listed("<i>" * MIB)}),
            ("has a tag of more than 1 MiB", {"OEBPS__content.opf": listed(attributes(MIB // 4))}),
            ("unpacks to more than 8 MiB", {"OEBPS__content.opf": listed(" " * 9 * MIB)}),
            ("unpacks to more than 1,024 bytes", {"mimetype": "x" * MIB}),
            ("entities of its own", {"OEBPS__content.opf": f"<!DOCTYPE p [<!ATTLIST i a CDATA 'b'>]>{listed()}"}),
        ]
    ):
        yield message, book(path / f"{number}.epub", page, **members)


@pytest.mark.wide
def test_lists_of_contents_stay_cheap(tmp_path: Path) -> None:
    for message, path in books(tmp_path):
        with pytest.raises(SourceError, match=message):
            text_of(path)
    (_, path), *_ = books(tmp_path)
    assert_peak_below(4 * MIB, lambda: text_of(path))


def test_elements_that_are_left_out_take_no_memory() -> None:
    chunks = ["<svg>" * 1_000] * 5
    assert_peak_below(100_000, lambda: list(text_of_html(chunks)))


def test_a_book_of_tags_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_ELEMENTS", 20_000)
    chapters = {f"{k}.xhtml": "<p>" * 6_000 + "&a;" * 6_000 for k in range(2)}
    with assert_refused(SourceError, 20000):
        text_of(book(tmp_path / "a.epub", chapters))


def test_a_chapter_is_not_unpacked_twice(tmp_path: Path) -> None:
    with assert_refused(SourceError, "a.xhtml"):
        text_of(book(tmp_path / "a.epub", {"a.xhtml": gzip.compress(b"<p>so</p>")}))


def test_word_documents_stay_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypertext, "MOST_ELEMENTS", 20_000)
    run = "<w:r><w:t>ab</w:t></w:r>"
    for number, (message, body, head) in enumerate(
        [
            ("has more than 20,000 elements", "<x/>" * 20_000, ""),
            ("has more than 20,000 elements", f"<w:p>{run * 11_000}</w:p>", ""),
            ("nested over 1,000 deep", "<w:p>" * 2_000, ""),
            ("has a tag of more than 1 MiB", attributes(MIB // 4), ""),
            ("entities of its own", "<w:p><w:r><w:t>&a;</w:t></w:r></w:p>", '<!DOCTYPE w [<!ENTITY a "aaaa">]>'),
        ]
    ):
        path = word(tmp_path / f"{number}.docx", body, head)
        with pytest.raises(SourceError, match=message):
            text_of(path)
    assert_peak_below(16 * MIB, lambda: text_of(tmp_path / "3.docx"))


def test_other_parts_of_a_word_document_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = word(tmp_path / "a.docx", "<w:p><w:r><w:t>so long</w:t></w:r></w:p>")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("word/styles.xml", "<w>" + "<x/>" * 100_000)
    monkeypatch.setattr(packed, "MOST_BYTES", 10_000)
    assert text_of(path) == "so long\n"


def test_gzip_that_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_UNPACKED", MIB // 8)
    bomb, repeated = gzip.compress(b"aaaaaaa\n" * 40_000), gzip.compress(b"<p>so long</p>" * 40_000)
    assert len(bomb) < 2_000
    for name in ("a.html.gz", "a.md.gz", "a.srt.gz"):
        with pytest.raises(SourceError, match=f"{name} unpacks to more than 200 times its size.*try: gunzip {name}"):
            text_of(written(tmp_path / name, bomb))
    with assert_refused(SourceError, 200):
        read_labelled(written(tmp_path / "a.tsv.gz", bomb))
    monkeypatch.undo()
    assert text_of(written(tmp_path / "b.html.gz", repeated)) == "so long\n" * 40_000


# Time grows as the text does

OPEN = ["<", "< ", "<a", "<a b='", "<a b c=", "</", "</a ", "<!", "<!--", "<!-- a >", "<![CDATA[", "<![", "<?", "&"]
OPEN += ["&#", "&amp", "<div>", "<svg>", "<nav>", "<pre>", "<td>x", "<button><div>", "<script>", "<script", "<title>"]
HTML = {unit: [unit] for unit in OPEN}
HTML |= {"<svg></x>": ["<svg>", "</x>"], "<svg></nav>": ["<svg>", "</nav>"], "<div></div>": ["<div>", "</div>"]}
HTML |= {"one <a>": ["<a ", "b=c "], "one </script>": ["<script>", "</"], "one <!--": ["<!--", "-"]}
MARKS = ["[", "[]", "[a](", "![", "[^", "*", "*a ", "**a ", "_", "_a", "~~a ", "`", "`a ", "` `` ", ">", "> ", "|"]
MARKS += ["| a ", "|-", "<", "<a ", "<!--", "\\", "\\*", "#", "- ", "1. ", "=", "&", "a@", "<http:", "[a]: "]
CUES = ["<", "<a", "<1", "{\\", "-->", "1:", "1", "&", "&amp", " ", "00:00:01,000 --> 00:00:02,000\n"]
CELLS = [",", '"', '""', '"a"b', "a,b\n", "a\n", ";", "{", "[", "{}\n", '{"a":', "1,", "\t", "a\t1\n"]


def repeat(units: list[str], size: int) -> str:
    return "".join(unit * (size // len(units) // len(unit)) for unit in units)


def seconds_of(read: Callable[[str], object], text: str) -> float:
    """The least processor time of three readings, of this thread alone: others serve pages meanwhile."""
    times = []
    for _ in range(3):
        begun = time.thread_time()
        with suppress(ThereafterError):
            read(text)
        times.append(time.thread_time() - begun)
    return min(times)


def assert_linear_time(read: Callable[[str], object], units: list[str], size: int = 8_000) -> None:
    """Four times the text takes about four times as long; where the time is quadratic, sixteen times."""
    first, fourfold = (seconds_of(read, repeat(units, length)) for length in (size, 4 * size))
    assert fourfold < 8 * first + 0.02, f"{fourfold:.3f} s for four times the text, {first:.3f} s for it"


@pytest.mark.parametrize("name", core(HTML, ["<a", "<!--", "<div>", "&#", "one <a>", "<svg></nav>"]))
def test_html_takes_linear_time(name: str) -> None:
    assert_linear_time(lambda text: "".join(text_of_html([text, " tail", "<p>end"])), HTML[name])


@pytest.mark.parametrize("unit", core(MARKS, ["[", "[a](", "*a ", "_", "`", "> ", "| a ", "<!--", "- ", "[a]: "]))
def test_markdown_takes_linear_time(unit: str) -> None:
    assert_linear_time(lambda text: "".join(text_of_markdown(["so", text])), [unit])
    assert_linear_time(
        lambda text: "".join(text_of_markdown(text.replace(unit, f"{unit}\n").split("\n"))), [unit], 2_000
    )


@pytest.mark.parametrize("unit", core(CUES, ["<a", "-->", "{\\", "&amp"]))
def test_subtitles_take_linear_time(unit: str) -> None:
    cue = "00:00:01,000 --> 00:00:02,000\n"
    assert_linear_time(lambda text: "".join(text_of_cues((cue + text).split("\n"))), [unit])


@pytest.mark.parametrize("unit", core(CELLS, ['"', "a,b\n", "{}\n", "1,"]))
def test_tables_take_linear_time(tmp_path: Path, unit: str) -> None:
    for ending in ("csv", "tsv", "jsonl"):
        path = tmp_path / f"a.{ending}"
        assert_linear_time(lambda text, path=path: read_labelled(written(path, text)), [unit])
        assert_linear_time(lambda text, path=path: list(read_column(written(path, text), "text")), [unit])
    assert_linear_time(lambda text: read_pairs(written(tmp_path / "a.txt", text)), [unit])


def test_an_endless_word_in_a_wrapped_book_takes_linear_time() -> None:
    lines = ["so it went on and on until nothing was left of it all. And then we"] * 60
    wrapping = measure_wrapping("\n".join(lines))
    assert wrapping.wrapped
    assert_linear_time(lambda word: list(unwrap([*lines, word, *lines], wrapping)), ["a"])
    assert_linear_time(lambda word: measure_wrapping("\n".join([*lines, word, *lines])), ["a"])


def test_many_keys_are_no_table(tmp_path: Path) -> None:
    lines = [json.dumps({f"k{k}": "so"}) for k in range(5_000)]
    with assert_refused(FormatError, 5000):
        read_labelled(written(tmp_path / "a.jsonl", "\n".join(lines)))
    sparse = [json.dumps({"text": f"so {k}", "label": str(k % 2), f"k{k % 90}": 1}) for k in range(5_000)]
    assert len(read_labelled(written(tmp_path / "b.jsonl", "\n".join(sparse)))) == 5_000


def test_errors_about_wide_tables_are_sentences(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ",".join(f"c{k}" for k in range(20_000)) + "\n" + "1," * 19_999 + "1\n")
    with assert_refused(UnknownNameError, "c0", "c1", 19900) as caught:
        list(read_column(path, "text"))
    assert len(str(caught.value)) < 2_000


# Numbers and encodings that a parser takes badly


@pytest.mark.parametrize("digits", [5_000, 100_000])
def test_a_character_number_without_end_is_no_character(digits: int) -> None:
    number = f"so &#{'1' * digits}; long"
    assert "".join(text_of_html([f"<p>{number}</p>"])) == "so \ufffd long\n"
    assert "".join(text_of_markdown([number])) == "so \ufffd long\n"
    assert "".join(text_of_cues(["00:01,000 --> 00:02,000", number])) == "so \ufffd long\n"


def test_a_page_is_read_alike_wherever_it_comes_apart() -> None:
    page = f"<p>1 < 2 &amp; 3&lt;4 &#233; &#{'1' * 5_000}; &#{'0' * 10}65; AT&T <b>so</b> &# & <</p>&#"
    whole = "".join(text_of_html([page]))
    assert whole == "1 < 2 & 3<4 é \ufffd A AT&T so &# & <\n&#\n"
    for cut in (*range(60), *range(660, 700), *range(5_020, len(page))):
        assert "".join(text_of_html([page[:cut], page[cut:]])) == whole
    assert "".join(text_of_html(list(page))) == whole


def test_encodings_of_no_page_are_not_believed(tmp_path: Path) -> None:
    for name in ("punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape"):
        assert declared_encoding(f'<meta charset="{name}">'.encode()) is None
    assert_linear_time(lambda text: text_of(written(tmp_path / "a.html", text)), ['<meta charset="punycode">', "ab-"])


# What people have is read whole


@pytest.mark.wide
def test_a_page_of_five_megabytes_and_a_novel_of_1500_pages_are_read_whole(tmp_path: Path) -> None:
    sentence = "The wretch saw that 2 < 3 & went on; nobody had told him why it was so, and he never asked. "
    paragraph, cells = (sentence * 9).strip(), "<table><tr><td>2 < 3</td><td>x</td></tr></table>"
    page = f"<html><body>{f'<div><p>{html.escape(paragraph)}</p>{cells}</div>' * 5_600}</body></html>"
    assert len(page) > 5_000_000
    assert text_of(written(tmp_path / "page.html", page)) == f"{paragraph}\n2 < 3\tx\n" * 5_600
    chapter = "<html><body>" + f"<p><span>{html.escape(paragraph)}</span></p>" * 90 + "</body></html>"  # 30 pages
    novel = book(tmp_path / "novel.epub", {f"c{k}.xhtml": chapter for k in range(50)})
    assert text_of(novel) == f"{paragraph}\n" * 90 * 50
    letter = f"<w:p><w:pPr/><w:r><w:t>{html.escape(paragraph)}</w:t></w:r></w:p>" * 4_500
    assert text_of(word(tmp_path / "novel.docx", letter)) == f"{paragraph}\n" * 4_500
