"""What visitors, networks and disks do to a studio: nothing breaks, nothing hangs."""

from __future__ import annotations

import json
import shutil
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from serving_studio import Served, served
from visits import settle, visiting
from websockets.sync.client import connect

import thereafter
from thereafter.ready import models as ready
from thereafter.serving.shelf import Shelf
from thereafter.studio.studio import Studio
from waiting import wait_for

SENTENCE = "the nurse near the farmers "


def bars(page: Any, model: str) -> list[str]:
    return page.locator(f'[data-model="{model}"] .bar').evaluate_all("bars => bars.map(bar => bar.dataset.word)")


def wait_for_bars(page: Any, model: str, words: list[str]) -> None:
    page.wait_for_function(
        "([model, words]) => JSON.stringify([...document.querySelectorAll(`[data-model='${model}'] .bar`)]"
        ".map(bar => bar.dataset.word)) === JSON.stringify(words)",
        arg=[model, words],
    )


@cache
def ready_model(place: Path) -> Any:
    """A ready model by its folder, which nobody changes."""
    return thereafter.load(place)


def expected(server: Served, model: str, prompt: str) -> list[str]:
    return [word for word, _ in ready_model(server.studio.shelf.place(model)).next(prompt, 8)]


@contextmanager
def extra_run(server: Served, ready_folder: Path, name: str) -> Iterator[Path]:
    """A run in the folder of the user for a while."""
    run = server.runs / name
    shutil.copytree(ready_folder / "ngram", run)
    try:
        yield run
    finally:
        shutil.rmtree(run, ignore_errors=True)
        wait_for(lambda: f"runs:{name}" not in server.studio.snapshot().models)


def test_two_tabs_at_once(browser: Any, server: Served):
    texts = ["the nurses", "the teacher behind the doctors"]
    with visiting(browser, server.address) as one, visiting(browser, server.address) as other:
        tabs = [one, other]
        for tab in tabs:
            tab.goto("/#keyboard?models=ready:lstm")
        for tab, text in zip(tabs, texts, strict=True):
            tab.get_by_label("The sentence so far").fill(text)
        for tab, text in zip(tabs, texts, strict=True):
            wait_for_bars(tab, "ready:lstm", expected(server, "ready:lstm", text))
            assert tab.get_by_label("The sentence so far").input_value() == text


def test_a_new_run_appears_in_every_tab(browser: Any, server: Served, ready_folder: Path):
    with visiting(browser, server.address) as one, visiting(browser, server.address) as other:
        for tab in (one, other):
            tab.goto("/#keyboard")
            tab.wait_for_selector(".bar")
        with extra_run(server, ready_folder, "newcomer"):
            for tab in (one, other):
                tab.get_by_role("checkbox", name="newcomer").wait_for()
        for tab in (one, other):
            tab.get_by_role("checkbox", name="newcomer").wait_for(state="detached")


@pytest.mark.wide
def test_a_click_is_not_lost_when_the_models_change_while_the_button_is_down(
    page: Any, server: Served, ready_folder: Path
):
    page.goto("/#keyboard?text=the&models=ready:lstm")
    bar = page.locator('[data-model="ready:lstm"] .bar').first
    word = bar.get_attribute("data-word")
    settle(page)
    bar.hover()
    page.mouse.down()
    with page.expect_response("**/api/next"), extra_run(server, ready_folder, "meanwhile"):
        page.get_by_role("checkbox", name="meanwhile").wait_for()
    settle(page)
    bar.hover()  # more names may have moved it
    page.mouse.up()
    page.wait_for_function("text => document.querySelector('textarea').value === text", arg=f"the {word}")


def test_a_model_deleted_meanwhile_gets_a_sentence_and_the_page_goes_on(page: Any, server: Served, ready_folder: Path):
    with extra_run(server, ready_folder, "doomed") as run:
        page.goto("/#keyboard?text=the&models=runs:doomed,ready:lstm")
        page.wait_for_selector('[data-model="runs:doomed"] .bar')
        bar = page.locator('[data-model="runs:doomed"] .bar').first.element_handle()
        shutil.rmtree(run)
        bar.evaluate("bar => bar.click()")  # whether the page has heard of it yet or not
        page.wait_for_function("() => document.querySelector('textarea').value !== 'the'")
        page.wait_for_selector(".error:has-text('pick one of the list'), .place:not(:has([data-model='runs:doomed']))")
        page.get_by_role("checkbox", name="doomed").wait_for(state="detached")
        page.get_by_label("The sentence so far").fill("the nurses")
        wait_for_bars(page, "ready:lstm", expected(server, "ready:lstm", "the nurses"))
        assert page.locator(".error").first.text_content() == ""
    asked = {"models": ["runs:doomed"], "prompt": "the"}
    answer = httpx.post(f"{server.address}/api/next", json=asked)
    assert answer.status_code == 404
    assert "'runs:doomed' (any more); pick one of the list" in answer.json()["error"]


def test_a_model_replaced_meanwhile_is_read_anew(ready_folder: Path, tmp_path: Path):
    shelf = Shelf(ready_folder, tmp_path)
    shutil.copytree(ready_folder / "ngram", tmp_path / "run")
    with shelf.borrow("runs:run") as lm:
        first = lm.next("the", 3)
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(ready_folder / "lstm", tmp_path / "run")
    with shelf.borrow("runs:run") as lm:
        assert lm.next("the", 3) == thereafter.load(ready_folder / "lstm").next("the", 3) != first


@pytest.mark.wide
def test_a_paste_of_a_megabyte(page: Any, server: Served):
    """What the models read of it is its end; the address stays short; the page stays quick."""
    text = (SENTENCE * 40_000)[: 1 << 20] + "🙂 the nurses"
    page.goto("/#keyboard?text=the&models=ready:ngram,ready:lstm")
    page.wait_for_selector('[data-model="ready:lstm"] .bar')
    seconds: list[float] = []
    for typed, read in (("the farmers", "the farmers"), (text, text[-19_999:])):
        bars = expected(server, "ready:lstm", read)
        began = time.monotonic()
        page.get_by_label("The sentence so far").fill(typed)
        wait_for_bars(page, "ready:lstm", bars)
        seconds.append(time.monotonic() - began)
    page.get_by_text("The models read the last 20,000 characters").wait_for()
    assert seconds[1] < max(10, 20 * seconds[0])  # two words are slow, too, on a machine that is busy
    assert page.evaluate("location.href.length") < 20_000
    assert page.locator(".error").first.text_content() == ""
    page.get_by_label("The sentence so far").fill("the nurses")
    wait_for_bars(page, "ready:lstm", expected(server, "ready:lstm", "the nurses"))


@pytest.mark.parametrize(
    "text",
    [
        "the nurse 👩🏽‍🚀 near the",
        *(
            pytest.param(text, marks=pytest.mark.wide)
            for text in ("😀", "\u0000", "ﷺ" * 50, "e\u0301" * 100, "\u202eabc")
        ),
    ],
)
def test_an_emoji_and_other_odd_prompts(page: Any, server: Served, text: str):
    page.goto("/#keyboard?text=the&models=ready:lstm,ready:letters")
    page.wait_for_selector('[data-model="ready:letters"] .bar')
    page.get_by_label("The sentence so far").fill(text)
    shown = page.get_by_label("The sentence so far").input_value()
    wait_for_bars(page, "ready:letters", expected(server, "ready:letters", shown))
    wait_for_bars(page, "ready:lstm", expected(server, "ready:lstm", shown))
    page.reload()
    wait_for_bars(page, "ready:lstm", expected(server, "ready:lstm", shown))
    assert page.get_by_label("The sentence so far").input_value() == shown


@pytest.mark.wide
def test_half_of_a_character_in_the_text_is_no_fault(page: Any):
    page.goto("/#keyboard?text=the&models=ready:lstm")
    page.wait_for_selector('[data-model="ready:lstm"] .bar')
    page.get_by_label("The sentence so far").evaluate(
        "box => { box.value = 'the \\ud83d'; box.dispatchEvent(new Event('input')); }"
    )
    page.wait_for_selector(".error:has-text('unicode')")
    page.get_by_label("The sentence so far").fill("the")
    page.wait_for_function("() => document.querySelector('.error').textContent === ''")


@pytest.mark.wide
def test_fifty_requests_at_once_are_answered_and_the_page_is_never_held_up(server: Served):
    models = ["ready:ngram", "ready:rnn", "ready:lstm", "ready:transformer"]
    prompts = [f"{SENTENCE * 40}{'the nurses ' * (number % 5)}" for number in range(50)]
    waits: list[float] = []
    over = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=server.address, timeout=30) as visitor:
            while not over.is_set():
                began = time.monotonic()
                paths = ("/api/status", "/page/main.js", "/api/models")
                assert visitor.get(paths[len(waits) % 3]).status_code == 200
                waits.append(time.monotonic() - began)
                time.sleep(0.01)

    def ask(prompt: str) -> Any:
        return crowd.post("/api/next", json={"models": models, "prompt": prompt}).raise_for_status().json()

    watcher = threading.Thread(target=look)
    limits = httpx.Limits(max_connections=50)
    with ThreadPoolExecutor(50) as pool, httpx.Client(base_url=server.address, timeout=60, limits=limits) as crowd:
        watcher.start()
        began = time.monotonic()
        answers = list(pool.map(ask, prompts))
        lasted = time.monotonic() - began
        over.set()
        watcher.join()
    for name in models:
        lm = ready_model(server.studio.shelf.place(name))
        for prompt, answer in zip(prompts[:5], answers[:5], strict=True):
            found = next(one for one in answer if one["model"] == name)
            want = lm.next(prompt, 8)
            assert [one["text"] for one in found["candidates"]] == [word for word, _ in want]
            assert [one["p"] for one in found["candidates"]] == pytest.approx([p for _, p in want], rel=1e-4)
    assert len(waits) >= 3
    # a page that waits for the models waits as long as they compute; on a busy machine both last longer
    assert max(waits) < max(1.0, lasted / 4), f"{lasted:.1f} s for all, median {statistics.median(waits):.3f} s"


def test_a_model_is_loaded_once_however_many_ask(ready_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from thereafter import language_model

    loaded = []
    true = language_model.load_language_model
    monkeypatch.setattr(language_model, "load_language_model", lambda path: loaded.append(path) or true(path))
    shelf = Shelf(ready_folder, tmp_path)

    def hold(_: int) -> None:
        with shelf.borrow("ready:ngram") as lm:
            lm.next("the", 1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, range(16)))
    assert len(loaded) == 1


def damage(folder: Path, ready: Path) -> list[str]:
    """Folders as a full disk, a killed copy or a stranger may leave them."""

    def run(name: str, **files: bytes) -> str:
        shutil.copytree(ready / "ngram", folder / name)
        for file, content in files.items():
            next((folder / name).glob(f"{file}.*")).write_bytes(content)
        return name

    (folder / "a file").write_bytes(b"x")
    (folder / "empty").mkdir()
    os_name = b"caf\xe9"  # not UTF-8
    shutil.copytree(ready / "ngram", Path(bytes(folder).decode()) / os_name.decode("utf-8", "surrogateescape"))
    return [
        run("config garbage", config=b"\xff\x00garbage"),
        run("config empty", config=b""),
        run("config other", config=b"model = 5\nngram = 7\n[text]\ntokens = 1\n[source]\nname = []\n"),
        run("config list", config=b'model = "ngram"\nngram = [1]\ntext = "x"\nsource = 1\n'),
        run("weights garbage", weights=b"\xff" * 1000),
        run("weights empty", weights=b""),
        run("tokenizer garbage", tokenizer=b"{]"),
        run("tokenizer other", tokenizer=b'{"vocabulary": 5}'),
    ]


def test_broken_run_folders_do_not_break_the_list(ready_folder: Path, tmp_path: Path, browser: Any):
    runs = tmp_path / "runs"
    runs.mkdir()
    broken = damage(runs, ready_folder)
    shutil.copytree(ready_folder / "ngram", runs / "log garbage")
    (runs / "log garbage" / "log.jsonl").write_bytes(b"{]\n")  # what happened in training is not needed to predict
    shutil.copytree(ready_folder / "ngram", runs / "good")
    for server in served(Studio(runs, ready_folder)):
        names = [model["name"] for model in httpx.get(f"{server.address}/api/models").json()]
        assert {"runs:good", "ready:lstm"} <= set(names)
        for name in broken:
            answer = httpx.post(f"{server.address}/api/next", json={"models": [f"runs:{name}"], "prompt": "the"})
            assert answer.status_code == 400, name
            assert answer.json()["error"], name
        answer = httpx.post(f"{server.address}/api/next", json={"models": ["runs:log garbage"], "prompt": "the"})
        assert answer.status_code == 200
        with visiting(browser, server.address) as tab:
            tab.goto("/#keyboard?text=the&models=runs:good")
            wait_for_bars(tab, "runs:good", expected(server, "ready:ngram", "the"))
            if "runs:weights garbage" in names:
                tab.get_by_role("checkbox", name="weights garbage").check()
                tab.wait_for_selector(".error:has-text('weights')")
                tab.get_by_role("checkbox", name="weights garbage").uncheck()
                tab.wait_for_function("() => document.querySelector('.error').textContent === ''")


def test_a_socket_that_is_cut_off_or_talks_nonsense_harms_nobody(server: Served):
    address = server.address.replace("http", "ws") + "/api/events"
    before = threading.active_count()
    for say in (None, "hello", b"\xff\x00", "{") * 5:
        with connect(address) as line:
            line.recv()
            if say is not None:
                line.send(say)
            line.socket.shutdown(socket.SHUT_RDWR)  # no good-bye
    with connect(address) as line:
        assert json.loads(line.recv())["models"]
    wait_for(lambda: threading.active_count() <= before + 40)
    assert httpx.get(f"{server.address}/api/status").status_code == 200


def test_the_page_finds_a_studio_that_was_started_again(browser: Any, ready_folder: Path, tmp_path: Path):
    first = served(Studio(tmp_path, ready_folder))
    server = next(first)
    port = int(server.address.rpartition(":")[2])
    with browser.new_context(base_url=server.address) as context:
        tab = context.new_page()
        tab.set_default_timeout(180_000)
        tab.goto("/#keyboard?text=the&models=ready:lstm")
        tab.wait_for_selector('[data-model="ready:lstm"] .bar')
        first.close()
        tab.wait_for_selector("#status:has-text('does not answer')")
        tab.get_by_label("The sentence so far").fill("the nurses")
        tab.wait_for_selector(".error:has-text('does not answer')")
        for again in served(Studio(tmp_path, ready_folder), port=port):
            tab.wait_for_function("() => document.querySelector('#status').textContent === ''")
            wait_for_bars(tab, "ready:lstm", expected(again, "ready:lstm", "the nurses"))
            assert tab.locator(".error").first.text_content() == ""


class Quiet:
    """Stands in for the process that trains."""

    started: ClassVar[list[Quiet]] = []

    def __init__(self, order: dict[str, Any], hear: Any, ended: Any) -> None:
        self.ended = ended
        Quiet.started.append(self)


@pytest.mark.parametrize("finished", [True, False])
def test_of_two_studios_one_trains_the_ready_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool):
    """The other waits for them, or takes over where the first was ended."""
    missing = [ready.READY[0]]
    monkeypatch.setattr(ready, "missing", lambda folder: list(missing))
    monkeypatch.setattr("thereafter.studio.queue.Child", Quiet)
    monkeypatch.setattr(Quiet, "started", [])
    one, other = (Studio(tmp_path / "runs", tmp_path / "ready") for _ in range(2))
    one.start()
    wait_for(lambda: Quiet.started)
    other.start()
    wait_for(lambda: "another studio" in other.stage.note)
    assert len(Quiet.started) == 1
    if finished:
        missing.clear()
    Quiet.started[0].ended(0 if finished else 130)
    if finished:
        wait_for(lambda: other.stage.note == "")
        assert len(Quiet.started) == 1
    else:
        wait_for(lambda: other.stage.making == "ngram")
        assert len(Quiet.started) == 2
        Quiet.started[1].ended(0)
