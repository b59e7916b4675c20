"""Surfaces a trained model's own weights make: predictions over the plane of its states, a gate over its two inputs.

Shapes: T steps, H features, G grid lines, W words, U units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.inspection.dynamics import principal
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.neighbours import find_token
from thereafter.inspection.reading import neural, with_units
from thereafter.models.base import Ids
from thereafter.models.look import LayerLook
from thereafter.models.neural import NeuralModel
from thereafter.text.tokenizers.base import Tokenizer

GRID = 45
_MARGIN = 0.12  # beyond the outermost states, as a share of the plane's width


def prediction_surface(
    model: object, tokenizer: Tokenizer, text: str, words: Sequence[str] = (), *, grid: int = GRID
) -> Measurement:
    """p(word | f) over the plane of the first two principal components of the features f met in a text.

        f(a, b) = mean + a v_1 + b v_2,    p = softmax(W f + b)

    Points of the plane are no states the model was ever in: what lies off the plane is left at its mean. `words` are
    the tokens to show; without any, the four likeliest over the plane. Returns `probability` [word, second, first],
    the grid `first`, `second`, the likeliest token at each place, and where the text's states lie: `point` [step, 2].
    """
    network = neural(model, "a plane of states")
    ids = tokenizer.encode(text)
    features_TH = _features(network, ids)
    plane = principal(features_TH, 2)
    points_T2 = plane.project(features_TH)
    low, high = points_T2.min(axis=0), points_T2.max(axis=0)
    edge = _MARGIN * np.maximum(high - low, 1e-6)
    lines = [np.linspace(low[k] - edge[k], high[k] + edge[k], grid) for k in range(2)]
    second, first = np.meshgrid(lines[1], lines[0], indexing="ij")
    lifted = plane.lift(np.stack([first.ravel(), second.ravel()], axis=1))
    with network.quietly():
        features = torch.from_numpy(lifted).to(network.device, network.embedding.weight.dtype)
        p_NV = network.head.log_prob(features).double().exp().cpu().numpy()
    shown = [find_token(word, tokenizer) for word in words]
    if not shown:
        shown = np.argsort(-p_NV.max(axis=0), kind="stable")[:4].tolist()
    likeliest = p_NV.argmax(axis=1)
    arrays = {
        "first": lines[0],
        "second": lines[1],
        "word": np.array([tokenizer.piece(token) for token in shown]),
        "probability": p_NV[:, shown].T.reshape(len(shown), grid, grid),
        "likeliest": np.array([tokenizer.piece(int(token)) for token in likeliest]).reshape(grid, grid),
        "likeliest_probability": p_NV.max(axis=1).reshape(grid, grid),
        "point": points_T2,
        "token": np.array([tokenizer.piece(int(token)) for token in ids]),
        "share": plane.share_K,
    }
    about = {"model": type(model).__name__, "text": " ".join(text.split())[:60]}
    return Measurement.of("prediction-surface", arrays, about)


def gate_surface(
    model: object,
    tokenizer: Tokenizer,
    text: str,
    gate: str = "forget",
    unit: int | None = None,
    *,
    layer: int = 0,
    grid: int = GRID,
) -> Measurement:
    """One gate of one unit as a function of what it is the sum of, and where a text takes it.

        gate = sigmoid(a + b + bias),    a = w_u . x_t from the word (or the layer below),   b = u_u . h_{t-1}

    The weights w_u, u_u and the bias are the trained cell's. Without `unit` it is the one whose gate varies most over
    the text. Returns `value` [state, word] over the grid `word_part`, `state_part`, the text's own `met` [step, 2] and
    `gate` [step], each the sigmoid of its place. For the LSTM's gates and a GRU's reset and update.
    """
    network = with_units(model)
    ids = tokenizer.encode(text)
    with network.quietly():
        look = network.look(network.checked(ids.reshape(1, -1)), network.begin(1), nodes=True)
        name, cell = list(network.cells.items())[layer]
        a_TU, b_TU, bias_U, values_TU = _gate_sums(look.layers[name], gate, cell.name)
    chosen = int(values_TU.std(axis=0).argmax()) if unit is None else unit
    if not 0 <= chosen < values_TU.shape[1]:
        raise OptionError(f"unit is {unit}; expected 0 to {values_TU.shape[1] - 1}")
    bias = float(bias_U[chosen])
    met_T2 = np.stack([a_TU[:, chosen], b_TU[:, chosen]], axis=1)
    reach = np.maximum(np.abs(met_T2).max(axis=0) * 1.1, 1.0)
    lines = [np.linspace(-reach[k], reach[k], grid) for k in range(2)]
    value = 1 / (1 + np.exp(-(lines[0][None, :] + lines[1][:, None] + bias)))
    arrays = {"word_part": lines[0], "state_part": lines[1], "value": value}
    arrays |= {"met": met_T2, "gate": values_TU[:, chosen]}
    arrays |= {"token": np.array([tokenizer.piece(int(token)) for token in ids])}
    about: Table = {"model": type(model).__name__, "text": " ".join(text.split())[:60]}
    about |= {"name": f"{gate} gate of unit {chosen}, layer {layer + 1}", "bias": bias}
    return Measurement.of("gate-surface", arrays, about)


def _gate_sums(
    layer: LayerLook, gate: str, cell: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """What a gate takes from the input and from the state at each step, [T, U] each, its bias [U] and its values."""
    sums = None if layer.steps is None else layer.steps.gate_sums(gate)
    if sums is not None and gate in layer.arrays:
        value_BTU = torch.sigmoid(sums.input_BTU + sums.state_BTU + sums.bias_U)
        # peepholes and layer norm are no part of these sums, and a candidate is no sigmoid
        if torch.allclose(value_BTU, layer.arrays[gate], rtol=1e-3, atol=1e-4):
            a_TU, b_TU, value_TU = (part[0] for part in (sums.input_BTU, sums.state_BTU, value_BTU))
            arrays = [part.double().cpu().numpy() for part in (a_TU, b_TU, sums.bias_U, value_TU)]
            return arrays[0], arrays[1], arrays[2], arrays[3]
    raise OptionError(f"the cell {cell!r} has no gate {gate!r} that is a sigmoid of two sums; try 'forget'")


def _features(model: NeuralModel, ids: Ids) -> NDArray[np.float64]:
    """What the head sees after each token, [T, H]."""
    if len(ids) < 3:
        raise OptionError(f"the text has {len(ids)} tokens; expected at least 3")
    features = []
    state = model.start(1)
    for token in ids.tolist():
        state = model.read(np.array([[token]]), state)
        features.append(model.known(state)[0].double().cpu().numpy())
    return np.stack(features)
