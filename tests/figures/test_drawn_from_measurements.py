"""Every kind of measurement is a table, says what its arrays mean, and draws itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_glimpse_and_drawing_figures import explained_glimpses, traced_drawing

import thereafter
from refusals import assert_refused
from thereafter import figures, instruments
from thereafter.errors import OptionError, UnknownNameError
from thereafter.figures import catalogue
from thereafter.figures.catalogue import FIGURES, figures_of
from thereafter.figures.figure import Figure
from thereafter.gallery.memory import expectation
from thereafter.gallery.traces import senses, sparsity
from thereafter.inspection import (
    dynamics,
    gradients,
    growth,
    stability,
    units,
)
from thereafter.inspection.measurement import Measurement, kinds
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.trace import Trace
from thereafter.text.agreement import sentences
from thereafter.text.memory import TASKS, text_of

pytest.importorskip("plotly")
OLD_RUNS = Path(__file__).resolve().parents[1] / "old_runs"
OTHERS = ("trace", "log")  # what figures take beside measurements


@pytest.fixture(scope="module")
def lm() -> thereafter.LanguageModel:
    text = "\n".join(one.text for one in sentences(3000, max_distance=6)) + "\n"
    options = {"hidden": 8, "layers": 1, "tied": False, "tokens_budget": 2000, "seed": 0}
    return thereafter.train(text=text, model="lstm", tokens="word", **options)


@pytest.fixture(scope="module")
def trace(lm: thereafter.LanguageModel) -> Trace:
    return lm.trace(next(sentences(1, max_distance=4)).text)


@pytest.fixture(scope="module")
def measured(
    lm: thereafter.LanguageModel, trace: Trace, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Measurement]:
    """A measurement of every kind, small."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "pairs.tsv").write_text("the dogs are here\tthe dogs is here\n", encoding="utf-8")
    (folder / "lines.txt").write_text("\n".join(one.text for one in sentences(300)) + "\n", encoding="utf-8")
    line = next(one for one in sentences(50, max_distance=6) if one.distance > 4)
    text = " ".join([line.text] * 2)
    word = line.words[1]
    contexts = {"one": [f"the {word}", f"near the {word}"], "two": [f"some {word}", f"the old {word}"]}
    ngram = thereafter.train(text="the cat sat on the mat\n" * 4, tokens="word", order=3)
    recall = thereafter.train(text=text_of(TASKS["remember-first"], count=200, longest=4), tokens="word", order=3)
    reader = SentenceReader.of(lm.model, lm.tokenizer, lm.config)
    rows = [
        {"name": name, "bits_per_byte": {"mean": bits, "spread": None}, "seconds": 1.0, "parameters": 5, "trials": [1]}
        for name, bits in (("lstm", 2.5), ("ngram", 2.25))
    ]
    made = [
        instruments.gradients(lm, text=text, distance=3, rows=1),
        gradients.last_loss(lm.model, lm.encode(text)),
        instruments.jacobians(lm, text=text, steps=3),
        instruments.truncation(lm, text=text, lengths=(2,), rows=1),
        stability.activation_stability(steps=5, hidden=4),
        stability.repeated_multiplication(steps=5, hidden=4),
        growth.growth({"lstm": lm.model}, (4, 8), repeats=1),
        growth.bptt_memory((4, 8), (None, 4), batch=1, hidden=4),
        dynamics.trajectory(trace),
        dynamics.saturation(trace),
        dynamics.timescales(trace),
        dynamics.by_class([trace], [["a", "b"] * (len(trace.tokens) // 2) + ["a"] * (len(trace.tokens) % 2)]),
        senses(lm.model, lm.tokenizer, word, contexts),
        dynamics.gate_surface(lm.model, lm.tokenizer, text, grid=4),
        dynamics.prediction_surface(lm.model, lm.tokenizer, text, grid=4),
        sparsity(ngram.model, ngram.encode("the mat sat")),
        instruments.probe(lm, "number", count=30, distances=(0, 2)),
        instruments.probe(lm, "class", count=3),
        instruments.memory(recall, "remember-first", longest=3, count=4),
        instruments.pairs(lm, folder / "pairs.tsv"),
        instruments.agreement(lm, count=40, longest=6),
        expectation(reader, " ".join(line.words[:4]), line.words[4:6]),
        instruments.units(lm, folder / "lines.txt", "line-position", top=2),
        units.number_unit(reader, sentences(160, min_distance=1, max_distance=4)),
        figures.measured_alignment(["ein", "Haus"], ["a", "house"], np.eye(2), model="gru", text="ein Haus"),
        figures.measured_confusion(["neg", "pos"], [[3, 1], [0, 2]], model="lstm", text="reviews"),
        lm.surprisal(text=line.text).measurement(),
        catalogue.scores_of({"source": "book.txt", "rows": rows}),
        _bleu(),
        _steps_ahead(),
        *_pictures(),
        figures.measured_glimpses(explained_glimpses(), patch=4, scales=2, truth="b"),
        figures.measured_strokes(traced_drawing(), read=2, write=5),
    ]
    return {one.kind: one for one in made}


def _steps_ahead() -> Measurement:
    values = np.sin(np.arange(80.0))
    options = {"horizon": 1, "order": 2, "lookback": 4, "forecast.split": "60/10/30"}
    return instruments.steps_ahead(thereafter.train(values, task="forecast", model="ar", **options), values, (1, 3))


def _pictures() -> list[Measurement]:
    from thereafter.vision.captioning.task import CaptionExplained
    from thereafter.vision.clips.labels import ClipExplained, ClipLabels
    from thereafter.vision.clips.next_frames import FramesExplained, JudgedFrames, NextFrames
    from thereafter.vision.measures import score_frames

    grey, frames = np.zeros((4, 4, 1), np.uint8), np.zeros((2, 4, 4), np.uint8)
    looked = CaptionExplained("one", "a b", ("a", "b"), (0.5, 0.25), np.full((2, 4), 0.25, np.float32), (2, 2), grey)
    belief = ClipExplained(ClipLabels({"digit": "1"}, {}), {"digit": ("0", "1")}, {"digit": np.eye(2)}, frames)
    ahead = FramesExplained(frames, frames, NextFrames(frames / 255), JudgedFrames((1.0, 2.0), (0.0, 0.0), (0.0, 0.0)))
    return [
        figures.measured_caption(looked),
        figures.measured_belief(belief),
        figures.measured_frames(ahead),
        figures.measured_nats(
            score_frames(np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 2))), model="lstm", text="clips"
        ),
    ]


def _bleu() -> Measurement:
    from thereafter.tasks.translate.measures import LengthBin

    return figures.measured_bleu([LengthBin(1, 5, 3, 20.0), LengthBin(6, 10, 2, 10.0)], model="gru", text="pairs")


@pytest.mark.wide
def test_every_kind_of_the_catalogue_draws_itself(measured: dict[str, Measurement]):
    kinds = {entry.takes for entry in FIGURES.values()} - set(OTHERS)
    assert kinds <= measured.keys()
    for kind in kinds:
        for place, name in enumerate(figures_of(kind)):
            drawn = measured[kind].figure(name if place else None)
            assert isinstance(drawn, Figure)
            assert drawn.caption, name
            assert drawn.to_rows(), name


@pytest.mark.wide
def test_every_array_of_every_kind_has_a_meaning(measured: dict[str, Measurement]):
    assert kinds().keys() <= measured.keys() | {"dependency"}
    for kind, one in measured.items():
        rows = {str(row["name"]): row for row in one.describe().to_rows()}
        assert rows.keys() == one.arrays.keys()
        assert not [name for name, row in rows.items() if not row["meaning"]], kind
        for name, row in rows.items():
            assert row["axes"] == ", ".join(one.axes[name])
            assert row["shape"] == " x ".join(map(str, one[name].shape))


@pytest.mark.wide
def test_the_table_of_every_kind_holds_the_numbers_of_its_main_array(measured: dict[str, Measurement]):
    for kind, one in measured.items():
        known = kinds()[kind]
        rows = one.to_rows()
        assert rows, kind
        assert len({tuple(row) for row in rows}) == 1, kind
        names = [name for name in rows[0] if name == known.main or name.startswith(f"{known.main}_")]
        names = [name for name in names if name not in one.arrays or name == known.main]
        values = [row[name] for row in rows for name in names]
        expected = one[known.main].ravel().tolist()
        if one[known.main].dtype.kind == "f":
            values = [value for value in values if value == value]
            expected = [value for value in expected if value == value]
        assert sorted(map(str, values)) == sorted(map(str, expected)), kind


def test_rows_stand_at_their_places():
    """Against plain indexing, with names along one axis and an array along the other."""
    norm = np.arange(6.0).reshape(2, 3)
    norm[1, 2] = np.nan
    one = Measurement(
        "mine",
        {"layer": np.array(["l0", "l1"]), "norm": norm, "token": np.array(["a", "b", "c"]), "other": np.ones(4)},
        {"layer": ("layer",), "norm": ("layer", "step"), "token": ("step",), "other": ("elsewhere",)},
    )
    expected = [
        {"layer": f"l{i}", "step": k, "token": "abc"[k], "norm": norm[i, k]}
        for i in range(2)
        for k in range(3)
        if (i, k) != (1, 2)
    ]
    assert one.to_rows() == expected
    assert one.table_of("other").to_rows() == [{"elsewhere": k, "other": 1.0} for k in range(4)]
    with assert_refused(UnknownNameError, "norm"):
        one.table_of("nrm")
    square = Measurement("square", {"cosine": np.eye(2)}, {"cosine": ("sentence", "sentence")})
    assert square.to_rows()[1] == {"sentence": 0, "sentence_2": 1, "cosine": 0.0}


@pytest.mark.wide
def test_several_models_in_one_picture_and_what_does_not_go(measured: dict[str, Measurement]):
    flow, path = measured["gradient-flow"], measured["trajectory"]
    other = Measurement(flow.kind, flow.arrays, flow.axes, flow.about | {"model": "other"})
    drawn = flow.figure("gradient-decay", other)
    assert {row["model"] for row in drawn.to_rows()} == {flow.about["model"], "other"}
    with assert_refused(OptionError):
        flow.figure("gradient-depth", other)
    with assert_refused(OptionError):
        flow.figure("gradient-decay", path)
    with assert_refused(OptionError, "gradient-decay", "gradient-depth"):
        flow.figure("units")
    with assert_refused(UnknownNameError, "gradient-decay"):
        flow.figure("gradient-decaying")
    with assert_refused(UnknownNameError, "layer"):
        flow.figure(leyer="l0")
    with assert_refused(OptionError, "to_rows"):
        measured["last-loss"].figure()


def test_a_trace_draws_what_it_has(trace: Trace):
    assert trace.figure().name == "gates"
    assert trace.figure("surprisal").name == "surprisal"
    attends = thereafter.load(OLD_RUNS / "transformer" / "finished").trace("the cat")
    assert attends.figure().name == "attention-heads"
    counted = thereafter.train(text="the cat sat\n" * 4, tokens="word", order=2).trace("the cat")
    drawn = counted.figure()
    assert drawn.name == "surprisal"
    bits = [float(str(row["bits"])) for row in counted.to_rows()]
    (column,) = [name for name in drawn.to_rows()[0] if "bits" in name and "spelling" not in name]
    assert [float(str(row[column])) for row in drawn.to_rows()] == pytest.approx(bits, abs=1e-3)
    with assert_refused(OptionError, "gates"):
        counted.figure("gates")


@pytest.mark.wide
def test_a_figure_is_saved_by_its_name_and_shown_by_a_notebook(measured: dict[str, Measurement], tmp_path: Path):
    drawn = measured["gradient-flow"].figure()
    assert isinstance(drawn, Figure)
    page = drawn.save(tmp_path / "decay.html").read_text(encoding="utf-8")
    (script,) = tmp_path.glob("plotly*.js")
    assert f'src="{script.name}"' in page
    assert script.read_text(encoding="utf-8").count("plotly.js v") == 1
    assert drawn.save(tmp_path / "decay.csv").read_text(encoding="utf-8") == drawn.to_csv()
    bundle = drawn._repr_mimebundle_()
    plot = bundle["application/vnd.plotly.v1+json"]
    assert isinstance(plot, dict)
    assert plot["layout"]["title"]["text"] == drawn.title
    assert drawn.plot.layout.title.text is None  # the figure itself is as it was
    shown = str(bundle["text/html"])
    assert "Plotly.newPlot" in shown
    assert drawn.title in shown
    again = str(drawn._repr_mimebundle_()["text/html"])
    assert "plotly.js v" not in again  # the script is there once
    assert "plotly.js v" in drawn._repr_html_()


def test_a_comparison_draws_its_models(tmp_path: Path):
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 60
    (tmp_path / "book.txt").write_text(text, encoding="utf-8")
    compared = thereafter.compare(tmp_path / "book.txt", models=["unigram", "ngram-2"], out=tmp_path / "out")
    rows = compared.to_rows()
    assert [row["model"] for row in rows] == [row.name for row in compared.rows]
    assert rows[0]["bits_per_byte"] == compared.rows[0].bits_per_byte.mean
    drawn = compared.figure()
    best = min(compared.rows, key=lambda row: row.bits_per_byte.mean)
    assert drawn.to_rows()[0]["model"] == best.name
    (again,) = figures.draw("bits-per-byte", [tmp_path / "out"])
    assert again.to_rows()[0]["bits per byte"] == pytest.approx(best.bits_per_byte.mean)
    with assert_refused(thereafter.ThereafterError, "agreement"):
        compared.figure("agreement")
