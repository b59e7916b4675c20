"""Models as a page: in a real browser with the network off, compared with Python step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from step_models import GPT2, TEXT, expected, ran, some_ids, toy

import thereafter
from breadth import core
from thereafter.export.check import check_encoder, opening_of
from thereafter.export.html import target as html_target
from thereafter.export.html.target import (
    SCRIPTS,
    TARGET,
    InBrowser,
    browser_path,
    joined_script,
    kernel,
    page_text,
    read_page,
)
from thereafter.export.plan import Exportable, plan_of
from thereafter.export.targets import FLOAT16
from thereafter.text.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from playwright.sync_api import Page

CORE = [
    ("lstm adaptive", "stream", 60),
    ("lstm peephole=True, coupled=True, layer_norm=True", "line", 60),
    ("rnn nonlinearity=sigmoid", "stream", 60),
    ("gru reset=before, update=new", "stream", 60),
    ("minlstm", "stream", 60),
    ("window direct", "line", 60),
    ("average", "stream", 60),
    ("transformer", "line", 60),
]
CASES = [
    *CORE,
    ("lstm folded tied", "line", 1000),
    ("lstm highway", "line", 60),
    ("gru", "line", 60),
    ("mingru", "line", 60),
    (GPT2, "stream", 60),
]

Show = Callable[..., InBrowser]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    """Writes a model as a page and opens it; all tests share one browser. A page that logs an error fails its test."""
    browser = browser_path()
    if browser is None:
        pytest.skip("SKIPPED LOUDLY: no chromium, so no exported page was tested; try: make browser")
    folder = tmp_path_factory.mktemp("pages")
    running: list[InBrowser] = []
    faults: list[str] = []

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        page.on("request", lambda asked: faults.append(asked.url) if "file:" not in asked.url else None)

    def show(lm: Exportable, *, int8: bool = False) -> InBrowser:
        plan = plan_of(lm)
        assert TARGET.refuses(plan, int8) is None
        TARGET.write(plan, folder / "model.html", int8=int8)
        if running:
            running[0].open(folder / "model.html")
        else:
            running.append(InBrowser(folder / "model.html", browser))
            running[0].ask(watch)
        return running[0]

    yield show
    for one in running:
        one.close()
    assert not faults, faults


@pytest.mark.parametrize(("case", "context", "steps"), core(CASES, CORE))
def test_a_page_says_what_python_says(case: str, context: str, steps: int, opened: Show) -> None:
    lm = toy(case, context=context)
    ids = some_ids(lm.model.vocabulary_size, steps)
    shown = opened(lm)
    assert shown.ask(lambda page: page.evaluate("() => Boolean(thereafter.model.product)")), "no WebAssembly"
    np.testing.assert_allclose(ran(shown, ids), expected(lm.model, ids), atol=FLOAT16)


def test_plain_javascript_says_the_same_as_webassembly(opened: Show) -> None:
    lm = toy("lstm folded")
    ids = some_ids(lm.model.vocabulary_size, 30)
    shown = opened(lm)
    fast = ran(shown, ids)
    shown.ask(lambda page: page.evaluate("() => { thereafter.model.product = null; }"))
    np.testing.assert_allclose(ran(shown, ids), fast, atol=1e-5)


@pytest.mark.parametrize(("order", "smoothing"), [(4, "kneser-ney"), (3, "add-alpha")])
def test_an_ngram_on_a_page_says_what_python_says(order: int, smoothing: str, opened: Show) -> None:
    lm = thereafter.train(text=TEXT, model="ngram", order=order, smoothing=smoothing, tokens="word")
    ids = np.resize(lm.encode("where is the dog?\nthe cat ran up the tree\n" + TEXT), 200)
    np.testing.assert_allclose(ran(opened(lm), ids), expected(lm.model, ids), atol=1e-5)


def test_int8_on_a_page_is_what_the_rounded_weights_say(opened: Show) -> None:
    from thereafter.export.steps.interpreter import Interpreter, as_stored
    from thereafter.export.steps.lowering import lower

    lm = toy("gru")
    ids = some_ids(lm.model.vocabulary_size, 40)
    rounded = Interpreter(as_stored(lower(plan_of(lm)), 8))  # type: ignore[arg-type]
    np.testing.assert_allclose(ran(opened(lm, int8=True), ids), ran(rounded, ids), atol=1e-4)


@pytest.mark.parametrize("tokens", ["char", "byte", "word", "prose", "bpe", "wordpiece"])
def test_the_tokenizer_of_a_page_is_ours(tokens: str, opened: Show) -> None:
    lm = toy("rnn", tokens)
    text = "the  cat,\tdon't_12½ 3—é 😀\n\n\u00a0 a\u2003</s> <unk> naïve ²x\u0085y\n"
    shown, encode = opened(lm), "(text) => thereafter.tokenizer.encode(text)"
    assert shown.ask(lambda page: page.evaluate(encode, text)) == lm.tokenizer.encode(text).tolist()
    ids, append = lm.tokenizer.encode(TEXT[:60]), "(ids) => thereafter.tokenizer.append('', ids)"
    mine = shown.ask(lambda page: page.evaluate(append, ids.tolist()))
    assert mine == lm.tokenizer.decode(ids)


@pytest.mark.parametrize(
    "tokens", core(["char", "byte", "word", "prose", "bpe", "wordpiece"], ["char", "prose", "bpe"])
)
def test_odd_texts_are_encoded_on_a_page_as_by_the_tokenizer(tokens: str, opened: Show) -> None:
    for lower in (False, True):
        lm = toy("rnn", tokens, lower=lower)
        assert check_encoder(lm, opened(lm)) == 200


def test_learned_pieces_are_joined_on_a_page_within_the_words_of_their_engine(opened: Show) -> None:
    lm = toy("rnn", "bpe", text="!\u2190!\u2200!\u2500!\u2605!\u2600 " * 20)
    text = "!\u2200!\u24b6"  # the last is a word to the engine, and no letter to Python
    assert opened(lm).encode([text]) == [lm.tokenizer.encode(text).tolist()]
    assert [lm.tokenizer.bytes_of(id) for id in lm.tokenizer.encode(text)][0::3] == [b"!\xe2", b"!", b"\xb6"]


def test_a_page_is_typed_into_generates_and_shows_its_gates(opened: Show) -> None:
    lm = toy("lstm folded")
    shown = opened(lm)
    shown.ask(lambda page: assert_typing_works(page, lm))


@pytest.mark.parametrize("tokens", ["word", pytest.param("prose", marks=pytest.mark.wide)])
def test_a_page_completes_the_word_that_is_being_typed(tokens: str, opened: Show) -> None:
    lm = thereafter.train(text=TEXT, model="ngram", order=3, tokens=tokens)
    right = lm.complete("the dog r", k=5)

    def typed(page: Page) -> tuple[list[str], str]:
        page.fill("#text", "the dog r")
        assert not page.is_visible("#next")  # "r" is no word: nothing follows it
        words = page.locator("#complete .word").all_inner_texts()
        page.locator("#complete .bar").first.click()
        assert page.is_visible("#next")
        assert not page.is_visible("#complete")  # the word is whole, and no other begins so
        return words, page.input_value("#text")

    words, text = opened(lm).ask(typed)
    assert words == [word.word for word in right.words]
    assert text == "the dog " + words[0]


def assert_typing_works(page: Page, lm: Exportable) -> None:
    page.fill("#text", "the cat")
    bars = page.locator("#next .bar")
    assert bars.count() == 12
    best = 1 + int(expected(lm.model, lm.tokenizer.encode("the cat"))[-1][1:].argmax())
    bars.first.click()
    assert page.input_value("#text") == "the cat" + lm.tokenizer.piece(best)
    page.fill("#text", "the cat")
    assert page.locator("#inside canvas").count() == 6  # three gates, what they let through, c and h
    assert page.locator("#inside h3").all_inner_texts()[2].startswith("cell (what is offered to the state, ")
    assert "After token 7: t" in page.inner_text("#where")
    page.click("#back")
    assert "After token 6: a" in page.inner_text("#where")
    page.fill("#count", "30")
    page.fill("#top", "5")
    page.click("#generate")
    page.wait_for_function("() => !document.getElementById('generate').disabled")
    assert len(page.input_value("#text")) == 37
    assert "30 tokens" in page.inner_text("#speed")
    page.click("#theme")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_a_page_loads_nothing_and_no_word_can_end_its_elements() -> None:
    text = page_text("a <b>", {"words": ["</script><script>alert(1)</script>"]}, b"123")
    rule = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert rule is not None
    assert rule[1].startswith("default-src 'none'; ")
    assert "unsafe-inline" not in text
    assert "alert(1)</script>" not in text
    assert '<h1>thereafter <span id="name">a &lt;b&gt;' in text
    assert read_page(text) == ({"words": ["</script><script>alert(1)</script>"]}, b"123")
    lone = page_text("a\udc80", {"words": ["\udcff", "😀"]}, b"")
    assert read_page(lone.encode().decode())[0] == {"words": ["\udcff", "😀"]}
    assert not re.search(r"https?://|\bfetch\(|XMLHttp|import\(", joined_script())
    assert "\nimport " not in joined_script()
    assert len(SCRIPTS) == 9
    assert kernel()[:8] == b"\0asm\x01\0\0\0"


def test_a_page_opens_on_training_words_with_something_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("the king of france had four cats", "the king of france had ten dogs")
    (tmp_path / "book.txt").write_text("".join(f"{line}\n" * 9 for line in lines))
    lm = thereafter.train(tmp_path / "book.txt", model="ngram", order=4, tokens="word", min_count=1)
    monkeypatch.setattr(html_target, "browser_path", lambda: None)
    opening = opening_of(lm.trained)
    entropy = {}
    for line in lines:
        for end in range(4, 7):  # at least 16 characters
            prompt = " ".join(line.split()[:end])
            p = np.array([p for _, p in lm.next(prompt, k=len(lm.tokenizer.vocabulary))])
            entropy[prompt] = -(p * np.log2(p)).sum()
    assert opening.prompt == min(entropy, key=lambda prompt: abs(entropy[prompt] - 2)) == "the king of france had"
    assert opening.source == "the training text, book.txt"
    TARGET.opening_on(opening).write(plan_of(lm), tmp_path / "m.html", int8=False)
    about, _ = read_page((tmp_path / "m.html").read_text(encoding="utf-8"))
    assert (about["prompt"], about["from"]) == (opening.prompt, opening.source)
    lm.save(tmp_path / "run")
    (tmp_path / "book.txt").unlink()
    assert opening_of(thereafter.load(tmp_path / "run").trained).source == "a text that the model writes"


def test_what_a_page_cannot_do_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    plan = plan_of(toy("rnn"))
    unigram = replace(plan, wording=replace(plan.wording, tokenizer={"name": "unigram"}))
    assert "no unigram tokenizer" in str(TARGET.refuses(unigram, int8=False))
    letters = replace(plan, wording=replace(plan.wording, letters_only=True))
    assert "letters" in str(TARGET.refuses(letters, int8=False))
    chinese = TOKENIZERS.load("prose").fit(lambda: ["漢字漢字"])
    by_character = replace(plan, wording=replace(plan.wording, tokenizer=chinese.to_json()))
    assert "scripts" in str(TARGET.refuses(by_character, int8=False))
    monkeypatch.setattr(html_target, "MOST", 10)
    assert "at most 10" in str(TARGET.refuses(plan, int8=True))
