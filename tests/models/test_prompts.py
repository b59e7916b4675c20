"""A prompt that is part of a line is read straight on: the same bits as through the cutting into lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tiny import END, EVERY, made, rows

from thereafter.models import neural


@EVERY
def test_a_row_without_a_line_end_is_read_as_if_it_had_been_cut(name: str, options: dict[str, Any]):
    model = made(name, options, "line")
    ids = np.where(rows(1, 20) == END, END + 1, rows(1, 20))
    with model.quietly():
        tokens = model.checked(ids)
        start = model.begin(1)
        logp, state = neural.score(model, tokens, start)
        cut_logp, cut_state = neural.score_lines(model, tokens, start, END, scored=True)
        np.testing.assert_array_equal(logp, cut_logp)
        for key, tensor in cut_state.tensors().items():
            assert torch.equal(state.tensors()[key], tensor), key
