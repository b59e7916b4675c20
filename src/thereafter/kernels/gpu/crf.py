"""A linear-chain CRF on an NVIDIA GPU: log Z or -log p, their gradients, Viterbi: one program each; marginals by two.

A block of the GPU walks along a row, with the transitions in registers (code/crf.py). The plain loop launches several
kernels a step; here a pass over a whole batch is one launch, and nothing is read from the device, so that a CUDA graph
can hold it. A batch of up to some hundred rows takes as long as its longest row:

    forward    K^2 exponentials a step; keeps [B, T, K] numbers in float32 for the backward pass
    backward   K^2 exponentials a step; the gradients of start, end and transitions are a row's own, and are added up
               over rows by torch in a fixed order
    Viterbi    K^2 sums a step, a byte for each tag and step, and a walk back of one small read a step

`CrfTwin` of tests/kernels/gpu_twins.py does the same in torch, and `kernels/chain.py` is what both mean.

Shapes: B rows, T steps, K tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.kernels.chain import Chain, ChainKernel, chain_marginals, chain_values
from thereafter.kernels.gpu import lacks
from thereafter.kernels.gpu.launch import FLOATS, Constants, launch
from thereafter.kernels.second import Called, are_many, no_gradients, recorded_gradients, recording
from thereafter.kernels.switches import apply_one, traced, transformed

MOST_TAGS = 128  # K^2 transitions and as many sums of pairs are what the registers of a block have room for
_LARGEST = 1 << 31  # numbers of a row: what a 32-bit count holds
_WARPS = {
    "crf_forward": {16: 1, 32: 4, 64: 8, 128: 16},
    "crf_backward": {16: 1, 32: 4, 64: 8, 128: 16},
    "crf_viterbi": {16: 1, 32: 1, 64: 4, 128: 8},
}
"""Of a block, by its tags: the fastest on an H200 (`tests/kernels/gpu_crf_check.py --sweep`)."""

_GIVEN = ("emissions", "start", "transition", "end", "lengths", "tags", "counted", "grad")
"""Arrays that are not made here."""


class ChainWalk(NamedTuple):
    """What a forward pass gives: the values of rows, and what the backward pass reads, if it was kept."""

    values_B: Tensor
    reach_BTK: Tensor | None
    shift_BT: Tensor | None


class ChainGradients(NamedTuple):
    emissions_BTK: Tensor
    start_K: Tensor
    transition_KK: Tensor
    end_K: Tensor


def crf_refuses(chain: Chain) -> str | None:
    """Why such a chain is not for the programs; None where it is. The device is not looked at."""
    _, steps, size = chain.emissions_BTK.shape
    if size > MOST_TAGS:
        return f"there are {size} tags; the programs take up to {MOST_TAGS}, whose transitions fit into registers"
    other = [array.dtype for array in chain[:4] if array.dtype not in FLOATS]
    if other:
        return f"an array is {other[0]}; the programs know float32, bfloat16 and float16, and compute in float32"
    if not chain.emissions_BTK.numel():
        return "there is nothing to do"
    if steps * size >= _LARGEST:
        return f"a row has {steps * size:,} numbers; it counts to {_LARGEST:,}"
    return None


def chains_on_gpu(chain: Chain) -> ChainKernel | None:
    """The programs of the chain's device where they can run it; None where a plain loop has to."""
    device = chain.emissions_BTK.device
    if device.type != "cuda" or traced() or transformed() or lacks(device.index) or crf_refuses(chain):
        return None
    return WalkedChains(CRF_PROGRAMS)


class WalkedChains:
    """See `ChainKernel`: by a walker. Derivatives of derivatives come from the plain loop."""

    def __init__(self, walker: CrfPrograms) -> None:
        self._walker = walker

    def values(self, chain: Chain) -> Tensor:
        keep = _differentiated(chain)
        chain = _readable(chain)
        return apply_one(_Walked, self._walker, keep, *chain)

    def marginals(self, chain: Chain) -> Tensor:
        """In float32: they are the gradient of log Z, so theirs is a second derivative."""
        if _differentiated(chain):
            return chain_marginals(chain)
        with torch.no_grad():
            chain = _readable(chain)._replace(tags_BT=None, counted_B=None)
            walk = self._walker.forward(chain, keep=True)
            one_B = torch.ones_like(walk.values_B)
            return self._walker.backward(chain, walk, one_B, one_B.dtype).emissions_BTK

    @torch.no_grad()
    def path(self, chain: Chain) -> Tensor:
        return self._walker.path(_readable(chain))


def _differentiated(chain: Chain) -> bool:
    return torch.is_grad_enabled() and any(scores.requires_grad for scores in chain[:4])


def _readable(chain: Chain) -> Chain:
    """The same chain as the programs read it: the tags of a step side by side, the weights in float32 (in float64 where
    they are: the twin's)."""
    e_BTK, tags_BT, counted_B = chain.emissions_BTK, chain.tags_BT, chain.counted_B
    return Chain(
        e_BTK if e_BTK.stride(2) == 1 else e_BTK.contiguous(),
        _wide(chain.start_K).contiguous(),
        _wide(chain.transition_KK).contiguous(),
        _wide(chain.end_K).contiguous(),
        chain.lengths_B.long().contiguous(),
        None if tags_BT is None else tags_BT.long(),
        None if counted_B is None else counted_B.to(_wide(chain.start_K).dtype).contiguous(),
    )


def _wide(array: Tensor) -> Tensor:
    return array.to(torch.promote_types(array.dtype, torch.float32))


class _CalledChain(Called, Protocol):
    walker: CrfPrograms


class _Walked(torch.autograd.Function):
    """The values of all rows, [B]."""

    @staticmethod
    def forward(ctx: _CalledChain, walker: CrfPrograms, keep: bool, *arrays: Tensor) -> Tensor:
        chain = Chain(*arrays)
        walk = walker.forward(chain, keep)
        ctx.walker = walker
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*chain, walk.reach_BTK, walk.shift_BT)
        return walk.values_B

    @staticmethod
    def backward(ctx: _CalledChain, grad_B: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_B is None:
            return no_gradients(ctx)
        *arrays, reach_BTK, shift_BT = ctx.saved_tensors
        chain = Chain(*arrays)
        if recording() or are_many(grad_B):
            made: Sequence[Tensor | None] = _by_the_loop(chain, ctx.needs_input_grad[2:6], grad_B)
        else:
            walk = ChainWalk(grad_B, reach_BTK, shift_BT)  # the values themselves are not read again
            made = ctx.walker.backward(chain, walk, grad_B, chain.emissions_BTK.dtype)
        return None, None, *made, None, None, None


def _by_the_loop(chain: Chain, needed: Sequence[bool], grad_B: Tensor) -> list[Tensor | None]:
    """The gradients of all scores that need them, with a history, so that autograd can differentiate them again."""
    with torch.enable_grad():
        # views: where emissions were made from the same weights, the way through them is not for this call to go
        emissions_BTK, start_K, transition_KK, end_K = scores = [score.view_as(score) for score in chain[:4]]
        values_B = chain_values(Chain(emissions_BTK, start_K, transition_KK, end_K, *chain[4:]))
        return recorded_gradients((values_B,), (grad_B,), scores, needed)


class CrfPrograms:
    """The programs; from another thread too. `warps` of a block: as for a measurement."""

    def __init__(self, warps: int | None = None) -> None:
        self._warps = warps

    def forward(self, chain: Chain, keep: bool) -> ChainWalk:
        """`chain_values`; `keep` what the backward pass reads."""
        e_BTK = chain.emissions_BTK
        values_B = e_BTK.new_empty(len(e_BTK), dtype=torch.float32)
        reach_BTK = e_BTK.new_empty(e_BTK.shape, dtype=torch.float32) if keep else None
        shift_BT = e_BTK.new_empty(e_BTK.shape[:2], dtype=torch.float32) if keep else None
        arrays = _named(chain) | {"values": values_B, "reach": reach_BTK, "shift": shift_BT}
        strides = _strides("e", e_BTK) | _strides("tags", chain.tags_BT)
        self._launch("crf_forward", chain, arrays, strides, _marks(chain) | {"KEEP": keep})
        return ChainWalk(values_B, reach_BTK, shift_BT)

    def backward(self, chain: Chain, walk: ChainWalk, grad_B: Tensor, kind: torch.dtype) -> ChainGradients:
        """From the gradient of the values; that of emissions has the type `kind`."""
        e_BTK = chain.emissions_BTK
        filled = padded_tags(e_BTK.shape[2])
        d_BTK = e_BTK.new_empty(e_BTK.shape, dtype=kind)
        partials_BPK = e_BTK.new_empty((len(e_BTK), filled + 2, filled), dtype=torch.float32)
        arrays = _named(chain, "start") | {"reach": walk.reach_BTK, "shift": walk.shift_BT, "grad": grad_B}
        arrays |= {"d_emissions": d_BTK, "partials": partials_BPK}
        strides = _strides("e", e_BTK) | _strides("tags", chain.tags_BT) | {"grad_row": grad_B.stride(0)}
        self._launch("crf_backward", chain, arrays, strides, _marks(chain))
        return gradients_of(d_BTK, partials_BPK)

    def path(self, chain: Chain) -> Tensor:
        """`chain_path`."""
        e_BTK = chain.emissions_BTK
        path_BT = e_BTK.new_empty(e_BTK.shape[:2], dtype=torch.int64)
        came_from_BTK = e_BTK.new_empty(e_BTK.shape, dtype=torch.uint8)
        arrays = _named(chain, "tags", "counted") | {"came_from": came_from_BTK, "path": path_BT}
        self._launch("crf_viterbi", chain, arrays, _strides("e", e_BTK), {})
        return path_BT

    def _launch(
        self,
        function: str,
        chain: Chain,
        arrays: dict[str, Tensor | None],
        strides: dict[str, int],
        constants: Constants,
    ) -> None:
        rows, steps, size = chain.emissions_BTK.shape
        filled = padded_tags(size)
        # a user's arrays may begin anywhere: single numbers are read
        aligned = tuple([(name, array.itemsize) for name in _GIVEN if (array := arrays.get(name)) is not None])
        launch(
            "crf",
            function,
            {**arrays, "steps": steps, "size": size, **strides},
            constants | {"K": filled},
            warps=self._warps or _WARPS[function][filled],
            blocks=rows,
            aligned=aligned,
            kinds=dict.fromkeys(strides, "i64"),
        )


CRF_PROGRAMS = CrfPrograms()


def _named(chain: Chain, *without: str) -> dict[str, Tensor | None]:
    """The arrays of a chain as the programs name them."""
    named = {name.rpartition("_")[0]: array for name, array in chain._asdict().items()}
    return {name: array for name, array in named.items() if name not in without}


def _strides(name: str, array: Tensor | None) -> dict[str, int]:
    """Those of rows and steps; 0 of an array that is not there."""
    return {f"{name}_{axis}": 0 if array is None else array.stride(n) for n, axis in enumerate(("row", "step"))}


def _marks(chain: Chain) -> Constants:
    return {"TAGGED": chain.tags_BT is not None, "COUNTED": chain.counted_B is not None}


def padded_tags(size: int) -> int:
    """The tags of a program: a power of two, 16 at least."""
    return max(16, 1 << (size - 1).bit_length())


def gradients_of(d_BTK: Tensor, partials_BPK: Tensor) -> ChainGradients:
    """That of emissions as it is; the rows' shares of the others, [B, K + 2, K] with K filled up, added up."""
    size, filled = d_BTK.shape[2], partials_BPK.shape[2]
    sums_PK = partials_BPK.sum(0)[:, :size]
    return ChainGradients(d_BTK, sums_PK[filled], sums_PK[:size].contiguous(), sums_PK[filled + 1])
