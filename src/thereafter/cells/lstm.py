"""Long short-term memory (Hochreiter and Schmidhuber 1997), with its common variants."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import Cell, HCState, HState, Record, Weights, normalise, split
from thereafter.cells.options import LSTMOptions
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
