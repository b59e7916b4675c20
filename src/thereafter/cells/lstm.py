"""Long short-term memory (Hochreiter and Schmidhuber 1997), with its common variants; and the convolutional LSTM, whose
memory is a map of places, for frames of video (Shi et al. 2015).
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import Cell, HCState, HState, Record, Weights, normalise, split
from thereafter.cells.options import ConvLSTMOptions, LSTMOptions
from thereafter.errors import OptionError


class LSTM(Cell):
    """i, f, o = sigmoid(.), g = tanh(.) of W x + U h + b;   c_t = f c_{t-1} + i g;   h_t = o tanh(c_t)

    `peephole`: i and f also see p * c_{t-1}, o sees p * c_t (diagonal; Gers and Schmidhuber 2000).
    `coupled`: f = 1 - i, one gate less (Greff et al. 2017, CIFG).
    `layer_norm`: besides W x and U h, c is normalised inside tanh(c), with gain and shift (Ba et al. 2016).
    `proj_size`: h_t = W_hr (o tanh(c_t)) (Sak, Senior and Beaufays 2014).
    `forget_bias`: the initial bias of the forget gate (Jozefowicz et al. 2015); of two biases `bias_ih` has it and
    the other is 0; a coupled cell gets minus that for its input gate. None keeps the plain initialisation.

    >>> LSTM(2, 3, coupled=True).blocks
    ('input', 'cell', 'output')
    """

    name: ClassVar[str] = "lstm"
    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "cell", "output")
    state_type: ClassVar[type[HState] | type[HCState]] = HCState
    options_type: ClassVar[type[LSTMOptions]] = LSTMOptions
    options: LSTMOptions

    def check_options(self) -> None:
        if not 0 <= self.options.proj_size < self.hidden_size:
            raise OptionError(
                f"proj_size is {self.options.proj_size}; expected 0 (none) to below hidden_size ({self.hidden_size})"
            )

    @property
    def output_size(self) -> int:
        return self.options.proj_size or self.hidden_size

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(gate for gate in self.gates if not (self.options.coupled and gate == "forget"))

    def state_sizes(self) -> dict[str, int]:
        return {"h": self.output_size, "c": self.hidden_size}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super().shapes()
        size = (self.hidden_size,)
        if self.options.peephole:
            shapes |= {f"peephole_{gate}": size for gate in ("input", "forget", "output") if gate in self.blocks}
        if self.layer_norm:
            shapes |= {"norm_c": size, "shift_c": size}
        if self.options.proj_size:
            shapes["weight_hr"] = (self.options.proj_size, self.hidden_size)
        return shapes

    def initialise(self, weights: dict[str, Tensor]) -> None:
        super().initialise(weights)
        with torch.no_grad():
            if self.layer_norm:
                weights["shift_c"].zero_()
            bias = self.options.forget_bias
            if bias is not None and "bias_ih" in weights:
                rows = self.rows("input" if self.options.coupled else "forget")
                weights["bias_ih"][rows] = -bias if self.options.coupled else bias
                if "bias_hh" in weights:
                    weights["bias_hh"][rows] = 0.0

    def pointwise(
        self, z_BG: Tensor, r_BG: Tensor, state: HCState, weights: Weights, record: Record | None = None
    ) -> tuple[Tensor, HCState]:
        parts = dict(zip(self.blocks, split(z_BG + r_BG, len(self.blocks)), strict=True))
        c_BH = state.c

        def gate(name: str, seen_BH: Tensor) -> Tensor:
            part = parts[name]
            return torch.sigmoid(part + weights[f"peephole_{name}"] * seen_BH if self.options.peephole else part)

        i_BH = gate("input", c_BH)
        f_BH = 1 - i_BH if self.options.coupled else gate("forget", c_BH)
        g_BH = torch.tanh(parts["cell"])
        new_BH = f_BH * c_BH + i_BH * g_BH
        o_BH = gate("output", new_BH)
        shown_BH = normalise(new_BH, weights["norm_c"], weights["shift_c"]) if self.layer_norm else new_BH
        h_BO = o_BH * torch.tanh(shown_BH)
        if self.options.proj_size:
            h_BO = F.linear(h_BO, weights["weight_hr"])
        if record is not None:
            record |= {"input": i_BH, "forget": f_BH, "cell": g_BH, "output": o_BH, "c": new_BH}
        return h_BO, HCState(h_BO, new_BH)


class ConvLSTM(LSTM):
    """i, f, o = sigmoid(.), g = tanh(.) of W * x + U * h + b;   c_t = f c_{t-1} + i g;   h_t = o tanh(c_t)

    * is a convolution of `kernel_size` x `kernel_size` over maps of `height` x `width`, with zeros beyond the border:
    the same weights at every place. x, h and c are such maps of several channels, flattened [channels, height, width]
    into one axis, so that sizes, states, streams and traces are those of any other cell: `input_size` and `hidden_size`
    count numbers, channels times height times width. Weights have torch's order of `conv2d`, [4 C, C', k, k], flattened
    to [4 C, C' k k].

    `peephole`: i and f also see p c_{t-1}, o sees p c_t, with a weight for every channel and place, as Shi et al. have
    it. `coupled`, `layer_norm` (over all numbers of a map) and `forget_bias` are those of the LSTM; there is no
    projection. With all three sizes 1 it is the LSTM.

    >>> cell = ConvLSTM(3 * 8 * 8, 16 * 8 * 8, height=8, width=8, kernel_size=5)
    >>> cell.channels, cell.shapes()["weight_hh"], cell.shapes()["bias_ih"]
    ((3, 16), (64, 400), (64,))
    """

    name: ClassVar[str] = "conv_lstm"
    options_type: ClassVar[type[ConvLSTMOptions]] = ConvLSTMOptions
    options: ConvLSTMOptions

    def check_options(self) -> None:
        for label in ("height", "width", "kernel_size"):
            size = vars(self.options)[label]
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise OptionError(f"{label} is {size!r}; expected at least 1, a whole number")
        if self.options.kernel_size % 2 == 0:
            raise OptionError(f"kernel_size is {self.options.kernel_size}; expected an odd number, such as 3 or 5")
        if self.options.proj_size:
            raise OptionError(
                f"proj_size is {self.options.proj_size}; expected 0: a convolutional LSTM projects nothing"
            )
        for label, size in (("input_size", self.input_size), ("hidden_size", self.hidden_size)):
            if size % self.places:
                raise OptionError(
                    f"{label} is {size}, which is no number of maps of {self.options.height} x {self.options.width}; "
                    f"expected channels times {self.places}; try {max(1, size // self.places) * self.places}"
                )

    @property
    def places(self) -> int:
        """The numbers of one channel."""
        return self.options.height * self.options.width

    @property
    def channels(self) -> tuple[int, int]:
        """Those of the input and those of the state."""
        return self.input_size // self.places, self.hidden_size // self.places

    @property
    def fan_in(self) -> int:
        return self.channels[1] * self.options.kernel_size**2

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super().shapes()
        inputs, units = self.channels
        rows = len(self.blocks) * units
        shapes |= {"weight_ih": (rows, inputs * self.options.kernel_size**2), "weight_hh": (rows, self.fan_in)}
        return shapes | {name: (rows,) for name in ("bias_ih", "bias_hh") if name in shapes}

    def rows(self, gate: str) -> slice:
        units = self.channels[1]
        start = self.blocks.index(gate) * units
        return slice(start, start + units)

    def matrix_product(self, x: Tensor, weights: Weights, which: str) -> Tensor:
        """W * x + b of maps with any axes before their own, as flat as they came."""
        kernel, size = self.options.kernel_size, (self.options.height, self.options.width)
        weight, bias = weights[f"weight_{which}"], weights.get(f"bias_{which}")
        maps_NCHW = x.reshape(-1, x.shape[-1] // self.places, *size)
        taps_GCkk = weight.reshape(len(weight), maps_NCHW.shape[1], kernel, kernel)
        shape = (*x.shape[:-1], len(weight) * self.places)
        if not self.layer_norm:
            return F.conv2d(maps_NCHW, taps_GCkk, bias, padding=kernel // 2).reshape(shape)
        product = F.conv2d(maps_NCHW, taps_GCkk, padding=kernel // 2).reshape(shape)
        product = normalise(product, weights[f"norm_{which}"])
        return product if bias is None else product + bias.repeat_interleave(self.places)
