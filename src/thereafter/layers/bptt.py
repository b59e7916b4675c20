"""Backpropagation through time by hand, for the simple recurrent network; what autograd does, written out.

    z_t = W x_t + U h_{t-1} + b,   h_t = f(z_t)

The loss sees every h_t, and every h_t reaches the later ones. With D_t = diag(f'(z_t)) one step's Jacobian is
dh_t/dh_{t-1} = D_t U, that of several steps their product (Werbos 1990):

    dL_t/dU = sum over k <= t of  dL_t/dh_t  (D_t U ... D_{k+1} U)  d+h_k/dU

Summed over t from the end, one vector is enough, the gradient of all later losses in h_t:

    e_t = dL_t/dh_t + U^T D_{t+1} e_{t+1},    dz_t = D_t e_t
    dW = sum dz_t x_t^T,  dU = sum dz_t h_{t-1}^T,  db = sum dz_t,  dx_t = W^T dz_t,  dh_0 = U^T dz_1

Truncation after k steps cuts the sum over k: the sequence is worked through in pieces of k steps, the state is carried
from piece to piece, its gradient is not, and only one piece's states are kept.

Shapes: B rows, T steps, I inputs, H hidden units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.elman import ACTIVATIONS
from thereafter.errors import OptionError, ShapeError, UnknownNameError

StepGradient = Tensor | Callable[[Tensor, int], Tensor]
"""dL_t/dh_t for all steps [B, T, H], or a function of (the states of a piece, its first step) that gives them."""

# The derivative of each activation, computed from its output: the pre-activations need not be kept.
DERIVATIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda h: 1 - h * h,
    "relu": lambda h: (h > 0).to(h.dtype),
    "leaky_relu": lambda h: torch.where(h > 0, torch.ones_like(h), 0.01 * torch.ones_like(h)),
    "relu6": lambda h: ((h > 0) & (h < 6)).to(h.dtype),
    "sigmoid": lambda h: h * (1 - h),
    "identity": torch.ones_like,
}


@dataclass(frozen=True)
class Gradients:
    """The gradient of the loss in everything it depends on, and what the backward pass had to store.

    `stored_bytes`: the largest number of bytes of hidden states in memory at once, counted on the tensors
    themselves. `last`: the state after the last step, to carry on from.
    """

    x: Tensor
    h0: Tensor
    W: Tensor
    U: Tensor
    b: Tensor
    last: Tensor
    stored_bytes: int


@torch.no_grad()
def bptt(
    x: Tensor,
    h0: Tensor,
    W: Tensor,
    U: Tensor,
    b: Tensor,
    dh: StepGradient,
    *,
    truncation: int | None = None,
    nonlinearity: str = "tanh",
) -> Gradients:
    """Gradients of a loss of h_1 ... h_T from its gradient in each h_t alone.

    x [B, T, I], h0 [B, H], W [H, I], U [H, H], b [H]; `dh` as in `StepGradient` (the function's form never holds all
    steps at once); `truncation`: how many steps a gradient may travel, None for all.

    >>> one = torch.ones(1, 1)
    >>> x = torch.zeros(1, 3, 1)
    >>> last_only = torch.tensor([[[0.0], [0.0], [1.0]]])
    >>> gradients = bptt(x, one, one, 0.5 * one, torch.zeros(1), last_only, nonlinearity="identity")
    >>> gradients.h0.item()   # 0.5 to the third
    0.125
    """
    if nonlinearity not in DERIVATIVES:
        raise UnknownNameError("nonlinearity", nonlinearity, DERIVATIVES)
    if truncation is not None and truncation < 1:
        raise OptionError(f"truncation is {truncation}; expected at least 1 step, or None for all")
    _check_shapes(x, h0, W, U, b, dh)
    steps = x.shape[1]
    dW, dU, db = torch.zeros_like(W), torch.zeros_like(U), torch.zeros_like(b)
    dx, dh0 = torch.zeros_like(x), torch.zeros_like(h0)
    carried, stored = h0, 0
    for start in range(0, steps, truncation or max(steps, 1)):
        piece = x[:, start : start + (truncation or steps)]
        h_BSH = _forward(piece, carried, W, U, b, nonlinearity)
        stored = max(stored, h_BSH.nbytes)
        dh_BSH = dh(h_BSH, start) if callable(dh) else dh[:, start : start + piece.shape[1]]
        dz_BSH, de_BH = _backward(h_BSH, dh_BSH, U, nonlinearity)
        before = torch.cat([carried.unsqueeze(1), h_BSH[:, :-1]], dim=1)
        dW += dz_BSH.flatten(0, 1).t() @ piece.flatten(0, 1)
        dU += dz_BSH.flatten(0, 1).t() @ before.flatten(0, 1)
        db += dz_BSH.sum((0, 1))
        dx[:, start : start + piece.shape[1]] = dz_BSH @ W
        if start == 0:
            dh0 = de_BH
        carried = h_BSH[:, -1].clone()  # a copy: a view would keep the whole piece alive
    return Gradients(dx, dh0, dW, dU, db, carried, stored)


def _forward(x_BSI: Tensor, h_BH: Tensor, W: Tensor, U: Tensor, b: Tensor, nonlinearity: str) -> Tensor:
    """All hidden states of a piece: all that the backward pass needs beside the input."""
    h_BSH = F.linear(x_BSI, W, b)  # becomes the states in place
    for t in range(x_BSI.shape[1]):
        h_BH = ACTIVATIONS[nonlinearity](h_BSH[:, t] + h_BH @ U.t())
        h_BSH[:, t] = h_BH
    return h_BSH


def _backward(h_BSH: Tensor, dh_BSH: Tensor, U: Tensor, nonlinearity: str) -> tuple[Tensor, Tensor]:
    """dz of every step of a piece, and the gradient in the state before it."""
    dz_BSH = torch.empty_like(h_BSH)
    later_BH = torch.zeros_like(h_BSH[:, 0])
    for t in range(h_BSH.shape[1] - 1, -1, -1):
        e_BH = dh_BSH[:, t] + later_BH
        dz_BSH[:, t] = DERIVATIVES[nonlinearity](h_BSH[:, t]) * e_BH
        later_BH = dz_BSH[:, t] @ U
    return dz_BSH, later_BH


def _check_shapes(x: Tensor, h0: Tensor, W: Tensor, U: Tensor, b: Tensor, dh: StepGradient) -> None:
    if x.dim() != 3 or W.dim() != 2:
        raise ShapeError(f"x is {tuple(x.shape)} and W {tuple(W.shape)}; expected [rows, steps, I] and [H, I]")
    hidden, inputs = W.shape
    rows, steps = x.shape[:2]
    expected: dict[str, tuple[Tensor, tuple[int, ...]]] = {
        "x": (x, (rows, steps, inputs)),
        "h0": (h0, (rows, hidden)),
        "U": (U, (hidden, hidden)),
        "b": (b, (hidden,)),
    }
    if isinstance(dh, Tensor):
        expected["dh"] = (dh, (rows, steps, hidden))
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; expected {shape}, given x and W")


@dataclass
class SavedMemory:
    """What autograd keeps for a backward pass: bytes and pieces of memory, each counted once; no weights, no inputs."""

    bytes: int = 0
    pieces: int = 0


@contextmanager
def saved_for_backward() -> Iterator[SavedMemory]:
    """Measure what autograd remembers of the operations inside the block.

    >>> x = torch.ones(10, requires_grad=True)
    >>> with saved_for_backward() as saved:
    ...     y = torch.tanh(x)
    >>> saved.bytes
    40
    """
    saved = SavedMemory()
    storages: dict[
        int, torch.UntypedStorage
    ] = {}  # by address, and kept alive, so that no address is used twice inside the block

    def pack(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        whole = tensor if tensor._base is None else tensor._base  # a view of a weight is no new memory
        if not whole.is_leaf and memory.data_ptr() not in storages:
            storages[memory.data_ptr()] = memory
            saved.bytes += memory.nbytes()
            saved.pieces += 1
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved
