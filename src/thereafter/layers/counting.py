"""How many numbers a model learns, under either convention of biases."""

from __future__ import annotations

import math

from torch import nn

from thereafter.cells.base import Cell


def count_parameters(*parts: Cell | nn.Module) -> int:
    """The learned numbers of cells or modules together, each counted once.

    Text books count one bias for each gate, torch keeps two: what is counted is what the part was made with.

    >>> from thereafter.cells.lstm import LSTM
    >>> count_parameters(LSTM(128, 256, bias="one")), count_parameters(LSTM(128, 256, bias="two"))
    (394240, 395264)
    """
    total = 0
    seen: set[int] = set()
    for part in parts:
        if isinstance(part, Cell):
            total += sum(math.prod(shape) for shape in part.shapes().values())
            continue
        for weight in part.parameters():
            if id(weight) not in seen:  # weights may be tied between parts
                seen.add(id(weight))
                total += weight.numel()
    return total
