"""The gallery and the catalogue: everything has a name, a failing picture loses nothing else, and files come out."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refusals import assert_refused
from thereafter.base import progress
from thereafter.cli import app
from thereafter.errors import MissingPackageError, OptionError, UnknownNameError
from thereafter.figures.catalogue import FIGURES, draw, drawer
from thereafter.figures.figure import Figure
from thereafter.figures.style import canvas
from thereafter.gallery import build as building
from thereafter.gallery import models as training
from thereafter.gallery.build import GalleryWriter, build, find_pictures
from thereafter.gallery.models import GalleryPicture, Models

runner = CliRunner()


def drawn(name: str) -> Figure:
    plot = canvas("x", "y", width=420, height=300)
    plot.add_scatter(x=[0, 1], y=[1, 2])
    return Figure(name, f"About {name}", f"Measured on nothing, {name}.", plot, {"x": [0, 1], "y": [1, 2]})


def fails(models: Models) -> Figure:
    raise ValueError("no such layer")


@pytest.fixture
def pictures() -> list[GalleryPicture]:
    return [
        GalleryPicture("one", "Elman (1990)", lambda models: drawn("another name")),
        GalleryPicture("broken", "", fails),
        GalleryPicture("two", "", lambda models: drawn("two")),
    ]


def test_every_picture_has_a_name_of_its_own():
    names = [picture.name for picture in find_pictures()]
    assert len(names) == len(set(names))
    assert len(names) >= 40


def test_every_picture_names_its_source_as_the_public_knows_it():
    """A paper by its authors and year, a book or an article by its title: no number that only its finder knows."""
    for picture in find_pictures():
        assert re.search(r"[A-Z]\w+.* \(\d{4}\)|“[^”]+”", picture.source), picture.name
        assert not re.search(r"\b00\d\b|\b(fig|figs|sec|section|table|document)\b", picture.source), picture.name


def test_the_pictures_come_by_name_and_an_unknown_one_is_refused():
    assert [picture.name for picture in find_pictures(["lstm-cell", "rnn-cell"])] == ["rnn-cell", "lstm-cell"]
    with assert_refused(UnknownNameError, "lstm-cel", "lstm-cell"):
        find_pictures(["lstm-cel"])


def test_one_failing_picture_does_not_lose_the_others(tmp_path: Path, pictures: list[GalleryPicture]):
    gallery = build(pictures, Models(tmp_path))
    assert list(gallery.figures) == ["one", "two"]
    assert gallery.figures["one"].name == "one"
    assert gallery.failed == {"broken": "ValueError: no such layer"}
    page = GalleryWriter(tmp_path / "out", png=False).write(gallery)
    said = (tmp_path / "out" / "gallery.md").read_text(encoding="utf-8")
    assert "Measured on nothing, two. [Numbers](gallery/two.csv)" in said
    assert "Measured on nothing, another name. After Elman (1990). [Numbers]" in said
    assert "About two" in page.read_text(encoding="utf-8")


def test_without_a_browser_the_page_is_written_and_a_note_says_what_is_missing(
    tmp_path: Path, pictures: list[GalleryPicture], monkeypatch: pytest.MonkeyPatch
):
    def missing(*given: object, **named: object) -> list[bytes]:
        raise MissingPackageError("a picture needs a browser; try: apt-get install chromium")

    monkeypatch.setattr(building, "render", missing)
    gallery = build(pictures, Models(tmp_path))
    GalleryWriter(tmp_path / "out").write(gallery)
    assert gallery.notes == ["no PNGs: a picture needs a browser; try: apt-get install chromium"]
    assert (tmp_path / "out" / "gallery.html").exists()
    assert "![" not in (tmp_path / "out" / "gallery.md").read_text(encoding="utf-8")


def test_the_command_names_what_failed_and_exits_with_1(
    tmp_path: Path, pictures: list[GalleryPicture], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(building, "find_pictures", lambda only: pictures)
    done = runner.invoke(app, ["gallery", "--out", str(tmp_path), "--models", str(tmp_path / "m"), "--no-png"])
    assert done.exit_code == 1
    assert "2 pictures" in done.output
    assert "failed: broken: ValueError: no such layer" in done.output


class Notes(progress.Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


def test_what_can_be_drawn_is_written_before_a_model_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("the cat sat\n", encoding="utf-8")

    def needs_a_model(models: Models) -> Figure:
        models.trained("tiny", text, "ngram")
        return drawn("two")

    def stopped(*given: object, **named: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", stopped)
    first = GalleryPicture("one", "", lambda models: drawn("one"))
    reporter = Notes()
    with progress.reporting(reporter), pytest.raises(KeyboardInterrupt):
        build(
            [first, GalleryPicture("two", "", needs_a_model)],
            Models(tmp_path / "m"),
            GalleryWriter(out, png=False).write,
        )
    assert (out / "gallery" / "one.csv").exists()
    assert "About one" in (out / "gallery.html").read_text(encoding="utf-8")
    assert "About one" in (out / "gallery.md").read_text(encoding="utf-8")
    assert reporter.lines == ["written: one", "training tiny, for the picture two"]


def test_a_picture_is_drawn_once_and_the_page_has_all(
    tmp_path: Path, pictures: list[GalleryPicture], monkeypatch: pytest.MonkeyPatch
):
    rendered: list[list[str]] = []

    def render(figures: list[Figure], *rest: object) -> list[bytes]:
        rendered.append([figure.name for figure in figures])
        return [b"png"] * len(figures)

    monkeypatch.setattr(building, "render", render)
    monkeypatch.setattr(building, "WRITE_EVERY", 0.0)  # after each picture
    build(pictures, Models(tmp_path), GalleryWriter(tmp_path / "out").write)
    assert rendered == [["one"], ["two"]]
    said = (tmp_path / "out" / "gallery.md").read_text(encoding="utf-8")
    assert "![About another name](gallery/one.png)" in said
    assert "![About two](gallery/two.png)" in said


def test_a_diagram_trains_nothing(tmp_path: Path):
    words = ["gallery", "--only", "lstm-cell", "--out", str(tmp_path), "--models", str(tmp_path / "m"), "--no-png"]
    assert runner.invoke(app, words).exit_code == 0
    assert (tmp_path / "gallery" / "lstm-cell.csv").exists()
    assert not (tmp_path / "m").exists()


def test_a_model_is_trained_once_and_again_when_its_options_change(tmp_path: Path):
    (tmp_path / "text.txt").write_text("the cat sat\nthe dog sat\n" * 5, encoding="utf-8")
    for order in (2, 2, 3):
        lm = Models(tmp_path / "kept").trained("tiny", tmp_path / "text.txt", "ngram", tokens="word", order=order)
        assert lm.next("the", k=1)
    assert len(list((tmp_path / "kept").glob("tiny-*"))) == 2


def test_every_entry_of_the_catalogue_leads_to_a_function_that_takes_what_it_says():
    for name, entry in FIGURES.items():
        first, *others = inspect.signature(drawer(entry)).parameters.values()
        assert ("Sequence" in first.annotation or "Mapping" in first.annotation) == entry.together, name
        assert {one.name for one in others if one.default is one.empty} <= {"model", "text"}, name
        assert entry.shows, name


def test_training_curves_are_drawn_from_a_run_folder(tmp_path: Path):
    run = tmp_path / "lstm"
    run.mkdir()
    lines = [{"event": "step", "step": k, "seen": 100 * k, "loss": 5.0 - k} for k in (1, 2)]
    lines.append({"event": "validation", "step": 2, "seen": 200, "loss": 3.5})
    (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    done = runner.invoke(app, ["figure", "training-curves", str(run), "--out", str(tmp_path / "curves.csv")])
    assert done.exit_code == 0, done.output
    assert "lstm" in (tmp_path / "curves.csv").read_text(encoding="utf-8")


def test_a_figure_of_another_kind_of_file_says_which_figures_fit(tmp_path: Path):
    import numpy as np

    from thereafter.inspection.measurement import Measurement

    path = Measurement("units", {"a": np.ones(1)}, {"a": ("unit",)}, {"model": "lstm"}).save(tmp_path / "units.npz")
    with assert_refused(OptionError, "units", "unit-ranking"):
        draw("gradient-decay", [path])
    with assert_refused(OptionError, "thereafter inspect gradients"):
        draw("gradient-decay", [])


def test_figure_alone_lists_all_with_the_command_that_makes_their_input():
    listed = runner.invoke(app, ["figure"]).output
    for name in FIGURES:
        assert name in listed
    assert "thereafter inspect trace" in listed
