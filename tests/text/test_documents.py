"""HTML, Markdown, EPUB, Word and subtitles as text; what cannot be read says so."""

from __future__ import annotations

import gzip
import html
import random
import re
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.errors import SourceError
from thereafter.text.documents import describe_document, document_format, packed, read_document
from thereafter.text.documents.hypertext import declared_encoding, text_of_html
from thereafter.text.documents.markup import text_of_cues, text_of_markdown
from thereafter.text.form import Forming, form_of
from thereafter.text.sources import resolve

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles>'
    "</container>"
)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def text_of(path: Path, **options: str) -> str:
    return "".join(read_document(path, **options))


def package(chapters: list[str], spine: list[str] | None = None) -> str:
    items = "".join(
        f'<item id="c{k}" href="{name}" media-type="application/xhtml+xml"/>' for k, name in enumerate(chapters)
    )
    refs = "".join(f'<itemref idref="{ref}"/>' for ref in spine or [f"c{k}" for k in range(len(chapters))])
    return (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest>'
        f'<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>{items}</manifest>'
        f'<spine><itemref idref="nav"/>{refs}</spine></package>'
    )


def book(path: Path, chapters: dict[str, str | bytes], **more: str | bytes) -> Path:
    """An EPUB by rule: one file a chapter, in the order of the dictionary unless `opf` says otherwise."""
    members: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/content.opf": package(list(chapters)),
        "OEBPS/nav.xhtml": "<html><body><nav><ol><li>Contents</li></ol></nav></body></html>",
        **{f"OEBPS/{name}": content for name, content in chapters.items()},
    }
    members |= {name.replace("__", "/"): content for name, content in more.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return path


def test_html_blocks_are_lines(tmp_path: Path) -> None:
    page = written(
        tmp_path / "page.html",
        "<!DOCTYPE html><html><head><title>T</title><style>p{}</style></head><body><nav><a>Home</a></nav>"
        "<h1>A &amp; B</h1><p>So\n   long, <b>and</b> thanks<br>line <i>two</i> </p>loose<div>caf&eacute; soft&shy;ly"
        "</div><table><tr><th>x</th><td>y <i>z</i></td></tr><tr><td><p>1</p></td><td>2</td></tr></table>"
        "<pre>\na  b\n\n  c &lt;\n</pre><ul><li>one<li>two</ul><ruby>漢<rp>(</rp><rt>かん</rt></ruby>字"
        "<script>var x = '<p>no</p>';</script><!-- no --></body></html>",
    )
    assert text_of(page).split("\n") == [
        "A & B",
        "So long, and thanks",
        "line two",
        "loose",
        "café softly",
        "x\ty z",
        "1\t2",
        "a  b",
        "",
        "  c <",
        "one",
        "two",
        "漢字",
        "",
    ]


def test_a_page_laid_out_by_a_table_keeps_its_paragraphs() -> None:
    page = "<table><tr><td><p>first</p><p>second</p></td><td>aside</td></tr></table>"
    assert "".join(text_of_html([page])) == "first\nsecond\taside\n"


@settings(max_examples=40)
@given(
    paragraphs=st.lists(st.text(alphabet="abc &<>é漢ש\u00a0", min_size=1, max_size=12), max_size=5),
    step=st.integers(1, 9),
)
def test_html_in_any_pieces_is_the_same_text(paragraphs: list[str], step: int) -> None:
    page = "".join(f"<p>{html.escape(one)}</p>\n" for one in paragraphs)
    expected = "".join(line + "\n" for one in paragraphs if (line := re.sub(r"[ \n]+", " ", one).strip(" ")))
    pieces = [page[start : start + step] for start in range(0, len(page), step)]
    assert "".join(text_of_html(pieces)) == "".join(text_of_html([page])) == expected


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p><ruby>漢<rt>kan</ruby> one</p><p>two three</p>", "漢 one\ntwo three\n"),
        ("<ruby>漢<rp>(<rt>kan<rp>)</ruby>字", "漢字\n"),
        ("<ruby>漢<rt>kan</rt>字<rt>ji</ruby>", "漢字\n"),
        ("<button>x<p>two three</p>", "two three\n"),
        ("<div><select><option>x</div>two", "two\n"),
        ("<table><tr><td><button>x</td><td>two</td></tr></table>", "two\n"),
        ("<p>one <button><div><svg><g>x</g></svg></div>menu</button>two</p>", "one two\n"),
        ("one <![if !IE]>two<![endif]> <![ x>three", "one two three\n"),
        ('one <a href="x>two &amp; <b>three</b> four', "one two & three four\n"),
    ],
)
def test_html_with_tags_that_were_never_closed(page: str, text: str) -> None:
    assert "".join(text_of_html([page])) == text


@pytest.mark.parametrize("unit", ["<a ", "<!--", "<![", "</a ", "<?", "<a b='", "<script", "<rt>", "<button>", "&#"])
def test_html_of_any_length_is_quick(unit: str) -> None:
    begun = time.thread_time()
    "".join(text_of_html([unit * 8000, " tail", "<p>end"]))
    assert time.thread_time() - begun < 2


def test_html_says_its_encoding(tmp_path: Path) -> None:
    page = '<html><meta charset="iso-8859-1"><p>caf\u00e9 \u2019</p>'
    assert text_of(written(tmp_path / "a.html", page.encode("cp1252"))) == "café ’\n"
    assert text_of(written(tmp_path / "b.html", "<p>café</p>")) == "café\n"
    assert text_of(written(tmp_path / "c.html", "<p>café</p>".encode("utf-16"))) == "café\n"
    assert text_of(written(tmp_path / "d.html", "<p>café</p>".encode("latin-1")), encoding="latin-1") == "café\n"
    assert declared_encoding(b"<meta charset=nonsense>") is None
    assert text_of(written(tmp_path / "e.html.gz", gzip.compress(b"<p>zipped</p>"))) == "zipped\n"


MARKDOWN = """---
title: left out
---
# A *title* #

So **long**,
and _thanks_ for [all the
fish](http://x.org/a_(b)) ![a picture](p.png).  
New line with `code_with_marks` and snake_case_name, 2 * 3 * 4.

Underlined
==========

> quoted text
> goes on

- one
- [x] two
  goes on
10. ten

```python
x  =  1  # kept *as is*

```

    indented  code

| a | b |
|---|:-:|
| 1 | `x|y`, \\| 2 |

<!-- a comment
over lines -->
[ref]: http://example.org
A [link][ref], a note[^1], <http://a.org>, &amp; \\*stars\\* <br> end
***
"""


def test_markdown_without_its_markup(tmp_path: Path) -> None:
    assert text_of(written(tmp_path / "page.md", MARKDOWN)).split("\n") == [
        "A title",
        "So long, and thanks for all the fish a picture.",
        "New line with code_with_marks and snake_case_name, 2 * 3 * 4.",
        "Underlined",
        "quoted text goes on",
        "one",
        "two goes on",
        "ten",
        "x  =  1  # kept *as is*",
        "",
        "indented  code",
        "a\tb",
        "1\t`x\ty`, | 2",
        "A link, a note, http://a.org, & *stars*  end",
        "",
    ]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("[Alice]: Hello there everyone.", "[Alice]: Hello there everyone.\n"),
        ('[a]: <http://x.org/a b> "A title"\n[b]: http://x.org  (title)\nso', "so\n"),
        ("He was born in\n1984. It was a year.", "He was born in 1984. It was a year.\n"),
        ("- He was born in\n  1984. It was a year.", "He was born in 1984. It was a year.\n"),
        ("text\n1. one\n2. two", "text\none\ntwo\n"),
        ("1984. It was a year.", "It was a year.\n"),
        ("\ue000 `a` \U000f0001 `b\U000f0000` \\* c", "\ue000 a \U000f0001 b\U000f0000 * c\n"),
        ("so <!-- a `comment` here -->long", "so long\n"),
        ("so <!-- a ` comment\nover -- lines --> long", "so long\n"),
        ("the tag `<!-- x -->` stays <!-- gone -->", "the tag <!-- x --> stays\n"),
        ("***a*** **b __c__** ~~d~~ ** e ** **", "a b c d ** e ** **\n"),
        ("**a **b** c**", "a b c\n"),
        ("# a #b # #\n## #\n#no", "a #b #\n#no\n"),
    ],
)
def test_markdown_that_is_easily_taken_for_markup(markdown: str, text: str) -> None:
    assert "".join(text_of_markdown(markdown.split("\n"))) == text


LONG = ["**a " * 8000, "# x" + " " * 8000 + "y", "__a " * 8000, "~~a " * 8000, "*a " * 8000, "[a](" + " " * 8000]
LONG += [" " * 8000 + "x|", "[^" * 8000, "[a]: x" + " " * 8000 + "y", "<a " * 8000, "<!-- " * 8000, "`a " * 8000]


@pytest.mark.parametrize("line", LONG, ids=lambda line: repr(line[:6]))
def test_markdown_of_any_length_is_quick(line: str) -> None:
    begun = time.thread_time()
    "".join(text_of_markdown(["so", line]))
    "".join(text_of_markdown([line]))
    assert time.thread_time() - begun < 2


@settings(max_examples=60)
@given(st.lists(st.text(alphabet="ab *_`[]()#>-|\\!~<&1. \t", max_size=14), max_size=8))
def test_no_markdown_is_an_error(lines: list[str]) -> None:
    text = "".join(text_of_markdown(lines))
    assert text == "" or text.endswith("\n")


def test_subtitles_are_what_is_said(tmp_path: Path) -> None:
    srt = (
        "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>So long,</i>\r\nand thanks\r\n\r\n"
        "2\r\n00:00:03,000 --> 00:00:04,000 X1:10\r\n{\\an8}- for\r\n- 42\r\n\r\n"
        "3\r\n00:01:03,000 --> 00:01:04,000\r\n \r\n"
    )
    assert text_of(written(tmp_path / "film.srt", srt)) == "So long, and thanks\n- for - 42\n"
    vtt = (
        "WEBVTT - a title\n\nSTYLE\n::cue {}\n\nNOTE\nnothing said\n\nintro\n00:01.000 --> 00:02.000 align:start\n"
        "<v Ann>Tom &amp; <c.red>I</c> <00:01.500>went\n\n1:00:01.000 --> 1:00:02.000\nhome\n"
    )
    assert text_of(written(tmp_path / "film.vtt", vtt)) == "Tom & I went\nhome\n"
    assert text_of(written(tmp_path / "talk", vtt)) == "Tom & I went\nhome\n"
    assert "".join(text_of_cues(["1", "00:01,000 --> 00:02,000", "a", "2", "00:02,000 --> 00:03,000", "b"])) == "a\nb\n"


def test_epub_chapters_in_reading_order(tmp_path: Path) -> None:
    chapters: dict[str, str | bytes] = {
        "z.xhtml": '<?xml version="1.0" encoding="utf-8"?><html><h1>One</h1><p>first &#8212; chapter</p></html>',
        "a%20b.xhtml": "<html><body><p>second</p></body></html>",
        "latin.html": '<?xml version="1.0" encoding="iso-8859-1"?><p>caf\u00e9</p>'.encode("latin-1"),
    }
    with_space = {name.replace("%20", " "): content for name, content in chapters.items()}
    path = book(tmp_path / "book.epub", with_space, **{"OEBPS__content.opf": package(list(chapters))})
    assert text_of(path) == "One\nfirst — chapter\nsecond\ncafé\n"
    assert document_format(path) == document_format(path, markup=True) == "EPUB"
    assert describe_document(path, "EPUB") == "EPUB: 3 chapters, markup left out"
    bytes_read: list[float] = []
    assert "".join(read_document(path, advance=bytes_read.append)) == text_of(path)
    assert 0 < sum(bytes_read) <= path.stat().st_size
    gzipped = written(tmp_path / "book.epub.gz", gzip.compress(path.read_bytes()))
    assert text_of(gzipped) == text_of(path)
    renamed = written(tmp_path / "book.txt", path.read_bytes())
    assert text_of(renamed) == text_of(path)  # no zip file is a text


def test_word_documents(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("A title", 1)
    document.add_paragraph("So long, ").add_run("and thanks").bold = True
    document.add_paragraph("")
    table = document.add_table(rows=2, cols=3)
    for row in range(2):
        for column in range(3):
            table.cell(row, column).text = f"{row}{column}"
    table.cell(1, 0).merge(table.cell(1, 1)).text = "wide"
    document.add_paragraph("two\nlines")
    path = tmp_path / "letter.docx"
    document.save(str(path))
    assert text_of(path) == "A title\nSo long, and thanks\n00\t01\t02\nwide\t12\ntwo\nlines\n"
    assert document_format(path) == "Word"


def test_word_insertions_and_content_controls_are_text_and_deletions_are_not(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    name = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = docx.Document()
    run = "<w:r><w:t xml:space='preserve'>{}</w:t></w:r>"
    blocks = [
        (
            f"<w:p>{run.format('so ')}<w:ins>{run.format('very ')}</w:ins><w:del><w:r><w:delText>not</w:delText></w:r>"
            f"{run.format('gone')}</w:del><w:sdt><w:sdtContent>{run.format('long')}</w:sdtContent></w:sdt></w:p>"
        ),
        f"<w:sdt><w:sdtContent><w:p>{run.format('a block')}</w:p></w:sdtContent></w:sdt>",
        (
            f"<w:tbl><w:tr><w:tc><w:p>{run.format('1')}</w:p></w:tc><w:sdt><w:sdtContent><w:tc><w:p>{run.format('2')}</w:p>"
            "</w:tc></w:sdtContent></w:sdt></w:tr></w:tbl>"
        ),
    ]
    parse = docx.oxml.parse_xml
    for block in blocks:
        document.element.body.append(parse(block.replace(">", f' xmlns:w="{name}">', 1)))
    document.save(str(tmp_path / "tracked.docx"))
    assert text_of(tmp_path / "tracked.docx") == "so very long\na block\n1\t2\n"


def test_plain_text_is_no_document(tmp_path: Path) -> None:
    for name in ("a.txt", "b.rst", "c.tex", "d.csv", "e"):
        assert document_format(written(tmp_path / name, "<p>text</p>\n")) is None
    assert document_format(written(tmp_path / "page", "<!doctype html>\n<p>x")) == "HTML"
    assert document_format(written(tmp_path / "page.txt", "<!doctype html>\n<p>x")) is None
    assert document_format(tmp_path / "page", markup=True) is None


def test_comments_before_a_page_are_passed_quickly(tmp_path: Path) -> None:
    begun = time.thread_time()
    assert document_format(written(tmp_path / "drawing", b"<!---->" * 22 + b"<svg>")) is None
    assert document_format(written(tmp_path / "page", b"<!-- a --><!---->\n" * 22 + b"<html>")) == "HTML"
    assert time.thread_time() - begun < 1


# What cannot be read


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", b"%PDF-1.7\n...", "try: pdftotext a.pdf a.txt"),
        ("a.txt", b"%PDF-1.7\n...", "try: pdftotext a.txt a-text.txt"),
        ("b.txt", b"%PDF-1.7\n...", "PDF"),
        ("c.rtf", b"{\\rtf1 hello}", "soffice"),
        ("d.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "soffice"),
        ("e.mobi", bytes(60) + b"BOOKMOBI" + bytes(100), "ebook-convert"),
        ("f.epub", b"", "is empty"),
        ("g.docx", b"", "is empty"),
        ("h.epub", b"no zip at all", "does not begin like a zip file"),
        ("i.epub", b"PK\x03\x04" + bytes(40), "damaged or cut short"),
    ],
)
def test_refused_with_a_way_out(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(SourceError, match=re.escape(message)):
        text_of(path)
    with pytest.raises(SourceError, match=re.escape(message)):
        form_of(path, None, Forming())


def test_empty_documents_have_no_text(tmp_path: Path) -> None:
    for name in ("a.html", "b.md", "c.srt", "d.vtt"):
        assert text_of(written(tmp_path / name, b"")) == ""


def zipped(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "/"), content)
    return path


def test_zip_files_that_are_no_book(tmp_path: Path) -> None:
    with assert_refused(SourceError, "unzip"):
        text_of(zipped(tmp_path / "a.zip", a="text"))
    with assert_refused(SourceError, "OpenDocument"):
        text_of(zipped(tmp_path / "a.odt", mimetype="application/vnd.oasis.opendocument.text"))
    with assert_refused(SourceError, "META-INF/container.xml"):
        text_of(zipped(tmp_path / "a.epub", mimetype="application/epub+zip"))
    with assert_refused(SourceError, "XML"):
        text_of(zipped(tmp_path / "b.epub", **{"META-INF__container.xml": "<open"}))
    with assert_refused(SourceError, "chapters"):
        text_of(book(tmp_path / "c.epub", {}))
    with assert_refused(SourceError, "OEBPS/gone.xhtml"):
        text_of(book(tmp_path / "d.epub", {}, **{"OEBPS__content.opf": package(["gone.xhtml"])}))
    for href in ("../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "http://example.org/a.html"):
        with assert_refused(SourceError):
            text_of(book(tmp_path / "e.epub", {}, **{"OEBPS__content.opf": package([href])}))
    locked = '<encryption><CipherReference URI="OEBPS/a.xhtml"/></encryption>'
    with assert_refused(SourceError, "DRM"):
        text_of(book(tmp_path / "f.epub", {"a.xhtml": "x"}, **{"META-INF__encryption.xml": locked}))


def test_a_book_cut_anywhere_is_a_clear_error(tmp_path: Path) -> None:
    whole = book(tmp_path / "whole.epub", {"a.xhtml": "<p>" + "text " * 300 + "</p>"}).read_bytes()
    for length in random.Random(1).sample(range(4, len(whole)), 40):
        with pytest.raises(SourceError):
            text_of(written(tmp_path / "cut.epub", whole[:length]))
    for at in random.Random(2).sample(range(30, len(whole)), 60):  # a wrong byte: an error, or the text
        broken = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        with suppress(SourceError):
            text_of(written(tmp_path / "broken.epub", broken))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_that_unpacks_without_a_bound_is_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "other.epub"
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("META-INF/container.xml", CONTAINER * 9)
    with pytest.raises(SourceError, match=f"packed by method {method} of zip, expected deflate"):
        text_of(path)


def test_entities_of_its_own_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9)
    )
    opf = f'<?xml version="1.0"?>{bomb}]><package>&j;</package>'
    with assert_refused(SourceError, "entities"):
        text_of(book(tmp_path / "bomb.epub", {}, **{"OEBPS__content.opf": opf}))
    outside = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><package>&e;</package>'
    with assert_refused(SourceError, "entities"):
        text_of(book(tmp_path / "outside.epub", {}, **{"OEBPS__content.opf": outside}))


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_BYTES", 100_000)
    path = book(tmp_path / "bomb.epub", {"a.xhtml": "<p>" + "a" * 200_000 + "</p>"})
    with assert_refused(SourceError):
        text_of(path)
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(packed, "MOST_TOTAL", 150_000)
    with assert_refused(SourceError):
        text_of(path)
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_paragraph("a" * 200_000)
    document.save(str(tmp_path / "bomb.docx"))
    with assert_refused(SourceError, "bomb.docx"):
        text_of(tmp_path / "bomb.docx")
    monkeypatch.setattr(packed, "MOST_MEMBERS", 3)
    with assert_refused(SourceError, 3):
        text_of(path)


def test_a_word_document_of_nonsense(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"<open", b"<a/>", b"\0\1\2")):
        with pytest.raises(SourceError, match=r"is not XML|has no body"):
            text_of(zipped(tmp_path / f"{number}.docx", **{"word__document.xml": content}))


# As sources


def test_a_document_is_a_source_and_says_how_it_was_read(tmp_path: Path) -> None:
    path = book(tmp_path / "book.epub", {f"{k}.xhtml": f"<p>chapter {k}</p>" for k in range(3)})
    source = resolve(path, forming=Forming()).parts["text"]
    assert source.text() == "chapter 0\nchapter 1\nchapter 2\n"
    (form,) = source.forms
    assert form.reason.startswith("EPUB: 3 chapters, markup left out; ")
    assert form.changes
    page = written(tmp_path / "page.html", "<p>so <b>long</b></p>")
    read, kept = (resolve(page, forming=Forming(markup=keep)).parts["text"] for keep in (False, True))
    assert (read.text(), kept.text()) == ("so long\n", "<p>so <b>long</b></p>")
    assert read.fingerprint() != kept.fingerprint() == resolve(page).parts["text"].fingerprint()
    assert "--keep-markup" in read.forms[0].reason


def test_a_folder_of_documents(tmp_path: Path) -> None:
    for k in range(2):
        book(tmp_path / f"{k}.epub", {"a.xhtml": f"<p>book {k}</p>"})
    written(tmp_path / "README.md", "not a book")
    assert resolve(tmp_path, forming=Forming()).parts["text"].text() == "book 0\nbook 1\n"
    assert resolve(f"{tmp_path}/*.md", forming=Forming()).parts["text"].text() == "not a book\n"
    written(tmp_path / "plain.txt", "plain text too\n")
    assert resolve(tmp_path, forming=Forming()).parts["text"].text() == "book 0\nbook 1\nplain text too\n"
    written(tmp_path / "README.md", "# no part of the corpus\n")
    assert "corpus" not in resolve(tmp_path, forming=Forming()).parts["text"].text()


def test_project_gutenbergs_marks_are_left_out_of_its_epubs_too(tmp_path: Path) -> None:
    chapters: dict[str, str | bytes] = {
        "a.xhtml": "<p>The Project Gutenberg eBook of Tests</p>"
        "<p>*** START OF THE PROJECT GUTENBERG EBOOK TESTS ***</p>",
        "b.xhtml": "<h1>CHAPTER I</h1>" + "<p>It was a dark and stormy night.</p>" * 5,
        "c.xhtml": "<p>*** END OF THE PROJECT GUTENBERG EBOOK TESTS ***</p>"
        "<p>Updated editions will replace the previous one.</p>",
    }
    source = resolve(book(tmp_path / "pg.epub", chapters), forming=Forming()).parts["text"]
    assert source.text() == "CHAPTER I\n" + "It was a dark and stormy night.\n" * 5
    assert "licence left out" in source.forms[0].reason
