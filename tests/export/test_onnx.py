"""ONNX graphs, run by ONNX Runtime, against the model itself: every kind, every option of every cell."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from step_models import CASES, CORE, expected, ran, some_ids, toy

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.export.onnx.cells import quantised
from thereafter.export.onnx.model import NEXT, TARGET, OnnxRunner, session
from thereafter.export.plan import NeuralPlan, NgramPlan, RecurrentPlan, SoftmaxPlan, layers_of, plan_of
from thereafter.layers.recurrent import Recurrent
from thereafter.text.sources import Source

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_stream.py"
KINDS = ["window", "average", "rnn", "lstm", "gru", "mingru", "minlstm", "awd-lstm", "transformer"]


def neural_plan(case: str, context: str = "stream") -> NeuralPlan:
    plan = plan_of(toy(case, context=context))
    assert not isinstance(plan, NgramPlan)
    return plan


def written_by(plan: NeuralPlan, folder: Path, *, int8: bool = False) -> tuple[Path, Path]:
    step, whole = TARGET.write(plan, folder / "m.onnx", int8=int8).paths
    return step, whole


def sequence(path: Path, tokens: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """The whole-sequence graph over rows that begin afresh; the first token of each must be `start`."""
    run = session(path)
    parts = json.loads(run.get_modelmeta().custom_metadata_map["state"])
    types = {given.name: np.int64 if "int64" in given.type else np.float32 for given in run.get_inputs()}
    state = {p["name"]: np.full((len(tokens), *p["shape"]), p["fresh"], types[p["name"]]) for p in parts}
    outputs = run.run(None, {"tokens": tokens, "lengths": lengths, **state})
    return dict(zip([given.name for given in run.get_outputs()], outputs, strict=True))


@pytest.mark.parametrize(
    ("case", "context"),
    core(
        [*((case, "stream") for case in CASES), *((case, "line") for case in KINDS)],
        [*((case, "stream") for case in CORE), ("lstm", "line"), ("window", "line"), ("transformer", "line")],
    ),
)
def test_graphs_compute_what_their_model_does(case: str, context: str, tmp_path: Path) -> None:
    model, plan = toy(case, context=context).model, neural_plan(case, context)
    step, whole = written_by(plan, tmp_path)
    ids_BT = some_ids(plan.wording.size, 3 * 20).reshape(3, 20)
    ids_BT[:, [6, 13]] = plan.wording.line_end
    lengths = np.array([20, 1, 13])
    first = np.full((3, 1), plan.wording.start)
    outputs = sequence(whole, np.concatenate([first, ids_BT], axis=1), lengths + 1)
    runner = OnnxRunner(step)
    runner.state = {name.removeprefix(NEXT): value for name, value in outputs.items() if name != "log_p"}
    after = runner.step(ids_BT[:, -1])
    for row, length in enumerate(lengths):
        ids = ids_BT[row, :length]
        right = expected(model, np.append(ids, ids_BT[row, -1]))
        np.testing.assert_allclose(outputs["log_p"][row, : length + 1], right[:-1], atol=1e-4)
        np.testing.assert_allclose(after[row], right[-1], atol=1e-4)
    np.testing.assert_allclose(ran(OnnxRunner(step), ids_BT[0]), expected(model, ids_BT[0]), atol=1e-4)


@pytest.mark.parametrize("case", core(KINDS, ["lstm", "transformer"]))
def test_the_state_is_carried_over_a_thousand_steps_by_onnx_runtime(case: str, tmp_path: Path) -> None:
    plan = neural_plan(case)
    ids = some_ids(plan.wording.size, 1000)
    step, _ = written_by(plan, tmp_path)
    np.testing.assert_allclose(ran(OnnxRunner(step), ids), expected(toy(case).model, ids), atol=1e-4)


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("diagonal", {}),
        pytest.param("lstm", {"proj_size": 5}, marks=pytest.mark.wide),
        ("lstm", {"proj_size": 3, "peephole": True, "layer_norm": True}),
    ],
)
def test_graphs_of_cells_that_no_kind_has(cell: str, options: dict[str, int], tmp_path: Path) -> None:
    plan = neural_plan("lstm")
    assert isinstance(plan, RecurrentPlan)
    torch.manual_seed(1)
    stack = Recurrent(cell, plan.embedding.shape[1], 9, 2, batch_first=True, cell_options=options).eval()
    size, words = stack.lanes[-1].cell.output_size, plan.wording.size
    matrix = np.random.default_rng(0).normal(size=(words, size)).astype(np.float32)
    head = SoftmaxPlan(matrix, np.zeros(words, np.float32), False)
    step, whole = written_by(replace(plan, layers=layers_of(stack), head=head), tmp_path)
    ids = np.append(plan.wording.start, some_ids(words, 30))
    with torch.no_grad():
        y_1TO, _ = stack(torch.from_numpy(plan.embedding[ids])[None])
        right = torch.log_softmax(y_1TO[0] @ torch.from_numpy(matrix).T, -1).numpy()
    np.testing.assert_allclose(ran(OnnxRunner(step), ids[1:]), right, atol=1e-4)
    np.testing.assert_allclose(sequence(whole, ids[None], np.array([31]))["log_p"][0], right, atol=1e-4)


@pytest.mark.parametrize("case", ["lstm", "transformer"])
def test_files_say_how_they_are_fed_and_have_standard_operators_only(case: str, tmp_path: Path) -> None:
    plan = neural_plan(case)
    for path in written_by(plan, tmp_path):
        model: Any = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        assert {node.domain for node in model.graph.node} == {""}
        assert [(known.domain, known.version) for known in model.opset_import] == [("", 17)]
        facts = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
        assert facts["tokenizer"] == json.loads(json.dumps(plan.wording.tokenizer))
        assert [bytes.fromhex(piece) for piece in facts["pieces"]] == list(plan.wording.pieces)
        assert facts["start"] == plan.wording.size == len(facts["vocabulary"])
    assert (tmp_path / "m.onnx").read_bytes() == written_by(plan, tmp_path)[0].read_bytes()


def test_rows_of_int8_weights_are_within_half_a_step_of_theirs() -> None:
    weight = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
    q, scale = quantised(weight)
    assert np.abs(weight - q * scale[:, None]).max() <= scale.max() / 2 + 1e-6
    assert quantised(np.zeros((2, 3), np.float32))[0].tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("case", core(["lstm folded", "gru", "transformer", "window"], ["lstm folded", "transformer"]))
def test_int8_graphs_are_close_to_their_model(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thereafter.export.onnx.cells.FEWEST", 1)
    plan = neural_plan(case)
    (tmp_path / "small").mkdir()
    step, whole = written_by(plan, tmp_path)
    small, small_whole = written_by(plan, tmp_path / "small", int8=True)
    ids = some_ids(plan.wording.size, 50)
    right = expected(toy(case).model, ids)
    for got in (
        ran(OnnxRunner(small), ids),
        sequence(small_whole, np.append(plan.wording.start, ids)[None], np.array([51]))["log_p"][0],
    ):
        chosen = np.arange(50), ids
        assert np.abs(got - right).max() > 0
        assert abs(got[:-1][chosen].mean() / right[:-1][chosen].mean() - 1) < 0.05
    weights: Any = onnx.load(small).graph.initializer
    assert sum(np.prod(one.dims) for one in weights if one.data_type == onnx.TensorProto.INT8) > 0.5 * sum(
        np.prod(one.dims) for one in onnx.load(step).graph.initializer if one.data_type == onnx.TensorProto.FLOAT
    )
    assert small_whole.stat().st_size < whole.stat().st_size


def test_an_ngram_is_refused_and_told_where_to_go() -> None:
    lm = thereafter.train(text="the cat sat on the mat.\n" * 9, model="ngram", order=2)
    sentence = TARGET.refuses(plan_of(lm), int8=False)
    assert sentence is not None
    assert all(to in sentence for to in ("--to c", "--to html", "--to arpa"))


@pytest.mark.parametrize(
    ("tokens", "lower", "letters"),
    core(product(("char", "byte"), (False, True), (False, True)), [("char", True, True), ("byte", False, False)]),
)
def test_the_example_encodes_odd_prompts_as_the_tokenizer(
    tokens: str, lower: bool, letters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = toy("rnn", tokens, lower=lower, letters_only=letters)
    plan = plan_of(lm)
    assert not isinstance(plan, NgramPlan)
    step, _ = written_by(plan, tmp_path)
    for text in ("\ufeffThe CAT\r\nsat: \u0130 \u00df\u2014\u039f\u0394\u039f\u03a3 \U0001f600!\rEnd", "", "12"):
        monkeypatch.setattr(sys, "argv", ["onnx_stream.py", str(step), text, "0"])
        ids = runpy.run_path(str(EXAMPLE))["ids"]
        normal = Source.of_text(text, lower=lower, letters_only=letters).text()
        assert ids == [lm.tokenizer.start_id, *lm.tokenizer.encode(normal)]


def test_the_example_refuses_prompts_that_it_cannot_encode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(toy("rnn", "word"))
    assert not isinstance(plan, NgramPlan)
    step, _ = written_by(plan, tmp_path)
    monkeypatch.setattr(sys, "argv", ["onnx_stream.py", str(step), "the cat", "0"])
    with assert_refused(SystemExit, "word"):
        runpy.run_path(str(EXAMPLE))
