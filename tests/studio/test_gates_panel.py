"""Gates: the levels shown are those of the trace file that the panel saves, for every kind of cell."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_studio import unit_of

import thereafter
from thereafter.inspection.trace import Trace
from thereafter.ready.models import WORD_UNITS

NUMBER = unit_of("lstm")[1]
"""The unit that carries the subject's number."""

TEXT = "the teacher near the farmers is old ."
AT = "/#gates?text=" + TEXT.replace(" ", "+")
MEAN = f"{AT}&unit=mean"


def at_step(page: Any, step: int, model: str = "") -> None:
    """Wait until the panel shows a step, of this model: a tab that was open before hears of a new run a moment later,
    and shows another model until then."""
    if model:
        page.wait_for_selector(f'.levels tr[data-of="{model}"]')
    page.wait_for_selector(f'.levels th[aria-current="step"] button[aria-label^="Step {step}:"]')


def tanks(page: Any, model: str) -> dict[str, float]:
    """The number over every tank of a model."""
    found = page.locator(f'[data-model="{model}"] .tank')
    return dict(
        found.evaluate_all("all => all.map(one => [one.dataset.field, +one.querySelector('.number').textContent])")
    )


def memory(page: Any, model: str) -> tuple[str, float]:
    place = page.locator(f'[data-model="{model}"] .memory')
    return place.get_attribute("data-field"), float(place.locator(".number").inner_text())


def table(page: Any, model: str, field: str) -> list[float]:
    row = page.locator(f'.levels tr[data-of="{model}"][data-field="{field}"] td')
    return [float(text.replace("−", "-")) for text in row.all_inner_texts()]


def choose_unit(page: Any, unit: int) -> None:
    page.get_by_role("slider", name="Unit").fill(str(unit))


def saved(page: Any, folder: Path) -> Trace:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the trace").click()
    download.value.save_as(folder / "trace.npz")
    return Trace.load(folder / "trace.npz")


@pytest.fixture
def mingru(server: Any) -> Iterator[str]:
    """A run of the user's: two layers of another kind of cell."""
    thereafter.train(
        text="the teacher near the farmers is old .\n" * 20,
        model="mingru",
        tokens="word",
        out=server.runs / "my-mingru",
        hidden=7,
        layers=2,
        tokens_budget=200,
        seed=0,
    )
    yield "runs:my-mingru"
    shutil.rmtree(server.runs / "my-mingru")


@pytest.mark.parametrize(
    ("kind", "gates"),
    [
        ("lstm", ["forget", "input", "output", "cell"]),
        pytest.param("gru", ["reset", "update", "new"], marks=pytest.mark.wide),
    ],
)
def test_the_gates_shown_are_those_of_the_trace_file(
    page: Any, server: Any, tmp_path: Path, kind: str, gates: list[str]
):
    model = f"ready:{kind}"
    page.goto(f"{MEAN}&model={model}&step=1")
    at_step(page, 1)
    file = saved(page, tmp_path)
    lm = thereafter.load(server.studio.shelf.place(model))
    names = [f"l0.{gate}" for gate in gates]
    held = "l0.c" if kind == "lstm" else "l0.h"
    for name in [*names, held]:
        np.testing.assert_array_equal(file[name], lm.trace(TEXT)[name])
    for step in range(1, len(file.tokens) + 1):
        at_step(page, step)
        shown = tanks(page, model)
        assert list(shown) == names
        for name in names:
            assert shown[name] == pytest.approx(file[name][step - 1].mean(dtype=float), abs=6e-4)
        assert memory(page, model) == (held, pytest.approx(np.abs(file[held][step - 1]).mean(dtype=float), abs=6e-4))
        if step < len(file.tokens):
            page.get_by_role("button", name="Next word").click()
    for name in names:
        assert table(page, model, name) == pytest.approx(file[name].mean(axis=1, dtype=float).tolist(), abs=6e-3)


def test_a_single_unit_can_be_followed(page: Any, server: Any):
    page.goto(f"{AT}&step=5")
    at_step(page, 5)
    trace = thereafter.load(server.studio.shelf.place("ready:lstm")).trace(TEXT)
    choose_unit(page, 17)
    page.wait_for_function("() => document.querySelector('.memory h4').textContent.includes('unit 17')")
    for name, shown in tanks(page, "ready:lstm").items():
        assert shown == pytest.approx(float(trace[name][4, 17]), abs=6e-4)
        assert table(page, "ready:lstm", name) == pytest.approx(trace[name][:, 17].tolist(), abs=6e-3)
    assert memory(page, "ready:lstm") == ("l0.c", pytest.approx(float(trace["l0.c"][4, 17]), abs=6e-4))
    fill = page.locator('[data-model="ready:lstm"] .signed .fill')
    assert ("below" in fill.get_attribute("class")) == (trace["l0.c"][4, 17] < 0)
    strip = page.locator('[data-model="ready:lstm"] .strip')
    strip.click(position={"x": strip.bounding_box()["width"] * 40.5 / WORD_UNITS, "y": 8})
    page.wait_for_function("() => document.querySelector('.memory h4').textContent.includes('unit 40')")
    assert page.get_by_role("slider", name="Unit").input_value() == "40"
    assert "unit=40" in page.url


@pytest.mark.wide
def test_a_vanilla_rnn_stands_beside_it_without_gates(page: Any, server: Any):
    page.goto(f"{MEAN}&step=4")
    at_step(page, 4)
    trace = thereafter.load(server.studio.shelf.place("ready:rnn")).trace(TEXT)
    assert tanks(page, "ready:rnn") == {}
    assert "No gates" in page.locator('[data-model="ready:rnn"]').inner_text()
    for step in (4, 7):
        page.get_by_role("slider", name="Word").fill(str(step))
        at_step(page, step)
        h = trace["l0.h"].astype(float)
        assert memory(page, "ready:rnn") == ("l0.h", pytest.approx(np.abs(h[step - 1]).mean(), abs=6e-4))
        moved = np.abs(h[step - 1] - h[step - 2]).mean()
        assert f"moved it by {moved:.3f}" in page.locator('[data-model="ready:rnn"]').inner_text()


@pytest.mark.wide
def test_words_the_model_does_not_know_are_marked(page: Any, server: Any):
    page.goto(AT)
    at_step(page, 5)
    sentence = "the cat , which the family adopted , was happy ."
    page.get_by_role("textbox", name="The sentence").fill(sentence)
    page.wait_for_selector(".levels th:has-text('adopted')")
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    unknown = [word for word in sentence.split() if lm.encode(word).tolist() == [lm.tokenizer.unknown_id]]
    assert "family" in unknown
    page.wait_for_selector(f"text=Unknown to this model, so all read as <unk>: {', '.join(unknown)}.")
    marked = [text for text in page.locator(".levels thead button").all_inner_texts() if text.endswith("?")]
    assert marked == [f"{word} ?" for word in unknown]


@pytest.mark.wide
def test_it_opens_on_the_unit_that_carries_the_number_with_the_picture_on_the_first_screen(page: Any, server: Any):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/#gates")
    at_step(page, 5)
    box = page.locator("#picture").bounding_box()
    assert box["y"] + box["height"] <= 800
    assert page.get_by_role("slider", name="Unit").input_value() == str(NUMBER)
    assert page.locator("#picture h3").first.inner_text() == f"Every step, unit {NUMBER}, which carries the number"
    text = page.get_by_role("textbox", name="The sentence").input_value()
    words = text.split()
    assert (words[1], words[4]) == ("teachers", "farmer")  # a noun of the other number stands nearer to the verb
    own, other = (thereafter.load(server.studio.shelf.place(f"ready:{name}")).trace(text) for name in ("lstm", "rnn"))
    assert table(page, "ready:lstm", "l0.c") == pytest.approx(own["l0.c"][:, NUMBER].tolist(), abs=6e-3)
    assert table(page, "ready:rnn", "l0.h") == pytest.approx(
        other["l0.h"][:, unit_of("rnn")[1]].tolist(), abs=6e-3
    )  # its own unit


@pytest.mark.wide
def test_the_twin_sentence_and_the_equations_have_the_numbers_of_the_trace(page: Any, server: Any):
    page.goto(f"{AT}&step=5")
    at_step(page, 5)
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    own, turned = (lm.trace(text) for text in (TEXT, "the teachers near the farmer are old ."))
    twin = page.locator('.levels tr[data-twin="ready:lstm"] td')
    found = [text.split() for text in twin.all_inner_texts()]
    assert [word for word, _ in found] == turned.tokens
    shown = [float(number.replace("−", "-")) for _, number in found]
    assert shown == pytest.approx(turned["l0.c"][:, NUMBER].tolist(), abs=6e-3)
    kept = page.locator("#kept").inner_text()
    for trace in (own, turned):
        between = trace["l0.c"][1:5, NUMBER]  # from the subject to the word before the verb
        assert f"{between.min():+.2f} to {between.max():+.2f}".replace("-", "−") in kept
    for field in ("forget", "input", "cell", "output", "c", "h"):
        number = page.locator(f'.equations [data-field="{field}"] .number').inner_text()
        assert float(number.replace("−", "-")) == pytest.approx(float(own[f"l0.{field}"][4, NUMBER]), abs=6e-3)
    forget, c = own["l0.forget"][:, NUMBER].astype(float), own["l0.c"][:, NUMBER].astype(float)
    parts = page.locator('.equations [data-field="c"] .parts').inner_text().replace("−", "-")
    assert [float(part.split()[0]) for part in parts.split(",")] == pytest.approx(
        [forget[4] * c[3], c[4] - forget[4] * c[3]], abs=6e-3
    )


@pytest.mark.wide
def test_without_a_twin_or_a_known_unit_the_mean_is_shown(page: Any, mingru: str):
    page.goto(f"/#gates?model={mingru}&text=of+course&step=1")
    at_step(page, 1, mingru)
    assert page.get_by_role("slider", name="Unit").input_value() == "-1"
    assert page.locator("#kept").inner_text() == ""
    assert page.locator(".levels tr[data-twin]").count() == 0
    assert page.locator('.equations [data-field="h"] .number').inner_text() == ""


def levels_of(file: Trace, layer: int) -> dict[str, Any]:
    """The mean of the gate and of the candidate of a minGRU at the third word."""
    names = [f"l{layer}.{name}" for name in ("update", "new")]
    return {name: pytest.approx(file[name][2].mean(dtype=float), abs=6e-4) for name in names}


@pytest.mark.wide
def test_every_kind_of_cell_and_every_layer(page: Any, server: Any, mingru: str, tmp_path: Path):
    page.goto(f"{MEAN}&model={mingru}&beside=ready:gru&step=3")
    at_step(page, 3, mingru)
    file = saved(page, tmp_path)
    assert tanks(page, mingru) == levels_of(file, 0)
    assert "made new" in page.locator(f'[data-model="{mingru}"]').inner_text()
    assert list(tanks(page, "ready:gru")) == ["l0.reset", "l0.update", "l0.new"]
    page.get_by_label("Layer").select_option(label="2")
    page.wait_for_selector('[data-field="l1.update"]')
    assert tanks(page, mingru) == levels_of(file, 1)
    assert memory(page, mingru) == ("l1.h", pytest.approx(np.abs(file["l1.h"][2]).mean(dtype=float), abs=6e-4))


@pytest.mark.wide
def test_play_goes_on_and_a_word_of_the_table_leads_to_its_step(page: Any):
    page.goto(f"{AT}&step=1")
    at_step(page, 1)
    page.get_by_role("button", name="Play").click()
    at_step(page, 3)
    page.get_by_role("button", name="Pause").click()
    page.locator('.levels button[aria-label="Step 6: is"]').click()
    at_step(page, 6)
    assert page.locator('[data-model="ready:lstm"] h3').inner_text() == "lstm reads “is”"
    page.keyboard.press("ArrowLeft")
    at_step(page, 5)


@pytest.mark.wide
def test_models_of_other_tokens_are_not_laid_side_by_side(page: Any):
    page.goto(f"{AT}&beside=ready:letters")
    page.wait_for_selector("text=so their steps are not the same")
    assert page.locator(".levels tr[data-of]").count() == 5
    assert page.locator(".levels tr[data-twin]").count() == 1
