"""Any panel with a model writes it as a page; text, headline and hints follow a model of one's own text."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import Served

import thereafter
from thereafter.export.html.target import read_page
from waiting import wait_for

LINES = ("the king of france had four cats", "the king of france had ten dogs", "a queen of spain rode home by night")
NOVEL = "".join(f"{line}\n" * 9 for line in LINES)


@pytest.fixture(scope="module")
def novel(server: Served) -> Iterator[str]:
    """A network of the user's own text; its file lies beside the runs."""
    book = server.runs / "texts" / "novel.txt"
    book.parent.mkdir(parents=True, exist_ok=True)
    book.write_text(NOVEL, encoding="utf-8")
    options: dict[str, Any] = {"tokens": "word", "hidden": 8, "tokens_budget": 3000, "seed": 0}
    thereafter.train(book, model="lstm", out=server.runs / "novel", **options)
    yield "runs:novel"
    shutil.rmtree(server.runs / "novel")


@pytest.mark.wide
def test_a_page_is_written_while_others_ask_the_same_model(server: Served, novel: str):
    answers: list[httpx.Response] = []

    def ask(path: str, **asked: Any) -> httpx.Response:
        return httpx.post(f"{server.address}/api/{path}", json=asked, timeout=120)

    thread = threading.Thread(target=lambda: answers.append(ask("export", model=novel)))
    thread.start()
    try:
        wait_for(lambda: httpx.get(f"{server.address}/api/export/progress").json()["model"] == novel)
        assert ask("next", models=[novel], prompt="the king of").status_code == 200
        assert not answers, "the export was over before the other request was answered"
    finally:
        thread.join()
    assert answers[0].headers["content-disposition"] == 'attachment; filename="model.html"'
    about, _ = read_page(answers[0].text)
    assert NOVEL.count(about["prompt"]) >= 9
    assert about["from"] == "the training text, novel.txt (train)"
    assert httpx.get(f"{server.address}/api/export/progress").json() == {"model": "", "task": "", "share": None}


@pytest.mark.parametrize("model", ["runs:../novel", "runs:..", "runs:/etc", "ready:tasks", "runs:nothing"])
def test_only_a_name_of_the_list_is_exported(server: Served, novel: str, model: str):
    answer = httpx.post(f"{server.address}/api/export", json={"model": model})
    assert answer.status_code in (404, 422)
    assert answer.json()["error"]


def test_the_button_saves_a_page_and_says_why_one_cannot_be_written(page: Any, server: Served, tmp_path: Path):
    thereafter.train(text=NOVEL, tokens="unigram", order=2, out=server.runs / "pieces")  # its tokens have no page
    try:
        page.goto("/#keyboard?models=ready:ngram,runs:pieces&text=the")
        page.get_by_label("Which to export").select_option(label="ngram")
        with page.expect_download() as download:
            page.get_by_role("button", name="Export as a page").click()
        download.value.save_as(tmp_path / "ngram.html")
        about, _ = read_page((tmp_path / "ngram.html").read_text(encoding="utf-8"))
        assert about["caption"]
        page.wait_for_selector("#export >> text=ngram.html is checked and saved")
        page.get_by_label("Which to export").select_option(label="pieces")
        page.get_by_role("button", name="Export as a page").click()
        page.wait_for_selector("#export .refused:has-text('unigram')")
    finally:
        shutil.rmtree(server.runs / "pieces")


@pytest.mark.parametrize(
    "panel",
    [
        "keyboard",
        *(
            pytest.param(name, marks=pytest.mark.wide)
            for name in ("recurrence", "gates", "generator", "surprisal", "backprop")
        ),
    ],
)
def test_texts_headline_and_hints_follow_the_model(page: Any, novel: str, panel: str):
    page.goto(f"/#{panel}")
    box = page.locator(".place textarea").first
    page.wait_for_selector("#export:not([hidden])")
    headline = page.locator(".see").inner_text()
    page.goto(f"/#{panel}?{'models' if panel == 'keyboard' else 'model'}={novel}")
    page.wait_for_function("() => !document.querySelector('.place textarea').value.match(/teacher|hamster|def/)")
    assert NOVEL.count(box.input_value()) >= 9
    assert page.locator("[role=group][aria-label=Try] button, [role=group][aria-label=Sentences] button").count() >= 2
    if panel != "generator":
        assert page.locator(".see").inner_text() != headline or panel == "surprisal"
        spoken = page.locator(".top").inner_text() + page.locator(".about").inner_text()
        assert not {"subject", "verb", "singular", "“are”"} & set(spoken.replace("'", " ").split())
    page.goto(f"/#{panel}?{'models' if panel == 'keyboard' else 'model'}={novel}&text=a+queen")
    page.wait_for_selector("[role=group] button:has-text('king')")
    assert box.input_value() == "a queen"  # a link shows the same again
    assert page.locator("#export button").is_enabled()


def test_a_panel_of_tasks_has_no_button(page: Any):
    page.goto("/#tagging")
    page.wait_for_selector(".tagged")
    assert not page.locator("#export").is_visible()
