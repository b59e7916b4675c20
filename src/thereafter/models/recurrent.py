"""Recurrent language models: word vectors, a stack of recurrent layers, a head.

A stream of the stack keeps its state in buffers of its own, while the states of a model stay values. So a stream is a
tool here: the state is put in, a token or a short prompt is read, the new state is copied out. A stream has one user at
a time: a reader takes an idle stream and puts it back, so several threads may read at once. Taking and putting
back are single operations on a list, which need no lock, and one thread always gets back the stream it has just used.

Shapes: B rows, T steps, E word vector, S the size of a state field, H features (the last layer's size).
"""

from __future__ import annotations

from copy import deepcopy
from threading import Lock
from typing import Any, NamedTuple, Self, Unpack

import torch
from torch import Tensor

from thereafter.base.kinds import cell_of
from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.kernels.step.storing import check_narrow
from thereafter.layers.dropout import locked
from thereafter.layers.recurrent import Recurrent
from thereafter.layers.stream import Packed, Stream
from thereafter.models.look import Observer, memory_name
from thereafter.models.neural import NeuralModel, TextFacts
from thereafter.models.quiet import Anew, NeuralState, Versions, versions, weights_by_layer
from thereafter.models.settings import RecurrentSettings

STEPS_STREAMED = 16
"""Setting up a kernel for a whole sequence costs about as much as this number of single steps."""


class RecurrentModel(NeuralModel):
    """x_t = E[token_t],  h_t = cells(x_t, h_{t-1}),  p = softmax(W h_t + b),  W = E if tied.

    With every kind of dropout, weight drop and activation regularisation at once it is the AWD-LSTM (Merity, Keskar and
    Socher 2018). The state has one tensor [B, S] for each field of each layer: h_l0, c_l0, h_l1, ...
    """

    settings: RecurrentSettings

    def __init__(self, settings: RecurrentSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size, sizes = settings.embed or settings.hidden, settings.sizes
        self.embedding = self._make_embedding(size)
        self.layers = Recurrent(
            cell_of(type(self)),
            size,
            list(sizes),
            len(sizes),
            batch_first=True,
            dropout=settings.dropout_hidden if len(sizes) > 1 else 0.0,
            locked=True,
            input_dropout=settings.dropout_input,
            weight_drop=settings.weight_dropout,
            connect=settings.connect,
            cell_options=settings.cell_options(),
        )
        self.fields = tuple(self.layers.lanes[0].cell.state_sizes())
        self.head = self._make_head(sizes[-1], tied=bool(settings.tied))
        self._streams = Streams()
        self._stored: dict[str, tuple[Versions, Self]] = {}

    def stored(self, weights: str) -> Self:
        """As the contract says: a model of the same weights, whose word vectors alone are read as they are.

        On a GPU its matrices, word vectors included, are rounded to bfloat16, and a recorded step multiplies them so.
        """
        narrow, on_cpu = check_narrow(weights), self.device.type == "cpu"
        if not on_cpu and narrow != "bfloat16":
            raise OptionError(f"weights is {weights!r} on {self.device}; expected 'bfloat16' there; try it without")
        entry, now = self._stored.get(weights), versions(self.parameters())
        if entry is None or entry[0] != now:
            # weights of its own: training one of the two does not change the other; but no copies of copies
            model = deepcopy(self, {id(self._stored): {}}).eval()
            model.narrow = narrow
            if not on_cpu:
                with torch.no_grad():
                    for weight in model.parameters():
                        weight.copy_(weight.bfloat16() if weight.dim() > 1 else weight)
            model.forget()
            entry = self._stored[weights] = now, model
        return entry[1]

    def fresh(self, batch: int) -> NeuralState:
        memory = {}
        for lane in self.layers.lanes:
            for field, part in zip(self.fields, lane.cell.zero_state(batch, self.embedding.weight), strict=True):
                memory[memory_name(lane.name, field)] = part
        return NeuralState(memory)

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        tied = self.settings.tied and torch.is_grad_enabled()
        x_BTE, table = self.embedding.lookup(tokens_BT) if tied else (self.embedding(tokens_BT), None)
        names = [[memory_name(lane.name, field) for lane in self.layers.lanes] for field in self.fields]
        columns = [tuple(state.memory[name] for name in column) for column in names]
        before = columns[0] if len(columns) == 1 else tuple(columns)
        if observer is not None:
            h_BTH, after = observer.run(self.layers, observer.words(x_BTE), before)
        elif self._may_stream(tokens_BT):
            h_BTH, after = self._streams.read(self.layers, x_BTE, before)
        else:
            h_BTH, after = self.layers(x_BTE, before)
        columns = [after] if len(self.fields) == 1 else list(after)
        memory: dict[str, Tensor] = {}
        for column, parts in zip(names, columns, strict=True):
            memory |= zip(column, parts, strict=True)
        return h_BTH, table, NeuralState(memory)

    def _may_stream(self, tokens_BT: Tensor) -> bool:
        """A few tokens on a CPU, without gradient and noise, go through preallocated buffers."""
        most = STEPS_STREAMED if self.narrow is None else tokens_BT.shape[1]
        short = 1 <= tokens_BT.shape[1] <= most and self.device.type == "cpu"
        return short and not self.training and not torch.is_grad_enabled()

    @property
    def cells(self) -> dict[str, Cell]:
        return {lane.name: lane.cell for lane in self.layers.lanes}

    @property
    def recurrent_weights(self) -> dict[str, Tensor]:
        weights = {lane.name: self.layers.lane_weights(lane) for lane in self.layers.lanes}
        return {name: own.get("weight_hh", own["weight_ih"]) for name, own in weights.items()}

    def weights_by_layer(self) -> list[list[str]]:
        """Word vectors that are tied to the head count as the head's."""
        return weights_by_layer(self, "layers", () if self.settings.tied else ("embedding",))

    def forget(self) -> None:
        """As `NeuralModel`'s."""
        super().forget()
        self._stored = {}
        self._streams = Streams(self.narrow)

    def _dropped(self, h_BTH: Tensor) -> Tensor:
        return locked(h_BTH, self.settings.dropout, self.training)


class RnnModel(RecurrentModel):
    """Over the simple recurrent cell (Elman 1990; as a language model Mikolov et al. 2010)."""


class GruModel(RecurrentModel):
    """Over gated recurrent units (Cho et al. 2014)."""


class LstmModel(RecurrentModel):
    """Over long short-term memory (Hochreiter and Schmidhuber 1997; as a language model Zaremba et al. 2014)."""


class MinGruModel(RecurrentModel):
    """Over minGRU, all steps at once (Feng et al. 2024)."""


class MinLstmModel(RecurrentModel):
    """Over minLSTM, all steps at once (Feng et al. 2024)."""


MOST = 4
"""Maximum number of batch sizes with idle streams; the oldest is dropped first."""
MOST_IDLE = 8
"""Idle streams per batch size: this many threads may read at once without creating new ones."""


class _Idle(NamedTuple):
    """An idle stream and its state: a reader that continues from there need not put the state in again."""

    stream: Stream
    state: object


class _IdleStreams:
    """The streams for given weights, by their number of rows; all of them share the weights themselves."""

    def __init__(self, weights: Versions) -> None:
        self.weights = weights
        self.packed: Packed = {}
        self.idle: dict[int, list[_Idle]] = {}
        self._lock = Lock()

    def of(self, rows: int) -> list[_Idle]:
        """The idle streams of that number of rows."""
        idle = self.idle.get(rows)
        if idle is None:
            with self._lock:
                if len(self.idle) >= MOST and rows not in self.idle:
                    del self.idle[next(iter(self.idle))]
                idle = self.idle.setdefault(rows, [])
        return idle


class Streams(Anew):
    """Streams of one stack, created when needed and dropped when its weights have changed.

    A copy begins anew: its buffers would not be those that its loops write to.
    """

    def __init__(self, stored: str | None = None) -> None:
        """`stored`: the form of their weights, see `layers.stream.Stream`."""
        self._streams, self._stored = _IdleStreams(()), stored

    def read(self, layers: Recurrent, x_BTE: Tensor, before: Any) -> tuple[Tensor, Any]:
        """Outputs [B, T, H] of some tokens and the state after them."""
        weights = versions(w for w in layers._parameters.values() if w is not None)
        streams = self._streams
        if weights != streams.weights:
            streams = self._streams = _IdleStreams(weights)
        idle = streams.of(len(x_BTE))
        try:
            stream, state = idle.pop()
        except IndexError:  # none is idle: this is the first reader, or others are reading
            stream, state = Stream(layers, len(x_BTE), streams.packed, self._stored), None
        if not _same(before, state):
            stream.reset(before)
        y_BTH = torch.stack([stream.step(x_BE).clone() for x_BE in x_BTE.unbind(1)], dim=1)
        after = stream.state
        if len(idle) < MOST_IDLE:
            idle.append(_Idle(stream, after))
        return y_BTH, after

    def _arguments(self) -> tuple[str | None]:
        return (self._stored,)


def _same(state: object, other: object) -> bool:
    """Whether two states are made of the very same tensors."""
    if isinstance(state, tuple):
        return isinstance(other, tuple) and all(map(_same, state, other))
    return state is other
