"""Texts are shown and never run; nothing is fetched from elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

from serving_studio import Served
from visits import visiting

from waiting import wait_for

NAMES = ("text", "model", "models", "beside", "unit", "property", "of", "name", "corpus", "state", "part", "seed")
"""Of values in an address."""
MARKUP = "<img src=x onerror=\"document.title='run'; alert('run')\"><script>alert('run')</script>"


def test_markup_is_shown_as_text_and_never_run(browser: Any, server: Served, ready_folder: Path):
    name = "<img src=x onerror=alert(1)>"
    run = server.runs / name
    shutil.copytree(ready_folder / "ngram", run)
    dialogs: list[str] = []
    try:
        with visiting(browser, server.address, fresh=True) as tab:
            tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
            tab.goto("/#keyboard?text=the+nurse")
            tab.get_by_label(name).check()
            tab.wait_for_selector(".card h3:text('onerror')")
            tab.get_by_label("The sentence so far").fill(MARKUP)
            tab.wait_for_function("() => location.hash.includes('script')")
            link = tab.url
            tab.goto("about:blank")
            tab.goto(link)
            tab.wait_for_selector(".card h3:text('onerror')")
            assert tab.get_by_label("The sentence so far").input_value() == MARKUP
            assert tab.locator("main img, main script").count() == 0
            tab.goto(f"/#keyboard?models={MARKUP}")
            tab.goto(f"/#{MARKUP}")
            tab.wait_for_selector("main h2")
            assert tab.locator("main img, main script").count() == 0
            assert "run" not in tab.title()
    finally:
        shutil.rmtree(run)
        wait_for(lambda: all(name not in model for model in server.studio.snapshot().models))
    assert not dialogs


def test_a_chart_shows_markup_in_a_name_as_text(browser: Any, server: Served, ready_folder: Path):
    """Plotly makes elements of tags, and characters of entities: in the legend, at the pointer, on the axes."""
    name = "<b>x<a href=javascript:alert(1)>y &lt;i&gt;z &amp; <br>"
    run = server.runs / name
    shutil.copytree(ready_folder / "gru", run)
    try:
        with visiting(browser, server.address) as tab:
            tab.goto(f"/#compare?of=curves&models={quote(f'runs:{name}')},ready:lstm")
            legend = tab.locator("#learning .legendtext", has_text="href")
            legend.wait_for()
            assert legend.text_content().replace("\u200b", "") == name
            made = "#learning svg :is(a, tspan[style*=bold], tspan.line)"
            assert tab.locator(made).count() == 0
            tab.locator("#learning").scroll_into_view_if_needed()
            # the first point: there the two curves lie far apart
            point = tab.locator("#learning .scatterlayer .trace").first.locator(".point").first.bounding_box()
            tab.mouse.move(point["x"] + 30, point["y"] + 5)
            tab.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2, steps=5)
            label = tab.locator("#learning .hoverlayer .hovertext .name")
            label.wait_for()
            assert "y &lt;" in label.text_content().replace("\u200b", "")  # what is cut short loses its tags
            assert tab.locator(made).count() == 0
            drawn = tab.evaluate(
                """async markup => {
                  const { chart } = await import("/page/parts/chart.js");
                  const place = document.createElement("div");
                  place.id = "probe";
                  document.querySelector("main").append(place);
                  await chart(place, [{ type: "bar", name: markup, x: [markup, "b"], y: [1, 2], text: [markup, "b"] }],
                    { x: markup, y: markup, layout: { annotations: [{ x: 1, y: 1, text: markup }] } });
                  return [...place.querySelectorAll("svg text")].map((one) => one.textContent.replaceAll("\u200b", ""));
                }""",
                name,
            )
            assert drawn.count(name) >= 5  # both titles, the tick, the text of the bar, the annotation
            assert tab.locator(made.replace("learning", "probe")).count() == 0
    finally:
        shutil.rmtree(run)
        wait_for(lambda: all(name not in model for model in server.studio.snapshot().models))
