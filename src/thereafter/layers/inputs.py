"""The input of a recurrent layer, checked once and turned into rows; rows turned back into the output; the
state before the first step, passed, zero, random or learned; the sizes of a stack, its lanes and its rates of noise.

A stack is a list of lanes: one cell for each layer and direction. The name of a lane, "l0" or "l2_reverse", ends the
names of its weights, as in torch: weight_ih_l0, bias_hh_l2_reverse.

Inside a layer everything is [B, T, ...]; users have time first or batch first, a single sequence without a batch, or
torch's packed sequences; and states in torch's stacked form.

Shapes: B rows, T steps, I inputs, O outputs, L layers times directions, S the size of a state field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from thereafter.cells import CELLS
from thereafter.cells.base import Cell, State
from thereafter.cells.options import OptionValue
from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.switches import is_unread, traced

Lengths = Tensor | Sequence[int]


@dataclass(frozen=True)
class Rows:
    """A batch of sequences as the layers see it, and what is needed to give outputs back in the user's own layout."""

    x_BTI: Tensor
    lengths_B: Tensor | None
    reset_BT: Tensor | None
    batch_first: bool
    batched: bool
    packed: PackedSequence | None

    def restore(self, y_BTO: Tensor) -> Any:
        """Outputs in the layout the input came in."""
        if self.packed is not None:
            return self._repacked(y_BTO, self.packed)
        if not self.batched:
            return y_BTO.squeeze(0)
        # Contiguous where torch's is: programs written for time-first output call .view on what comes back.
        return y_BTO if self.batch_first else y_BTO.transpose(0, 1).contiguous()

    def array(self, array_BT: Tensor) -> Tensor:
        """A recorded array in the user's layout; those of a packed input stay padded, batch first."""
        if self.packed is not None or (self.batched and self.batch_first):
            return array_BT
        return array_BT.transpose(0, 1) if self.batched else array_BT.squeeze(0)

    def _repacked(self, y_BTO: Tensor, packed: PackedSequence) -> PackedSequence:
        order = packed.sorted_indices
        sorted_BTO = y_BTO if order is None else y_BTO.index_select(0, order)
        sizes_T = packed.batch_sizes
        # row k of the sorted batch is alive as long as more than k rows are
        ends_B = (sizes_T.unsqueeze(0) > torch.arange(int(sizes_T[0])).unsqueeze(1)).sum(1)
        data = pack_padded_sequence(sorted_BTO, ends_B, batch_first=True).data
        return PackedSequence(data, sizes_T, order, packed.unsorted_indices)


def take_rows(
    input: Tensor | PackedSequence,
    lengths: Lengths | None,
    reset: Tensor | None,
    *,
    batch_first: bool,
    input_size: int,
    like: Tensor,
    check: bool,
) -> Rows:
    """Check an input against the layer's size and weights (`like`) and bring it into rows."""
    packed, batched = None, True
    if isinstance(input, PackedSequence):
        if lengths is not None:
            raise ShapeError("got lengths= beside a packed sequence, which has its own; try leaving lengths= out")
        _check_content(input.data, input_size, like, "the packed data", (2,))
        packed = input
        x_BTI, lengths = pad_packed_sequence(input, batch_first=True)
    else:
        _check_content(input, input_size, like, "the input", (2, 3))
        batched = input.dim() == 3
        x_BTI = input.unsqueeze(0) if not batched else input if batch_first else input.transpose(0, 1)
    batch, steps = x_BTI.shape[:2]
    reset_BT = None if reset is None else _take_reset(reset, batch, steps, x_BTI.device, batched)
    lengths_B = None if lengths is None else take_lengths(lengths, batch, steps)
    if lengths_B is not None and not is_unread(lengths_B) and bool((lengths_B == steps).all()):
        lengths_B = None  # full rows: every kernel is faster without them
    if lengths_B is not None:
        lengths_B = lengths_B.to(x_BTI.device)
        dead_BT = torch.arange(steps, device=x_BTI.device) >= lengths_B.unsqueeze(1)
        # whatever lies beyond a row's end, NaN included, must not reach a gradient as 0 times itself
        x_BTI = x_BTI.masked_fill(dead_BT.unsqueeze(-1), 0.0)
    if check and not traced() and not bool(torch.isfinite(x_BTI).all()):
        row, step, unit = (int(i) for i in torch.nonzero(~torch.isfinite(x_BTI))[0])
        raise ShapeError(
            f"the input holds {float(x_BTI[row, step, unit])} at row {row}, step {step}, unit {unit}; expected finite "
            "numbers; try torch.nan_to_num, or look at what made it (check=False leaves this test out)"
        )
    return Rows(x_BTI, lengths_B, reset_BT, batch_first, batched, packed)


def take_lengths(lengths: Lengths, batch: int, steps: int) -> Tensor:
    """Lengths as an integer tensor on the CPU, one for each row, each from 0 to `steps`.

    While torch traces the call they have no numbers yet: the operator checks them when it runs. While a step is
    recorded as a graph they stay on the GPU and are not checked.
    """
    if isinstance(lengths, Tensor):
        lengths_B = lengths.detach() if is_unread(lengths) else lengths.detach().cpu()
    else:
        try:
            lengths_B = torch.tensor(list(lengths)) if len(lengths) else torch.zeros(0, dtype=torch.int64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ShapeError(f"lengths is {lengths!r}; expected one integer for each row ({error})") from None
    if lengths_B.is_floating_point() or lengths_B.is_complex() or lengths_B.dtype == torch.bool:
        raise ShapeError(f"lengths has the type {lengths_B.dtype}; expected integers; try lengths.long()")
    if lengths_B.shape != (batch,):
        raise ShapeError(
            f"lengths has the shape {tuple(lengths_B.shape)}; expected ({batch},), one for each row of the input"
        )
    if not is_unread(lengths_B) and batch and not 0 <= int(lengths_B.min()) <= int(lengths_B.max()) <= steps:
        raise ShapeError(
            f"lengths runs from {int(lengths_B.min())} to {int(lengths_B.max())}; expected 0 to {steps}, the steps of "
            "the input; try lengths.clamp(0, steps), and look whether batch_first is what you meant"
        )
    return lengths_B.long()


def _check_content(x: Tensor, input_size: int, like: Tensor, what: str, dimensions: tuple[int, ...]) -> None:
    if not isinstance(x, Tensor):
        raise ShapeError(f"{what} is a {type(x).__name__}; expected a tensor; try torch.as_tensor(x)")
    if x.dim() not in dimensions:
        expected = " or ".join(str(n) for n in dimensions)
        raise ShapeError(f"{what} has {x.dim()} dimensions, shape {tuple(x.shape)}; expected {expected}")
    if x.shape[-1] != input_size:
        raise ShapeError(
            f"{what} has the shape {tuple(x.shape)}; expected {input_size} (input_size) at its end; "
            f"try x[..., :{input_size}], or build the layer with input_size={x.shape[-1]}"
        )
    if x.device != like.device:
        raise ShapeError(f"{what} is on {x.device}; the layer's weights are on {like.device}; try x.to({like.device})")
    if x.dtype != like.dtype and not torch.is_autocast_enabled(x.device.type):
        raise ShapeError(
            f"{what} has the type {x.dtype}; the layer's weights have {like.dtype}; try x.to({like.dtype})"
        )


def _take_reset(reset: Tensor, batch: int, steps: int, device: torch.device, batched: bool) -> Tensor:
    reset_BT = reset if batched or reset.dim() == 2 else reset.unsqueeze(0)
    if reset_BT.dtype != torch.bool:
        raise ShapeError(f"reset has the type {reset.dtype}; expected true and false; try reset.bool()")
    if reset_BT.shape != (batch, steps):
        raise ShapeError(
            f"reset has the shape {tuple(reset.shape)}; expected ({batch}, {steps}): rows by steps in either layout"
        )
    return reset_BT.to(device)


StateGiven = Tensor | Sequence[Tensor | Sequence[Tensor]]
"""A state as users give it: h, or (h, c), each stacked, or a sequence with one tensor for each layer and direction."""
INITIAL = ("zero", "random", "learned")
SPREAD = 0.1
"""Standard deviation of a random initial state: small beside the [-1, 1] of h, large enough to be noticed."""


def fresh_state(cell: Cell, kind: str, batch: int, like: Tensor, learned: dict[str, Tensor], training: bool) -> State:
    """The state of one cell if the caller passed none.

    "random" draws a normal state of spread 0.1 for each row and call while training, so that nothing can be learned
    from the start being always the same, and its mean 0 otherwise (Zimmermann, Tietz and Grothmann 2012). "learned" is
    one parameter for each state field, the same for all rows.
    """
    if kind == "learned":
        parts = [learned[name].to(like.dtype).expand(batch, size) for name, size in cell.state_sizes().items()]
        return cell.state_type(*parts)
    if kind == "random" and training:
        drawn = [
            SPREAD * torch.randn(batch, n, dtype=like.dtype, device=like.device) for n in cell.state_sizes().values()
        ]
        return cell.state_type(*drawn)
    return cell.zero_state(batch, like)


def split_state(
    hx: Any, cells: Sequence[Cell], batch: int, like: Tensor, *, ragged: bool, batched: bool
) -> list[State]:
    """The state of every cell from the user's: h, or (h, c), stacked [L, B, S] or a sequence of [B, S].

    Without a batch the rows' axis is missing, as in torch.
    """
    fields = tuple(cells[0].state_sizes())
    if len(fields) == 1:
        if isinstance(hx, tuple | list) and not ragged:
            raise ShapeError(f"the state is a {type(hx).__name__}; expected one tensor, h; try hx[0]")
        hx = (hx,)
    elif not isinstance(hx, tuple | list) or len(hx) != len(fields):
        got = f"{len(hx)} parts" if isinstance(hx, tuple | list) else f"a {type(hx).__name__}"
        raise ShapeError(
            f"the state is {got}; expected a pair of tensors ({', '.join(fields)}); try (h, torch.zeros_like(h))"
        )
    columns = [
        _split_field(name, field, cells, batch, like, ragged, batched) for name, field in zip(fields, hx, strict=True)
    ]
    return [cell.state_type(*parts) for cell, *parts in zip(cells, *columns, strict=True)]


def _split_field(
    name: str, field: Any, cells: Sequence[Cell], batch: int, like: Tensor, ragged: bool, batched: bool
) -> list[Tensor]:
    sizes = [cell.state_sizes()[name] for cell in cells]
    rows = (batch,) if batched else ()
    if ragged:
        if not isinstance(field, tuple | list) or len(field) != len(cells):
            raise ShapeError(
                f"the state {name} is a {type(field).__name__}; expected {len(cells)} tensors, one for each layer and "
                "direction, since hidden_size is a list"
            )
        parts, expected = list(field), [(*rows, size) for size in sizes]
    else:
        parts, expected = [field], [(len(cells), *rows, sizes[0])]
    for part, shape in zip(parts, expected, strict=True):
        if not isinstance(part, Tensor):
            raise ShapeError(f"the state {name} is a {type(part).__name__}; expected a tensor of the shape {shape}")
        if tuple(part.shape) != shape:
            raise ShapeError(
                f"the state {name} has the shape {tuple(part.shape)}; expected {shape} for {batch} rows; "
                "try the state this layer returned for the same rows, or none"
            )
        mixed = part.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type)
        if mixed or part.device != like.device:
            raise ShapeError(
                f"the state {name} is {part.dtype} on {part.device}; expected {like.dtype} on {like.device}; "
                f"try {name}.to(x)"
            )
    parts = parts if ragged else list(field)
    return parts if batched else [part.unsqueeze(0) for part in parts]


def join_state(states: Sequence[State], *, ragged: bool, batched: bool) -> Any:
    """The state returned to the user: h, or (h, c), each stacked, or a tuple of tensors where sizes may differ."""
    fields = []
    for column in zip(*states, strict=True):
        parts = column if batched else tuple(part.squeeze(0) for part in column)
        fields.append(tuple(parts) if ragged else torch.stack(parts))
    return fields[0] if len(fields) == 1 else tuple(fields)


Sizes = int | Sequence[int | tuple[int, int]]


@dataclass(frozen=True)
class Lane:
    """One cell of a stack: its layer and its direction."""

    layer: int
    reverse: bool
    cell: Cell

    @property
    def name(self) -> str:
        return f"l{self.layer}_reverse" if self.reverse else f"l{self.layer}"

    def weight_names(self) -> dict[str, str]:
        """The cell's name of each weight, and the module's."""
        return {name: f"{name}_{self.name}" for name in self.cell.shapes()}


def build_lanes(
    kind: str, input_size: int, sizes: list[tuple[int, ...]], options: Mapping[str, OptionValue]
) -> list[tuple[Lane, ...]]:
    """The lanes of every layer: forward, and backward where a layer has two sizes."""
    cell_type = CELLS.load(kind)
    layers: list[tuple[Lane, ...]] = []
    width = input_size
    for layer, directions in enumerate(sizes):
        lanes = tuple(Lane(layer, bool(d), cell_type(width, size, **options)) for d, size in enumerate(directions))
        width = sum(lane.cell.output_size for lane in lanes)
        layers.append(lanes)
    return layers


def layer_sizes(hidden_size: Sizes, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    """One size for each layer and direction; a list sets the number of layers if `num_layers` is 1.

    >>> layer_sizes([4, (3, 2)], 2, bidirectional=True)
    [(4, 4), (3, 2)]
    """
    if not isinstance(hidden_size, int | Sequence) or isinstance(hidden_size, str):
        raise OptionError(f"hidden_size is {hidden_size!r}; expected a positive integer, or a list with one per layer")
    if num_layers < 1:
        raise OptionError(f"num_layers is {num_layers}; expected at least 1")
    listed = [hidden_size] * num_layers if isinstance(hidden_size, int) else list(hidden_size)
    if len(listed) != num_layers != 1:
        raise OptionError(
            f"hidden_size lists {len(listed)} layers and num_layers is {num_layers}; expected as many; "
            "try leaving num_layers out"
        )
    sizes: list[tuple[int, ...]] = []
    for entry in listed:
        pair = tuple(entry) if isinstance(entry, Sequence) else (entry, entry)
        if len(pair) != 2 or not all(isinstance(size, int) and size > 0 for size in pair):
            raise OptionError(f"hidden_size holds {entry!r}; expected a positive integer, or a pair for two directions")
        if not bidirectional and not isinstance(entry, int):
            raise OptionError(f"hidden_size holds the pair {entry!r}; pairs need bidirectional=True")
        sizes.append(pair if bidirectional else pair[:1])
    return sizes


Zoneout = float | tuple[float, float]


def zoneout_rates(rates: Zoneout) -> tuple[float, float]:
    """The rates of h and c: one number stands for both."""
    pair = tuple(rates) if isinstance(rates, tuple | list) else (rates, rates)
    if len(pair) != 2:
        raise OptionError(f"zoneout is {rates!r}; expected one probability, or a pair for h and c")
    return probability("zoneout", pair[0]), probability("zoneout", pair[1])


def probability(name: str, value: float) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise OptionError(f"{name} is {value!r}; expected a probability, 0 to 1")
    return float(value)
