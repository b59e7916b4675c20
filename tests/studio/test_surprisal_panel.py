"""Surprisal: every word has the bits of the library, for one model or two; a word shows what was expected there."""

from __future__ import annotations

from typing import Any

import pytest
from serving_studio import Served

import thereafter
from thereafter.studio.panels.prediction import read, surprisal

TEXT = "the teachers near the farmer are old ."


@pytest.fixture(scope="module")
def lstm(server: Served) -> Any:
    return thereafter.load(server.studio.shelf.place("ready:lstm"))


@pytest.fixture(scope="module")
def ngram(server: Served) -> Any:
    return thereafter.load(server.studio.shelf.place("ready:ngram"))


def shown(page: Any, model: str) -> tuple[list[str], list[float]]:
    """The words of a block and their bits."""
    spans = page.locator(f'[data-model="{model}"] span[data-at]')
    words = spans.evaluate_all("all => all.map(one => one.textContent)")
    return words, spans.evaluate_all("all => all.map(one => Number(one.dataset.bits))")


def check(page: Any, model: str, lm: Any, text: str) -> None:
    table = lm.surprisal(text=text)
    words = ["⏎" if word == "\n" else word for word in table.texts]
    page.wait_for_function(
        '([model, words]) => [...document.querySelectorAll(`[data-model="${model}"] span[data-at]`)]'
        ".map(one => one.textContent).join(' ') === words",
        arg=[model, " ".join(words)],
    )
    names, bits = shown(page, model)
    assert names == words
    assert bits == pytest.approx(table.bits().tolist(), abs=1e-4)


def test_the_verb_is_the_librarys_table(lstm: Any, ngram: Any):
    answer = surprisal([read(lstm, TEXT, 3, name="a"), read(ngram, TEXT, 3, name="b")])
    rows = thereafter.surprisal([lstm, ngram], text=TEXT, detail=True, names=["a", "b"]).to_rows()
    assert [word.replace("\n", "\\n") for word in answer.words] == [row["word"] for row in rows]
    for model in answer.models:
        name = model.model
        assert model.bits == pytest.approx(sum(row[f"bits_{name}"] for row in rows))
        for word, row in zip(model.words, rows, strict=True):
            assert word is not None
            assert (word.bits, word.rank, word.entropy) == (
                pytest.approx(row[f"bits_{name}"]),
                row[f"rank_{name}"],
                pytest.approx(row[f"entropy_{name}"]),
            )
            assert word.alternatives[0].p == pytest.approx(row[f"p_1_{name}"])


def test_every_word_has_its_bits_for_both_models(page: Any, lstm: Any, ngram: Any):
    page.goto("/#surprisal")
    check(page, "ready:lstm", lstm, TEXT)
    check(page, "ready:ngram", ngram, TEXT)
    page.get_by_role("textbox", name="The text").fill("the teacher near the farmers\nis zinkly .")
    check(page, "ready:lstm", lstm, "the teacher near the farmers\nis zinkly .")
    assert page.locator('[data-model="ready:lstm"] .new').all_text_contents() == ["zinkly"]
    check(page, "ready:ngram", ngram, "the teacher near the farmers\nis zinkly .")


def test_a_word_shows_what_was_expected_there(page: Any, lstm: Any):
    page.goto("/#surprisal?beside=none")
    check(page, "ready:lstm", lstm, TEXT)
    assert page.locator("#surprises section").count() == 1
    page.locator('[data-at="5"]').hover()
    row = lstm.surprisal(text=TEXT, detail=True, top=5).to_rows()[5]
    page.wait_for_function("() => document.getElementById('surprise-readout').textContent.includes('“are”')")
    assert float(page.locator("#expected [data-cost]").get_attribute("data-cost")) == pytest.approx(row["bits"])
    assert f"Rank {row['rank']}" in page.locator("#expected").inner_text()
    bars = page.locator("#expected .bar").evaluate_all("all => all.map(one => one.dataset.word)")
    assert bars == [row[f"top_{place}"] for place in range(1, 6)]
    page.locator(".surprise").press("ArrowRight")
    page.wait_for_function("() => document.getElementById('surprise-readout').textContent.includes('“old”')")


@pytest.mark.wide
def test_all_words_as_a_table(page: Any, lstm: Any):
    page.goto("/#surprisal?beside=none&table=1")
    check(page, "ready:lstm", lstm, TEXT)
    cells = page.locator('td[data-key="bits0"]').all_text_contents()
    assert cells == [f"{bits:.2f}" for bits in lstm.surprisal(text=TEXT).bits()]
    page.get_by_role("button", name="bits").click()
    page.get_by_role("button", name="bits").click()
    sorted_cells = [float(cell) for cell in page.locator('td[data-key="bits0"]').all_text_contents()]
    assert sorted_cells == sorted(sorted_cells, reverse=True)
