"""Time and memory of one forward and backward pass by the length of the sequence, measured.

Time is the least of several passes. Memory is what autograd keeps for the backward pass, counted on the tensors
themselves (`kept_for_backward`: every piece once, weights not). The state is what a model carries on to the next token:
a fixed size in a recurrent net, keys and values of all tokens in a Transformer.

`bptt_memory` counts what backpropagation through time has to remember, by length and by the pieces a sequence is cut
into: the hidden states our own backpropagation keeps (`layers.bptt`), which is all the backward pass of an RNN needs,
and what autograd keeps of the same steps run by the plain loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from thereafter.base import progress
from thereafter.cells.base import HState
from thereafter.cells.elman import Elman
from thereafter.errors import OptionError
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import neural
from thereafter.kernels.scan import unroll
from thereafter.layers.bptt import bptt, saved_for_backward
from thereafter.models.neural import NeuralModel

GROWTH = "growth"


def growth(
    models: Mapping[str, object],
    lengths: Sequence[int] = (64, 128, 256, 512),
    *,
    batch: int = 1,
    repeats: int = 3,
    plain_attention: Sequence[str] = (),
    seed: int = 0,
) -> Measurement:
    """Seconds, bytes kept for the backward pass, and bytes of the state after it, for every model and length.

    The tokens are drawn at random: neither time nor memory depends on them. Models named in `plain_attention` keep the
    matrix of attention weights, as the formula is written; otherwise torch may use a way that never stores it.
    Arrays: `seconds`, `saved`, `state` [model, length].
    """
    if not lengths or min(lengths) < 1 or batch < 1 or repeats < 1:
        raise OptionError(f"lengths are {list(lengths)}, batch {batch}, repeats {repeats}; expected 1 or more each")
    shape = (len(models), len(lengths))
    arrays = {"seconds": np.zeros(shape), "saved": np.zeros(shape, np.int64), "state": np.zeros(shape, np.int64)}
    with progress.task("time and memory", total=len(models) * sum(lengths)) as advance:
        for row, (name, model) in enumerate(models.items()):
            copy = deepcopy(neural(model, "growth")).eval()
            most = copy.most_at_once
            if most is not None and most < max(lengths):
                raise OptionError(
                    f"{name} has a context of {most} tokens; expected at least {max(lengths)}, the longest length; "
                    "try shorter lengths"
                )
            for column, steps in enumerate(lengths):
                drawn = torch.Generator().manual_seed(seed)
                tokens = torch.randint(copy.vocabulary_size, (batch, steps + 1), generator=drawn).to(copy.device)
                plain = name in plain_attention
                attention: AbstractContextManager[object] = sdpa_kernel(SDPBackend.MATH) if plain else nullcontext()
                with attention:
                    seconds, saved, state = _measure(copy, tokens, repeats)
                for key, value in zip(("seconds", "saved", "state"), (seconds, saved, state), strict=True):
                    arrays[key][row, column] = value
                advance(steps)
    labels = {"model": np.array(list(models)), "length": np.array(lengths)}
    about = {"model": ", ".join(models), "text": "random tokens", "batch": batch, "threads": torch.get_num_threads()}
    return Measurement.of(GROWTH, arrays | labels, about)


def _measure(model: NeuralModel, tokens_BT: Tensor, repeats: int) -> tuple[float, int, int]:
    inputs, targets = tokens_BT[:, :-1], tokens_BT[:, 1:]
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        nats, _, _ = model.loss(inputs, targets, model.fresh(len(inputs)))
        nats.backward()  # type: ignore[no-untyped-call]
        if model.device.type == "cuda":  # which computes by itself
            torch.cuda.synchronize(model.device)
        times.append(time.perf_counter() - began)
        model.zero_grad(set_to_none=True)
    with kept_for_backward([*model.parameters(), *model.buffers(), tokens_BT]) as kept:
        nats, _, after = model.loss(inputs, targets, model.fresh(len(inputs)))
    return min(times), kept.bytes, sum(part.nbytes for part in after.memory.values())


# How many bytes autograd keeps for the backward pass, counted on the tensors themselves.
#
# `layers.bptt.saved_for_backward` counts what operations of torch keep. Here what our own compiled operations keep is
# counted too. Their buffers have no history, so that weights and inputs can only be left out by their addresses.


@dataclass
class KeptBytes:
    """Bytes of distinct memory."""

    bytes: int = 0


@contextmanager
def kept_for_backward(known: Iterable[Tensor]) -> Iterator[KeptBytes]:
    """Count what is kept of the operations inside the block, each piece of memory once; `known` (weights) not.

    >>> x = torch.ones(10, requires_grad=True)
    >>> with kept_for_backward([x]) as kept:
    ...     y = torch.tanh(x) * x
    >>> kept.bytes
    40
    """
    kept = KeptBytes()
    seen: dict[int, torch.UntypedStorage | None] = {tensor.untyped_storage().data_ptr(): None for tensor in known}

    def pack(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in seen:
            seen[memory.data_ptr()] = memory  # a reference, so that no address is used twice inside the block
            kept.bytes += memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept


BPTT_MEMORY = "bptt-memory"


def bptt_memory(
    lengths: Sequence[int] = (64, 128, 256, 512, 1024),
    truncations: Sequence[int | None] = (None, 140, 35),
    *,
    batch: int = 8,
    hidden: int = 64,
) -> Measurement:
    """Bytes a tanh RNN keeps at once, in float32. Arrays: `states`, `autograd` [truncation, length].

    A truncation of None goes over the whole sequence; among the numbers of the axis it is 0.
    """
    shape = (len(truncations), len(lengths))
    states, graph = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    drawn = torch.Generator().manual_seed(0)
    W, U = (torch.randn(hidden, hidden, generator=drawn) / hidden**0.5 for _ in range(2))
    b, h0 = torch.zeros(hidden), torch.zeros(batch, hidden)

    def of_sum(h_BSH: Tensor, start: int) -> Tensor:
        """The gradient of the sum of all states."""
        return torch.ones_like(h_BSH)

    with progress.task("memory of backpropagation", total=len(truncations) * sum(lengths)) as advance:
        for column, steps in enumerate(lengths):
            x_BTI = torch.randn(batch, steps, hidden, generator=drawn)
            for row, size in enumerate(truncations):
                states[row, column] = bptt(x_BTI, h0, W, U, b, of_sum, truncation=size).stored_bytes
                graph[row, column] = _by_autograd(x_BTI[:, : size or steps], h0, W, U, b)
                advance(steps)
    arrays = {"states": states, "autograd": graph, "length": np.array(lengths)}
    arrays["truncation"] = np.array([size or 0 for size in truncations])
    about = {"model": f"rnn, {hidden} units", "text": f"random numbers, {batch} rows", "batch": batch, "hidden": hidden}
    return Measurement.of(BPTT_MEMORY, arrays, about)


def _by_autograd(x_BSI: Tensor, h0: Tensor, W: Tensor, U: Tensor, b: Tensor) -> int:
    """Bytes autograd keeps of one piece, run by the plain loop: pieces are worked through one after the other."""
    cell = Elman(W.shape[1], W.shape[0], bias="one")
    weights = {"weight_ih": W, "weight_hh": U, "bias_ih": b}
    weights = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    with saved_for_backward() as saved:
        unroll(cell, x_BSI, HState(h0), weights, kernel="reference")
    return saved.bytes
