"""What all scans on a CPU take part of: the products of a step, in the form the machine's library runs fastest, and the
large arrays that one sequence after another works in.

Rows go from the longest to the shortest, so that a step can leave the finished ones out.

A training step needs the same few arrays of megabytes that the step before has just given up. The system hands fresh
memory out page by page, which can cost as much as a quarter of the step; so what a backward pass is done with is kept
here (`give`) for the next forward pass of the same size (`take`).

Shapes: T steps, B rows, H units, O outputs, G gate units.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.base.compiled import CFunction
from thereafter.kernels.arrays import FloatType
from thereafter.kernels.cpu.plan import worth_a_team
from thereafter.kernels.jobs import Job

_PIECES, _FEW_ROWS, _LARGE = 8, 512, 1 << 18  # of a sum over rows; rows of it; numbers of a matrix
_EVEN = 32
"""OpenBLAS seems to round the halves of a long sum otherwise with several threads: not where they are even."""
_NO_LENGTHS = torch.empty(0, dtype=torch.int64, device="cpu")


def workable(gradient: Tensor) -> Tensor:
    """A copy of an incoming gradient that the loops may add to: row by row in memory, whatever the strides were. (A
    plain `clone` keeps those of any dense array; loops that take addresses would then read across rows.)"""
    return gradient.clone(memory_format=torch.contiguous_format)


def project_inputs(x_NI: Tensor, weight_ih: Tensor, bias_G: Tensor | None, out_NG: Tensor) -> None:
    """The input's part of all pre-activations."""
    if bias_G is None:
        torch.mm(x_NI, weight_ih.t(), out=out_NG)
    else:
        torch.addmm(bias_G, x_NI, weight_ih.t(), out=out_NG)


def project(job: Job) -> Tensor:
    """z of all steps, time first, with every bias."""
    weight_ih, _, bias, bias_hh = layer_weights(job)
    if bias is not None and bias_hh is not None:
        bias = bias + bias_hh
    return F.linear(job.x_BTI.transpose(0, 1).contiguous(), weight_ih, bias)


def layer_weights(job: Job) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Both matrices and both biases, as far as the cell has them."""
    weights = job.weights
    return weights["weight_ih"], weights.get("weight_hh"), weights.get("bias_ih"), weights.get("bias_hh")


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


def weight_gradients(dz_NG: Tensor, xh_NK: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
    """dW = dz' x and dU = dz' h of all steps, from x and h side by side."""
    both = weight_gradient(dz_NG, xh_NK)  # dz is read once for both
    return both[:, :inputs].contiguous(), both[:, inputs:].contiguous()


def team_packing(weight_GK: Tensor, units: int) -> Tensor:
    """Where the threads of a team pack a matrix."""
    from thereafter.kernels.loops.recurrence import packed_size

    width, columns = weight_GK.shape
    return take(weight_GK, packed_size(width, columns, units, weight_GK.element_size()))


def team_spares(gates_TBG: Tensor) -> Tensor:
    """The spare room of each thread."""
    from thereafter.kernels.loops.recurrence import spare_size

    size = spare_size(gates_TBG.shape[1], gates_TBG.element_size())
    return gates_TBG.new_empty(torch.get_num_threads(), size)


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


def run_team(
    task: Callable[[FloatType], CFunction], multiplications: int, arrays: Sequence[Tensor], *, by_rows: bool,
    coupled: bool = False,
) -> None:  # fmt: skip
    """Run a task of `loops`, of so many multiplications: on all threads, or on this one where there is too little to
    share."""
    from thereafter.kernels.loops.team import NUMPY, call

    call(task(NUMPY[arrays[0].dtype]), arrays, [coupled, by_rows], alone=not worth_a_team(2 * multiplications))


def team_peephole(peephole_3H: Tensor | None, like: Tensor) -> Tensor:
    """Peepholes as a task takes them: empty where there are none."""
    return like.new_empty(0, 0) if peephole_3H is None else peephole_3H.contiguous()


def team_lengths(lengths: Tensor | None) -> Tensor:
    """Lengths as a task takes them: empty where every row is whole."""
    return _NO_LENGTHS if lengths is None else lengths.contiguous()


def place_for_gradient(gates_TBG: Tensor) -> Tensor:
    """Where the gradient of the pre-activations goes: over the gates themselves, where nobody will ask for them again.

    A graph that is kept (`retain_graph=True`) may be walked twice. Fresh memory of that size would cost a tenth of the
    backward pass: the system hands it out page by page.
    """
    kept = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return torch.empty_like(gates_TBG) if kept is None or kept() else gates_TBG


_FULL = 0.9  # of all places taken: then rows are left in the order they are in

MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


def longest_first(lengths: Tensor | None, steps: int) -> Tensor | None:
    """The order of rows; None where there is little to leave out, or they are in that order."""
    if lengths is None or float(lengths.sum()) > _FULL * len(lengths) * steps or bool((lengths.diff() <= 0).all()):
        return None
    return lengths.argsort(descending=True, stable=True)


def take_rows(array: MaybeTensor, order: Tensor | None) -> MaybeTensor:
    """The rows in another order, if one is given."""
    return array if order is None or array is None else array.index_select(0, order)


def own_copy(array: Tensor, order: Tensor | None) -> Tensor:
    """What the loops may work on in place, the rows in another order, if one is given."""
    return workable(array) if order is None else array.index_select(0, order)


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
