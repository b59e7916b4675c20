"""The convolutional LSTM: a memory that is a map of places, for frames of video (Shi et al. 2015)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from thereafter.cells.base import Weights, normalise
from thereafter.cells.lstm import LSTM
from thereafter.cells.options import ConvLSTMOptions
from thereafter.errors import OptionError


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

    def input_product(self, x: Tensor, weights: Weights) -> Tensor:
        return self._convolved(x, weights, "ih")

    def recur(self, h_BO: Tensor, weights: Weights) -> Tensor:
        return self._convolved(h_BO, weights, "hh")

    def _convolved(self, x: Tensor, weights: Weights, which: str) -> Tensor:
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
