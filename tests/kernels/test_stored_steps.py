"""Streams in one compiled pass a step, and matrices stored in fewer bytes: the numbers of torch's own operations."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from refusals import assert_refused
from thereafter import nn
from thereafter.base.compiled import available
from thereafter.errors import OptionError
from thereafter.kernels.step import stepper
from thereafter.kernels.step.stepper import StoredProduct
from thereafter.kernels.step.storing import BLOCK, NARROW, Narrow, quantised, rounded
from thereafter.models.build import build
from thereafter.models.feedforward import AverageModel
from thereafter.models.settings import AverageSettings, LstmSettings

compiled_only = pytest.mark.skipif(not available(), reason="loops are not compiled here")
CELLS: list[tuple[str, dict[str, Any]]] = [
    *[("LSTM", {"peephole": peephole, "coupled": coupled}) for peephole in (False, True) for coupled in (False, True)],
    *[("GRU", {"reset": reset, "update": update}) for reset in ("after", "before") for update in ("old", "new")],
    ("RNN", {"nonlinearity": "leaky_relu"}),
    ("MinGRU", {}),
    ("MinLSTM", {}),
    ("Diagonal", {"num_layers": 2}),
]


def layer(kind: str, inputs: int, hidden: int, **options: Any) -> Any:
    torch.manual_seed(5)
    return getattr(nn, kind)(inputs, hidden, batch_first=True, **options).eval()


def run(stream: nn.Stream, x_TBI: torch.Tensor) -> torch.Tensor:
    return torch.stack([stream.step(x_BI).clone() for x_BI in x_TBI])


@compiled_only
@pytest.mark.parametrize(("kind", "options"), CELLS, ids=str)
def test_compiled_passes_give_the_numbers_of_torch(
    kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for inputs, hidden in ((5, 37), (150, 67)):
        module = layer(kind, inputs, hidden, **options)
        for rows in (1, 3, 9):
            x_TBI = torch.randn(4, rows, inputs)
            for weights in (None, *NARROW):
                compiled = run(module.stream(rows, weights=weights), x_TBI)
                with monkeypatch.context() as patch:
                    patch.setattr(stepper, "available", lambda: False)
                    plain = run(module.stream(rows, weights=weights), x_TBI)
                torch.testing.assert_close(compiled, plain, rtol=3e-6, atol=3e-6)


def test_stored_matrices_stand_for_the_numbers_of_their_definition() -> None:
    weight = torch.randn(7, BLOCK + 9, generator=torch.Generator().manual_seed(1))
    weight[2] = 0.0
    by_hand = weight.numpy().copy()
    for row in by_hand:
        for block in (row[:BLOCK], row[BLOCK:]):
            scale = np.abs(block).max() / np.float32(127)
            block[:] = np.round(block / scale) * scale if scale else 0.0
    np.testing.assert_array_equal(rounded(weight, "int8").numpy(), by_hand)
    assert torch.equal(rounded(weight, "bfloat16"), weight.bfloat16().float())
    steps, scales = quantised(weight)
    assert steps.dtype == torch.int8
    assert scales.shape == (7, 2)
    assert rounded(weight, None) is weight


@compiled_only
def test_rows_of_a_stream_do_not_see_each_other() -> None:
    module, x_TBI = layer("LSTM", 30, 70), torch.randn(3, 9, 30)
    for weights in (None, *NARROW):
        whole = run(module.stream(9, weights=weights), x_TBI)
        assert torch.equal(run(module.stream(1, weights=weights), x_TBI[:, 4:5]), whole[:, 4:5])


def test_streams_of_two_threads_do_not_disturb_each_other() -> None:
    module, x_TBI = layer("LSTM", 40, 90), torch.randn(2, 60, 1, 40)
    alone = [run(module.stream(1, weights="int8"), x_TBI[i]) for i in range(2)]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda i: run(module.stream(1, weights="int8"), x_TBI[i]), range(2)))
    assert torch.equal(both[0], alone[0])
    assert torch.equal(both[1], alone[1])


def test_other_forms_of_weights_are_refused_by_name() -> None:
    with assert_refused(OptionError, "weights", "int4", "bfloat16", "int8"):
        layer("LSTM", 3, 4).stream(weights="int4")
    model = AverageModel(AverageSettings(), vocabulary_size=5, context="stream", line_end=None)
    with pytest.raises(OptionError, match="expected a recurrent model"):
        model.stored("int8")


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("compiles", [True, False])
def test_a_stored_product_is_that_of_the_rounded_matrix(
    narrow: Narrow, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiles:
        monkeypatch.setattr(stepper, "available", lambda: False)
    generator = torch.Generator().manual_seed(2)
    weight, bias = torch.randn(203, 140, generator=generator), torch.randn(203, generator=generator)
    expected = rounded(weight, narrow).clone()
    product = StoredProduct(weight, bias, narrow)
    weight.zero_()  # it keeps what it was made with
    for rows in (1, 4, 1):
        x = torch.randn(rows, 140, generator=generator)
        torch.testing.assert_close(product(x), x @ expected.t() + bias, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_a_stored_model_predicts_as_one_of_rounded_weights(tied: bool) -> None:
    torch.manual_seed(3)
    settings = LstmSettings(hidden=48, layers=2, tied=tied)
    model = build("lstm", settings, vocabulary_size=60, context="stream", line_end=0).eval()
    rounded_model = deepcopy(model)
    with torch.no_grad():
        for name, weight in rounded_model.named_parameters():
            if weight.dim() == 2 and (not name.startswith("embedding") or tied):
                weight.copy_(rounded(weight, "int8"))
        if tied:  # word vectors are read as they are
            rounded_model.embedding.weight.copy_(model.embedding.weight)
    stored = model.stored("int8")
    tokens_1T = np.random.default_rng(0).integers(0, 60, (1, 40))
    state, other = stored.read(tokens_1T, stored.start(1)), rounded_model.read(tokens_1T, rounded_model.start(1))
    torch.testing.assert_close(state.features_BH, other.features_BH, rtol=1e-4, atol=1e-5)
    one, _ = stored.step(np.array([7]), state)
    two, _ = rounded_model.step(np.array([7]), other)
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=2e-2 if tied else 1e-4)
    exact, _ = model.step(np.array([7]), model.read(tokens_1T, model.start(1)))
    assert not np.array_equal(one, exact)
    np.testing.assert_allclose(one, exact, atol=0.05)
    assert stored.eval().narrow == "int8"


def test_only_float32_layers_are_stored_in_fewer_bytes():
    layer = nn.LSTM(3, 4).double()
    with assert_refused(OptionError, "float32"):
        layer.stream(1, weights="int8")


def test_a_stored_model_and_its_source_do_not_see_each_other_train():
    torch.manual_seed(0)
    settings = {"hidden": 6, "embed": 5, "dropout_embed": 0.5}
    lm = thereafter.train(text="the cat sat on the mat\n" * 4, model="lstm", tokens="char", epochs=1, **settings)
    model, ids = lm.model, np.array([[1, 2, 3]])
    model.train()
    stored = model.stored("int8")
    assert stored is model.stored("int8")
    expected = stored.log_probs(ids, stored.start(1))[0]
    model.eval()
    assert np.array_equal(stored.log_probs(ids, stored.start(1))[0], expected)
    model.train()
    assert np.array_equal(stored.log_probs(ids, stored.start(1))[0], expected)
    with torch.no_grad():
        model.embedding.weight.add_(1.0)
    assert model.stored("int8") is not stored
    assert np.array_equal(stored.log_probs(ids, stored.start(1))[0], expected)
