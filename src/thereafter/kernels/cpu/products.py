"""The matrix products of a step, in the form the machine's library runs fastest.

Rows go from the longest to the shortest, so that a step can leave the finished ones out.

Shapes: T steps, B rows, H units, O outputs, G gate units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from thereafter.base.compiled import CFunction
from thereafter.kernels.arrays import FloatType
from thereafter.kernels.cpu.plan import worth_a_team
from thereafter.kernels.cpu.workspace import take

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
    from thereafter.kernels.loops.parts import parts_of

    return parts_of(rows, ragged)


def sum_of_parts(sums_P: Tensor) -> Tensor:
    """The sum along the first axis, always in the same order: torch's own depends on how many threads it has."""
    total, *others = sums_P.unbind(0)
    for part in others:
        total += part  # in place: nobody asks for the parts again
    return total


class TeamArrays(Protocol):
    """The arrays of a task by name (`kernels.arrays`), gates and cells among them."""

    @property
    def gates(self) -> Tensor: ...
    @property
    def c(self) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...


def run_team(
    task: Callable[[FloatType], CFunction], places: int, arrays: TeamArrays, *, coupled: bool, by_rows: bool
) -> None:
    """Run a task of `loops` over so many places of sequences: on all threads, or on this one where there is too little
    to share."""
    from thereafter.kernels.loops.team import NUMPY, call

    products = 2 * places * arrays.gates.shape[-1] * arrays.c.shape[-1]
    call(task(NUMPY[arrays.gates.dtype]), [*arrays], [coupled, by_rows], alone=not worth_a_team(products))


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
