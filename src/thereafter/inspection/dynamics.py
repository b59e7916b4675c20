"""How the state of a recurrent model moves, and the spaces it moves in.

- From a saved trace: trajectories, saturated gates, timescales
- Surfaces that a model's own weights make: predictions over the plane of its states, a gate over its two inputs
- Which tokens are alike for a model: those whose embeddings point the same way, cosine(a, b) = a . b / (|a| |b|)

Shapes: T steps, U units of a field, K components, H features, G grid lines, W words; V words that can be predicted, E
numbers an embedding.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.kinds import KINDS, listed
from thereafter.decoding.sampling import largest
from thereafter.errors import OptionError, nearest
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import neural, with_units
from thereafter.inspection.trace import Trace
from thereafter.models.base import Ids
from thereafter.models.look import LayerLook
from thereafter.models.neural import NeuralModel
from thereafter.text.tokenizers.base import Tokenizer


def nearest_rows(
    embedding_VE: NDArray[np.floating], row: int, k: int, left_out: Sequence[int] = ()
) -> list[tuple[int, float]]:
    """The k rows of greatest cosine with one row, greatest first, ties to the lower id; itself is not among them."""
    vectors_VE = np.asarray(embedding_VE, dtype=np.float64)
    lengths_V = np.linalg.norm(vectors_VE, axis=1)
    # a row of zeros points nowhere: its cosine with all is 0
    cosines_V = vectors_VE @ vectors_VE[row] / np.maximum(lengths_V * lengths_V[row], np.finfo(np.float64).tiny)
    others = np.setdiff1d(np.arange(len(vectors_VE)), [row, *left_out])
    chosen = others[largest(cosines_V[others], k)]
    return [(int(place), float(cosines_V[place])) for place in chosen]


def find_token(word: str, tokenizer: Tokenizer, normal: Callable[[str], str] = str) -> int:
    """The id of a word, with or without the space that `prose` and `bpe` write before it, whichever came first.

    Ids fall with frequency, so that "cat" is the " cat" inside of lines unless lines begin with it more often.
    `normal` reads a word as the training text was read.
    """
    if not word:
        raise OptionError("the word is empty; expected one token of the model; try 'the'")
    ways = [word] if word[:1].isspace() else [word, f" {word}"]
    cut = [tokenizer.encode(normal(way)).tolist() for way in ways]
    known = [ids[0] for ids in cut if len(ids) == 1 and ids[0] != tokenizer.unknown_id]
    if known:
        return int(min(known))
    if max(map(len, cut)) > 1 and not any(tokenizer.unknown_id in ids for ids in cut if len(ids) == 1):
        shown = ", ".join(repr(tokenizer.piece(part)) for part in min(cut, key=len)[:8])
        raise OptionError(
            f"{word!r} is more than one of the model's {tokenizer.name} tokens; expected one; try one of {shown}"
        )
    stripped = {form.strip(): None for form in tokenizer.ordinary_forms}
    close = difflib.get_close_matches(normal(word).strip(), stripped, n=3, cutoff=0.6)
    hint = (
        "did you mean " + " or ".join(map(repr, close)) + "?" if close else "try a word of the text it was trained on"
    )
    raise OptionError(
        f"{word!r} is not among the model's {len(tokenizer.vocabulary):,} {tokenizer.name} tokens; {hint}"
    )


GATES = ("input", "forget", "output", "reset", "update")
"""The fields that lie between 0 and 1."""
LOW, HIGH = 0.1, 0.9
"""A gate under the one or over the other is called saturated."""
BINS = 40


@dataclass(frozen=True)
class Plane:
    """The directions in which points differ most: `axes_KU` are unit vectors, `share_K` of the variance each."""

    mean_U: NDArray[np.float64]
    axes_KU: NDArray[np.float64]
    share_K: NDArray[np.float64]

    def project(self, points_TU: NDArray[np.number]) -> NDArray[np.float64]:
        """Coordinates along the axes, [T, K]."""
        coordinates_TK: NDArray[np.float64] = (np.asarray(points_TU, np.float64) - self.mean_U) @ self.axes_KU.T
        return coordinates_TK

    def lift(self, coordinates_TK: NDArray[np.number]) -> NDArray[np.float64]:
        """The points of the plane that have these coordinates, [T, U]."""
        points_TU: NDArray[np.float64] = self.mean_U + np.asarray(coordinates_TK, dtype=np.float64) @ self.axes_KU
        return points_TU


def principal(points_TU: NDArray[np.number], components: int = 3) -> Plane:
    """Principal components by the singular values of the centred points (Pearson 1901): X - mean = U S V^T.

    The sign of an axis is chosen so that its largest entry is positive, and with it every picture is the same again.
    """
    points = np.asarray(points_TU, dtype=np.float64)
    if len(points) < 2:
        raise OptionError(f"there are {len(points)} states; expected at least 2; try a longer text")
    mean_U = points.mean(axis=0)
    _, sizes, axes = np.linalg.svd(points - mean_U, full_matrices=False)
    kept = min(components, len(sizes))
    axes_KU = axes[:kept]
    axes_KU = axes_KU * np.sign(axes_KU[np.arange(kept), np.abs(axes_KU).argmax(axis=1)])[:, None]
    variance = sizes**2
    return Plane(mean_U, axes_KU, variance[:kept] / max(float(variance.sum()), np.finfo(float).tiny))


def trajectory(trace: Trace, field: str = "l0.h", components: int = 3) -> Measurement:
    """The path of a state: `point` [step, component], `share` [component] of the variance, `token` [step].

    `stride` [step] is how far the whole state moved in that step, relative to the mean length of the state.
    """
    states_TU = field_of(trace, field)
    plane = principal(states_TU, components)
    moved = np.linalg.norm(np.diff(states_TU.astype(np.float64), axis=0, prepend=states_TU[:1]), axis=1)
    mean = max(float(np.linalg.norm(states_TU, axis=1).mean()), np.finfo(float).tiny)
    arrays = {"point": plane.project(states_TU), "share": plane.share_K}
    arrays |= {"token": np.array(trace.tokens), "stride": moved / mean}
    return Measurement.of("trajectory", arrays, {"field": field, "text": _text(trace), **trace.about})


def saturation(trace: Trace) -> Measurement:
    """How far the gates are closed or open: `low` and `high` [gate], the shares of all values under 0.1 and over 0.9.

    `histogram` [gate, bin] are shares of the values, `edge` [edge] the borders of the bins; `unit_low` and `unit_high`
    [gate, unit] the shares of each unit's own steps (as Karpathy, Johnson and Li 2015 draw them).
    """
    names = gates_of(trace)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    values = [trace[name] for name in names]
    histogram = np.stack([np.histogram(array, edges)[0] / array.size for array in values])
    arrays = {
        "gate": np.array(names),
        "low": np.array([np.mean(array < LOW) for array in values]),
        "high": np.array([np.mean(array > HIGH) for array in values]),
        "histogram": histogram,
        "edge": edges,
        "unit_low": _padded([(array < LOW).mean(axis=0) for array in values]),
        "unit_high": _padded([(array > HIGH).mean(axis=0) for array in values]),
    }
    return Measurement.of("saturation", arrays, {"text": _text(trace), "tokens": len(trace.tokens), **trace.about})


def _padded(rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Numbers of units, a row a gate or a layer; NaN where it has fewer units than others."""
    units = max(map(len, rows))
    return np.stack([np.pad(row, (0, units - len(row)), constant_values=np.nan) for row in rows])


def timescales(trace: Trace) -> Measurement:
    """In how many steps each unit's memory falls to 1/e by its gate alone: `steps` [layer, unit].

        tau = -1 / log f,    f the mean over the text of what the gate keeps in a step

    (Tallec and Ollivier 2018; Mahto et al. 2021). What is kept is the forget gate of an LSTM, the update gate of a GRU
    (which keeps the old state where it is 1), and 1 - update of a minGRU. The timescale
    of a unit that keeps everything is infinite.
    """
    by_layer = {}
    layers = sorted({name.split(".")[0] for name in trace.arrays if "." in name})
    for layer in layers:
        kept_TU = _kept(trace, layer)
        if kept_TU is not None:
            kept_U = np.clip(kept_TU.mean(axis=0, dtype=np.float64), np.finfo(np.float64).tiny, 1.0)
            with np.errstate(divide="ignore"):
                by_layer[layer] = 1.0 / np.abs(np.log(kept_U))
    if not by_layer:
        raise OptionError("the trace has no gate that keeps a memory; expected that of an lstm, gru or a minimal one")
    arrays = {"layer": np.array(list(by_layer)), "steps": _padded(list(by_layer.values()))}
    return Measurement.of("timescales", arrays, {"text": _text(trace), "tokens": len(trace.tokens), **trace.about})


def by_class(traces: Sequence[Trace], classes: Sequence[Sequence[str]], layer: str = "l0") -> Measurement:
    """Mean gates by the class of the word that was read: `mean` and `spread` [gate, class], `count` [class].

    `classes[i][t]` names the class of token t of trace i. `spread` is the standard deviation over tokens of a token's
    mean over units.
    """
    names = [name for name in gates_of(traces[0]) if name.startswith(f"{layer}.")]
    labels = np.concatenate([np.asarray(list(one)) for one in classes])
    kinds = sorted(set(labels.tolist()))
    mean, spread = np.empty((len(names), len(kinds))), np.empty((len(names), len(kinds)))
    for row, name in enumerate(names):
        level_T = np.concatenate([trace[name].mean(axis=1, dtype=np.float64) for trace in traces])
        for column, kind in enumerate(kinds):
            mean[row, column] = level_T[labels == kind].mean()
            spread[row, column] = level_T[labels == kind].std()
    arrays = {"gate": np.array(names), "class": np.array(kinds), "mean": mean, "spread": spread}
    arrays |= {"count": np.array([int((labels == kind).sum()) for kind in kinds])}
    about = {"sentences": len(traces), "tokens": len(labels), **traces[0].about}
    return Measurement.of("gates-by-class", arrays, about)


def gates_of(trace: Trace) -> list[str]:
    """The gates a trace has, such as `l0.forget`."""
    names = [name for name in trace.arrays if name.rpartition(".")[2] in GATES and "." in name]
    if not names:
        gated = [name for name, kind in KINDS.items() if kind.gated]
        raise OptionError(f"the trace has no gates; expected that of a model with gates: {listed(gated)}")
    return names


def field_of(trace: Trace, field: str) -> NDArray[np.number]:
    """An array of a trace that has one row of units a step."""
    if trace.axes.get(field) != ("step", "unit"):
        known = [name for name, axes in trace.axes.items() if axes == ("step", "unit")]
        raise OptionError(f"the trace has no states {field!r}; {nearest(field, known)}")
    return trace[field]


def _kept(trace: Trace, layer: str) -> NDArray[np.number] | None:
    if f"{layer}.forget" in trace.arrays:
        return trace[f"{layer}.forget"]
    if f"{layer}.update" not in trace.arrays:
        return None
    update = trace[f"{layer}.update"]
    return update if f"{layer}.reset" in trace.arrays else 1 - update


def _text(trace: Trace) -> str:
    """The beginning of the text, for a caption."""
    characters = all(len(token) <= 1 for token in trace.tokens)
    glue = "" if characters or any(token[:1].isspace() for token in trace.tokens[1:]) else " "
    text = " ".join(glue.join(trace.tokens[:60]).split())
    return text if len(text) <= 60 else text[:57] + "..."


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
        features.append(model.features_of(state)[0].double().cpu().numpy())
    return np.stack(features)
