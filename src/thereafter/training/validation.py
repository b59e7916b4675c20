"""How good the weights are on text that training does not see: mean -log p of a token, as `LanguageModel.score` has it.

The validation text is cut into a few rows that are read side by side, which is much faster than one by one. No row
begins in mid text from a state that has read nothing: training knows such a state only at the beginning of a text, and
an LSTM that meets an ordinary word in it may be lost for the rest of the row. So every row after the first reads `<s>`,
the beginning of the text and the tokens before its own, none of which count (docs/comparing.md has the figures).

Shapes: B rows, T steps, L tokens of the lead-in, N = tokens of a block in one list.
"""

from __future__ import annotations

import numpy as np
import torch

from thereafter.models.neural import NeuralModel
from thereafter.models.state import NeuralState
from thereafter.text.batches import IdArray
from thereafter.training import order
from thereafter.training.blocks import Blocks

_ROW = 4000  # a row has at least this many tokens, so that what its lead-in lacks does not count; fewer are one row
_ROWS = 32
_STEPS, _LONGEST = 64, 1024  # tokens of a row at a time; of a line
_LEAD = 128  # tokens of the beginning of the text, and as many of those before a row


class Validation:
    """A text that a model is validated on, as `learner.Heldout`; its layout depends on nothing but the text."""

    def __init__(self, ids: IdArray, model: NeuralModel, device: torch.device) -> None:
        self.model = model
        rows = min(_ROWS, max(1, len(ids) // _ROW))
        if model.context == "line" and model.line_end is not None:
            self._plan = order.lines(ids, model.line_end, _ROWS, len(ids), shuffle=False)
        else:
            self._plan = order.stream(len(ids), rows, _STEPS)
        self._blocks = Blocks(ids, model.vocabulary_size, device)
        self._lead_BL = _lead_in(ids, self._plan, model.vocabulary_size).to(device)
        self.tokens = len(ids)

    def measure(self) -> float:
        """Nats a token. Draws no random numbers and leaves the model as it was."""
        model, plan = self.model, self._plan
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode():
                total = torch.zeros((), dtype=torch.float64, device=model.device)
                state = self._first_state() if plan.carried else model.fresh(1)
                for k in range(len(plan)):
                    block = self._blocks.cut(plan, k)
                    state = state if plan.carried else model.fresh(block.rows)
                    for begin in range(0, plan.width(k), _LONGEST):
                        # lines of a block are sorted by their length, and the shorter ones have ended
                        rows = int((plan.lengths_R[plan.rows(k)] > begin).sum()) if begin else block.rows
                        state = state if rows == state.rows else state.select(np.arange(state.rows - rows, state.rows))
                        part = (slice(block.rows - rows, None), slice(begin, begin + _LONGEST))
                        f_BTH, state = model.features(block.inputs_BT[part], state)
                        f_NH, targets_N = f_BTH.flatten(0, 1), block.targets_BT[part].flatten()
                        if block.mask_BT is not None:
                            mask_N = block.mask_BT[part].flatten()
                            f_NH, targets_N = f_NH[mask_N], targets_N[mask_N]
                        total -= model.head.log_prob_of(f_NH, targets_N).sum(dtype=torch.float64)
                return float(total) / self.tokens
        finally:
            model.train(was_training)

    def _first_state(self) -> NeuralState:
        """The state of each row before its first block: the first row has read nothing, the others their lead-in."""
        first = self.model.fresh(1)
        if not len(self._lead_BL):
            return first
        _, state = self.model.features(self._lead_BL, self.model.fresh(len(self._lead_BL)))
        return self.model.stack([first, state])


def _lead_in(ids: IdArray, plan: order.Plan, start_id: int) -> torch.Tensor:
    """What the rows after the first read before their first block, [B - 1, 1 + 2 L]."""
    starts_B = plan.starts_R[plan.rows(0)][1:] if plan.carried else np.empty(0, dtype=np.int64)
    before_BL = np.asarray(ids)[starts_B[:, None] - 1 - _LEAD + np.arange(_LEAD)]
    begin_BL = np.tile(np.append(start_id, ids[:_LEAD]), (len(starts_B), 1))
    return torch.from_numpy(np.concatenate([begin_BL, before_BL], axis=1).astype(np.int64))
