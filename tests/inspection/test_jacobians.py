"""One-step Jacobians: their products are what autograd finds, and the direct path is what remains without the rest."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.jacobians import jacobian_decays, jacobians, layer_jacobians
from thereafter.inspection.sentence_reader import cut_rows, still_copy
from thereafter.kernels.scan import unroll
from thereafter.models.build import build, settings_of
from thereafter.models.recurrent import RecurrentModel

V = 11
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("rnn", {"layer_norm": True}),
    ("rnn", {"nonlinearity": "leaky_relu"}),
    ("gru", {"reset": "after", "update": "old"}),
    ("gru", {"reset": "before", "update": "new"}),
    ("lstm", {"peephole": True}),
    ("lstm", {"coupled": True, "layer_norm": True, "connect": "residual"}),
    ("mingru", {}),
    ("minlstm", {}),
]
EVERY = pytest.mark.parametrize(
    ("kind", "options"),
    core(VARIANTS, [VARIANTS[0], *VARIANTS[4:]]),
    ids=lambda value: value if isinstance(value, str) else "",
)


def made(kind: str, **options: Any) -> RecurrentModel:
    torch.manual_seed(0)
    model = build(kind, settings_of(kind)(**({"hidden": 6, "layers": 2} | options)), vocabulary_size=V)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    assert isinstance(model, RecurrentModel)
    return model.eval()


def tokens(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, V, count)


@EVERY
def test_products_equal_autograd(kind: str, options: dict[str, Any]) -> None:
    still = still_copy(made(kind, **options))
    ids = torch.from_numpy(tokens(9))[None]
    look = still.look(ids, still.fresh(1), nodes=True)
    torch.testing.assert_close(look.features_BTH, still.encode(ids, still.fresh(1))[0])  # the plain loop is the model
    first, last = 2, 7
    x = look.layers["words"].arrays["x"]
    for number, layer in enumerate(look.layers[name].steps for name in still.cells):
        jacobian = reduce(torch.matmul, layer_jacobians(layer)[first + 1 : last + 1].flip(0))
        sizes = list(layer.cell.state_sizes().values())

        def later(state_S: Tensor, layer: Any = layer, x: Tensor = x, sizes: list[int] = sizes) -> Tensor:
            state = layer.cell.state_type(*(part[None] for part in torch.split(state_S, sizes)))
            steps = x[:, first + 1 : last + 1]
            after = unroll(layer.cell, steps, state, layer.weights, kernel="reference").state
            return torch.cat([part[0] for part in after])

        start_S = torch.cat([part[0] for part in layer.states[first + 1]])
        truth = torch.autograd.functional.jacobian(later, start_S)
        torch.testing.assert_close(jacobian, truth, rtol=0, atol=1e-6)
        torch.testing.assert_close(jacobian, truth, rtol=1e-9, atol=1e-12)
        y = torch.stack([state.h for state in layer.states[1:]], dim=1)
        x = x + y if number and options.get("connect") else y


def test_gains_are_those_of_products_in_the_order_of_time() -> None:
    model, ids = made("lstm", layers=1), tokens(12)
    measured = jacobians(model, ids, steps=3, ends=1)
    still, rows = still_copy(model), cut_rows(model, ids, least=4, most=4, rows=1)
    steps = still.look(rows.inputs_BT, still.fresh(1), nodes=True).layers["l0"].steps
    assert steps is not None
    each_TSS = layer_jacobians(steps)
    gains = [float(torch.linalg.matrix_norm(each_TSS[end] @ each_TSS[end - 1], 2)) for end in (2, 3)]
    assert measured["gain"][0, 1] == pytest.approx(np.mean(gains))


def test_a_linear_rnn_stretches_by_its_eigenvalue() -> None:
    model = made("rnn", nonlinearity="identity", layers=1).double()
    turn, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))
    with torch.no_grad():
        model.layers.weight_hh_l0.copy_(0.9 * turn)
    found = jacobians(model, tokens(40), steps=12)
    np.testing.assert_allclose(found["singular"], 0.9, atol=1e-9)
    np.testing.assert_allclose(found["radius"], 0.9, atol=1e-9)
    for key in ("gain", "full"):
        np.testing.assert_allclose(found[key][0], 0.9 ** found["span"], atol=1e-9)
        assert jacobian_decays(found)["l0", key].rate == pytest.approx(0.9, abs=1e-6)
    assert np.isnan(found["direct"]).all()  # no gate, no direct path
    assert ("l0", "direct") not in jacobian_decays(found)


@pytest.mark.parametrize(
    ("kind", "options"),
    core(
        [("lstm", {}), ("lstm", {"coupled": True}), ("gru", {"update": "old"}), ("gru", {"update": "new"})],
        [("lstm", {"coupled": True}), ("gru", {"update": "old"})],
    ),
)
def test_without_recurrent_weights_only_the_direct_path_is_left(kind: str, options: dict[str, Any]) -> None:
    model = made(kind, **options)
    both = jacobians(model, tokens(40), steps=8)
    assert not np.allclose(both["full"], both["direct"])
    with torch.no_grad():
        for lane in model.layers.lanes:
            model.layers.lane_weights(lane)["weight_hh"].zero_()
    alone = jacobians(model, tokens(40), steps=8)
    np.testing.assert_allclose(alone["full"], alone["direct"], rtol=1e-9)


@pytest.mark.parametrize("kind", ["mingru", "minlstm"])
def test_linear_cells_have_the_direct_path_alone(kind: str) -> None:
    found = jacobians(made(kind), tokens(40), steps=8)
    np.testing.assert_allclose(found["full"], found["direct"], rtol=1e-9)


def test_what_is_measured() -> None:
    found = jacobians(made("lstm", sizes=(5, 7)), tokens(40), steps=8, ends=3, name="mine", text="digits")
    assert found.about == {
        "model": "mine",
        "text": "digits",
        "distance": 8,
        "steps": 11,
        "memory": ["c", "c"],
        "context": "stream",
    }
    assert found["layer"].tolist() == ["l0", "l1"]
    assert np.isnan(found["singular"][0, :, 10:]).all()  # the smaller layer's state has 10 numbers
    assert (np.diff(found["singular"][1], axis=1) <= 0).all()
    assert (found["radius"] <= found["singular"][:, :, 0] + 1e-9).all()


def test_models_without_a_recurrent_state() -> None:
    settings = settings_of("transformer")(hidden=8, layers=1, heads=2, context=16)
    with assert_refused(OptionError, "transformer"):
        jacobians(build("transformer", settings, vocabulary_size=V), tokens(30))
