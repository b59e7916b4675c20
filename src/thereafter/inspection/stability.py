"""What repeated multiplication does to a state and its gradient: vanilla RNNs with one random matrix at several scales.

    h_t = f(r U h_{t-1} + x_t)       U with spectral radius 1, x_t the same small noise for all

Forward the largest |h_t| is followed, backward the largest singular value of d h_T / d h_{T-d} = product of r D_t U,
D_t = diag(f') (Pascanu, Mikolov and Bengio 2013). Repeated multiplication by one matrix is the first line of it:
|(r U)^k x| with nothing between the products. Along the c of an LSTM a step multiplies by its forget gate in place of
r U, and by the matrix only beside it (Hochreiter and Schmidhuber 1997).

Shapes: T steps, H units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.config import Table
from thereafter.cells.elman import ACTIVATIONS
from thereafter.errors import OptionError, UnknownNameError
from thereafter.inspection.measurement import Measurement
from thereafter.layers.bptt import DERIVATIVES

STABILITY = "activation-stability"
POWERS = "repeated-multiplication"
RADII = (0.5, 1.0, 2.0)


def activation_stability(
    activations: Sequence[str] = tuple(ACTIVATIONS),
    radii: Sequence[float] = RADII,
    *,
    steps: int = 50,
    hidden: int = 64,
    noise: float = 0.1,
    seed: int = 0,
) -> Measurement:
    """Largest state by step and gain of the gradient by distance, for every activation and spectral radius.

    Arrays: `state` [activation, radius, step], `gradient` [activation, radius, distance], and `shut` [activation,
    radius], the share of units and steps whose slope is at most 0.01: such units hardly learn.
    """
    for name in activations:
        if name not in ACTIVATIONS:
            raise UnknownNameError("activation", name, ACTIVATIONS)
    drawn = torch.Generator().manual_seed(seed)
    U_HH = torch.randn(hidden, hidden, generator=drawn, dtype=torch.float64)
    U_HH = U_HH / torch.linalg.eigvals(U_HH).abs().max()  # spectral radius 1
    x_TH = noise * torch.randn(steps, hidden, generator=drawn, dtype=torch.float64)
    shape = (len(activations), len(radii))
    state, gradient = np.zeros((*shape, steps)), np.zeros((*shape, steps))
    shut = np.zeros(shape)
    for i, name in enumerate(activations):
        for j, radius in enumerate(radii):
            h_TH = _run(radius * U_HH, x_TH, name)
            slope_TH = DERIVATIVES[name](h_TH)
            state[i, j] = h_TH.abs().amax(1).numpy()
            shut[i, j] = float((slope_TH <= 0.01).double().mean())
            gradient[i, j] = _gains(radius * U_HH, slope_TH)
    arrays = {"state": state, "gradient": gradient, "shut": shut}
    labels = {"activation": np.array(activations), "radius": np.array(radii)}
    labels |= {"step": np.arange(1, steps + 1), "distance": np.arange(steps)}
    about = {"model": f"rnn, {hidden} units, one random matrix", "text": f"noise of size {noise:g}", "seed": seed}
    return Measurement.of(STABILITY, arrays | labels, about)


def repeated_multiplication(
    radii: Sequence[float] = (0.9, 1.0, 1.1), *, steps: int = 50, hidden: int = 64, forget: float = 0.97, seed: int = 0
) -> Measurement:
    """|W^k x| / |x| and gradients through a linear RNN, a tanh RNN and an LSTM with the matrix W, by spectral radius.

    W is a random orthogonal matrix times the radius, so that all eigenvalues have that size and the linear curve is
    radius^k to the last digit. The LSTM's gates are kept at f = `forget`, i = 1 - f and o = 1, and W is in its
    candidate: c_t = f c_{t-1} + (1 - f) tanh(W tanh(c_{t-1}) + x_t). Arrays: `power`, `linear`, `tanh`, `lstm`
    (d c_T / d c_{T-k}) and `gates` (f^k, its direct path alone), all [radius, step].
    """
    if steps < 2:
        raise OptionError(f"steps is {steps}; expected at least 2; try steps=50")
    if not 0 <= forget <= 1:
        raise OptionError(f"the forget gate is {forget}; expected 0 to 1; try forget=0.97")
    drawn = torch.Generator().manual_seed(seed)
    Q_HH, _ = torch.linalg.qr(torch.randn(hidden, hidden, generator=drawn, dtype=torch.float64))
    x_H = torch.randn(hidden, generator=drawn, dtype=torch.float64)
    x_TH = 0.3 * torch.randn(steps, hidden, generator=drawn, dtype=torch.float64)
    curves: dict[str, list[NDArray[np.float64]]] = {"power": [], "linear": [], "tanh": [], "lstm": [], "gates": []}
    for radius in radii:
        W_HH, y_H, norms = radius * Q_HH, x_H, []
        for _ in range(steps):
            norms.append(float(y_H.norm() / x_H.norm()))
            y_H = W_HH @ y_H
        curves["power"].append(np.array(norms))
        for name, activation in (("linear", "identity"), ("tanh", "tanh")):
            curves[name].append(_gains(W_HH, DERIVATIVES[activation](_run(W_HH, x_TH, activation))))
        curves["lstm"].append(_lstm_gains(W_HH, x_TH, forget))
        curves["gates"].append(forget ** np.arange(float(steps)))
    arrays = {name: np.stack(rows) for name, rows in curves.items()}
    labels = {"radius": np.array(radii), "step": np.arange(steps)}
    about: Table = {"model": f"rnn, {hidden} units, orthogonal matrix times the radius", "forget": forget}
    about |= {"text": "noise of size 0.3"}
    return Measurement.of(POWERS, arrays | labels, about)


def _run(U_HH: Tensor, x_TH: Tensor, activation: str) -> Tensor:
    h_H, states = torch.zeros_like(x_TH[0]), []
    for x_H in x_TH:
        h_H = ACTIVATIONS[activation](U_HH @ h_H + x_H)
        states.append(h_H)
    return torch.stack(states)


def _lstm_gains(W_HH: Tensor, x_TH: Tensor, forget: float) -> NDArray[np.float64]:
    """The largest singular value of d c_T / d c_{T-d} for d = 0, 1, ...; gates stay where they are."""
    c_H, steps = torch.zeros_like(x_TH[0]), []
    for x_H in x_TH:
        h_H = torch.tanh(c_H)
        g_H = torch.tanh(W_HH @ h_H + x_H)
        through_h = (1 - g_H.square()).unsqueeze(1) * W_HH * (1 - h_H.square())
        steps.append(forget * torch.eye(len(W_HH), dtype=W_HH.dtype) + (1 - forget) * through_h)
        c_H = forget * c_H + (1 - forget) * g_H
    return _products(steps)


def _gains(U_HH: Tensor, slope_TH: Tensor) -> NDArray[np.float64]:
    """The largest singular value of d h_T / d h_{T-d} for d = 0, 1, ...; T is the last step."""
    return _products([slope_H.unsqueeze(1) * U_HH for slope_H in slope_TH])


def _products(steps: Sequence[Tensor]) -> NDArray[np.float64]:
    """The largest singular value of the product of the last d steps, for d = 0, 1, ..."""
    product_HH, gains = torch.eye(len(steps[0]), dtype=steps[0].dtype), []
    for step_HH in reversed(steps):
        gains.append(float(torch.linalg.matrix_norm(product_HH, 2)))
        product_HH = product_HH @ step_HH
    return np.array(gains)
