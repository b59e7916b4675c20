"""Diagrams come from the code: what a cell computes is drawn, and another declaration is another drawing."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest
import torch

from thereafter.cells import CELLS
from thereafter.cells.lstm import LSTM
from thereafter.figures.diagrams.cell import cell_figure, cells_figure, draw_cell, path_figure, shortest_way
from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.network import (
    draw_network,
    layers_of,
    read_block,
    stacked_figure,
    transformer_figure,
    unrolled_figure,
)
from thereafter.figures.diagrams.reading import formula, read_cell
from thereafter.gallery.diagrams import context_figure, context_of, window_figure
from thereafter.layers.inputs import build_lanes
from thereafter.models.build import NEURAL
from thereafter.models.settings import LstmSettings, RnnSettings, TransformerSettings, WindowSettings
from thereafter.training.ngram import NgramSettings


def texts(drawing: Drawing) -> dict[str, str]:
    return {name: box.text for name, box in drawing.boxes.items()}


def links(drawing: Drawing) -> set[tuple[str, str]]:
    return {(one.source, one.target) for one in drawing.arrows}


def formulas(kind: str, **options: Any) -> dict[str, str]:
    """What a cell computes, in words: read off its code."""
    read = read_cell(CELLS.load(kind)(3, 4, **options))
    names = {node: f"{name}'" for name, node in read.sources.items()}
    names |= {node: name for name, node in (read.gates | read.states).items()}
    return {name: formula(node, names) for name, node in (read.gates | read.states).items()}


def test_the_formulas_read_off_the_code_are_those_of_the_literature():
    assert formulas("elman") == {"preactivation": "W x' + U h' + b", "h": "tanh(preactivation)"}
    lstm = formulas("lstm")
    assert lstm["c"] == "forget c' + input cell"
    assert lstm["h"] == "output tanh(c)"
    assert lstm["forget"] == "σ(W x' + U h' + b)"
    assert formulas("gru")["h"] == "update h' + (1 − update) new"
    assert formulas("gru", update="new")["h"] == "(1 − update) h' + update new"
    assert formulas("mingru")["h"] == "(1 − update) h' + update new"


def test_every_option_that_changes_the_rule_changes_the_formula():
    assert formulas("gru")["new"] == "tanh(W x' + reset (U h' + b) + b)"
    assert formulas("gru", reset="before")["new"] == "tanh(W x' + U (reset h') + b)"
    assert formulas("lstm", peephole=True)["output"] == "σ(W x' + U h' + p c + b)"
    assert formulas("lstm", coupled=True)["forget"] == "1 − input"
    assert formulas("lstm", bias="none")["input"] == "σ(W x' + U h')"
    assert formulas("lstm", layer_norm=True)["h"] == "output tanh(norm(c))"
    assert formulas("elman", nonlinearity="relu")["h"] == "relu(preactivation)"


@pytest.mark.parametrize("kind", list(CELLS))
def test_every_registered_cell_can_be_drawn(kind: str):
    cell = CELLS.load(kind)(3, 4)
    figure = cell_figure(cell)
    assert cell.name in figure.caption
    parts = figure.table["part"]
    assert {"x", "new h"} <= set(parts)
    assert set(read_cell(cell).gates) <= set(parts)


class FiveGates(LSTM):
    """An LSTM with a gate more, which scales what comes out."""

    name: ClassVar[str] = "five"
    gates: ClassVar[tuple[str, ...]] = (*LSTM.gates, "extra")

    def pointwise(self, z_BG, r_BG, state, weights, record=None):  # type: ignore[no-untyped-def]
        extra_BH = torch.sigmoid((z_BG + r_BG)[:, -self.hidden_size :])
        four = 4 * self.hidden_size
        was, self.gates = self.gates, LSTM.gates
        h_BH, after = super().pointwise(z_BG[:, :four], r_BG[:, :four], state, weights, record)
        self.gates = was
        if record is not None:
            record["extra"] = extra_BH
        return extra_BH * h_BH, type(after)(extra_BH * h_BH, after.c)


def test_a_gate_more_in_the_code_is_a_box_more_in_the_drawing():
    plain, more = texts(draw_cell(LSTM(3, 4))), texts(draw_cell(FiveGates(3, 4)))
    assert "extra" not in plain
    assert more["extra"].startswith("<b>extra</b><br>σ(W<sub>e</sub> x")


@pytest.mark.parametrize(
    ("kind", "options", "letters"),
    [
        ("lstm", {}, {"input": "i", "forget": "f", "cell": "c", "output": "o"}),
        ("lstm", {"peephole": True}, {"input": "i", "forget": "f", "output": "o"}),
        ("gru", {}, {"reset": "r", "update": "z", "new": "n"}),
        ("mingru", {}, {"update": "z", "new": "n"}),
        ("minlstm", {}, {"forget": "f", "new": "n"}),
    ],
)
def test_every_gate_has_weights_of_its_own_name(kind: str, options: dict[str, Any], letters: dict[str, str]):
    """W, U, b and p of a gate carry its letter: one W for all gates would say that they share it."""
    drawn = texts(draw_cell(CELLS.load(kind)(3, 4, **options)))
    for gate, letter in letters.items():
        formula_of = drawn[gate].removeprefix(f"<b>{gate}</b><br>")
        weights = re.findall(r"(?<![\w>])[WUbp](?:<sub>(\w)</sub>)?", formula_of)
        assert set(weights) == {letter}, formula_of
        assert len(weights) >= 2


def test_a_cell_of_one_gate_needs_no_letter():
    assert "W x" in texts(draw_cell(CELLS.load("elman")(3, 4)))["preactivation"]
    assert "every gate" not in cell_figure(CELLS.load("elman")(3, 4)).caption
    assert "in which every gate has rows of its own" in cell_figure(LSTM(3, 4)).caption


def test_peepholes_are_arrows_from_the_cell_memory():
    plain, peeping = links(draw_cell(LSTM(3, 4))), links(draw_cell(LSTM(3, 4, peephole=True)))
    assert peeping - plain == {("c_old", "input"), ("c_old", "forget"), ("+", "output")}


def test_cells_side_by_side_say_how_many_weights_each_has():
    cells = {"GRU": CELLS.load("gru")(8, 16), "LSTM": CELLS.load("lstm")(8, 16)}
    caption = cells_figure(cells, "both", "Both").caption
    for label, module in (("GRU", torch.nn.GRU(8, 16)), ("LSTM", torch.nn.LSTM(8, 16))):
        assert f"{label} {sum(weight.numel() for weight in module.parameters()):,}" in caption


def test_the_memory_of_an_lstm_meets_no_matrix_and_that_of_an_rnn_does():
    ways = {
        kind: shortest_way(read_cell(CELLS.load(kind)(3, 4)), field)
        for kind, field in {"lstm": "c", "elman": "h"}.items()
    }
    assert [one.operation for one in ways["lstm"]] == ["mul", "add"]
    assert [one.operation for one in ways["elman"]] == ["linear", "add", "tanh"]
    assert "LSTM: × forget, +" in path_figure({"LSTM": LSTM(3, 4)}).caption


def test_a_stack_has_the_lanes_of_the_model_it_names():
    settings = LstmSettings(hidden=6, layers=3, embed=5, tied=False).complete(40)
    model = NEURAL.load("lstm")(settings, vocabulary_size=40, context="line", line_end=0)
    drawn = layers_of("lstm", settings)
    assert [lane.name for lanes in drawn for lane in lanes] == [lane.name for lane in model.layers.lanes]
    for lanes, real in zip(drawn, model.layers.layers, strict=True):
        assert [lane.cell.shapes() for lane in lanes] == [lane.cell.shapes() for lane in real]


def test_layers_residuals_and_dropout_change_the_drawing():
    def parts(**options: Any) -> list[str]:
        return stacked_figure("rnn", RnnSettings(hidden=6, dropout=0.0, **options), 40).table["part"]  # type: ignore[return-value]

    two, three = parts(layers=2), parts(layers=3)
    assert "l2 at 1" in three
    assert "l2 at 1" not in two
    assert "residual round layer 1 at 1" in parts(layers=2, connect="residual")
    said = [stacked_figure("rnn", RnnSettings(hidden=6, tied=tied), 40).caption for tied in (True, False)]
    assert "the matrix of the word vectors" in said[0]
    assert "a matrix of its own" in said[1]


def test_time_runs_backward_in_a_backward_lane():
    both = links(draw_network(build_lanes("lstm", 3, [(4, 4)], {}), steps=3))
    assert ("l0 at 1", "l0 at 2") in both
    assert ("l0_reverse at 2", "l0_reverse at 1") in both
    assert ("l0 at 1", "both of layer 0 at 1") in both


def test_the_gradient_runs_against_every_state():
    lanes = build_lanes("elman", 3, [(4,)], {})
    figure = unrolled_figure(lanes, steps=3, backward=True)
    drawn = set(zip(figure.table["from"], figure.table["to"], strict=True))
    assert {("l0 at 3", "l0 at 2"), ("l0 at 2", "l0 at 1"), ("y3", "l0 at 3")} <= drawn


def test_one_to_many_feeds_each_output_back():
    lanes = build_lanes("elman", 3, [(4,)], {})
    fed = links(draw_network(lanes, steps=3, reads="first", feedback=True))
    assert {("y1", "x2"), ("y2", "x3")} <= fed
    alone = draw_network(lanes, steps=3, writes="last")
    assert [name for name in alone.boxes if name.startswith("y")] == ["y3"]


def test_the_block_is_drawn_in_the_order_it_computes():
    def order(norm: str) -> list[tuple[str, list[str]]]:
        stages, _ = read_block(TransformerSettings(hidden=8, heads=2, norm=norm))
        return [(kind, [node.operation for node in nodes]) for kind, nodes in stages]

    attention, forward = ["linear", "scaled_dot_product_attention", "linear"], ["linear", "gelu", "linear"]
    assert order("pre") == [("add", ["layer_norm", *attention]), ("add", ["layer_norm", *forward])]
    assert order("post") == [("add", attention), ("then", ["layer_norm"]), ("add", forward), ("then", ["layer_norm"])]
    caption = transformer_figure(TransformerSettings(hidden=8, heads=2, layers=3), 40).caption
    assert "2 heads of 4 numbers, 3 blocks" in caption


def test_the_window_has_as_many_words_as_its_settings():
    wide = window_figure(WindowSettings(window=3), 40).table["part"]
    assert [part for part in wide if part.startswith("word")] == ["word 1", "word 2", "word 3"]
    direct = window_figure(WindowSettings(window=3, direct=True), 40).table
    assert ("joined", "head") in zip(direct["from"], direct["to"], strict=True)


def test_what_a_model_has_in_sight_comes_from_its_settings():
    assert context_of(NgramSettings(order=3))[0] == 2
    assert context_of(WindowSettings(window=7))[0] == 7
    assert context_of(LstmSettings())[0] is None
    figure = context_figure(["a", "b", "c"], {"trigram": NgramSettings(order=3)})
    kinds = dict(zip(figure.table["part"], figure.table["kind"], strict=True))
    assert [kinds[f"trigram: {place}"] for place in ("1 a", "2 b", "3 c")] == ["faint", "state", "state"]


def test_boxes_of_a_cell_do_not_overlap():
    for kind in CELLS:
        boxes = list(draw_cell(CELLS.load(kind)(3, 4)).boxes.values())
        for place, one in enumerate(boxes):
            for other in boxes[place + 1 :]:
                apart_x = abs(one.x - other.x) >= (one.width + other.width) / 2
                apart_y = abs(one.y - other.y) >= (one.height + other.height) / 2
                assert apart_x or apart_y, (kind, one.name, other.name)
