"""The train panel: a model from a pasted text, paused, reloaded, resumed, tried."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving_studio import SCALE, Served, served
from visits import visiting

from thereafter.studio.jobs import JobAnswer
from thereafter.studio.studio import Studio
from waiting import wait_for

WORDS = ["the", "a", "cat", "dog", "bird", "saw", "heard", "and", "or", "which", "old", "small", ".", ",", "it", "was"]
GROWN = "() => document.querySelector('[data-job=from-the-page] [role=img]')?.numbers?.[0].y.length >= 2"
MEGABYTE = "so long and thanks for all the fish\n" * 28_000


def open_curve(training: Any) -> None:
    """Only the curve of the first training is open by itself, and which is first depends on the tests before."""
    training.locator("details").evaluate("details => { details.open = true; }")


def book(lines: int = 200) -> str:
    rng = random.Random(3)
    return "\n".join(" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(lines)) + "\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread, and no compiled kernels: loading them takes longer than these trainings."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("THEREAFTER_NUMBA", "0")


@pytest.fixture(scope="module")
def server(ready_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A studio of its own: trainings stay in its list."""
    yield from served(Studio(tmp_path_factory.mktemp("trained"), ready_folder, scale=SCALE))


@pytest.fixture
def asked(server: Served, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the page asks to be trained, where nothing is."""
    found: list[dict[str, Any]] = []

    def begin(name: str, model: str, **given: Any) -> JobAnswer:
        found.append({"name": name, "model": model} | given)
        words = dict.fromkeys(("status", "note", "error", "owner"), "")
        facts = {"name": "asked", "model": model, "state": "running", "share": 0.0, "run": "runs:asked"}
        return JobAnswer.model_validate(words | facts | {"resumable": False})

    monkeypatch.setattr(server.studio.jobs, "begin", begin)
    return found


@pytest.fixture
def left(server: Served, ready_folder: Path) -> Iterator[Path]:
    """A run of the user's whose training was broken off before its end."""
    run = server.runs / "left.over"
    shutil.copytree(ready_folder / "gru", run)
    log = (run / "log.jsonl").read_text().splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(log[:-1]))
    yield run
    shutil.rmtree(run, ignore_errors=True)
    wait_for(lambda: not [job for job in server.studio.jobs.all() if job.name == run.name])


def card(page: Any, name: str, state: str = "") -> Any:
    found = page.locator(f'[data-job="{name}"]' + (f'[data-state="{state}"]' if state else ""))
    found.wait_for()
    return found


@pytest.mark.wide
def test_before_the_first_training_one_made_earlier_shows_what_it_looks_like(
    browser: Any, ready_folder: Path, tmp_path: Path
):
    for fresh in served(Studio(tmp_path / "runs", ready_folder, scale=SCALE)):
        with visiting(browser, fresh.address) as tab:
            tab.goto("/#train")
            tab.wait_for_selector("#example .main-svg")


def test_a_pasted_text_is_trained_and_tried_and_goes_with_its_folder(page: Any, server: Served):
    """A counted model: its training takes no time."""
    page.goto("/#train?way=paste&kind=ngram&name=counted")
    page.get_by_role("textbox", name="The text").fill(book())
    page.get_by_role("button", name="Start training").click()
    finished = card(page, "counted", "finished")
    assert finished.locator("progress").evaluate("bar => bar.value") == 1
    for button in ("Pause", "Resume"):
        assert finished.get_by_role("button", name=button).is_hidden()
    finished.get_by_role("button", name="Try it in the keyboard").click()
    page.wait_for_selector('[data-model="runs:counted"] .bar')
    shutil.rmtree(server.runs / "counted")
    page.goto("/#train")
    page.wait_for_function("() => !document.querySelector('[data-job=counted]')")


@pytest.mark.wide
def test_a_pasted_text_is_trained_paused_reloaded_and_resumed(page: Any, server: Served):
    page.goto("/#train")
    page.get_by_label("Paste a text").check()
    page.get_by_role("textbox", name="The text").fill(book())
    page.get_by_text("More choices").click()
    page.get_by_role("spinbutton", name="Minutes at most", include_hidden=True).fill("0.15")
    page.get_by_role("spinbutton", name="Hidden units", include_hidden=True).fill("8")
    page.get_by_role("textbox", name="Name").fill("from the page")
    page.get_by_role("button", name="Start training").click()
    running = card(page, "from-the-page", "running")
    assert not page.locator("#example").is_visible()
    running.locator(".main-svg").first.wait_for()
    page.wait_for_function(GROWN)
    running.get_by_role("button", name="Pause").click()
    paused = card(page, "from-the-page", "paused")
    (job,) = (job for job in server.studio.jobs.all() if job.name == "from-the-page")
    assert 0 < job.share < 1

    page.reload()
    paused = card(page, "from-the-page", "paused")
    assert paused.locator("progress").evaluate("bar => bar.value") == pytest.approx(job.share)
    open_curve(paused)
    page.wait_for_function(
        "() => document.querySelector('[data-job=from-the-page] [role=img]')?.numbers[0].y.length >= 2"
    )
    shown = page.locator("[data-job=from-the-page] [role=img]").evaluate("chart => chart.numbers")
    curve = server.studio.jobs.curve("from-the-page")
    assert (shown[0]["x"], shown[0]["y"]) == (curve.step, curve.loss)
    assert (shown[1]["x"], shown[1]["y"]) == (curve.valid_step, curve.valid_loss)
    assert curve.valid_step[0] <= 20  # somebody watches: the first validation does not wait for the end of the text
    paused.get_by_role("button", name="Resume").click()
    card(page, "from-the-page", "running")
    finished = card(page, "from-the-page", "finished")
    assert finished.locator("progress").evaluate("bar => bar.value") == 1
    assert finished.get_by_role("button", name="Resume").is_hidden()


@pytest.mark.wide
def test_a_failure_is_shown_as_a_sentence(page: Any, server: Served):
    page.goto("/#train?way=paste")
    start = page.get_by_role("button", name="Start training")
    start.click()
    page.wait_for_selector("form .error:not(:empty)")
    assert page.locator("form .error").text_content().startswith("the text is empty; expected some sentences")
    page.get_by_role("textbox", name="The text").fill("<b>too</b> few words")
    start.click()
    failed = card(page, "text-lstm", "failed")
    assert "too little to hold out some for validation" in failed.locator(".error").text_content()
    assert page.locator("form .error").text_content() == ""
    assert page.locator("main b").count() == 0
    assert failed.get_by_role("button", name="Resume").is_hidden()


def test_what_the_form_says_is_what_is_asked_and_a_link_says_it_again(page: Any, asked: list[dict[str, Any]]):
    page.goto("/#train")
    page.get_by_label("Paste a text").check()
    page.get_by_role("textbox", name="The text").fill("one two three")
    page.get_by_role("combobox", name="Model").select_option("ngram")
    for name in ("Epochs", "Minutes at most"):
        assert page.get_by_role("spinbutton", name=name, include_hidden=True).is_hidden()
    page.get_by_role("combobox", name="Tokens").select_option("char")
    page.get_by_text("More choices").click()
    assert page.get_by_role("spinbutton", name="Hidden units", include_hidden=True).is_hidden()
    page.get_by_role("spinbutton", name="Order", include_hidden=True).fill("3")
    page.wait_for_function("() => location.hash.includes('order=3')")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.get_by_role("button", name="Start training").click()
    wait_for(lambda: len(asked) == 1)
    page.get_by_label("A built-in text").check()
    page.get_by_role("combobox", name="Model").select_option("gru")
    page.get_by_role("button", name="Start training").click()
    wait_for(lambda: len(asked) == 2)
    page.get_by_role("spinbutton", name="Epochs", include_hidden=True).fill("2.5")
    page.wait_for_function("() => location.hash.includes('epochs=2.5')")
    page.get_by_role("button", name="Start training").click()
    wait_for(lambda: len(asked) == 3)
    one, other, third = asked
    assert (one["model"], one["text"], one["source"]) == ("ngram", "one two three", None)
    assert (one["tokens"], one["options"], one["name"]) == ("char", {"order": 3}, "")
    assert (other["source"], other["text"], other["options"]) == ("agreement", None, {})
    assert third["options"] == {"epochs": 2.5}  # no minutes: how fast the machine is changes no model


@pytest.mark.wide
def test_files_are_read_in_the_page(page: Any, asked: list[dict[str, Any]]):
    page.goto("/#train?way=file")
    start = page.get_by_role("button", name="Start training")
    start.click()
    assert "no file was opened" in page.locator("form .error").text_content()
    chooser = page.get_by_label("A text file, 8 MB at most")
    for name, content, sentence in (
        ("photo.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF", "photo.jpg is not a text in UTF-8; expected plain text"),
        ("zeros.txt", b"abc\x00\x00", "zeros.txt holds binary data; expected plain text"),
        ("large.txt", b"a" * 8_000_001, "large.txt has 8.0 MB; expected at most 8 MB; try a part of it"),
    ):
        chooser.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
        page.wait_for_function("name => document.querySelector('form .error').textContent.startsWith(name)", arg=name)
        assert page.locator("form .error").text_content().startswith(sentence)
    for name, content in (("my book.txt", "naïve 😀\n".encode()), ("wide.txt", "naïve 😀\n".encode("utf-16"))):
        chooser.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
        page.wait_for_function("name => document.querySelector('#hint').textContent.startsWith(`${name}: `)", arg=name)
        start.click()
        wait_for(lambda: asked)
        found = asked.pop()
        assert found["text"] == "naïve 😀\n"
        assert found["name"] == f"{name.removesuffix('.txt')}-lstm"


@pytest.mark.wide
def test_a_megabyte_is_pasted(browser: Any, server: Served, asked: list[dict[str, Any]]):
    with visiting(browser, server.address, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto("/#train?way=paste&text=before+after")
        page.evaluate("text => navigator.clipboard.writeText(text)", MEGABYTE)
        area = page.get_by_role("textbox", name="The text")
        area.evaluate("area => { area.focus(); area.setSelectionRange(7, 7); }")
        page.keyboard.press("Control+V")
        page.wait_for_function("least => document.querySelector('textarea').value.length > least", arg=len(MEGABYTE))
        page.get_by_role("button", name="Start training").click()
        wait_for(lambda: asked)
        assert asked[0]["text"] == f"before {MEGABYTE}after"
        area.evaluate("(area, times) => { area.style.display = 'none'; area.value = 'é'.repeat(times); }", 4_000_001)
        page.get_by_role("button", name="Start training").click()
        page.wait_for_selector("form .error:not(:empty)")
        sentence = "the text has 8.0 MB; expected at most 8 MB; try a part of it"
        assert page.locator("form .error").text_content() == sentence


@pytest.mark.wide
def test_a_run_left_unfinished_is_listed_in_every_tab(browser: Any, server: Served, left: Path):
    with visiting(browser, server.address) as one, visiting(browser, server.address) as other:
        for tab in (one, other):
            tab.goto("/#train")
            found = card(tab, "left.over", "paused")
            assert found.get_by_role("button", name="Resume").is_enabled()
            found.get_by_role("button", name="Try it in the generator").wait_for()
        shutil.rmtree(left)
        for tab in (one, other):
            tab.wait_for_function("() => !document.querySelector('[data-job=\"left.over\"]')")
