"""What all scans on a CPU take part of: a function of autograd's for any cell that a team of threads runs (`TeamScan`),
products over all steps in the form the machine's library runs fastest, and the large arrays that one sequence after
another works in.

Rows go from the longest to the shortest, so that a step can leave the finished ones out.

A training step needs the same few arrays of megabytes that the step before has just given up. The system hands fresh
memory out page by page, which can cost as much as a quarter of the step; so what a backward pass is done with is kept
here (`give`) for the next forward pass of the same size (`take`).

Shapes: T steps, B rows, H units, O outputs, G gate units.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.base.compiled import CFunction
from thereafter.kernels.arrays import FloatType, TeamArrays, field_with
from thereafter.kernels.cpu.plan import worth_a_team
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many

_PIECES, _FEW_ROWS, _LARGE = 8, 512, 1 << 18  # of a sum over rows; rows of it; numbers of a matrix
_EVEN = 32
"""OpenBLAS seems to round the halves of a long sum otherwise with several threads: not where they are even."""
_NO_LENGTHS = torch.empty(0, dtype=torch.int64, device="cpu")


def project_inputs(x_NI: Tensor, weight_ih: Tensor, bias_G: Tensor | None, out_NG: Tensor) -> None:
    """The input's part of all pre-activations."""
    if bias_G is None:
        torch.mm(x_NI, weight_ih.t(), out=out_NG)
    else:
        torch.addmm(bias_G, x_NI, weight_ih.t(), out=out_NG)


class LayerWeights(NamedTuple):
    """Both matrices and both biases of a layer, as far as the cell has them, and peepholes [3, H]."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    peephole: Tensor | None = None

    @property
    def bias(self) -> Tensor | None:
        """Their sum."""
        return self.bias_ih if self.bias_hh is None or self.bias_ih is None else self.bias_ih + self.bias_hh

    def gradients(self, d_ih: Tensor, d_hh: Tensor, d_bias_P: Tensor) -> LayerWeights:
        """Those of matrices, and of biases from sums by parts of the rows."""
        bias = sum_of_parts(d_bias_P) if self.bias_ih is not None else None
        return LayerWeights(d_ih, d_hh, bias, bias if self.bias_hh is not None else None)


def layer_weights(job: Job) -> LayerWeights:
    """Those of a job; a linear cell has no recurrent matrix."""
    weights = job.weights
    weight_ih = weights["weight_ih"]
    return LayerWeights(
        weight_ih, weights.get("weight_hh", weight_ih[:0]), weights.get("bias_ih"), weights.get("bias_hh")
    )


def project(job: Job) -> Tensor:
    """z of all steps, time first, with every bias."""
    weights = layer_weights(job)
    return F.linear(job.x_BTI.transpose(0, 1).contiguous(), weights.weight_ih, weights.bias)


def weight_gradient(dz_NG: Tensor, x_NK: Tensor) -> Tensor:
    """dW = dz' x; where W is small, the same to the bit however many threads there are. A large one is the library's,
    which promises that under MKL_CBWR=AUTO,STRICT alone (`same_bits`).

    Where W is small the library would share out the rows N among its threads, and add up as many sums as there are
    threads; so here the rows are cut into a number of pieces that is always the same. OpenBLAS, which torch has on ARM
    processors, never shares out a sum: there it is one product, for each of them waits for all threads (beside an
    endless loop eight took 62 ms, one 8: a Neoverse-N1, 2026-11-18).
    """
    rows, width = dz_NG.shape
    if rows < _FEW_ROWS or width * x_NK.shape[1] >= _LARGE:
        return dz_NG.t().mm(x_NK)
    if openblas():
        whole = rows - rows % _EVEN
        total = dz_NG[:whole].t().mm(x_NK[:whole])
        return total.addmm_(dz_NG[whole:].t(), x_NK[whole:]) if whole < rows else total
    each = rows // _PIECES
    whole = each * _PIECES
    pieces = dz_NG[:whole].view(_PIECES, each, -1).transpose(1, 2).bmm(x_NK[:whole].view(_PIECES, each, -1))
    total = sum_of_parts(pieces)
    return total.addmm_(dz_NG[whole:].t(), x_NK[whole:]) if whole < rows else total


@cache
def openblas() -> bool:
    """Whether torch's products are those of OpenBLAS."""
    return "BLAS_INFO=open" in torch.__config__.show()


def row_parts(rows: int, *, ragged: bool = True) -> int:
    """How many parts a batch is cut into; `ragged`: the rows of a part are those of every n-th place."""
    from thereafter.kernels.loops.team import parts_of

    return parts_of(rows, ragged)


def sum_of_parts(sums_P: Tensor) -> Tensor:
    """The sum along the first axis, always in the same order: torch's own depends on how many threads it has."""
    total, *others = sums_P.unbind(0)
    for part in others:
        total += part  # in place: nobody asks for the parts again
    return total


W = TypeVar("W", bound=NamedTuple)


class ForwardPass(NamedTuple):
    """What a forward pass made: outputs, the last states, what a backward pass reads beside the weights, and what else
    of that are large arrays, which are given up once nobody will read them again."""

    y: Tensor
    last: Sequence[Tensor]
    saved: Sequence[Tensor]
    own: Sequence[Tensor]


class TeamCell(ABC, Generic[W]):
    """One call of a cell whose sequences a team of threads runs. What its forward pass decides stays in it."""

    states: ClassVar[int] = 1
    sorts: ClassVar[bool] = True
    """Whether rows go from the longest to the shortest."""
    rows_axis: ClassVar[int] = 0
    """The axis of the rows in its input."""
    weights_type: ClassVar[type[NamedTuple]] = LayerWeights
    coupled = False
    by_rows: bool

    @abstractmethod
    def forward(
        self, x: Tensor, state: Sequence[Tensor], weights: W, lengths: Tensor | None, learning: bool
    ) -> ForwardPass:
        """All steps; `learning`: a backward pass will follow."""

    @abstractmethod
    def backward(
        self, saved: Sequence[Tensor], weights: W, lengths: Tensor | None, dy: Tensor | None,
        d_state: Sequence[Tensor], wanted: bool,
    ) -> tuple[Tensor | None, Sequence[Tensor | None]]:  # fmt: skip
        """The gradients of the input, if `wanted`, and of the weights; `d_state` becomes that of the first state.

        `saved` is what the forward pass saved, with its large arrays.
        """

    def run_team(
        self, task: Callable[[FloatType], CFunction], multiplications: int, arrays: NamedTuple, lengths: Tensor | None,
        weight: Tensor, second: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Run a task of `loops`, of so many multiplications, with the matrices that it packs: on all threads, or on
        this one where there is too little to share."""
        from thereafter.kernels.loops.recurrence import packed_size, spare_size
        from thereafter.kernels.loops.team import NUMPY, call

        rows, units = (arrays[index].shape[axis] for index, axis in (field_with(type(arrays), name) for name in "BH"))
        matrices = weight.contiguous(), weight.new_empty(0, 0) if second is None else second.contiguous()
        item = weight.element_size()
        packed = [take(weight, packed_size(len(matrix), matrix.shape[1], units, item)) for matrix in matrices]
        team = TeamArrays(
            weight=matrices[0], packed=packed[0], second=matrices[1], packed_second=packed[1],
            spares=weight.new_empty(torch.get_num_threads(), spare_size(rows, item)),
            lengths=_NO_LENGTHS if lengths is None else lengths.contiguous(),
        )  # fmt: skip
        numbers = [self.coupled, self.by_rows, rows, units]
        call(task(NUMPY[weight.dtype]), [*team, *arrays], numbers, alone=not worth_a_team(2 * multiplications))
        give_all(*packed)


class TeamScan(torch.autograd.Function):
    """All steps of a cell, from its input, state and weights: outputs, beyond a row's length 0, and the last states."""

    @staticmethod
    def forward(
        ctx: Any, cell: TeamCell[Any], lengths: Tensor | None, x: Tensor, *state_and_weights: Tensor | None
    ) -> tuple[Tensor, ...]:
        learning = any(ctx.needs_input_grad)
        order = longest_first(lengths, x.shape[1 - cell.rows_axis]) if cell.sorts else None
        lengths = take_rows(lengths, order)
        state = [take_rows(part, order) for part in state_and_weights[: cell.states] if part is not None]
        weights = cell.weights_type._make(state_and_weights[cell.states :])
        result = cell.forward(take_rows(x, order, cell.rows_axis), state, weights, lengths, learning)
        if learning:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(lengths, order, *weights, *result.saved, *result.own)
            ctx.cell, ctx.saved, ctx.sizes = cell, len(result.saved), [part.shape for part in result.last]
        else:
            give_all(*result.own)
        back = None if order is None else order.argsort()
        return take_rows(result.y, back), *(take_rows(part, back) for part in result.last)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, *d_last: Tensor | None) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy, *d_last):
            return no_gradients(ctx)
        cell: TeamCell[Any] = ctx.cell
        lengths, order, *rest = ctx.saved_tensors
        count = len(cell.weights_type._fields)
        weights, saved = cell.weights_type._make(rest[:count]), rest[count:]
        d_state = [
            saved[-1].new_zeros(size) if d is None else own_copy(d, order)
            for d, size in zip(d_last, ctx.sizes, strict=True)
        ]
        dx, d_weights = cell.backward(saved, weights, lengths, take_rows(dy, order), d_state, ctx.needs_input_grad[2])
        if is_last_walk():
            give_all(*saved[ctx.saved :])
        back = None if order is None else order.argsort()
        d_first = (take_rows(d, back) for d in d_state)
        return None, None, take_rows(dx, back, cell.rows_axis), *d_first, *d_weights


def team_scan(cell: TeamCell[W], job: Job, x: Tensor, weights: W) -> Unrolled:
    """All steps of a job."""
    y_BTO, *last = apply_many(TeamScan, cell, job.lengths_B, x, *job.state, *weights)
    return Unrolled(y_BTO, job.cell.state_type(*last))


def is_last_walk() -> bool:
    """In a backward pass: whether there will be no second one. A graph that is kept (`retain_graph=True`) may be walked
    twice."""
    keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return keeps_graph is not None and not keeps_graph()


def place_for_gradient(gates_TBG: Tensor) -> Tensor:
    """Where the gradient of the pre-activations goes: over the gates themselves, where nobody will ask for them again.

    Fresh memory of that size would cost a tenth of the backward pass: the system hands it out page by page.
    """
    return gates_TBG if is_last_walk() else torch.empty_like(gates_TBG)


def laid_out(x: Tensor, own: list[Tensor]) -> Tensor:
    """An array in one piece; a copy is one of the cell's own arrays."""
    if not x.is_contiguous():
        x = take(x, *x.shape).copy_(x)
        own.append(x)
    return x


def gradient_in(room: Tensor, dy: Tensor | None) -> Tensor:
    """An incoming gradient in one piece; what must be made for that goes into the room."""
    if dy is None:
        return room.zero_()
    return dy if dy.is_contiguous() else room.copy_(dy)


_FULL = 0.9  # of all places taken: then rows are left in the order they are in

MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


def longest_first(lengths: Tensor | None, steps: int) -> Tensor | None:
    """The order of rows; None where there is little to leave out, or they are in that order."""
    if lengths is None or float(lengths.sum()) > _FULL * len(lengths) * steps or bool((lengths.diff() <= 0).all()):
        return None
    return lengths.argsort(descending=True, stable=True)


def take_rows(array: MaybeTensor, order: Tensor | None, axis: int = 0) -> MaybeTensor:
    """The rows in another order, if one is given."""
    return array if order is None or array is None else array.index_select(axis, order)


def own_copy(array: Tensor, order: Tensor | None) -> Tensor:
    """What the loops may work on in place, row by row in memory whatever the strides were (a plain `clone` keeps those
    of any dense array); the rows in another order, if one is given."""
    return array.clone(memory_format=torch.contiguous_format) if order is None else array.index_select(0, order)


MOST_BYTES = 256 << 20
_SMALLEST = 1 << 18  # below this the allocator keeps memory at hand itself

_lock = threading.Lock()


class FreeArrays:
    """The arrays nobody uses, by type and count of numbers, and how many bytes they are."""

    def __init__(self) -> None:
        self.free: OrderedDict[tuple[torch.dtype, int], list[Tensor]] = OrderedDict()
        self.bytes = 0


free_arrays = FreeArrays()


def take(like: Tensor, *shape: int) -> Tensor:
    """An array with whatever was in it, of the type of `like`."""
    key = like.dtype, math.prod(shape)
    if key[1] * like.element_size() < _SMALLEST:
        return like.new_empty(shape)
    with _lock:
        arrays = free_arrays.free.get(key)
        array = arrays.pop() if arrays else None
        if array is not None:
            free_arrays.bytes -= array.nbytes
    if array is not None:
        return array.view(shape)
    with torch.inference_mode(False):  # what is made in inference mode could never be part of a training step
        return torch.empty(shape, dtype=like.dtype, device=like.device)


def give_all(*arrays: Tensor) -> None:
    """Give several up."""
    for array in arrays:
        give(array)


def give(array: Tensor) -> None:
    """Give an array up: nobody will look at it again."""
    size = array.nbytes
    if not _SMALLEST <= size <= MOST_BYTES or array.is_inference():
        return
    key = array.dtype, array.numel()
    with _lock:
        free_arrays.free.setdefault(key, []).append(array.detach().view(-1))
        free_arrays.free.move_to_end(key)
        free_arrays.bytes += size
        while free_arrays.bytes > MOST_BYTES:
            oldest = next(iter(free_arrays.free))
            if free_arrays.free[oldest]:
                free_arrays.bytes -= free_arrays.free[oldest].pop(0).nbytes
            if not free_arrays.free[oldest]:
                del free_arrays.free[oldest]
