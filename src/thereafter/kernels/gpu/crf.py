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
from functools import cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.kernels.chain import Chain, ChainKernel, chain_marginals, chain_values
from thereafter.kernels.gpu import lacks
from thereafter.kernels.gpu.compiling import Wanted
from thereafter.kernels.gpu.launch import CODE, FLOATS, TYPES, Launch, capability, start
from thereafter.kernels.second import Called, are_many, no_gradients, recording
from thereafter.kernels.switches import apply_one, traced, transformed

MODULE = f"{CODE}.crf"
MOST_TAGS = 128  # K^2 transitions and as many sums of pairs are what the registers of a block have room for
_LARGEST = 1 << 31  # numbers of a row: what a 32-bit count holds
_WARPS = {
    "crf_forward": {16: 1, 32: 4, 64: 8, 128: 16},
    "crf_backward": {16: 1, 32: 4, 64: 8, 128: 16},
    "crf_viterbi": {16: 1, 32: 1, 64: 4, 128: 8},
}
"""Of a block, by its tags: the fastest on an H200 (`tests/kernels/gpu_crf_check.py --sweep`)."""

_ARRAYS = {
    "crf_forward": (
        "emissions", "start", "transition", "end", "lengths", "tags", "counted", "values", "reach", "shift",
    ),
    "crf_backward": (
        "emissions", "transition", "end", "lengths", "tags", "counted", "reach", "shift", "grad", "d_emissions",
        "partials",
    ),
    "crf_viterbi": ("emissions", "start", "transition", "end", "lengths", "came_from", "path"),
}  # fmt: skip
_STRIDES = {
    "crf_forward": ("e_row", "e_step", "tags_row", "tags_step"),
    "crf_backward": ("e_row", "e_step", "tags_row", "tags_step", "grad_row"),
    "crf_viterbi": ("e_row", "e_step"),
}
"""The arguments of the programs in their order: arrays, the counts `steps` and `size`, strides."""


_GIVEN = ("emissions", "start", "transition", "end", "lengths", "tags", "counted", "grad")
"""Those that are not made here."""


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
    return WalkedChains(crf_programs(device.index))


class WalkedChains:
    """See `ChainKernel`: by a walker. Derivatives of derivatives come from the plain loop."""

    def __init__(self, walker: CrfPrograms) -> None:
        self._walker = walker

    def values(self, chain: Chain) -> Tensor:
        keep = _differentiated(chain)
        chain = _readable(chain)
        return apply_one(_Walked, self._walker, keep, chain.lengths_B, chain.tags_BT, chain.counted_B, *chain[:4])

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
    def forward(
        ctx: _CalledChain,
        walker: CrfPrograms,
        keep: bool,
        lengths_B: Tensor,
        tags_BT: Tensor | None,
        counted_B: Tensor | None,
        *scores: Tensor,
    ) -> Tensor:
        emissions_BTK, start_K, transition_KK, end_K = scores
        chain = Chain(emissions_BTK, start_K, transition_KK, end_K, lengths_B, tags_BT, counted_B)
        walk = walker.forward(chain, keep)
        ctx.walker = walker
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*chain, walk.reach_BTK, walk.shift_BT)
        return walk.values_B

    @staticmethod
    def backward(ctx: _CalledChain, grad_B: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_B is None:
            return no_gradients(ctx)
        emissions_BTK, start_K, transition_KK, end_K, lengths_B, tags_BT, counted_B, *kept = ctx.saved_tensors
        chain = Chain(emissions_BTK, start_K, transition_KK, end_K, lengths_B, tags_BT, counted_B)
        needed = ctx.needs_input_grad[5:]
        if recording() or are_many(grad_B):
            return (None,) * 5 + tuple(_by_the_loop(chain, needed, grad_B))
        walk = ChainWalk(grad_B, *kept)  # the values themselves are not read again
        made = ctx.walker.backward(chain, walk, grad_B, emissions_BTK.dtype)
        return None, None, None, None, None, *made


def _by_the_loop(chain: Chain, needed: Sequence[bool], grad_B: Tensor) -> list[Tensor | None]:
    """The gradients of all scores that need them, with a history, so that autograd can differentiate them again."""
    with torch.enable_grad():
        # views: where emissions were made from the same weights, the way through them is not for this call to go
        emissions_BTK, start_K, transition_KK, end_K = scores = [score.view_as(score) for score in chain[:4]]
        values_B = chain_values(Chain(emissions_BTK, start_K, transition_KK, end_K, *chain[4:]))
        wanted = [score for score, need in zip(scores, needed, strict=True) if need]
        given = iter(torch.autograd.grad(values_B, wanted, grad_B, create_graph=True, allow_unused=True))
    return [next(given) if need else None for need in needed]


class CrfPrograms:
    """The compiled programs on one device; from another thread too. `warps` of a block: as for a measurement."""

    def __init__(self, device: int, warps: int | None = None) -> None:
        self._device, self._warps, self._capability = device, warps, capability(device)

    def forward(self, chain: Chain, keep: bool) -> ChainWalk:
        """`chain_values`; `keep` what the backward pass reads."""
        walk, launch = plan_walk(chain, keep, self._capability, self._warps)
        start(launch, self._device)
        return walk

    def backward(self, chain: Chain, walk: ChainWalk, grad_B: Tensor, kind: torch.dtype) -> ChainGradients:
        """From the gradient of the values; that of emissions has the type `kind`."""
        d_BTK, partials_BPK, launch = plan_walk_back(chain, walk, grad_B, kind, self._capability, self._warps)
        start(launch, self._device)
        return gradients_of(d_BTK, partials_BPK)

    def path(self, chain: Chain) -> Tensor:
        """`chain_path`."""
        path_BT, launch = plan_path(chain, self._capability, self._warps)
        start(launch, self._device)
        return path_BT


@cache
def crf_programs(device: int) -> CrfPrograms:
    """The programs of a device."""
    return CrfPrograms(device)


def padded_tags(size: int) -> int:
    """The tags of a program: a power of two, 16 at least."""
    return max(16, 1 << (size - 1).bit_length())


def gradients_of(d_BTK: Tensor, partials_BPK: Tensor) -> ChainGradients:
    """That of emissions as it is; the rows' shares of the others, [B, K + 2, K] with K filled up, added up."""
    size, filled = d_BTK.shape[2], partials_BPK.shape[2]
    sums_PK = partials_BPK.sum(0)[:, :size]
    return ChainGradients(d_BTK, sums_PK[filled], sums_PK[:size].contiguous(), sums_PK[filled + 1])


def plan_walk(chain: Chain, keep: bool, capability: int, warps: int | None = None) -> tuple[ChainWalk, Launch]:
    """The memory for what a forward pass gives, and the launch that fills it."""
    e_BTK = chain.emissions_BTK
    values_B = e_BTK.new_empty(len(e_BTK), dtype=torch.float32)
    reach_BTK = e_BTK.new_empty(e_BTK.shape, dtype=torch.float32) if keep else None
    shift_BT = e_BTK.new_empty(e_BTK.shape[:2], dtype=torch.float32) if keep else None
    arrays = (*chain, values_B, reach_BTK, shift_BT)
    constants = (*_marks(chain), ("KEEP", keep))
    return ChainWalk(values_B, reach_BTK, shift_BT), _launch(
        "crf_forward", chain, arrays, (), constants, capability, warps
    )


def plan_walk_back(
    chain: Chain,
    walk: ChainWalk,
    grad_B: Tensor,
    kind: torch.dtype,
    capability: int,
    warps: int | None = None,
) -> tuple[Tensor, Tensor, Launch]:
    """The memory for the gradient of emissions and the rows' shares of the others, and the launch that fills it."""
    e_BTK, _, *others = chain
    filled = padded_tags(e_BTK.shape[2])
    d_BTK = e_BTK.new_empty(e_BTK.shape, dtype=kind)
    partials_BPK = e_BTK.new_empty((len(e_BTK), filled + 2, filled), dtype=torch.float32)
    arrays = (e_BTK, *others, walk.reach_BTK, walk.shift_BT, grad_B, d_BTK, partials_BPK)
    constants = _marks(chain)
    launch = _launch("crf_backward", chain, arrays, (grad_B.stride(0),), constants, capability, warps)
    return d_BTK, partials_BPK, launch


def plan_path(chain: Chain, capability: int, warps: int | None = None) -> tuple[Tensor, Launch]:
    """The memory for the best tags, and the launch that fills it."""
    e_BTK = chain.emissions_BTK
    path_BT = e_BTK.new_empty(e_BTK.shape[:2], dtype=torch.int64)
    came_from_BTK = e_BTK.new_empty(e_BTK.shape, dtype=torch.uint8)
    arrays = (*chain[:5], came_from_BTK, path_BT)
    return path_BT, _launch("crf_viterbi", chain, arrays, None, (), capability, warps)


def _marks(chain: Chain) -> tuple[tuple[str, bool], ...]:
    return ("TAGGED", chain.tags_BT is not None), ("COUNTED", chain.counted_B is not None)


def _launch(
    function: str,
    chain: Chain,
    arrays: Sequence[Tensor | None],
    more_strides: tuple[int, ...] | None,
    constants: tuple[tuple[str, bool], ...],
    capability: int,
    warps: int | None,
) -> Launch:
    """`more_strides`: after those of emissions and tags; None where the program has those of emissions alone."""
    e_BTK, tags_BT = chain.emissions_BTK, chain.tags_BT
    rows, steps, size = e_BTK.shape
    strides: tuple[int, ...] = (e_BTK.stride(0), e_BTK.stride(1))
    if more_strides is not None:
        strides += (0, 0) if tags_BT is None else (tags_BT.stride(0), tags_BT.stride(1))
        strides += more_strides
    kinds = tuple([None if array is None else array.dtype for array in arrays])
    wanted = _wanted(function, kinds, constants, padded_tags(size), capability, warps)
    arguments = tuple([0 if array is None else array for array in arrays])
    return Launch(wanted, rows, (*arguments, steps, size, *strides))


@cache
def _wanted(
    function: str,
    kinds: tuple[torch.dtype | None, ...],
    constants: tuple[tuple[str, bool], ...],
    filled: int,
    capability: int,
    warps: int | None,
) -> Wanted:
    """A program for arrays of such types; one that is not there is a null pointer, and not read."""
    names, strides = _ARRAYS[function], _STRIDES[function]
    types = ["*fp32" if kind is None else TYPES[kind] for kind in kinds]
    # a user's arrays may begin anywhere: single numbers are read
    given = [(name, kind.itemsize) for name, kind in zip(names, kinds, strict=True) if kind and name in _GIVEN]
    return Wanted(
        MODULE,
        function,
        (*zip(names, types, strict=True), ("steps", "i32"), ("size", "i32"), *((name, "i64") for name in strides)),
        (*constants, ("K", filled)),
        warps or _WARPS[function][filled],
        capability,
        tuple(given),
    )
