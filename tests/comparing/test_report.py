"""The page and the sentences of a comparison: made from the figures, whole, and of nothing but itself."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from thereafter.comparing import compare as comparing
from thereafter.comparing import report
from thereafter.comparing.compare import Comparison
from thereafter.comparing.differences import MeanSpread
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
    assert not names & {"link", "img", "iframe", "object", "embed", "i"}
    attributes = {(name, value) for _, attrs in tags.seen for name, value in attrs.items()}
    assert not {name for name, _ in attributes} & {"src", "onclick", "onload"}
    assert all(str(value).startswith("data:") for name, value in attributes if name == "href")


def test_without_plotly_the_page_has_no_script_and_says_how_to_get_the_curves(
    whole: Comparison, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    for module in (report, comparing):
        monkeypatch.setattr(module, "installed", lambda package: False)
    whole.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.json", "report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert not {tag for tag, _ in tags.seen} & {"script", "link", "img", "iframe", "object", "embed"}
    assert not re.findall(r"https?://|url\(|@import", page)
    assert "pip install plotly" in tags.text
    assert "Agreement over a distance" in tags.text


def test_the_script_of_a_saved_page_lies_beside_it(whole: Comparison, tmp_path: Path):
    whole.save(tmp_path)
    (source,) = re.findall(r'<script src="([^"]+)"', (tmp_path / "report.html").read_text(encoding="utf-8"))
    assert (tmp_path / source).stat().st_size > 1_000_000


def test_the_page_says_everything(whole: Comparison):
    tags, page = Tags(), whole.html()
    tags.feed(page)
    for text in ("Language models on <book>", "thereafter compare '<book>'", "2020-02-02", "a machine", "python 3"):
        assert text in tags.text
    for text in ("0, 1", "2 minutes", "a <note>", "<b>", "& <i>", "1.6000 ±0.1414", "hidden 8", "rate 0.1"):
        assert text in tags.text
    for axis in ("seconds of training", "tokens trained on (logarithmic)", "validation bits per byte"):
        assert axis in page
    for axis in ("words between subject and verb", "verbs with the right number", "chance"):
        assert axis in page
    for sentence in whole.advice():
        assert sentence in tags.text


def test_figures_show_every_model_and_the_spread_over_seeds(whole: Comparison):
    (probed,) = whole.probes()
    agreement, (time, tokens) = report.probe_figure(whole, probed), report.learning_figures(whole)
    for figure_of in (agreement, time, tokens):
        assert {"lstm", "unigram"} <= {trace.name for trace in figure_of.plot.data}
    bands = [trace for trace in agreement.plot.data if trace.fill]
    assert len(bands) == 1  # the unigram has one seed
    assert len({round(value, 6) for value in bands[0].y}) == 3  # no spread near, 7.1 % to both sides far
    rows = [row for row in agreement.to_rows() if row["model"] == "lstm"]
    assert (rows[0]["accuracy"], rows[-1]["accuracy"]) == (pytest.approx(0.9), pytest.approx(0.75))


def test_learning_curves_are_means_over_seeds_from_start_to_end(whole: Comparison):
    time, tokens = report.learning_figures(whole)
    assert set(time.words("model")) == {"lstm"}  # the unigram is a level across
    seconds, bits = time.numbers("seconds of training"), time.numbers("bits per byte")
    assert (seconds[0], seconds[-1]) == (10.0, 60.0)
    assert (bits[0], bits[-1]) == (pytest.approx(2.6), pytest.approx(1.6 + 1 / 6))
    (level,) = (trace for trace in time.plot.data if trace.name == "unigram")
    assert set(level.y) == {3.0}
    low, high = time.plot.layout.yaxis.range
    assert low < min(bits)
    assert high > 3.0
    assert tokens.plot.layout.xaxis.type == "log"
    assert tokens.numbers("tokens trained on (logarithmic)")[-1] == 6000.0


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
