"""One way to look into a network: what its layers did over some tokens, by the names of the layers.

`NeuralModel.look` returns a `Look`; traces, instruments and the studio read it and nothing else of a network. A model
is looked at while it encodes: `encode` shows an `Observer` its word vectors, its layers, and what else it has to show.

Shapes: B rows, T steps, P steps of one piece, S size of a state (all fields), M size of the memory, I inputs of a
layer, G gate rows, U units of a gate, E word vector, H features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from thereafter.cells.base import Cell, Record, State, Weights
from thereafter.layers.inputs import join_state, split_state
from thereafter.layers.recurrent import Recurrent, Traced, join
from thereafter.models.quiet import NeuralState

WORDS = "words"
"""The layer that the word vectors are. Like a residual stream it has one field, "x"."""
Shown = dict[str, tuple[tuple[str, ...], Tensor]]
"""What only one kind of model has to show, for the first row: `{name: (axis names, tensor)}`, first axis "step"."""


@dataclass(frozen=True)
class LayerLook:
    """What one layer did.

    `arrays`: its states and gates by name, [B, T, size] each. `cell`: that of a recurrent layer. `nodes`: the states as
    tensors of the computation itself, of which a gradient can be asked: one [B, size] for each step of a recurrent
    layer, else one [B, P, size] for each piece that was read at once. `steps`: those of a recurrent layer, to be run
    again. Only a look with `nodes=True` has these two. `before`: how many vectors precede the first token, as
    in a window.
    """

    name: str
    arrays: Mapping[str, Tensor]
    cell: Cell | None = None
    nodes: Mapping[str, list[Tensor]] = field(default_factory=dict)
    steps: Steps | None = None
    before: int = 0

    @property
    def fields(self) -> tuple[str, ...]:
        """Which of the arrays are states: "h" and perhaps "c" of a recurrent layer, else "x"."""
        return ("x",) if self.cell is None else tuple(self.cell.state_sizes())

    @property
    def kept_BTM(self) -> Tensor | None:
        """The factor by which each step multiplied the memory, the last field; None where no gate does only that."""
        gate = None if self.cell is None else self.cell.memory_gate
        if gate is None:
            return None
        return self.arrays[gate.name] if gate.keeps else 1 - self.arrays[gate.name]

    def join(self, parts: list[Tensor]) -> Tensor:
        """Tensors with the shapes of a field's nodes as one [B, T, size]."""
        return _joined(parts, self.before)


class GateSums(NamedTuple):
    """A gate before its sigmoid: the sum of what it takes from the input, of what it takes from h, and of its bias."""

    input_BTU: Tensor
    state_BTU: Tensor
    bias_U: Tensor


@dataclass(frozen=True)
class Steps:
    """The steps of a recurrent layer, to be run again from other states; `states[0]` is that before the first step.

    Here a state is one vector [S], its fields one behind the other.
    """

    cell: Cell
    weights: Weights
    x_BTI: Tensor
    z_BTG: Tensor
    states: list[State]

    def before(self, step: int, row: int = 0) -> Tensor:
        """The state [S] of a row before a step."""
        return torch.cat([part[row] for part in self.states[step]])

    def again(self, step: int, before_S: Tensor, row: int = 0) -> Tensor:
        """The state [S] of a row after a step, had it been `before_S` before it."""
        sizes = list(self.cell.state_sizes().values())
        state = self.cell.state_type(*(part.unsqueeze(0) for part in torch.split(before_S, sizes)))
        _, after = self.cell.step(self.z_BTG[row : row + 1, step], state, self.weights)
        return torch.cat([part.squeeze(0) for part in after])

    def gate_sums(self, gate: str) -> GateSums | None:
        """The sums that a gate is a function of; None where the cell does not add it up like this."""
        cell, weights = self.cell, self.weights
        if gate not in cell.blocks or "weight_hh" not in weights or not cell.hoists:
            return None
        rows = cell.rows(gate)
        h_BTO = torch.stack([state.h for state in self.states[:-1]], dim=1)
        biases = [weights[name][rows] for name in ("bias_ih", "bias_hh") if name in weights]
        return GateSums(
            self.x_BTI @ weights["weight_ih"][rows].T,
            h_BTO @ weights["weight_hh"][rows].T,
            sum(biases, self.x_BTI.new_zeros(cell.hidden_size)),
        )


@dataclass(frozen=True)
class Look:
    """What a network did over [B, T] tokens.

    `layers`: "words", then "l0", "l1", ... of a recurrent model or "block 0", "block 1", ... of a Transformer.
    `features_BTH`: what the head sees after each token. `state`: that after the last. `extras`: what only this kind of
    model has; "attention" if it was requested.
    """

    layers: dict[str, LayerLook]
    features_BTH: Tensor
    state: NeuralState
    extras: Shown

    @property
    def arrays(self) -> dict[str, Tensor]:
        """States and gates of all recurrent layers, [B, T, size] each, by their names in a trace: "l0.forget"."""
        return {
            f"{layer.name}.{name}": array
            for layer in self.layers.values()
            for name, array in layer.arrays.items()
            if layer.cell is not None
        }

    def state_after(self, step: int) -> NeuralState:
        """The state of a recurrent model after a step; of a look with nodes."""
        recurrent = [layer for layer in self.layers.values() if layer.cell is not None]
        return NeuralState(
            {memory_name(layer.name, name): layer.nodes[name][step] for layer in recurrent for name in layer.fields}
        )


class Observer:
    """Receives what `encode` computes.

    `nodes`: keep tensors of which a gradient can be asked, from the word vectors on. `attention`: show the attention
    weights too. `reset_BT`: the rows of a recurrent model whose state is set to 0 before a step.
    """

    def __init__(self, *, nodes: bool = False, attention: bool = False, reset_BT: Tensor | None = None) -> None:
        self.nodes, self.attention, self.reset_BT = nodes, attention, reset_BT
        self._streams: dict[str, list[Tensor]] = {}
        self._recurrent: list[LayerLook] = []
        self._extras: Shown = {}

    def words(self, x_BPE: Tensor) -> Tensor:
        """Take the word vectors as they were looked up; returns those to continue with."""
        x_BPE = x_BPE.detach().requires_grad_() if self.nodes else x_BPE
        self.stream(WORDS, x_BPE)
        return x_BPE

    def stream(self, name: str, x_BPH: Tensor) -> None:
        """Take the vectors of a layer that does not recur, of all steps or of one piece of them after the other."""
        self._streams.setdefault(name, []).append(x_BPH)

    def show(self, name: str, axes: tuple[str, ...], array: Tensor) -> None:
        """Take an array of the first row that only this kind of model has."""
        self._extras[name] = (axes, array)

    def run(self, stack: Recurrent, x_BTE: Tensor, before: Any) -> tuple[Tensor, Any]:
        """Run recurrent layers and take what they compute; returns what a call of them returns."""
        if self.nodes:
            self._recurrent, y_BTO, after = _step_by_step(stack, x_BTE, before)
            return y_BTO, after
        traced = stack.trace(x_BTE, before, reset=self.reset_BT)
        self._recurrent = _layers(stack, traced)
        return traced.output, traced.state

    def look(self, features_BTH: Tensor, state: NeuralState) -> Look:
        """Everything that was taken."""
        layers = {}
        for name, parts in self._streams.items():
            before = sum(part.shape[1] for part in parts) - features_BTH.shape[1]
            nodes = {"x": parts} if self.nodes else {}
            layers[name] = LayerLook(name, {"x": _joined(parts, before)}, nodes=nodes, before=before)
        layers |= {layer.name: layer for layer in self._recurrent}
        return Look(layers, features_BTH, state, self._extras)


def memory_name(layer: str, name: str) -> str:
    """The name of a layer's field in the state of a recurrent model, such as "h_l0"."""
    return f"{name}_{layer}"


@contextmanager
def watch(net: nn.Module, names: Iterable[str]) -> Iterator[dict[str, list[LayerLook]]]:
    """Inside the block the recurrent modules of these names are traced; of several calls of one the last counts."""
    wanted = set(names)
    seen: dict[str, list[LayerLook]] = {}

    def looking(name: str, stack: Recurrent) -> Callable[..., tuple[Any, Any]]:
        def look(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any], __: object) -> tuple[Any, Any]:
            traced = stack.trace(*args, **options)
            seen[name] = _layers(stack, traced)
            return traced.output, traced.state

        return look

    stacks = {name: module for name, module in net.named_modules() if name in wanted and isinstance(module, Recurrent)}
    hooks = [module.register_forward_hook(looking(name, module), with_kwargs=True) for name, module in stacks.items()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _joined(parts: list[Tensor], before: int) -> Tensor:
    """Steps [B, size] or pieces [B, P, size] as one tensor, without what is before the first token."""
    if parts[0].dim() == 2:
        return torch.stack(parts, dim=1)
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))[:, before:]


def _layers(stack: Recurrent, traced: Traced) -> list[LayerLook]:
    return [LayerLook(lane.name, traced.records[lane.name], lane.cell) for lane in stack.lanes]


def _step_by_step(stack: Recurrent, x_BTI: Tensor, before: Any) -> tuple[list[LayerLook], Tensor, Any]:
    """Layers of one direction by the plain loop, without dropout, every state kept as it stands in the computation."""
    cells = [lane.cell for lane in stack.lanes]
    initial = split_state(before, cells, len(x_BTI), x_BTI, ragged=stack.ragged, batched=True)
    highway = dict(stack.named_parameters())
    layers: list[LayerLook] = []
    last: list[State] = []
    for lane, state in zip(stack.lanes, initial, strict=True):
        cell, weights = lane.cell, stack.lane_weights(lane)
        z_BTG = cell.project(x_BTI, weights)
        states, outputs, records = [state], [], []
        for z_BG in z_BTG.unbind(1):
            record: Record = {}
            y_BO, state = cell.step(z_BG, states[-1], weights, record)
            outputs.append(y_BO)
            states.append(state)
            records.append(record | state._asdict())
        arrays = {name: torch.stack([record[name] for record in records], dim=1) for name in records[0]}
        nodes = {
            name: list(parts) for name, parts in zip(cell.state_sizes(), zip(*states[1:], strict=True), strict=True)
        }
        layers.append(LayerLook(lane.name, arrays, cell, nodes, Steps(cell, weights, x_BTI, z_BTG, states)))
        last.append(states[-1])
        y_BTO = torch.stack(outputs, dim=1)
        carry = (highway.get(f"highway_{part}_{lane.name}") for part in ("weight", "bias"))
        x_BTI = join(stack.connect, x_BTI, y_BTO, *carry) if lane.layer else y_BTO
    return layers, x_BTI, join_state(last, ragged=stack.ragged, batched=True)
