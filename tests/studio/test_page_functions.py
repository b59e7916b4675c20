"""Functions of the page that need no panel: numbers as a person reads them, a position that is played, files as texts.

They run in one page of a real browser, which has the modules.
"""

from __future__ import annotations

from typing import Any

import pytest

PARTS = ("ladder", "numbers", "playback", "reading")


@pytest.fixture
def functions(page: Any) -> Any:
    """A page at which `window.parts` holds what the modules export."""
    page.goto("/#keyboard?models=ready:ngram&text=the")
    page.wait_for_selector(".bar")
    page.evaluate(
        """async (names) => {
          window.parts = {};
          for (const name of names) Object.assign(window.parts, await import(`/page/parts/${name}.js`));
        }""",
        PARTS,
    )
    return page


def test_numbers_are_written_as_a_person_reads_them(functions: Any):
    wanted: dict[str, list[Any]] = functions.evaluate(
        """() => {
          const { short, percent, exponentOf, another, fixed, LADDER } = window.parts;
          const column = (key, row) => LADDER.find((one) => one.key === key).show(row);
          return {
            short: [0, 0.0123, -0.5, 999.6, 13780.6, 1.234e-7, 2e9, null].map((one) => short(one)),
            percent: [0.97234, 0.00004, 1, null].map(percent),
            exponents: [12, -7].map(exponentOf),
            another: Array.from({ length: 60 }, () => another(3, 4)).filter((one) => one === 3 || one > 4),
            alone: [another(0, 0)],
            fixed: [1.23456, Infinity, null].map((one) => fixed(one, 2)),
            amounts: [7, 12345, 999960, 1.5e9].map((parameters) => column("parameters", { parameters })),
            spread: [column("perplexity", { perplexity: 9.876, perplexity_spread: 0.124 })],
          };
        }"""
    )
    assert wanted == {
        "short": ["0", "0.0123", "-0.5", "1000", "13,781", "1.23·10⁻⁷", "2·10⁹", "–"],
        "percent": ["97.2 %", "0.004 %", "100 %", "–"],
        "exponents": ["¹²", "⁻⁷"],
        "another": [],
        "alone": [0],
        "fixed": ["1.23", "–", "–"],
        "amounts": ["7", "12.3k", "1M", "1.5G"],
        "spread": ["9.88 ±0.12"],
    }


PLAYED = """async () => {
  const places = [];
  const position = window.parts.playback({ total: () => 3, pace: () => 5, moved: () => places.push(position.at) });
  position.play(0, 3);
  await new Promise((done) => setTimeout(done, 300));
  const played = places.splice(0);
  position.stepBy(-2);
  position.stepBy(9);
  position.toggle();
  const again = position.playing;
  position.toggle();
  return { played, stepped: places.slice(0, 2), again, stopped: !position.playing };
}"""


def test_a_position_is_played_step_by_step_or_at_once_where_nothing_may_move(functions: Any):
    expected = {"played": [0, 1, 2, 3], "stepped": [1, 3], "again": True, "stopped": True}
    assert functions.evaluate(PLAYED) == expected
    functions.emulate_media(reduced_motion="reduce")
    assert functions.evaluate(PLAYED) == expected | {"played": [3], "again": False}


def test_files_become_texts_or_say_what_is_wrong(functions: Any):
    read = """async ([name, bytes, times]) => {
      const content = new Uint8Array(bytes);
      try {
        return await window.parts.readText(new File(Array(times).fill(content), name));
      } catch (error) {
        return error.message;
      }
    }"""
    for text in ("naïve 😀\n".encode(), "naïve 😀\n".encode("utf-16"), b"\xfe\xff" + "naïve 😀\n".encode("utf-16-be")):
        assert functions.evaluate(read, ["book.txt", list(text), 1]).removeprefix("\ufeff") == "naïve 😀\n"
    damaged = ((b"\xff\xd8\xff\xe0", 1, "UTF-8"), (b"a\x00", 1, "binary"), (b"a" * 8001, 1000, "8 MB"))
    for content, times, fact in damaged:
        assert fact in functions.evaluate(read, ["a.txt", list(content), times])
