"""How good the weights are on text that training does not see: mean -log p of a token, read as training reads.

The validation text is cut into a few rows that are read side by side, which is much faster than one by one; a row after
the first begins without the words before it, so the figure is a little above that of `LanguageModel.score`.

Shapes: B rows, T steps, N = tokens of a block in one list.
"""

from __future__ import annotations

import torch

from thereafter.models.neural import NeuralModel
from thereafter.text.batches import IdArray
from thereafter.training import order
from thereafter.training.blocks import Blocks

_ROW = 500  # a row is at least so many tokens, so that what its beginning lacks does not count
_ROWS = 32
_STEPS = 64


class Validation:
    """A text that a model is validated on, as `learner.Heldout`; its layout depends on nothing but the text."""

    def __init__(self, ids: IdArray, model: NeuralModel, device: torch.device) -> None:
        self.model = model
        rows = min(_ROWS, max(1, len(ids) // _ROW))
        if model.context == "line" and model.line_end is not None:
            self._plan = order.lines(ids, model.line_end, _ROWS, 16 * _STEPS, shuffle=False)
        else:
            self._plan = order.stream(len(ids), rows, _STEPS)
        self._blocks = Blocks(ids, model.vocabulary_size, device)
        self.tokens = len(ids)

    def measure(self) -> float:
        """Nats a token. Draws no random numbers and leaves the model as it was."""
        model = self.model
        was_training = model.training
        model.eval()
        plan, state = self._plan, None
        try:
            with torch.inference_mode():
                total = torch.zeros((), dtype=torch.float64, device=model.device)
                for k in range(len(plan)):
                    block = self._blocks.cut(plan, k)
                    if state is None or not plan.carried:
                        state = model.fresh(len(block.inputs_BT))
                    f_BTH, state = model.features(block.inputs_BT, state)
                    f_NH, targets_N = f_BTH.flatten(0, 1), block.targets_BT.flatten()
                    if block.mask_BT is not None:
                        kept_N = block.mask_BT.flatten()
                        f_NH, targets_N = f_NH[kept_N], targets_N[kept_N]
                    total -= model.head.log_prob_of(f_NH, targets_N).sum(dtype=torch.float64)
                return float(total) / self.tokens
        finally:
            model.train(was_training)
