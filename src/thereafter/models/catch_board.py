"""Many games of catch at once, as tensors on one device (`images/catch_game.py` has the rules, and plays one).

The ball's way does not depend on what is done: all columns come from one formula. A step moves paddles and asks the
device for nothing. Shapes: B episodes, T steps of a game, P pixels that are lit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.images.catch_game import FINE, PADDLE


class CatchBoard:
    """Games from their beginnings, int64 [B] each, on screens of size x size pixels."""

    def __init__(self, ball_B: Tensor, slant_B: Tensor, paddle_B: Tensor, *, size: int) -> None:
        self.size, self.paddle_B, self._paddle_P = size, paddle_B, torch.arange(PADDLE, device=paddle_B.device)
        steps_T, wide = torch.arange(size, device=ball_B.device), FINE * (size - 1)
        folded_BT = (FINE * ball_B[:, None] + steps_T * slant_B[:, None]).remainder(2 * wide) - wide
        self.column_BT = (wide - folded_BT.abs() + FINE // 2) // FINE
        """Of the ball after 0 to T steps."""

    def points(self, step: int) -> Tensor:
        """Column and row of the pixels that are lit after so many steps, int64 [B, P, 2]: the ball, then the paddle."""
        paddle_BP = self.paddle_B[:, None] + self._paddle_P
        column_BP = torch.cat((self.column_BT[:, step : step + 1], paddle_BP), 1)
        row_BP = torch.full_like(column_BP, self.size - 1)
        row_BP[:, 0].fill_(step)
        return torch.stack((column_BP, row_BP), 2)

    def move(self, action_B: Tensor) -> None:
        """Move the paddles: 0 is left, 1 stay, 2 right."""
        self.paddle_B = (self.paddle_B + action_B - 1).clamp(0, self.size - PADDLE)

    def caught(self) -> Tensor:
        """Whether the paddle is where the ball comes down, bool [B]."""
        off_B = self.column_BT[:, -1] - self.paddle_B
        return (off_B >= 0) & (off_B < PADDLE)
