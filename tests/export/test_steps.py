"""A plan as operations, run by numpy, against the model itself: every kind, every option of every cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from step_models import CASES, CORE, GPT2, expected, ran, some_ids, toy

from breadth import core
from refusals import assert_refused
from thereafter.errors import ExportError
from thereafter.export import gpt2 as target
from thereafter.export.plan import NgramPlan, RecurrentPlan, SoftmaxPlan, TransformerPlan, layers_of, plan_of
from thereafter.export.steps.interpreter import Interpreter, as_stored, rounded
from thereafter.export.steps.lowering import Program, lower
from thereafter.layers.recurrent import Recurrent
from thereafter.models.feedforward import TransformerModel


def program_of(case: str, context: str = "stream") -> Program:
    plan = plan_of(toy(case, context=context))
    assert not isinstance(plan, NgramPlan)
    return lower(plan)


@pytest.mark.parametrize(
    ("case", "context"),
    core(
        ((case, context) for case in CASES for context in ("stream", "line")),
        [*((case, "stream") for case in CORE), ("lstm", "line"), ("window", "line"), ("transformer", "line")],
    ),
)
def test_a_program_computes_what_its_model_does(case: str, context: str) -> None:
    lm, program = toy(case, context=context), program_of(case, context)
    ids = some_ids(program.wording.size, 20)
    ids[[9, 15]] = program.wording.line_end
    np.testing.assert_allclose(ran(Interpreter(program), ids), expected(lm.model, ids), atol=1e-4)


def test_the_gelu_of_gpt2_is_carried_and_another_epsilon_refused() -> None:
    lm = toy(GPT2)
    plan = plan_of(lm)
    assert isinstance(plan, TransformerPlan)
    ids = some_ids(plan.wording.size, 20)
    other = replace(plan, blocks=tuple(replace(block, approximate=False) for block in plan.blocks))
    assert np.abs(ran(Interpreter(lower(other)), ids) - expected(lm.model, ids)).max() > 2e-4
    assert target.config_of(plan)["activation_function"] == "gelu_new"
    assert isinstance(lm.model, TransformerModel)
    for norm in (part for part in lm.model.modules() if isinstance(part, torch.nn.LayerNorm)):
        norm.eps = 1e-6
    with assert_refused(ExportError, "1e-06"):
        plan_of(lm)


def test_the_first_product_is_a_table_only_where_that_is_smaller() -> None:
    assert "first" in program_of("lstm folded").matrices
    assert "embedding" not in program_of("lstm folded").matrices
    assert {"first", "embedding"} <= program_of("lstm folded tied").matrices.keys()
    assert "first" not in program_of("lstm").matrices


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("diagonal", {}),
        pytest.param("lstm", {"proj_size": 5}, marks=pytest.mark.wide),
        ("lstm", {"proj_size": 3, "peephole": True, "layer_norm": True}),
    ],
)
def test_cells_that_no_kind_has_are_lowered_too(cell: str, options: dict[str, int]) -> None:
    plan = plan_of(toy("lstm"))
    assert isinstance(plan, RecurrentPlan)
    torch.manual_seed(1)
    stack = Recurrent(cell, 12, 9, 2, batch_first=True, initial="learned", cell_options=options).eval()
    with torch.no_grad():
        for weight in stack.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    size = stack.lanes[-1].cell.output_size
    head = SoftmaxPlan(
        np.random.default_rng(0).normal(size=(plan.wording.size, size)).astype(np.float32), plan.head.bias, False
    )
    runner = Interpreter(lower(replace(plan, layers=layers_of(stack), head=head)))
    ids = some_ids(plan.wording.size, 20)
    with torch.no_grad():
        tokens = torch.tensor([plan.wording.start, *ids])
        h_TH = stack(torch.from_numpy(plan.embedding)[tokens].unsqueeze(0))[0][0]
        wanted = F.log_softmax(F.linear(h_TH, torch.from_numpy(head.matrix), torch.from_numpy(head.bias)), -1)
    np.testing.assert_allclose(ran(runner, ids), wanted.numpy(), atol=1e-5)


def test_a_layer_that_reads_backwards_cannot_be_streamed() -> None:
    plan = plan_of(toy("lstm"))
    assert isinstance(plan, RecurrentPlan)
    both = layers_of(Recurrent("gru", 12, 6, bidirectional=True))
    with assert_refused(ExportError):
        lower(replace(plan, layers=both))


def test_sixteen_bits_with_a_scale_for_32_are_nearer_than_float16() -> None:
    matrix = np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)
    ours = np.abs(rounded(matrix, 16).values() - matrix)
    theirs = np.abs(matrix.astype(np.float16).astype(np.float32) - matrix)
    assert np.sqrt((ours**2).mean()) < 0.15 * np.sqrt((theirs**2).mean())
    assert np.abs(rounded(matrix, 8).values() - matrix).max() <= np.abs(matrix).max() / 127 / 2 * 1.001
    assert not rounded(np.zeros((2, 3), np.float32), 8).values().any()


def test_sixteen_bits_keep_log_p_to_a_thousandth() -> None:
    lm, program = toy("lstm folded"), program_of("lstm folded")
    ids = some_ids(program.wording.size, 60)
    np.testing.assert_allclose(ran(Interpreter(as_stored(program, 16)), ids), expected(lm.model, ids), atol=1e-3)
