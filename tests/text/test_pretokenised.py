"""Plain text in the form of a pre-tokenised corpus and back: against tables written by hand, and as properties."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.errors import FormatError
from thereafter.text.pretokenised import SAMPLE, WritingStyle, find_style, style_of_forms, style_of_vocabulary
from thereafter.text.pretokenised_words import Restorer, restore_stream, split_words
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers.word import WordTokenizer
from thereafter.text.writing import in_style

MARKS = (",", ".", "!", "?", ";", ":", "(", ")", '"', "'", "...")
WIKITEXT = WritingStyle(
    clitics="'t", glue=True, quotes='"', marks=(*MARKS, "@-@", "@,@", "@.@", "–", "—", "/", "$", "%")
)
PTB = WritingStyle(
    lower=True, numbers="N", stripped=True, marks=("$", "&", "'", "#"), unknown=True, sentence_lines=True
)
SST = WritingStyle(
    lower=True, hyphens="spaced", quotes="``", marks=(",", "'", "`", "``", "''", "?", "!"), stripped=True
)
TREEBANK = WritingStyle(quotes="``", brackets="-LRB-", marks=(",", ".", "``", "''", "--", "...", "?", "!"))

REWRITTEN = [
    (WIKITEXT, "Raymond is selling this sketch.", "Raymond is selling this sketch ."),
    (WIKITEXT, "He didn't pay $1,000.50 (or 5%).", "He didn 't pay $ 1 @,@ 000 @.@ 50 ( or 5 % ) ."),
    (WIKITEXT, "O'Brien's co-star left.", "O 'Brien 's co @-@ star left ."),
    (WIKITEXT, "“Yes,” said Mr. Li.", '" Yes , " said Mr. Li .'),
    (WIKITEXT, "the U.S. and/or U.K. e.g. at 5 p.m. today", "the U.S. and / or U.K. e.g. at 5 p.m. today"),
    (PTB, "The U.S. didn't pay 5.9%.", "the u.s. did n't pay N N"),
    (PTB, "Mr. Li, 61, joined. He'll stay!", "mr. li N joined\nhe 'll stay"),
    (PTB, 'It cost $3 a share, "too much" (he said).', "it cost $ N a share too much he said"),
    (PTB, "Long-term bonds can't rise", "long-term bonds ca n't rise"),
    (SST, "It's a well-made film, isn't it?", "it 's a well made film , is n't it ?"),
    (SST, 'A "masterpiece".', "a `` masterpiece ''"),
    (TREEBANK, 'He (or she) said "no"—twice.', "He -LRB- or she -RRB- said `` no '' -- twice ."),
    (TREEBANK, "I cannot go… really?!", "I can not go ... really ? !"),
]


@pytest.mark.parametrize(("style", "plain", "form"), REWRITTEN)
def test_plain_text_comes_into_the_form_of_the_corpus(style: WritingStyle, plain: str, form: str) -> None:
    assert style.rewritten(plain) == form
    assert style.rewritten(form) == form


RESTORED = [
    (WIKITEXT, "He didn 't pay $ 1 @,@ 000 @.@ 50 ( or 5 % ) .", "He didn't pay $1,000.50 (or 5%)."),
    (WIKITEXT, "\" Yes , \" said O 'Brien 's co @-@ star .", "\"Yes,\" said O'Brien's co-star."),
    (WIKITEXT, "the dogs ' tails", "the dogs' tails"),
    (WIKITEXT, 'one .\n" Two\n" three "', 'one.\n"Two\n"three"'),
    (PTB, "they ca n't rise to $ N", "they can't rise to $N"),
    (TREEBANK, "He -LRB- or she -RRB- said `` no '' .", 'He (or she) said "no".'),
    (TREEBANK, "I can not go", "I cannot go"),
]


@pytest.mark.parametrize(("style", "form", "plain"), RESTORED)
def test_generated_text_is_written_as_people_write(style: WritingStyle, form: str, plain: str) -> None:
    assert style.restored(form) == plain


def test_the_text_before_decides_how_generated_text_goes_on() -> None:
    assert WIKITEXT.restored(' , " he said .', before='He said "yes') == '," he said.'
    assert WIKITEXT.restored(" sketch .", before="this") == " sketch."
    assert WIKITEXT.restored(" 100", before="for $") == "100"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wretch,", ["wretch", ","]),
        ("don't", ["do", "n't"]),
        ("They'd've said: \"No\"...", ["They", "'d", "'ve", "said", ":", '"', "No", '"', "..."]),
        ("cannot; Ph.D. etc. And so on etc.", ["can", "not", ";", "Ph.D.", "etc.", "And", "so", "on", "etc", "."]),
        ("a well-known e-mail to a.b@c.org!!", ["a", "well", "-", "known", "e-mail", "to", "a.b@c.org", "!!"]),
        ("'em in the '90s (www.x.org/a,b)", ["'em", "in", "the", "'90s", "(", "www.x.org/a,b", ")"]),
        ("he was ill. Springfield, Ill., too", ["he", "was", "ill", ".", "Springfield", ",", "Ill.", ",", "too"]),
        ("สวัสดีครับ, กัลยาณมิตร", ["สวัสดีครับ", ",", "กัลยาณมิตร"]),
        ("", []),
    ],
)
def test_words_are_those_of_universal_dependencies(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize("style", [None, WIKITEXT, PTB, TREEBANK])
def test_words_of_any_length_are_split_quickly(style: WritingStyle | None) -> None:
    begun = time.thread_time()
    assert split_words("a" + "'s" * 1500, style) == ["a", *["'s"] * 1500]
    for long in ("a+" * 8000, "a@" * 8000, "a." * 4000 + "1", "1," * 4000 + "x", "x-" * 4000):
        assert split_words(long, style)
    assert time.thread_time() - begun < 4


_WORDS = st.sampled_from(["cat", "Raymond", "sketch", "seven", "n't", "'s", "@-@", "<unk>", "Mr.", "U.S.", "2005", "é"])
_FORMED = st.lists(st.one_of(_WORDS, st.sampled_from(WIKITEXT.marks)), min_size=1).map(" ".join)
_PLAIN = st.text(st.sampled_from("aeT é.,!?'\"()-–%$0123\n <>@`…"), max_size=120)
_STYLES = st.sampled_from([WIKITEXT, PTB, SST, TREEBANK])


@given(st.lists(_FORMED, min_size=1).map(lambda lines: "\n".join(f" {line} " for line in lines)))
def test_text_in_the_form_stays_byte_for_byte(text: str) -> None:
    assert WIKITEXT.rewritten(text) == text


@settings(max_examples=200)
@given(_PLAIN, _STYLES, st.lists(st.integers(0, 120), max_size=4))
def test_rewriting_in_chunks_equals_the_whole(text: str, style: WritingStyle, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    chunks = [text[begin:end] for begin, end in pairwise(places)]
    assert "".join(style.rewrite(chunks)) == style.rewritten(text)
    pieces = list(restore_stream(chunks, style))
    assert "".join(pieces) == style.restored(text)


@given(_PLAIN, _STYLES)
def test_rewriting_loses_no_line(text: str, style: WritingStyle) -> None:
    whole = replace(style, sentence_lines=False)
    assert whole.rewritten(text).count("\n") == text.count("\n")


_CLAUSES = st.lists(
    st.sampled_from(
        ["Raymond doesn't sell it", "she's here", "the co-star left", "it cost 1,000 francs", "O'Brien wins"]
    ),
    min_size=1,
    max_size=4,
)


@given(_CLAUSES, st.sampled_from([".", "!", "?", "..."]), st.booleans(), st.booleans())
def test_ordinary_sentences_come_back(clauses: list[str], end: str, quoted: bool, bracketed: bool) -> None:
    text = ", ".join(clauses) + end
    text = f'He said "{text}"' if quoted else text
    text = f"{text} (So it goes.)" if bracketed else text
    for style in (WIKITEXT, TREEBANK):
        assert style.restored(style.rewritten(text)) == text


def test_long_texts_are_judged_by_their_beginning_however_they_come() -> None:
    plain = "Raymond doesn't sell it, they say. " * 4000
    assert len(plain) > SAMPLE
    whole = WIKITEXT.rewritten(plain)
    assert whole.startswith("Raymond doesn 't sell it , they say . ")
    assert "".join(WIKITEXT.rewrite(plain[at : at + 999] for at in range(0, len(plain), 999))) == whole
    formed = whole[:SAMPLE] + plain
    assert "".join(WIKITEXT.rewrite([formed])) == formed


def _lines(*lines: str) -> list[str]:
    return ["\n".join(lines) + "\n"] * 300


CORPORA = [
    (_lines("they did n't go , she said .", "the cats sat . ! ?"), "n't", {"lower": True}),
    (_lines("They don 't go @-@ he said .", "It 's 1 @,@ 000 , <unk> ."), "'t", {"glue": True, "unknown": True}),
    (_lines("mr. <unk> did n't pay N N", "the u.s. 's $ N fell"), "n't", {"numbers": "N", "stripped": True}),
    (_lines("the cats near the dog are here .", "of course , the dog is there ."), "", {"sentence_lines": True}),
    (_lines("He -LRB- or she -RRB- said `` no '' ."), "", {"quotes": "``", "brackets": "-LRB-"}),
]


@pytest.mark.parametrize(("chunks", "clitics", "habits"), CORPORA)
def test_the_style_is_found_and_kept_as_a_plain_table(
    chunks: list[str], clitics: str, habits: dict[str, object]
) -> None:
    style = find_style(chunks)
    assert style is not None
    assert style.clitics == clitics
    assert {name: vars(style)[name] for name in habits} == habits
    assert not style.applies("".join(chunks))
    assert WritingStyle.from_table(style.to_table()) == style
    fitted = style_of_vocabulary(WordTokenizer.fit(lambda: chunks))
    assert fitted is not None
    assert replace(fitted, unknown=style.unknown, marks=style.marks) == style
    assert str(style)


PLAIN = [
    'He didn\'t go, she said. "Why not?" they asked; nobody knew.',
    "Pourquoi me regardez-vous ? Je ne sais pas, dit-il. Bon !",
    "a a a b b b !",
    "[ ( ) ( ( ) ) ]",
    "def f(x): return [x, x + 1]  # what, why?",
    "the cat sat on the mat",
    "今日は、いい天気です。",
    "",
]


@pytest.mark.parametrize("line", PLAIN)
def test_text_as_people_write_it_has_no_style(line: str) -> None:
    assert find_style(_lines(line)) is None


def test_a_vocabulary_without_counts_tells_too() -> None:
    assert style_of_forms(["the", "cat", "sat", "did", "n't", ",", ".", "'s"]) is not None
    assert style_of_forms(["the", "cat,", "sat.", "didn't", "dog."]) is None


def test_named_corpora_and_texts_in_the_form_are_never_rewritten() -> None:
    plain, formed = Source.of_text("It's here, they say."), Source.of_text("It 's here , they say .")
    assert in_style(Texts("text", {"text": plain}), plain, WIKITEXT).text() == "It 's here , they say ."
    assert in_style(Texts("text", {"text": formed}), formed, WIKITEXT).rewriting is None
    assert in_style(Texts("text", {"text": plain}), plain, None).rewriting is None
    assert plain.fingerprint() != replace(plain, rewriting=WIKITEXT).fingerprint()


def test_a_restorer_waits_for_whole_words_only() -> None:
    restorer = Restorer(WIKITEXT, "the")
    assert [restorer.add(piece) for piece in (" dog", " 's", " tail", " ,", " a")] == ["", " dog", "'s", " tail", ","]
    assert restorer.end() == " a"
    words = Restorer(WIKITEXT, "the", whole=True)
    assert [words.add(piece) for piece in (" dog", " 's", " .", "\n", "The")] == [" dog", "'s", ".", "\n", "The"]


@pytest.mark.parametrize("table", [{"lower": 1}, {"unheard": True}, {"marks": "."}])
def test_a_damaged_style_is_refused(table: dict[str, object]) -> None:
    with assert_refused(FormatError):
        WritingStyle.from_table(table)
