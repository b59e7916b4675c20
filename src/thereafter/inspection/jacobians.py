"""One-step Jacobians of a recurrent layer, their products over time, and the direct path alone.

    J_t = d s_t / d s_{t-1},   s = h, or (h, c) one below the other;    d s_T / d s_t = J_T J_{T-1} ... J_{t+1}

Beside the whole product stands the one path on which the memory is only multiplied by a gate: c_t = f_t c_{t-1} + ...
in an LSTM (Hochreiter and Schmidhuber 1997), h_t = (share of the old state) h_{t-1} + ... in a GRU, so that

    direct(T, t) = diag(f_T f_{T-1} ... f_{t+1})

Everything else of d c_T / d c_t goes through h, the recurrent matrix and the slopes of the gates. In minGRU and minLSTM
there is nothing else.

Shapes: T steps, S size of the state (all fields), M size of the memory (c, or h where there is no c), G gate rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter import progress
from thereafter.cells.base import Cell, Weights
from thereafter.errors import OptionError
from thereafter.inspection.decay import Decay, fit_decay
from thereafter.inspection.gradients import model_name, reach
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.nodes import still_copy
from thereafter.inspection.text_rows import Ids, cut_rows, longest, neural
from thereafter.inspection.unrolling import LayerRun, run_layers
from thereafter.kinds import listed, recurrent_names
from thereafter.models.recurrent import RecurrentModel

JACOBIANS = "jacobians"


def step_jacobian(cell: Cell, weights: Weights, z_G: Tensor, state_S: Tensor) -> Tensor:
    """J [S, S] of one step: how the state after it changes with the state before.

    >>> from thereafter.cells.elman import Elman
    >>> half = {"weight_ih": torch.zeros(1, 1), "weight_hh": torch.full((1, 1), 0.5)}
    >>> cell = Elman(1, 1, nonlinearity="identity", bias="none")
    >>> step_jacobian(cell, half, torch.zeros(1), torch.ones(1))
    tensor([[0.5000]])
    """
    sizes = list(cell.state_sizes().values())

    def step(before_S: Tensor) -> Tensor:
        state = cell.state_type(*(part.unsqueeze(0) for part in torch.split(before_S, sizes)))
        _, after = cell.step(z_G.unsqueeze(0), state, weights)
        return torch.cat([part.squeeze(0) for part in after])

    found: Tensor = torch.func.jacrev(step)(state_S)
    return found


def layer_jacobians(layer: LayerRun, row: int = 0) -> Tensor:
    """J_t of every step of a layer, [T, S, S]."""
    found = []
    with torch.no_grad():
        for z_BG, state in zip(layer.z_BTG.unbind(1), layer.states[:-1], strict=True):
            before_S = torch.cat([part[row] for part in state])
            found.append(step_jacobian(layer.cell, layer.weights, z_BG[row], before_S))
    return torch.stack(found)


def product(jacobians_TSS: Tensor, end: int, steps: int) -> Tensor:
    """d s_end / d s_{end-steps}: the product of the `steps` Jacobians up to step `end`, [S, S]."""
    found = torch.eye(jacobians_TSS.shape[1], dtype=jacobians_TSS.dtype, device=jacobians_TSS.device)
    for t in range(end, end - steps, -1):
        found = found @ jacobians_TSS[t]
    return found


def jacobians(
    model: object, ids: Ids, *, steps: int | None = None, ends: int = 4, name: str = "", text: str = ""
) -> Measurement:
    """One-step Jacobians over one row of a text, and their products over 1 ... `steps` steps.

    Arrays: `singular` [layer, step, rank] and `radius` [layer, step], singular values and spectral radius of each J_t;
    `gain` [layer, span], the largest singular value of the product over so many steps; of the memory's own block
    (c, or h where there is no c) `full` and `direct` [layer, span], root mean square singular values of the whole
    product and of the direct path. All products are means over `ends` last steps; NaN where a cell has no direct path.
    """
    original = neural(model, "Jacobians")
    if not isinstance(original, RecurrentModel):
        raise OptionError(
            f"Jacobians from state to state need a recurrent model and got {model_name(model)!r}; "
            f"try {listed(recurrent_names())}"
        )
    span = reach(longest(original, ids), steps)
    rows = cut_rows(original, ids, least=span + 1, most=span + ends, rows=1)
    still = still_copy(original)
    with torch.no_grad():
        layers, _ = run_layers(still, still.embedding(rows.inputs_BT))
    with progress.task("Jacobians", total=len(layers) * rows.steps) as advance:
        found = [_measured(layer, span, advance) for layer in layers]
    about = {"model": name or model_name(model), "text": text, "distance": span, "steps": rows.steps}
    about |= {"memory": [layer.memory for layer in layers], "context": original.context}
    spans = np.arange(1, span + 1)
    arrays = {key: _stacked([one[key] for one in found]) for key in found[0]}
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("layer", "span"))
    axes |= {"singular": ("layer", "step", "rank"), "radius": ("layer", "step")}
    arrays |= {"layer": np.array([layer.name for layer in layers]), "span": spans}
    return Measurement(JACOBIANS, arrays, axes | {"layer": ("layer",), "span": ("span",)}, about)


def jacobian_decays(found: Measurement) -> dict[tuple[str, str], Decay]:
    """The decay of `gain`, `full` and `direct` of every layer, where there is one."""
    named = {}
    for i, layer in enumerate(found["layer"].tolist()):
        for key in ("gain", "full", "direct"):
            if not np.isnan(found[key][i]).any():
                named[layer, key] = fit_decay(found[key][i], found["span"])
    return named


def _measured(layer: LayerRun, span: int, advance: progress.Advance) -> dict[str, NDArray[Any]]:
    all_TSS = layer_jacobians(layer)
    steps = len(all_TSS)
    singular_TS = torch.linalg.svdvals(all_TSS)
    radius_T = torch.linalg.eigvals(all_TSS).abs().amax(1)
    advance(steps / 2)
    memory = slice(-list(layer.cell.state_sizes().values())[-1], None)  # c comes last, and is all there is without it
    gates = layer.gates()
    last = range(span - 1, steps)
    gain, full, direct = (np.full((len(last), span), np.nan) for _ in range(3))
    for row, end in enumerate(last):
        whole_SS = torch.eye(all_TSS.shape[1], dtype=all_TSS.dtype, device=all_TSS.device)
        kept_M = torch.ones((), dtype=all_TSS.dtype, device=all_TSS.device)
        for back in range(span):
            whole_SS = whole_SS @ all_TSS[end - back]
            gain[row, back] = torch.linalg.matrix_norm(whole_SS, 2)
            full[row, back] = _rms(whole_SS[memory, memory])
            if gates is not None:
                kept_M = kept_M * gates[end - back][0]
                direct[row, back] = kept_M.square().mean().sqrt()
        advance(steps / 2 / len(last))
    found = {"singular": singular_TS.cpu().numpy(), "radius": radius_T.cpu().numpy()}
    return found | {"gain": gain.mean(0), "full": full.mean(0), "direct": direct.mean(0)}


def _rms(matrix_MM: Tensor) -> Tensor:
    """Root mean square singular value: what a direction drawn at random is stretched by."""
    return matrix_MM.square().sum().div(len(matrix_MM)).sqrt()


def _stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Layers one below the other, the smaller filled up with NaN."""
    shape = tuple(max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True))
    whole = np.full((len(parts), *shape), np.nan)
    for row, part in zip(whole, parts, strict=True):
        row[tuple(map(slice, part.shape))] = part
    return whole
