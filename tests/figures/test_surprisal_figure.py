"""The text in the colours of its surprisal: every word stands in it once, as strong as its bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import FormatError, OptionError
from thereafter.figures import surprisal
from thereafter.figures.catalogue import draw
from thereafter.inspection.measurement import Measurement

TEXT = "the cat sat on the <mat>\n\nthe zebra ate " + "and ate " * 30


@pytest.fixture(scope="module")
def measured() -> Measurement:
    book = "the cat sat on the mat\nthe dog ate and ate\n" * 5
    models = [thereafter.train(text=book, tokens=tokens, order=2) for tokens in ("prose", "char")]
    return thereafter.surprisal(models, text=TEXT, detail=True, names=["words", "letters"]).measurement()


def test_every_word_is_in_the_picture_with_its_bits(measured: Measurement):
    drawn = surprisal.coloured_words(measured)
    heat = drawn.plot.data[0]
    letters, values = np.asarray(heat["text"]), np.asarray(heat["z"], dtype=float)
    assert "".join(letters.ravel().tolist()) == ("".join(TEXT.split(" ")).replace("\n", "¬")) * 2
    first = values[2][:3]
    assert first == pytest.approx(np.minimum(measured["bits"][0, 0], heat["zmax"]))
    assert np.isnan(values[2][3])  # the space between words
    assert "under words and letters" in drawn.caption
    words = len(TEXT.split())
    assert f"all {words} words" in drawn.caption  # line ends are none
    assert f"words {measured['bits'][0].sum() / words:.2f}, letters {measured['bits'][1].sum() / words:.2f} bits" in (
        drawn.caption
    )
    assert drawn.table["bits letters"] == pytest.approx(measured["bits"][1].round(6))


def test_what_does_not_fit_is_counted(measured: Measurement):
    caption = surprisal.coloured_words(measured, lines=2).caption
    assert f"the first 6 of {len(TEXT.split())} words" in caption


def test_long_words_go_on_and_lines_are_no_longer_than_the_picture():
    placed = surprisal.lay_out(["x" * 200, "y" * 79, "z"])
    assert [(one.line, len(one.text)) for one in placed] == [(0, 80), (1, 80), (2, 40), (3, 79), (4, 1)]
    assert all(one.column + len(one.text) <= surprisal.WIDTH for one in placed)


def test_the_measurement_draws_itself(measured: Measurement):
    assert measured.figure().name == "surprisal"


def test_a_saved_trace_is_drawn_by_its_surprisal(tmp_path: Path, measured: Measurement):
    trace = thereafter.train(text="the cat sat\n" * 4, tokens="word", order=2).trace("the cat")
    path = trace.save(tmp_path / "trace.npz")
    (drawn,) = draw("surprisal", [path])
    assert drawn.to_rows() == trace.figure("surprisal").to_rows()
    with assert_refused(OptionError, "trace.npz", "pairs", "gates", "surprisal"):
        draw("pairs", [path])
    with assert_refused(OptionError, "surprisal", "gates", "trace"):
        draw("gates", [measured.save(tmp_path / "bits.npz")])
    (tmp_path / "half.npz").write_bytes(path.read_bytes()[:200])
    for name in ("surprisal", "gates"):
        with assert_refused(FormatError):
            draw(name, [tmp_path / "half.npz"])
