"""Every registered cell: its equations against a scalar re-statement, its gradients against finite differences."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import thereafter.nn
from refusals import assert_refused
from thereafter.base.kinds import KINDS, recurrent_names
from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import option_cases
from thereafter.errors import OptionError, UnknownNameError
from thereafter.kernels.scan import unroll
from thereafter.models.build import settings_of

SMOOTH = ("tanh", "sigmoid", "identity")
KINKED = ("relu", "leaky_relu", "relu6")
CASES = [
    (name, options | {"bias": bias})
    for name in CELLS
    for options in option_cases(CELLS.load(name).options_type)
    for bias in (("two", "one", "none") if not options else ("two",))
]
everything = pytest.mark.parametrize(("name", "options"), CASES, ids=str)
either_kernel = pytest.mark.parametrize("kernel", ["reference", pytest.param("auto", marks=pytest.mark.wide)])
"""`make test` holds the reference against finite differences; fast kernels against the reference, in tests/kernels."""


def make(
    name: str, options: dict[str, Any], batch: int = 2, steps: int = 3
) -> tuple[Cell, Tensor, Any, dict[str, Tensor]]:
    draw = torch.Generator().manual_seed(11)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()

    cell: Cell = CELLS.load(name)(2, 3, **options)
    weights = {label: leaf(*shape) for label, shape in cell.shapes().items()}
    state = cell.state_type(*(leaf(batch, n) for n in cell.state_sizes().values()))
    return cell, leaf(batch, steps, 2), state, weights


def of_tensors(
    cell: Cell, x: Tensor, state: Any, weights: dict[str, Tensor], kernel: str
) -> tuple[Callable[..., Any], Any]:
    """The unrolled cell as a function of tensors alone, as gradcheck wants it, and those tensors."""
    fields, names = len(state), list(weights)

    def run(x_BTI: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        done = unroll(
            cell, x_BTI, type(state)(*rest[:fields]), dict(zip(names, rest[fields:], strict=True)), kernel=kernel
        )
        return (done.y_BTO, *done.state)

    return run, (x, *state, *weights.values())


@everything
@either_kernel
def test_gradients_equal_finite_differences(name: str, options: dict[str, Any], kernel: str):
    """A compiled loop may treat its first, its last and other steps each in its own way; the reference has one way."""
    run, tensors = of_tensors(*make(name, options, steps=2 if kernel == "reference" else 3), kernel)
    assert torch.autograd.gradcheck(run, tensors)


@everything
def test_the_reference_has_second_gradients(name: str, options: dict[str, Any]):
    run, tensors = of_tensors(*make(name, options, batch=1, steps=2), "reference")
    assert torch.autograd.gradgradcheck(run, tensors, fast_mode=True)


@everything
@either_kernel
def test_step_by_step_equals_the_whole_sequence(name: str, options: dict[str, Any], kernel: str):
    cell, x, state, weights = make(name, options, steps=5)
    whole = unroll(cell, x, state, weights, kernel=kernel)
    outputs, now = [], state
    for t in range(5):
        done = unroll(cell, x[:, t : t + 1], now, weights, kernel=kernel)
        outputs.append(done.y_BTO)
        now = done.state
    torch.testing.assert_close(torch.cat(outputs, 1), whole.y_BTO, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(tuple(now), tuple(whole.state), rtol=1e-12, atol=1e-12)


@everything
@either_kernel
def test_a_recorded_run_shows_its_gates_and_changes_nothing(name: str, options: dict[str, Any], kernel: str):
    cell, x, state, weights = make(name, options)
    plain = unroll(cell, x, state, weights, kernel=kernel)
    shown = unroll(cell, x, state, weights, record=True)
    torch.testing.assert_close(shown.y_BTO, plain.y_BTO, rtol=1e-12, atol=1e-12)
    assert plain.record is None
    assert shown.record is not None
    assert set(cell.state_sizes()) <= set(shown.record)
    assert all(array.shape[:2] == (2, 3) for array in shown.record.values())
    torch.testing.assert_close(shown.record["h"], plain.y_BTO, rtol=1e-12, atol=1e-12)
    if name in ("lstm", "gru", "mingru", "minlstm"):
        assert set(cell.gates) <= set(shown.record)


@pytest.mark.parametrize("name", [name for name in CELLS if CELLS.load(name).linear])
@pytest.mark.parametrize("steps", [1, 2, 7, 64, 100])
def test_the_parallel_form_equals_the_steps(name: str, steps: int):
    cell, x, state, weights = make(name, {}, steps=steps)
    lengths = torch.tensor([steps, (steps + 1) // 2])
    for given in (None, lengths):
        together = unroll(cell, x, state, weights, lengths=given, kernel="parallel")
        apart = unroll(cell, x, state, weights, lengths=given, kernel="reference")
        torch.testing.assert_close(together.y_BTO, apart.y_BTO, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(together.state.h, apart.state.h, rtol=1e-11, atol=1e-11)


def test_the_parallel_form_has_second_gradients():
    run, tensors = of_tensors(*make("mingru", {}, batch=1), "parallel")
    assert torch.autograd.gradgradcheck(run, tensors, fast_mode=True)


# --- one unit, one step, plain Python numbers: the equations as the papers print them --------------------------------


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


X, H, C = 0.7, -0.4, 0.9
W = [0.5, -0.3, 0.8, 0.2]
U = [0.1, 0.6, -0.7, 0.4]
B = [0.05, -0.1, 0.15, 0.3]
P = [0.35, -0.25, 0.45]


def one_unit(name: str, blocks: int, extra: dict[str, float] | None = None, **options: Any) -> dict[str, float]:
    """The state after one step of a cell of one unit with the numbers above."""
    cell: Cell = CELLS.load(name)(1, 1, bias="one", **options)
    column = {"weight_ih": W, "weight_hh": U}
    weights = {k: torch.tensor(v[:blocks], dtype=torch.float64)[:, None] for k, v in column.items()}
    weights["bias_ih"] = torch.tensor(B[:blocks], dtype=torch.float64)
    weights |= {k: torch.tensor([v], dtype=torch.float64) for k, v in (extra or {}).items()}
    given = {"h": H, "c": C}
    state = cell.state_type(*(torch.tensor([[given[f]]], dtype=torch.float64) for f in cell.state_sizes()))
    used = {k: v for k, v in weights.items() if k in cell.shapes()}
    done = unroll(cell, torch.tensor([[[X]]], dtype=torch.float64), state, used)
    return {f: float(part) for f, part in zip(done.state._fields, done.state, strict=True)}


def test_peephole_lstm_by_hand():
    i = sigmoid(W[0] * X + U[0] * H + B[0] + P[0] * C)
    f = sigmoid(W[1] * X + U[1] * H + B[1] + P[1] * C)
    c = f * C + i * math.tanh(W[2] * X + U[2] * H + B[2])
    o = sigmoid(W[3] * X + U[3] * H + B[3] + P[2] * c)  # the output gate sees the new cell
    extra = {"peephole_input": P[0], "peephole_forget": P[1], "peephole_output": P[2]}
    assert one_unit("lstm", 4, extra, peephole=True) == pytest.approx({"h": o * math.tanh(c), "c": c}, abs=1e-12)


def test_coupled_lstm_by_hand():
    i = sigmoid(W[0] * X + U[0] * H + B[0])
    c = (1 - i) * C + i * math.tanh(W[1] * X + U[1] * H + B[1])
    o = sigmoid(W[2] * X + U[2] * H + B[2])
    assert one_unit("lstm", 3, coupled=True) == pytest.approx({"h": o * math.tanh(c), "c": c}, abs=1e-12)


@pytest.mark.parametrize("reset", ["before", "after"])
@pytest.mark.parametrize("update", ["old", "new"])
def test_gru_by_hand(reset: str, update: str):
    r = sigmoid(W[0] * X + U[0] * H + B[0])
    z = sigmoid(W[1] * X + U[1] * H + B[1])
    # one unit and one bias: U (r h) and r (U h) are the same number, so the orders meet here
    n = math.tanh(W[2] * X + B[2] + U[2] * (r * H))
    h = z * H + (1 - z) * n if update == "old" else (1 - z) * H + z * n
    assert one_unit("gru", 3, reset=reset, update=update)["h"] == pytest.approx(h, abs=1e-12)


def test_the_orders_of_the_reset_gate_part_with_two_units():
    draw = torch.Generator().manual_seed(0)
    x, h = (torch.randn(1, 2, generator=draw, dtype=torch.float64) for _ in range(2))
    shapes = CELLS.load("gru")(2, 2).shapes()
    weights = {k: torch.randn(shape, generator=draw, dtype=torch.float64) for k, shape in shapes.items()}
    gates = (x @ weights["weight_ih"].T + weights["bias_ih"])[0]
    inner = (h @ weights["weight_hh"].T + weights["bias_hh"])[0]
    r, z = torch.sigmoid(gates[:2] + inner[:2]), torch.sigmoid(gates[2:4] + inner[2:4])
    candidates = {
        "after": torch.tanh(gates[4:] + r * inner[4:]),
        "before": torch.tanh(gates[4:] + weights["weight_hh"][4:] @ (r * h[0]) + weights["bias_hh"][4:]),
    }
    for reset, n in candidates.items():
        cell = CELLS.load("gru")(2, 2, reset=reset)
        found = unroll(cell, x[:, None], cell.state_type(h), weights).state.h[0]
        torch.testing.assert_close(found, z * h[0] + (1 - z) * n)
    assert not torch.allclose(candidates["after"], candidates["before"])


def test_linear_cells_by_hand():
    a = [W[k] * X + B[k] for k in range(3)]
    z = sigmoid(a[0])
    assert one_unit("mingru", 2)["h"] == pytest.approx((1 - z) * H + z * a[1], abs=1e-12)
    i, f = sigmoid(a[0]), sigmoid(a[1])
    assert one_unit("minlstm", 3)["h"] == pytest.approx(f / (f + i) * H + i / (f + i) * a[2], abs=1e-12)
    decay = math.exp(-math.exp(-2.0))
    expected = decay * H + math.sqrt(1 - decay**2) * a[0]
    assert one_unit("diagonal", 1, {"log_rate": -2.0})["h"] == pytest.approx(expected, abs=1e-12)


def test_a_closed_minlstm_stays_finite():
    cell, x, state, weights = make("minlstm", {})
    shut = weights | {"bias_ih": torch.cat([torch.full((6,), -2000.0), torch.zeros(3)]).double()}
    assert bool(unroll(cell, x, state, shut).y_BTO.isfinite().all())


def test_options_outside_their_range_are_named():
    with assert_refused(OptionError, "hidden_size", 0, 1):
        CELLS.load("lstm")(2, 0)
    with assert_refused(OptionError, "proj_size", 3, 0, "hidden_size"):
        CELLS.load("lstm")(2, 3, proj_size=3)
    with assert_refused(OptionError, "reset", "inside"):
        CELLS.load("gru")(2, 3, reset="inside")
    with assert_refused(OptionError, "bias", "three"):
        CELLS.load("gru")(2, 3, bias="three")
    with assert_refused(UnknownNameError, "relu"):
        CELLS.load("elman")(2, 3, nonlinearity="rellu")
    with assert_refused(UnknownNameError, "lstm"):
        CELLS.load("lstmm")


@pytest.mark.parametrize(("layer", "cell"), [("RNN", "elman"), ("LSTM", "lstm"), ("GRU", "gru")])
def test_a_layer_offers_the_options_its_cell_declares(layer: str, cell: str):
    """`thereafter.nn` writes their names out, so that editors and type checkers see them."""
    offered = inspect.signature(getattr(thereafter.nn, layer).__init__).parameters
    for option in dataclasses.fields(CELLS.load(cell).options_type):
        assert offered[option.name].default == option.default
        assert offered[option.name].annotation == option.type


def test_a_model_offers_the_variants_its_cell_declares():
    for name in recurrent_names():
        declared = {option.name for option in dataclasses.fields(CELLS.load(KINDS[name].cell_name).options_type)}
        settings = settings_of(name)
        offered = {option.name for option in dataclasses.fields(settings.variant)}
        assert offered <= declared
        assert offered <= set(settings().cell_options()) <= {option.name for option in dataclasses.fields(settings)}
