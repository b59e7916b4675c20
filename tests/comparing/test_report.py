"""The page and the sentences of a comparison: made from the figures, whole, and of nothing but itself."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from thereafter.comparing.compare import Comparison
from thereafter.comparing.differences import MeanSpread
from thereafter.comparing.report import Axis, ChartLine, chart
from thereafter.comparing.rows import Row, Trial
from thereafter.comparing.tables import advice, amount, figure

ABOUT: dict[str, Any] = {
    "source": "<book>", "detail": "1 file", "sha256": "ab", "budget": {"minutes": 2.0}, "match": None, "options": {},
    "bytes": {"train": 90, "valid": 5, "test": 5}, "seeds": [0, 1], "command": "thereafter compare '<book>'",
    "date": "2020-02-02", "machine": "a machine", "versions": {"python": "3"},
}  # fmt: skip
FAR, NEAR = range(20, 41), range(20)


def trial(name: str, bits: float, *, seed: int | None = 0, seconds: float = 60.0, **more: Any) -> Trial:
    curve = [] if seed is None else [[10.0 * k, 1000.0 * k, bits + 1 / k] for k in range(1, 7)]
    known: dict[str, Any] = {
        "model": "ngram" if seed is None else name, "tokens": "word", "seed": seed, "bits_per_byte": bits,
        "perplexity": math.exp(bits), "validation": bits, "parameters": 1000, "tokens_per_second": 1e4,
        "latency": 1e-3, "size": 1000, "seconds": seconds, "seen": 6000, "score": {}, "settings": {"hidden": 8},
        "training": {"rate": 0.1}, "run": name, "prompt": "<b>", "sample": " & <i>", "curve": curve,
    }  # fmt: skip
    return Trial(name=name, **{**known, **more})


def judged(near: float, far: float, probe: str = "agreement") -> dict[str, Any]:
    distance = {str(words): [100 * (far if words in FAR else near), 100] for words in (*NEAR, *FAR)}
    return {probe: {"distance": distance, "attractors": {"0": [1, 2]}, "congruence": {"congruent": [1, 2]}}}


def compared(*trials: Trial) -> Comparison:
    names = dict.fromkeys(one.name for one in trials)
    rows = tuple(Row(name, tuple(one for one in trials if one.name == name)) for name in names)
    return Comparison(rows, ABOUT, ("a <note>",))


class Tags(HTMLParser):
    """All elements with their attributes, opened and closed in order."""

    empty = ("meta", "br", "line", "rect", "circle", "path", "polyline", "polygon")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.empty:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.empty:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def whole() -> Comparison:
    return compared(
        trial("unigram", 3.0, seed=None, probes=judged(0.5, 0.5)),
        trial("lstm", 1.5, seed=0, probes=judged(0.9, 0.8)),
        trial("lstm", 1.7, seed=1, probes=judged(0.9, 0.7)),
    )


def test_the_page_is_whole_and_needs_nothing(whole: Comparison):
    page = whole.html()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "i"}
    attributes = {(name, value) for _, attrs in tags.seen for name, value in attrs.items()}
    assert not {name for name, _ in attributes} & {"src", "href", "onclick", "onload"}
    assert re.findall(r"https?://\S+?(?=\")", page) == ["http://www.w3.org/2000/svg"] * 3
    assert "url(http" not in page
    assert "@import" not in page


def test_the_page_says_everything(whole: Comparison):
    tags = Tags()
    tags.feed(whole.html())
    for text in ("Language models on <book>", "thereafter compare '<book>'", "2020-02-02", "a machine", "python 3"):
        assert text in tags.text
    for text in ("0, 1", "2 minutes", "a <note>", "<b>", "& <i>", "1.6000 ±0.1414", "hidden 8", "rate 0.1"):
        assert text in tags.text
    for axis in ("seconds of training", "tokens trained on (logarithmic)", "validation bits per byte"):
        assert axis in tags.text
    for axis in ("words between subject and verb", "verbs with the right number", "chance"):
        assert axis in tags.text
    for sentence in whole.advice():
        assert sentence in tags.text


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_pictures_are_well_formed_and_show_the_spread(whole: Comparison):
    agreement, time, tokens = pictures(whole.html())
    space = "{http://www.w3.org/2000/svg}"
    for picture in (agreement, time, tokens):
        names = [text.text for text in picture.iter(f"{space}text")]
        assert {"lstm", "unigram"} <= set(names)
    bands = [one for one in agreement.iter(f"{space}polygon") if one.get("opacity")]
    assert len(bands) == 1  # the unigram has one seed
    tops = {float(point.split(",")[1]) for point in str(bands[0].get("points")).split()}
    assert len(tops) == 3  # no spread near, 7.1 % to both sides far


def test_points_lie_where_their_axes_say():
    x, y = Axis("x", 0.0, 10.0), Axis("y", 0.0, 1.0)
    svg = chart([ChartLine("one", [(0.0, 0.0), (5.0, 1.0), (10.0, 0.5)])], x, y, "a title")
    points = re.search(r'<polyline points="([^"]+)"', svg)
    assert points is not None
    (x0, y0), (x1, y1), (x2, y2) = (tuple(map(float, point.split(","))) for point in points.group(1).split())
    assert (x1 - x0, x2 - x1) == pytest.approx((x1 - x0,) * 2)
    assert y0 - y1 == pytest.approx(2 * (y0 - y2), abs=0.2)
    frame = re.search(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="none"', svg)
    assert frame is not None
    left, top, width, height = map(float, frame.groups())
    assert (x0, y1, x2 - x0, y0 - y1) == pytest.approx((left, top, width, height), abs=0.2)


def test_axes_have_round_numbers():
    assert Axis("", 0.0, 40.0).ticks() == [0, 10, 20, 30, 40]
    assert Axis("", 1.37, 2.61).ticks() == pytest.approx([1.5, 2.0, 2.5])
    assert Axis("", 900.0, 60_000.0, log=True).ticks() == [1000, 2000, 5000, 10_000, 20_000, 50_000]
    log = Axis("", 1.0, 100.0, log=True)
    assert (log.at(1), log.at(10), log.at(100)) == pytest.approx((0, 0.5, 1))
    assert Axis("", 0, 1).spell(250_000) == "250k"


def test_names_at_the_ends_do_not_cover_each_other():
    curves = [ChartLine(f"c{k}", [(0.0, 0.0), (1.0, 0.001 * k)], k) for k in range(9)]
    svg = chart(curves, Axis("", 0, 1), Axis("", 0, 1), "names")
    places = sorted(float(at) for at in re.findall(r'y="([\d.]+)" fill="#222">c', svg))
    assert len(places) == 9
    assert min(b - a for a, b in pairwise(places)) > 12
    assert max(places) < 400


def test_the_best_is_named_by_its_figures():
    first, second = trial("gru", 2.0), trial("lstm", 1.0)
    assert advice([compared(first, second)])[0] == (
        "For the best predictions of <book>, use lstm: 1.000 bits per byte, 50 % fewer than gru, the next best."
    )
    assert "use gru" in advice([compared(replace(first, bits_per_byte=0.5), second)])[0]


def test_seeds_that_overlap_are_level():
    several = [trial("gru", bits, seed=seed) for seed, bits in enumerate((1.00, 1.10))]
    several += [trial("lstm", bits, seed=seed) for seed, bits in enumerate((1.01, 1.12))]
    assert advice([compared(*several)])[0] == (
        "For the best predictions of <book>, use gru: 1.050 bits per byte; with another seed, lstm may be as good."
    )


def test_the_quick_one_is_named_with_its_price():
    quick = trial("ngram", 1.5, seed=None, seconds=0.5, latency=2e-5)
    sentence = advice([compared(quick, trial("lstm", 1.0))])[1]
    assert sentence == (
        "If training time matters, use ngram: 500 ms instead of 60.0 s, 50 % more bits. It predicts a token in 20 µs "
        "instead of 1 ms."
    )
    near = replace(quick, bits_per_byte=1.084)
    assert advice([compared(near, trial("lstm", 1.0))])[1] == (
        "If training time matters, use ngram: 500 ms instead of 60.0 s, 8.4 % more bits. It predicts a token in "
        "20 µs instead of 1 ms."
    )
    best = trial("ngram", 0.9, seed=None, seconds=0.5, latency=2e-5)
    assert advice([compared(best, trial("lstm", 1.0))])[1] == (
        "ngram is also the quickest to train: 500 ms. It predicts a token in 20 µs, fastest of the 2 models "
        "within 15 % of its bits."
    )
    swift = trial("rnn", 1.1, latency=1e-4)
    assert advice([compared(swift, trial("lstm", 1.0))])[1] == (
        "No other model trains ten times as fast as lstm (60.0 s). If the speed of predictions matters, use rnn: "
        "100 µs instead of 1 ms a token, 10 % more bits."
    )


def test_one_model_alone_is_compared_with_nothing():
    assert advice([compared(trial("lstm", 1.0))]) == [
        "lstm was the only model: 1.000 bits per byte of <book>.",
        "Training took 60.0 s; it predicts a token in 1 ms.",
    ]


def test_who_remembers_is_named_and_who_guesses_too(whole: Comparison):
    sentence = advice([whole])[-1]
    assert "use lstm: with 20 to 40 words in between (2,100 sentences) its verb is right in 75.0 ±7.1 %" in sentence
    assert sentence.endswith("while unigram can only guess.")
    lost = compared(trial("lstm", 1.0, probes=judged(0.9, 0.51)))
    assert advice([lost])[-1].startswith("No model has learned")
    assert len(advice([compared(trial("gru", 1.0)), whole])) == 3


def test_numbers_are_short():
    assert [amount(number) for number in (7, 999, 999.6, 12_345, 1_234_567, 2e9, math.nan)] == [
        "7", "999", "1k", "12.3k", "1.23M", "2G", "-"
    ]  # fmt: skip
    assert figure(MeanSpread(141.186), 2) == "141.2"
    assert figure(MeanSpread(1.33061, 0.00149), 4) == "1.3306 ±0.0015"
    assert figure(MeanSpread(math.inf), 2) == "inf"
