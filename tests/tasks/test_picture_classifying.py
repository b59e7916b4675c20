"""`classify` on pictures: read row by row, pixel by pixel or in one fixed random order."""

from __future__ import annotations

import csv
import gzip
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from toys import Shell, assert_resumed_to_the_bit, labelled

import thereafter
from refusals import assert_refused
from tasks.toy_pictures import PLACES, SAVED, labelled_pictures, stacked_pictures
from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.layers.blocks import FEEDS
from thereafter.layers.recurrent import Recurrent
from thereafter.series.classifying.network import ReaderSettings, SeriesBatch, SeriesClassifier, lengthen_memory
from thereafter.series.forecasters.settings import cells
from thereafter.tasks import TASKS, finding
from thereafter.tasks.finding import task_for
from thereafter.tasks.task import AnyTask
from thereafter.vision.pictures.classifying import CLASSIFYING_PICTURES, PictureClassifierSettings, scaled
from thereafter.vision.pictures.codec import PERMUTATION, PictureCodec, PixelOrder
from thereafter.vision.pictures.labelled_pictures import LabelledPicture

TASK: AnyTask = TASKS.load("classify-pictures")
QUICK: dict[str, Any] = {"hidden": 8, "epochs": 8, "batch": 8, "rate": 0.02, "seed": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> thereafter.TaskModel:
    """Tells pictures that are bright at the top, at the bottom and at the left, reading their pixels permuted."""
    source = stacked_pictures(tmp_path_factory.mktemp("lit") / "lit.npz", 120)
    return thereafter.train(source, task="classify", read="permuted", encoder="gru", **QUICK)


# ---- from pictures to steps


def shape(height: int = 4, width: int = 3, channels: int = 1) -> PictureCodec:
    return PictureCodec("pixels", height, width, channels, (0.5,) * channels, (0.25,) * channels)


@pytest.mark.parametrize("channels", [1, 3])
def test_steps_are_rows_or_pixels_with_all_their_channels(channels: int) -> None:
    pictures = np.random.default_rng(1).integers(0, 256, (5, channels, 4, 3)).astype(np.uint8)
    rows, pixels = (PixelOrder.fit(shape(4, 3, channels), read) for read in ("rows", "pixels"))
    assert (rows.steps, rows.numbers) == (4, 3 * channels)
    assert (pixels.steps, pixels.numbers) == (12, channels)
    np.testing.assert_array_equal(rows.encode_batch(pictures)[2, 1, :channels], pictures[2, :, 1, 0])
    np.testing.assert_array_equal(pixels.encode_batch(pictures)[2, 7], pictures[2, :, 2, 1])
    for order in (rows, pixels, PixelOrder.fit(shape(4, 3, channels), "permuted")):
        for one in pictures:
            np.testing.assert_array_equal(order.decode(order.encode(one)), one, strict=True)


def test_the_permutation_is_that_of_its_seed_and_of_nothing_else() -> None:
    order = PixelOrder.fit(shape(28, 28), "permuted").order
    assert order == tuple(np.random.RandomState(PERMUTATION).permutation(784).tolist())
    assert order[:4] == (319, 576, 323, 107)  # as in a run of 2026
    assert PixelOrder.fit(shape(28, 28), "permuted", 1).order != order


def test_features_have_one_way_to_be_read() -> None:
    maps = PictureCodec("maps", 5, 7, 1, (0.0,), (1.0,))
    order = PixelOrder.fit(maps)
    assert (order.steps, order.numbers) == (5, 7)
    features = np.random.default_rng(1).random((2, 5, 7))
    np.testing.assert_array_equal(order.encode_batch(features), features)
    with assert_refused(OptionError, "read=rows"):
        PixelOrder.fit(maps, "pixels")


@pytest.mark.parametrize("change", [{"order": [0, 0]}, {"read": "rows"}, {"height": 0}, {"seed": "1"}, {"order": "ab"}])
def test_a_damaged_order_is_refused(change: dict[str, object]) -> None:
    stored = PixelOrder.fit(shape(1, 2), "permuted").to_json()
    with pytest.raises(FormatError, match="order of the pixels"):
        PixelOrder.from_json(stored | change)


def test_pixels_are_scaled_by_the_training_pictures() -> None:
    pictures = np.array([[[[0, 255]]]], np.uint8)
    assert scaled(pictures, shape(1, 2)).tolist() == [[[[-2.0, 2.0]]]]


# ---- the network


def batch_of(lengths: list[int], steps: int = 9, seed: int = 1) -> SeriesBatch:
    values = torch.randn(len(lengths), steps, 2, generator=torch.Generator().manual_seed(seed))
    return SeriesBatch(values, torch.ones_like(values, dtype=torch.bool), torch.tensor(lengths))


@pytest.mark.parametrize("encoder", cells())
def test_blocks_of_every_kind_read_no_further_than_the_end_of_a_row(encoder: str) -> None:
    torch.manual_seed(1)
    settings = ReaderSettings(encoder=encoder, hidden=3, layers=2, stack="residual", pooling="concat")
    net = SeriesClassifier(settings, channels=2, labels=3, gaps=False).eval()
    batch = batch_of([9, 4])
    alone = SeriesBatch(batch.values_BTC[1:, :4], batch.seen_BTC[1:, :4], batch.lengths_B[1:])
    torch.testing.assert_close(net.decide(batch)[1:], net.decide(alone))
    batch.values_BTC[1, 4:] = 1e4
    torch.testing.assert_close(net.decide(batch)[1:], net.decide(alone))


@pytest.mark.parametrize("feed", FEEDS)
def test_a_block_adds_to_what_it_reads(feed: str) -> None:
    settings = ReaderSettings(encoder="mingru", hidden=4, layers=1, stack="residual", feed=feed, bidirectional=False)
    net = SeriesClassifier(settings, channels=2, labels=2, gaps=False).eval()
    batch, weights = batch_of([9]), dict(net.named_parameters())
    with torch.no_grad():
        for name in ("reader.blocks.0.recurrent.weight_ih_l0", "reader.blocks.0.recurrent.bias_ih_l0"):
            weights[name].zero_()
        for name in ("reader.blocks.0.feed.narrow.weight", "reader.blocks.0.feed.narrow.bias"):
            if name in weights:
                weights[name].zero_()
        x = torch.nn.functional.linear(batch.values_BTC, weights["reader.into.weight"], weights["reader.into.bias"])
        expected = torch.nn.functional.layer_norm(x, (4,))
        torch.testing.assert_close(net.reader(batch.values_BTC, batch.lengths_B), expected)
    assert (feed == "none") == ("reader.blocks.0.feed.narrow.weight" not in weights)


@pytest.mark.parametrize("cell", ["lstm", "gru", "mingru", "minlstm", "diagonal"])
def test_fresh_gates_remember_from_one_step_to_as_many_as_asked_for(cell: str) -> None:
    torch.manual_seed(1)
    stack = Recurrent(cell, 2, 200, batch_first=True)
    lengthen_memory(stack, 100)
    lane = stack.lanes[0]
    gate = lane.cell.memory_gate
    assert gate is not None
    with torch.no_grad():
        for name in ("weight_ih_l0", "weight_hh_l0"):
            if hasattr(stack, name):
                getattr(stack, name).zero_()
        kept = stack.trace(torch.zeros(1, 1, 2)).records["l0"][gate.name].flatten()
    kept = kept if gate.keeps else 1 - kept
    memory = 1 / (1 - kept)  # steps over which a gate that keeps so much forgets
    assert 0.99 < memory.min() < 6
    assert 90 < memory.max() < 102


def test_what_has_no_gate_cannot_remember_longer() -> None:
    with assert_refused(OptionError, "memory", 10, "rnn"):
        PictureClassifierSettings(encoder="rnn", memory=10)
    with pytest.raises(OptionError, match="has no gate that keeps"):
        lengthen_memory(Recurrent("elman", 2, 3), 10)
    with pytest.raises(OptionError, match="for recurrent layers"):
        ReaderSettings(encoder="conv", stack="residual")
    for wrong in ({"read": "columns"}, {"stack": "deep"}, {"feed": "wide"}, {"size": -1}, {"permutation": -1}):
        with assert_refused(OptionError, *wrong, *wrong.values()):
            PictureClassifierSettings(**wrong)


# ---- the task


@pytest.mark.parametrize(
    ("read", "encoder"),
    [
        ("rows", "lstm"),
        ("permuted", "diagonal"),
        *(
            pytest.param(*one, marks=pytest.mark.wide)
            for one in (("pixels", "lstm"), ("permuted", "lstm"), ("rows", "diagonal"), ("pixels", "diagonal"))
        ),
    ],
)
def test_pictures_are_learned_in_every_reading(read: str, encoder: str, tmp_path: Path) -> None:
    source = stacked_pictures(tmp_path / "lit.npz", 80)
    options = QUICK | ({"stack": "residual", "pooling": "mean"} if encoder == "diagonal" else {"memory": 8})
    model = thereafter.train(source, task="classify", read=read, encoder=encoder, **options)
    assert model.score(stacked_pictures(tmp_path / "more.npz", 60, seed=9)).as_dict()["accuracy"] > 0.9


def test_classify_goes_to_pictures_where_the_source_holds_them(tmp_path: Path) -> None:
    stacked = stacked_pictures(tmp_path / "lit.npz", 4)
    labelled_pictures(tmp_path / "table.tsv", 6)
    texts = tmp_path / "texts"
    texts.mkdir()
    labelled(texts / "reviews.tsv", 4)
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(texts / "plot.png")
    assert task_for("classify", stacked).name == "classify-pictures"
    assert task_for("classify", tmp_path / "lit").name == "classify-pictures"
    assert task_for("classify", texts).name == "classify"
    assert task_for("classify", texts / "reviews.tsv").name == "classify"


@pytest.mark.usefixtures("corpora_folder")
def test_mnist_is_pictures_with_their_labels_in_every_part() -> None:
    assert task_for("classify", "mnist").name == "classify-pictures"
    assert task_for("classify", "mnist:test").name == "classify-pictures"
    test, again = (finding.find(TASK, source, "test") for source in ("mnist", "mnist:test"))
    assert test.examples == again.examples
    assert {one.label for one in test.examples if isinstance(one, LabelledPicture)} <= set("0123456789")
    train, valid, notes = finding.train_and_valid(TASK, "mnist", None)
    assert len(train.examples) > len(valid.examples) > 0
    assert "held out for validation" in notes[0]


def test_idx_files_are_told_apart_by_their_headers(tmp_path: Path) -> None:
    pixels = np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4I", 0x803, 20, 2, 2) + pixels.tobytes())
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 20) + bytes([7, 3] * 10))
    files = sorted(tmp_path.iterdir())
    examples = CLASSIFYING_PICTURES.read(files)
    assert [one.label for one in examples[:3]] == ["7", "3", "7"]
    np.testing.assert_array_equal(examples[5].picture.read()[..., 0], pixels[5])
    codecs = CLASSIFYING_PICTURES.codecs(examples)
    assert [name for _, name, _ in CLASSIFYING_PICTURES.ask(files, codecs)] == [str(row) for row in range(20)]


def test_the_last_pictures_validate_if_they_have_all_labels(tmp_path: Path) -> None:
    examples = CLASSIFYING_PICTURES.read([stacked_pictures(tmp_path / "lit.npz", 100)])
    learned, heldout, how = CLASSIFYING_PICTURES.hold_out(examples, 0.1)
    assert (learned, heldout, how) == (examples[:90], examples[90:], "")
    ordered = sorted(examples, key=lambda one: one.label)  # as folders by label are
    learned, heldout, how = CLASSIFYING_PICTURES.hold_out(ordered, 0.1)
    assert {one.label for one in heldout} == set(PLACES)
    assert len(learned) + len(heldout) == 100
    assert how
    many = examples * 600
    assert len(CLASSIFYING_PICTURES.hold_out(many, 0.1)[1]) == 5_000


def test_the_order_of_the_pixels_is_printed_and_kept(trained: thereafter.TaskModel, tmp_path: Path) -> None:
    notes = trained.log[0]["notes"]
    assert any("36 steps of 1 number: its pixels in the order of seed 92916" in note for note in notes)
    again = thereafter.load(trained.save(tmp_path / "run"))
    assert isinstance(again, thereafter.TaskModel)
    order = again.codecs["order"]
    assert isinstance(order, PixelOrder)
    assert order.order == tuple(np.random.RandomState(92916).permutation(36).tolist())


def test_a_label_comes_with_the_evidence_of_each_pixel(trained: thereafter.TaskModel) -> None:
    path = SAVED / "top.png"
    pixels = np.asarray(Image.open(path))
    explained = trained.explain(str(path))
    assert explained.label == trained.predict(pixels) == trained.predict(Image.open(path)) == "top"
    assert explained.evidence_HW.shape == (6, 6)
    np.testing.assert_array_equal(explained.values_CHW[0], pixels)
    assert len(str(explained).splitlines()) == 7
    assert sum(explained.as_dict()["probabilities"].values()) == pytest.approx(1)
    # a pixel without which the score changes most has evidence: the gradient against a difference
    task, net, codecs = trained.task, trained.net, trained.codecs
    assert isinstance(net, SeriesClassifier)
    batch = task.batch([task.example(pixels)], codecs)
    assert isinstance(batch, SeriesBatch)
    label = codecs["labels"].encode(["top"])  # type: ignore[attr-defined]
    slope = net.evidence_by_value(batch, torch.from_numpy(label))[0, 5, 0] / batch.values_BTC[0, 5, 0]
    moved = batch.values_BTC.clone()
    moved[0, 5, 0] += 1e-2
    with net.quietly():
        change = (net.scores(batch, moved) - net.scores(batch))[0, int(label[0])]
    assert float(slope) == pytest.approx(float(change) / 1e-2, rel=0.1, abs=1e-3)


def test_a_trace_names_the_place_of_each_step(trained: thereafter.TaskModel) -> None:
    trace = trained.trace(str(SAVED / "top.png"))
    first = np.random.RandomState(92916).permutation(36)[0]
    assert trace.tokens[0] == f"row {first // 6}, column {first % 6}"
    assert trace.arrays["l0.update"].shape == (36, 8)
    assert trace.arrays["evidence"].shape == (36,)


def test_blocks_are_traced_one_by_one(tmp_path: Path) -> None:
    source = stacked_pictures(tmp_path / "lit.npz", 20)
    model = thereafter.train(source, task="classify", encoder="mingru", stack="residual", layers=2, hidden=4, epochs=1)
    trace = model.trace(str(SAVED / "top.png"))
    assert trace.arrays["block 1.l0.update"].shape == (6, 4)


def test_a_table_of_predictions_names_the_pictures(trained: thereafter.TaskModel, tmp_path: Path, shell: Shell) -> None:
    run = trained.save(tmp_path / "run")
    _, code = shell("predict", run, "--in", SAVED, "--out", tmp_path / "labels.csv")
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["picture"]: row["label"] for row in rows}["bottom.png"] == "bottom"
    assert rows[0].keys() >= {"probability", "p_top", "p_bottom", "p_left"}


def test_simple_models_stand_beside_it(trained: thereafter.TaskModel, tmp_path: Path) -> None:
    rows = dict(trained.baselines(stacked_pictures(tmp_path / "more.npz", 40, seed=3)))
    assert set(rows) == {"nearest of 108 training pictures", "most frequent label"}
    assert rows["nearest of 108 training pictures"].as_dict()["accuracy"] > 0.95


@pytest.mark.parametrize("stack", ["residual", pytest.param("plain", marks=pytest.mark.wide)])
def test_a_classifier_of_pictures_goes_on_to_the_same_bits(stack: str, tmp_path: Path) -> None:
    source = stacked_pictures(tmp_path / "lit.npz", 60)
    options = {"read": "permuted", "encoder": "minlstm", "stack": stack, "layers": 2, "hidden": 4, "memory": 36}
    options |= {"dropout": 0.3, "epochs": 2, "batch": 8, "pooling": "mean"}
    assert_resumed_to_the_bit(tmp_path / "run", "classify-pictures", source, step=9, **options)


def test_mistakes_are_answered_in_a_sentence(trained: thereafter.TaskModel, tmp_path: Path) -> None:
    texts = tmp_path / "one.png"
    texts.write_text("not a picture", encoding="utf-8")
    for given in (str(texts), str(tmp_path / "none.png"), 3, np.zeros(4, np.int64)):
        with pytest.raises(ThereafterError) as caught:
            trained.predict(given)
        assert "\n" not in str(caught.value)
    np.savez(tmp_path / "other.npz", pixels=np.zeros((2, 6, 6), np.uint8), labels=np.array(["top", "middle"]))
    with assert_refused(FormatError, "middle"):
        trained.score(tmp_path / "other.npz")


def test_the_page_on_pixels_says_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "pixels.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, "docs/pixels.md", "exec"), {})  # noqa: S102, our own page
        printed = capsys.readouterr().out.splitlines()
        assert printed == re.findall(r"print\(.*\)  # (.+)", block)


def test_a_folder_with_a_test_part_is_not_trained_on_it(tmp_path: Path):
    """The names of MNIST's files, or folders train/ and test/, say which pictures are held back for the test."""
    rng = np.random.default_rng(3)
    for part, count in (("train", 12), ("test", 5)):
        for number in range(count):
            path = tmp_path / "own" / part / ("up", "down")[number % 2] / f"{part}{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (6, 6), dtype=np.uint8)).save(path)
    assert len(finding.find(TASK, str(tmp_path / "own"), "train").examples) == 12
    assert len(finding.find(TASK, str(tmp_path / "own"), "test").examples) == 5
    assert finding.has(TASK, str(tmp_path / "own"), "test")
    assert not finding.has(TASK, str(tmp_path / "own"), "valid")
    assert not finding.has(TASK, str(tmp_path / "own" / "train"), "test")
    assert len(finding.find(TASK, str(tmp_path / "own" / "train"), "train").examples) == 12
