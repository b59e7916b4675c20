"""FILE.pt2, a step, and FILE-sequence.pt2, whole sequences: programs of `torch.export` with free batch and length.

    step       (token[B], state...)                 -> (log_p[B, V], state...)
    sequence   (tokens[B, T], lengths[B], state...) -> (log_p[B, T, V], state...)

Each is exported from a module of plain torch operations. The network between a token and its features is a module
`(token[B], state...) -> (features[B, H], state...)` for each plan, its state in the order of `state_of`.

Shapes: B rows, T steps, V words, E word vector, H features, W tokens of a window, C context, K heads, D = H / K.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.export.plan import (
    EPSILON,
    Array,
    AveragePlan,
    BlockPlan,
    HeadPlan,
    LayerPlan,
    NeuralPlan,
    NgramPlan,
    Plan,
    RecurrentPlan,
    SoftmaxPlan,
    StatePart,
    TransformerPlan,
    WindowPlan,
    cell_of,
    facts_of,
)
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.layers.recurrent import join
from thereafter.models.base import Floats, Ids

FACTS = "thereafter.json"
_EXAMPLE = (2, 3)
"""Rows and steps of the example that is written down; neither is kept."""


class TorchTarget:
    """Programs that `torch.export.load(FILE).module()` runs, in Python or by AOTInductor."""

    ending: ClassVar[str] = ".pt2"
    program: ClassVar[str] = "torch.export.load"
    tolerance: ClassVar[float] = FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if isinstance(plan, NgramPlan):
            return "an n-gram is a search in a trie, which is no program of torch; try --to c, --to html or --to arpa"
        return "a program of torch keeps float32 weights here; try --to onnx --int8" if int8 else None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if isinstance(plan, NgramPlan):
            raise TypeError(plan.kind)
        rows, steps = (torch.export.Dim(name) for name in "BT")
        parts, (count, length) = state_of(plan), _EXAMPLE
        state, free = tuple(fresh(part, count) for part in parts), tuple({0: rows} for _ in parts)
        token_B = torch.full((count,), plan.wording.start)
        _save(plan, PlannedStep(plan), (token_B, *state), ({0: rows}, free), path)
        whole = path.with_name(f"{path.stem}-sequence{path.suffix}")
        given = (token_B[:, None].repeat(1, length), torch.full((count,), length), *state)
        _save(plan, PlannedSequence(plan), given, ({0: rows, 1: steps}, {0: rows}, free), whole)
        size = sum(int(np.prod(part.shape)) * (8 if part.whole else 4) for part in parts)
        return WrittenFiles((path, whole), {"state": f"{size:,} bytes a row"})

    def runner(self, plan: Plan, written: WrittenFiles) -> TorchRunner:
        if isinstance(plan, NgramPlan):
            raise TypeError(plan.kind)
        return TorchRunner(plan, *written.paths)


def _save(plan: NeuralPlan, module: nn.Module, given: tuple[Tensor, ...], free: tuple[object, ...], path: Path) -> None:
    facts = json.dumps(facts_of(plan, state_of(plan)), ensure_ascii=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of things that are none of a user's
        program = torch.export.export(module.eval(), given, dynamic_shapes=free)
        torch.export.save(program, path, extra_files={FACTS: facts})


class TorchRunner:
    """The programs, loaded again, each with a state of its own."""

    name: ClassVar[str] = "torch.export.load"

    def __init__(self, plan: NeuralPlan, path: Path, whole: Path) -> None:
        self._plan = plan
        self._step, self.sequence = (_loaded(one) for one in (path, whole))
        self._state, self._carried = list[Tensor](), list[Tensor]()

    def start(self, rows: int) -> Floats:
        self._state, self._carried = ([fresh(part, rows) for part in state_of(self._plan)] for _ in range(2))
        return self.step(np.full(rows, self._plan.wording.start))

    def step(self, token_B: Ids) -> Floats:
        with torch.no_grad():
            logp_BV, *self._state = self._step(torch.as_tensor(np.asarray(token_B, dtype=np.int64)), *self._state)
        logs: Floats = logp_BV.numpy()
        return logs

    def whole(self, tokens_BT: Ids) -> Floats:
        given = torch.as_tensor(np.asarray(tokens_BT, dtype=np.int64))
        with torch.no_grad():
            lengths_B = torch.full((len(given),), given.shape[1])
            logp_BTV, *self._carried = self.sequence(given, lengths_B, *self._carried)
        logs: Floats = logp_BTV.numpy()
        return logs

    def close(self) -> None:
        self._state = self._carried = []


def _loaded(path: Path) -> Callable[..., tuple[Tensor, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: Callable[..., tuple[Tensor, ...]] = torch.export.load(path).module()
    return made


def fresh(part: StatePart, rows: int) -> Tensor:
    """A part of the state at the beginning of a text."""
    return torch.full((rows, *part.shape), part.fresh, dtype=torch.int64 if part.whole else torch.float32)


TARGET = TorchTarget()


class _Planned(nn.Module):
    """Body and head; the state is in the order of `state_of(plan)`."""

    def __init__(self, plan: NeuralPlan) -> None:
        super().__init__()
        self.words, self.parts = plan.wording, state_of(plan)
        self.body, self.head = body_of(plan), PlannedHead(plan.head)

    def features(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Features and state; rows that read a line end forget everything and read `<s>` where lines start afresh."""
        if self.words.restart is not None:
            ended_B = token_B == self.words.restart
            token_B = torch.where(ended_B, self.words.start, token_B)
            parts = zip(state, self.parts, strict=True)
            state = tuple(torch.where(rows_of(ended_B, one), _like(part.fresh, one), one) for one, part in parts)
        made: tuple[Tensor, ...] = self.body(token_B, *state)
        return made


class PlannedStep(_Planned):
    """One token a row."""

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        f_BH, *after = self.features(token_B, *state)
        return (self.head(f_BH), *after)


class PlannedSequence(_Planned):
    """T tokens a row; what stands beyond a row's length is read by nobody, its log_p mean nothing."""

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        from torch._higher_order_ops.scan import scan  # the one loop of a free length that torch.export keeps

        time_T1 = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)[:, None]
        there_TB = time_T1 < lengths_B

        def one(before: tuple[Tensor, ...], given: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
            token_B, there_B = given
            f_BH, *after = self.features(token_B, *before)
            kept = (torch.where(rows_of(there_B, new), new, old) for new, old in zip(after, before, strict=True))
            return tuple(kept), f_BH.clone()

        ends, f_TBH = scan(one, state, (tokens_BT.transpose(0, 1), there_TB))
        return (self.head(f_TBH).transpose(0, 1), *ends)


class PlannedHead(nn.Module):
    """log p of all words, of any number of axes before the last."""

    def __init__(self, head: HeadPlan) -> None:
        super().__init__()
        self.register_buffer("matrix", tensor(head.matrix))
        self.register_buffer("bias", tensor(head.bias))
        self.clusters = 0 if isinstance(head, SoftmaxPlan) else len(head.down)
        self.ranked = not isinstance(head, SoftmaxPlan)
        if not isinstance(head, SoftmaxPlan):
            self.register_buffer("rank", torch.from_numpy(head.rank.copy()))
            for number, (down, out) in enumerate(zip(head.down, head.out, strict=True)):
                self.register_buffer(f"down_{number}", tensor(down))
                self.register_buffer(f"out_{number}", tensor(out))

    def forward(self, f_NH: Tensor) -> Tensor:
        logp = F.log_softmax(F.linear(f_NH, self.get_buffer("matrix"), self.get_buffer("bias")), -1)
        if not self.ranked:
            return logp
        short = logp.shape[-1] - self.clusters
        parts = [logp[..., :short]]
        for number in range(self.clusters):
            down = F.linear(f_NH, self.get_buffer(f"down_{number}"))
            inside = F.log_softmax(F.linear(down, self.get_buffer(f"out_{number}")), -1)
            parts.append(inside + logp[..., short + number : short + number + 1])
        return torch.cat(parts, -1).index_select(-1, self.get_buffer("rank"))


def _like(value: float, part: Tensor) -> Tensor:
    return torch.full((), value if math.isfinite(value) else 0.0, dtype=part.dtype)


def body_of(plan: NeuralPlan) -> nn.Module:
    """The body of a plan."""
    if isinstance(plan, RecurrentPlan):
        return PlannedStack(plan)
    return PlannedAttention(plan) if isinstance(plan, TransformerPlan) else PlannedWindow(plan)


def state_of(plan: NeuralPlan) -> list[StatePart]:
    """The arrays that a body carries: a Transformer's have a fixed size."""
    return plan.fixed_state() if isinstance(plan, TransformerPlan) else plan.state()


class PlannedStack(nn.Module):
    """Word vectors through a stack of cells."""

    def __init__(self, plan: RecurrentPlan) -> None:
        super().__init__()
        self.register_buffer("embedding", tensor(plan.embedding))
        self.layers = nn.ModuleList(PlannedLayer(layer) for layer in plan.layers)
        self.fields = [len(layer.lane.fields) for layer in plan.layers]

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        x_BI: Tensor = F.embedding(token_B, self.get_buffer("embedding"))
        after: list[Tensor] = []
        for layer, fields in zip(self.layers, self.fields, strict=True):
            x_BI, *ends = layer(x_BI, *state[len(after) : len(after) + fields])
            after += ends
        return (x_BI, *after)


class PlannedLayer(nn.Module):
    """A cell and what is carried round it."""

    def __init__(self, layer: LayerPlan) -> None:
        super().__init__()
        self.kind = layer.join
        self.cell = cell_of(layer.lane)
        self.names = tuple(layer.lane.weights)
        given = {**layer.lane.weights, "gate_weight": layer.gate_weight, "gate_bias": layer.gate_bias}
        for name, weight in given.items():
            self.register_buffer(name, None if weight is None else tensor(weight))

    def forward(self, x_BI: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        weights = {name: self.get_buffer(name) for name in self.names}
        state = self.cell.state_type(*before)
        y_BO, after = self.cell.step(self.cell.input_product(x_BI, weights), state, weights)
        own = dict(self.named_buffers())
        return (join(self.kind, x_BI, y_BO, own.get("gate_weight"), own.get("gate_bias")), *after)


class PlannedWindow(nn.Module):
    """The last W tokens: word vectors side by side through a layer, or their mean."""

    def __init__(self, plan: WindowPlan | AveragePlan) -> None:
        super().__init__()
        self.direct = isinstance(plan, WindowPlan) and plan.direct
        self.joined = isinstance(plan, WindowPlan)
        self.register_buffer("embedding", tensor(plan.embedding))
        if isinstance(plan, WindowPlan):
            self.register_buffer("matrix", tensor(plan.matrix))
            self.register_buffer("bias", tensor(plan.bias))

    def forward(self, token_B: Tensor, window_BW: Tensor) -> tuple[Tensor, ...]:
        seen_BW = torch.cat((window_BW[:, 1:], token_B[:, None]), 1)
        x_BWE = F.embedding(seen_BW.clamp(min=0), self.get_buffer("embedding"))
        if self.joined:
            x_BX = x_BWE.flatten(1)
            f_BH = torch.tanh(F.linear(x_BX, self.get_buffer("matrix"), self.get_buffer("bias")))
            return torch.cat((f_BH, x_BX), 1) if self.direct else f_BH, seen_BW
        there_BW1 = (seen_BW >= 0).to(x_BWE.dtype)[..., None]
        return (x_BWE * there_BW1).sum(1) / there_BW1.sum(1), seen_BW


class PlannedAttention(nn.Module):
    """Transformer blocks with the keys and values of what was read.

    `count` [B] tokens are in sight, in the first places of `seen` [B, C] and of keys and values [B, K, C, D]. Where a
    row is full, its last C // 2 tokens are read again from position 0, as `models/feedforward.py` has it.
    """

    def __init__(self, plan: TransformerPlan) -> None:
        super().__init__()
        self.context, self.scale, self.heads, self.pre = plan.context, plan.scale, plan.heads, plan.pre
        self.normed = plan.norm is not None
        self.register_buffer("embedding", tensor(plan.embedding))
        self.register_buffer("positions", tensor(plan.positions))
        self.blocks = nn.ModuleList(PlannedBlock(block, plan.heads, pre=plan.pre) for block in plan.blocks)
        for name, part in zip(("gain", "shift"), plan.norm or (), strict=False):
            self.register_buffer(name, tensor(part))

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        full_B = state[0] >= self.context
        state = torch.cond(full_B.any(), self._reread, self._kept, (full_B, *state))
        f_BTH, after = self.attend(token_B[:, None], state)
        return (f_BTH[:, 0], after[0] + 1, *after[1:])

    def _kept(self, full_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.clone() for part in state)

    def _reread(self, full_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        half = self.context // 2
        blank = tuple(torch.zeros_like(part) for part in state)
        read = list(self.attend(state[1][:, self.context - half :], blank)[1])
        read[0] = blank[0] + half
        return tuple(torch.where(rows_of(full_B, one), one, old) for one, old in zip(read, state, strict=True))

    def attend(self, tokens_BT: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Features of tokens for which there is room, and the state with them, `count` as it was."""
        count_B, seen_BC, *caches = state
        position_BT = count_B[:, None] + torch.arange(tokens_BT.shape[1], device=count_B.device)
        x_BTH = F.embedding(tokens_BT, self.get_buffer("embedding")) * self.scale
        x_BTH = x_BTH + self.get_buffer("positions")[position_BT]
        after = [count_B, seen_BC.scatter(1, position_BT, tokens_BT)]
        slots_C = torch.arange(self.context, device=count_B.device)
        allowed_B1TC = (slots_C <= position_BT[..., None])[:, None]
        for number, block in enumerate(self.blocks):
            x_BTH, *kept = block(x_BTH, position_BT, allowed_B1TC, *caches[2 * number : 2 * number + 2])
            after += kept
        if self.normed:
            x_BTH = F.layer_norm(x_BTH, x_BTH.shape[-1:], self.get_buffer("gain"), self.get_buffer("shift"), EPSILON)
        return x_BTH, tuple(after)


class PlannedBlock(nn.Module):
    """A Transformer block over new tokens, with the keys and values of those before."""

    def __init__(self, plan: BlockPlan, heads: int, *, pre: bool) -> None:
        super().__init__()
        self.heads, self.pre, self.approximate = heads, pre, "tanh" if plan.approximate else "none"
        pairs = {name: vars(plan)[name] for name in ("into", "out", "widen", "narrow")}
        pairs |= {"first": plan.norm_attention, "second": plan.norm_forward}
        for name, (weight, bias) in pairs.items():
            self.register_buffer(f"{name}_weight", tensor(weight))
            self.register_buffer(f"{name}_bias", tensor(bias))

    def forward(
        self, x_BTH: Tensor, position_BT: Tensor, allowed_B1TC: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        read = self._norm("first", x_BTH) if self.pre else x_BTH
        rows, steps, size = x_BTH.shape
        heads = (rows, steps, self.heads, size // self.heads)
        q, k, v = (part.reshape(heads).transpose(1, 2) for part in self._by("into", read).chunk(3, -1))
        where_BKTD = position_BT[:, None, :, None].expand_as(k)
        keys, values = keys.scatter(2, where_BKTD, k), values.scatter(2, where_BKTD, v)
        scores = (q @ keys.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(~allowed_B1TC, -math.inf)
        y_BTH = self._by("out", (scores.softmax(-1) @ values).transpose(1, 2).flatten(2))
        x_BTH = x_BTH + y_BTH if self.pre else self._norm("first", x_BTH + y_BTH)
        read = self._norm("second", x_BTH) if self.pre else x_BTH
        y_BTH = self._by("narrow", F.gelu(self._by("widen", read), approximate=self.approximate))
        return x_BTH + y_BTH if self.pre else self._norm("second", x_BTH + y_BTH), keys, values

    def _by(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias"))

    def _norm(self, name: str, x: Tensor) -> Tensor:
        gain, shift = self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")
        return F.layer_norm(x, x.shape[-1:], gain, shift, EPSILON)


def rows_of(mask_B: Tensor, part: Tensor) -> Tensor:
    """A mask of rows with as many axes as a part of the state has."""
    return mask_B.view(-1, *[1] * (part.dim() - 1))


def tensor(array: Array) -> Tensor:
    """An array of a plan as a tensor over the same memory."""
    return torch.from_numpy(array)
