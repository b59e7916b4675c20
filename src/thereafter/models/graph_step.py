"""One step of a neural language model as one CUDA graph: token ids in, log probabilities out.

A step is a chain of ten to forty short kernels; launched one by one from Python it takes the host many times as long as
the GPU. Recorded once, the whole chain is one launch. Weights are copied, in bfloat16 if requested: a step of few
rows takes as long as reading them.

Shapes: B rows, V words, H features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.one_token import TILE, RowHeadProgram, VectorTile, lacks, segment_size
from thereafter.kernels.switches import RECORDING
from thereafter.layers.heads import Softmax, WordHead
from thereafter.models.base import Ids, checked_tokens
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import FEATURES, NeuralState
from thereafter.models.step_bodies import LstmChain, StepBody, product, step_body, zero_filled

_TYPES = {None: torch.float32, "bfloat16": torch.bfloat16}


class GraphStep:
    """A neural language model that keeps its state and reads a token of every row at a time.

    `weights`: "bfloat16" reads the matrices in two bytes a number and multiplies them so; sums, gates, memories and
    the softmax are float32. None is float32. `programs`: the layers of an LSTM by the programs of
    `kernels.one_token`; None takes them where they run. `recorded`: as a CUDA graph; None where the model is on a
    GPU. On a CPU the same code runs operator by operator.

    As in `layers.stream.Stream`, the weights are those of when it was made: later training does not change it.

    >>> from thereafter.models.build import build, settings_of
    >>> model = build("lstm", settings_of("lstm")(hidden=8), vocabulary_size=5, context="stream", line_end=None).eval()
    >>> step = GraphStep(model, rows=2)
    >>> step.step(np.array([3, 4])).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        model: NeuralModel,
        rows: int = 1,
        weights: str | None = None,
        *,
        programs: bool | None = None,
        recorded: bool | None = None,
        tile: VectorTile = TILE,
    ) -> None:
        if rows < 1:
            raise OptionError(f"rows is {rows}; expected at least 1")
        if weights not in _TYPES:
            raise OptionError(f"weights is {weights!r}; expected 'bfloat16', or None for float32")
        device, dtype = model.device, _TYPES[weights]
        if programs is None:
            programs = device.type == "cuda" and lacks(index_of(device)) is None
        self._recorded = device.type == "cuda" if recorded is None else recorded
        self._model, self._rows = model, rows
        self._graph: tuple[torch.cuda.CUDAGraph, Tensor] | None = None
        with model.quietly(), torch.inference_mode(False), torch.no_grad():
            body = step_body(model, rows, dtype, programs=programs, tile=tile)
            if body is None:
                raise OptionError(
                    f"{type(model).__name__} has no recorded step with weights={weights!r}: its state grows, or it has "
                    "no matrices to store; try model.step"
                )
            self._body = body
            self._head = _head_of(model, body, rows, dtype, programs=programs, tile=tile)
            self.token_B = torch.zeros(rows, dtype=torch.int32, device=device)
            self.logp_BV = torch.zeros(rows, model.vocabulary_size, device=device)
            self._features_BS = torch.zeros(rows, model.head.features, device=device)
        self.reset()

    @property
    def buffers(self) -> list[Tensor]:
        """All that a step changes."""
        return [*self._body.memory.values(), self.logp_BV]

    @property
    def state(self) -> NeuralState:
        """A copy of the state, in the form of the model's own."""
        memory = {name: part.clone() for name, part in self._body.memory.items()}
        return self._model.fresh(1).with_tensors(memory | {FEATURES: self._features_BS.float().clone()})

    def reset(self, state: NeuralState | None = None) -> Tensor:
        """Start a new text, or continue from a state; returns log p of every first word, [B, V]."""
        model = self._model
        with model.quietly():
            if (
                state is None
            ):  # not the model's own start: its weights may have changed, and its products round otherwise
                fresh = model.fresh(self._rows).memory
                for name, part in self._body.memory.items():
                    part.copy_(fresh[name])
                self.token_B.fill_(model.vocabulary_size)
                self._features_BS = self.run().clone()
                return self.logp_BV
            if state.rows != self._rows:
                raise ShapeError(f"the state has {state.rows} rows; expected {self._rows}")
            for name, part in self._body.memory.items():
                part.copy_(state.memory[name])
            self._features_BS = model.features_of(state).clone()
            self._head(self._features_BS, self.logp_BV)
        return self.logp_BV

    def step(self, token_B: Ids | Tensor) -> Tensor:
        """log p of every next word [B, V], float32, after one more token of every row.

        The tensor returned is the step's own buffer: the next step overwrites it. Ids in a tensor are not checked.
        """
        if not isinstance(token_B, Tensor):
            token_B = torch.from_numpy(
                checked_tokens(np.asarray(token_B).reshape(-1, 1), self._model.vocabulary_size)[:, 0]
            )
        if token_B.shape != self.token_B.shape:
            raise ShapeError(f"the tokens are {tuple(token_B.shape)}; expected {tuple(self.token_B.shape)}")
        self.token_B.copy_(token_B)
        if not self._recorded:
            with self._model.quietly():
                self._features_BS = self.run()
            return self.logp_BV
        if self._graph is None:
            self._graph = self._record()
        graph, self._features_BS = self._graph
        with torch.cuda.device(self._model.device):
            graph.replay()
        return self.logp_BV

    def run(self) -> Tensor:
        """The step itself, from `token_B` to `logp_BV`, for callers that record it with more; returns the features."""
        f_BS = self._body.step(self.token_B)
        self._head(f_BS, self.logp_BV)
        return f_BS[:, : self._model.head.features]

    def _record(self) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """The graph, and where it leaves the features."""
        features: list[Tensor] = []
        with self._model.quietly():
            graph = record(lambda: features.append(self.run()), self.buffers, self._model.device)
        return graph, features[-1]


def record(run: Callable[[], None], changed: Iterable[Tensor], device: torch.device) -> torch.cuda.CUDAGraph:
    """A graph of what `run` launches; the tensors it changes are restored afterwards.

    It runs once as usual first: programs are compiled and libraries loaded then, not while the graph is recorded.
    """
    with RECORDING, torch.cuda.device(device):
        saved = [(tensor, tensor.clone()) for tensor in changed]
        graph = torch.cuda.CUDAGraph()
        try:
            run()
            # other threads may go on using the GPU meanwhile
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                run()
        finally:
            for tensor, before in saved:
                tensor.copy_(before)
    return graph


def index_of(device: torch.device) -> int:
    """The number of a GPU."""
    return torch.cuda.current_device() if device.index is None else device.index


_StepHead = Callable[[Tensor, Tensor], None]
"""`head(f_BS, logp_BV)` writes log p of every word; features beyond H are 0."""


def _softmax_step(matrix_VS: Tensor, bias_V: Tensor) -> _StepHead:
    """log softmax(W f + b) with the product in a type of its own."""

    def head(f_BS: Tensor, logp_BV: Tensor) -> None:
        matrix = matrix_VS[:, : f_BS.shape[1]]
        z_BV = product(f_BS.to(matrix.dtype), matrix).add_(bias_V)
        torch.log_softmax(z_BV, 1, out=logp_BV)

    return head


def _softmax_row(matrix_VS: Tensor, bias_V: Tensor, tile: VectorTile) -> _StepHead:
    """The same for one row, by two programs."""
    program, place_1S = RowHeadProgram(matrix_VS, bias_V, tile), matrix_VS.new_zeros(1, matrix_VS.shape[1])

    def head(f_BS: Tensor, logp_BV: Tensor) -> None:
        if f_BS.shape != place_1S.shape or f_BS.dtype != place_1S.dtype:  # a state passed by the caller
            place_1S[:, : f_BS.shape[1]] = f_BS
            f_BS = place_1S
        program(f_BS, logp_BV)

    return head


def _head_of(
    model: NeuralModel, body: StepBody, rows: int, dtype: torch.dtype, *, programs: bool, tile: VectorTile
) -> _StepHead:
    head = model.head
    if not isinstance(head, Softmax):
        return _other_step(deepcopy(head), dtype)
    bias_V = head.bias.float().clone()
    if not isinstance(body, LstmChain):
        return _softmax_step(zero_filled(head.matrix[: head.words], head.features, dtype), bias_V)
    if head.matrix is model.embedding.weight:
        matrix_VS = body.table_RX[: head.words]  # the same memory: half as much to read and to keep
    else:
        matrix_VS = zero_filled(head.matrix[: head.words], segment_size(head.features), dtype)
    return _softmax_row(matrix_VS, bias_V, tile) if programs and rows == 1 else _softmax_step(matrix_VS, bias_V)


def _other_step(copy: WordHead, dtype: torch.dtype) -> _StepHead:
    """A copy of any head, in a type of its own."""
    if isinstance(copy, nn.Module):
        copy.to(dtype)

    def head(f_BS: Tensor, logp_BV: Tensor) -> None:
        logp_BV.copy_(copy.log_prob(f_BS[:, : copy.features].to(dtype)))

    return head
