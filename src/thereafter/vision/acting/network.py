"""A network that plays catch and sees small parts of the screen alone (Mnih et al. 2014, section 4.2).

    l_t ~ N(tanh(W_l h_{t-1}), s^2)                   where to look, h_0 = 0; its mean where nothing is learned
    g_t = relu(W_g [relu(W_x sensor(l_t)), relu(W_p l_t)])
    h_t = cell(g_t, h_{t-1})
    a_t ~ softmax(W_a h_t)                            left, stay or right; the likeliest where nothing is learned

The reward R is 1 where the ball is caught, at the end of the game. Actions and places have no gradient: they learn from
the reward (`vision/glimpsing/network.py`), and so do all layers below the actions; places read h without a gradient.
What is expected of the reward is b_t = W_b h_t, from which the layers below learn as well.

A game is played first, without gradients; then all glimpses are known, and the recurrent layer reads them in one call.
Dropout lays one mask over h for the whole of a game, when it is played and when it is learned from: choices learn from
the chances that they were drawn by.
The value of the loss is the number of games that are lost, 1 - R each; so is that of validation, where every choice is
the likeliest one.

Shapes: B episodes, T steps, K scales, g pixels of a patch, U units; A = 3 actions, 2 for x and y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.models.settings import check_choice
from thereafter.models.task_net import TaskNet
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import Ungraphed
from thereafter.vision.acting.game import ACTIONS, FINE, PADDLE
from thereafter.vision.glimpsing import network as glimpsing
from thereafter.vision.glimpsing.network import GlimpseCore, SensorSettings

_A = len(ACTIONS)
_LIT = 9  # pixels of all patches that are lit at a time, about


GAZES = ("learned", "centre")


@dataclass(frozen=True)
class CatcherSettings(SensorSettings):
    """Sizes of a network that plays catch by glimpses, and how it learns to."""

    places: str = "learned"
    """Where to look: "learned", or always the "centre"."""
    patch: int = 6
    scales: int = 3
    cell: str = "rnn"
    hidden: int = 128
    read: int = 64
    entropy: float = 0.003
    """The weight of the entropy of actions, which keeps them from being sure too early."""
    credit: float = 0.7
    """How much of what is learned at a step is passed on to the one before it: 1 is the reward itself, less has less
    noise."""
    dropout: float = 0.0
    """The share of what is chosen by that is dropped while training, the same throughout a game."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("places", self.places, GAZES)
        if not 0.0 <= self.entropy <= 10.0:
            raise OptionError(f"entropy is {self.entropy!r}; expected 0 to 10; try 0.003")
        if not 0.0 <= self.credit <= 1.0:
            raise OptionError(f"credit is {self.credit!r}; expected 0 to 1; try 0.7")


@dataclass(frozen=True)
class CatchBatch(TensorBatch):
    """How episodes begin: column and slant of the ball, left column of the paddle; int64 [B, 3]."""

    starts_B3: Tensor


@dataclass(frozen=True)
class Game:
    """Games as they were played; T steps, each a glimpse and an action. `columns_BT`, `paddles_BT`: of ball and paddle
    before each action and after the last, T + 1 of them. `kept_BU`: the mask that dropout laid over h throughout each
    game, None where nothing was dropped."""

    places_BT2: Tensor
    patches_BTKgg: Tensor
    actions_BT: Tensor
    columns_BT: Tensor
    paddles_BT: Tensor
    caught_B: Tensor
    kept_BU: Tensor | None = None


class Choosing(NamedTuple):
    """What choices are made by: scores of actions, the mean of the next place, and the reward that is expected."""

    z_A: Tensor
    mean_2: Tensor
    expected: Tensor


class Catcher(Ungraphed, TaskNet[CatchBatch], GlimpseCore):
    """See the module's equations. `size`: of the screen."""

    no_graph = "it plays a game whose rule is part of the network"

    def __init__(self, settings: CatcherSettings, *, size: int) -> None:
        super().__init__()
        self.settings, self.size = settings, size
        self.add_core(settings, channels=1)
        self.policy = nn.Linear(settings.hidden, _A + 3)
        self._begin()

    def _begin(self) -> None:
        """Weights that let a few lit pixels be heard (He et al. 2015), and choices that are all about as likely."""
        with torch.no_grad():
            self.what.weight.normal_(0, math.sqrt(2 / _LIT))
            self.where.weight.normal_()
            self.join.weight.normal_(0, math.sqrt(1 / self.settings.read))
            self.policy.weight.mul_(0.1)
            self.policy.bias.zero_()

    @property
    def steps(self) -> int:
        """Of a game."""
        return self.size - 1

    def choose(self, h: Tensor, kept: Tensor | None = None) -> Choosing:
        """By what choices are made after h; places read it without a gradient. `kept`: the mask of a game."""
        h = h if kept is None else h * kept
        out: Tensor = self.policy(h)
        out = out.to(torch.promote_types(out.dtype, torch.float32))
        if self.settings.places != "learned":
            return Choosing(out[..., :_A], torch.zeros_like(out[..., :2]), out[..., -1])
        own = slice(_A, _A + 2)
        mean_2 = torch.tanh(F.linear(h.detach(), self.policy.weight[own], self.policy.bias[own]).to(out.dtype))
        return Choosing(out[..., :_A], mean_2, out[..., -1])

    def nats(self, batch: CatchBatch) -> Tensor:
        game = self.play(batch)
        lost = (~game.caught_B).float().sum()
        if not self.training:
            return lost
        extra = self.loss_of(game)
        return lost + (extra - extra.detach())

    @torch.no_grad()
    def play(self, batch: CatchBatch) -> Game:
        """Play the games: choices are drawn while training, else the likeliest ones."""
        like, settings = self.join.weight, self.settings
        drawn = self.training and settings.places == "learned"
        board = CatchBoard(*batch.starts_B3.unbind(1), size=self.size)
        h_BU, state = like.new_zeros(len(batch), self.settings.hidden), None
        drops = self.training and self.settings.dropout > 0
        kept_BU = F.dropout(torch.ones_like(h_BU), self.settings.dropout) if drops else None
        places, patches, actions, paddles = [], [], [], [board.paddle_B]
        chosen = self.choose(h_BU, kept_BU)
        for step in range(self.steps):
            place_B2 = glimpsing.draw_around(chosen.mean_2, settings.deviation) if drawn else chosen.mean_2
            place_B2 = place_B2.to(like.dtype)
            seen_BKgg = self.sensor.of_points(board.points(step), place_B2, height=self.size, width=self.size)
            g_BU = self.glance(seen_BKgg.flatten(1), place_B2.clamp(-1, 1))
            y_B1U, state = self.reader(g_BU.unsqueeze(1), state)
            chosen = self.choose(y_B1U[:, 0], kept_BU)
            action_B = glimpsing.draw_choice(chosen.z_A) if self.training else chosen.z_A.argmax(-1)
            board.move(action_B)
            places.append(place_B2)
            patches.append(seen_BKgg)
            actions.append(action_B)
            paddles.append(board.paddle_B)
        seen, chosen_BT, paddles_BT = torch.stack(patches, 1), torch.stack(actions, 1), torch.stack(paddles, 1)
        return Game(torch.stack(places, 1), seen, chosen_BT, board.column_BT, paddles_BT, board.caught(), kept_BU)

    def read(self, game: Game) -> tuple[Tensor, Tensor]:
        """What the recurrent layer reads of a game, [B, T, U], and h after every glimpse; one call for all steps."""
        inputs_BTU = self.glance(game.patches_BTKgg.flatten(2), game.places_BT2.clamp(-1, 1))
        h_BTU, _ = self.reader(inputs_BTU)
        return inputs_BTU, h_BTU

    def loss_of(self, game: Game) -> Tensor:
        """What games teach: its gradient raises the share of balls that are caught."""
        _, h_BTU = self.read(game)
        kept_BU = game.kept_BU
        chosen = self.choose(F.pad(h_BTU, (0, 0, 1, 0)), None if kept_BU is None else kept_BU.unsqueeze(1))
        log_a_BT = glimpsing.log_chance(game.actions_BT, chosen.z_A[:, 1:])
        log_pi_BT = F.pad(log_a_BT, (1, 0))
        if self.settings.places == "learned":
            deviation = self.settings.deviation
            log_l_BT = glimpsing.log_density(game.places_BT2, chosen.mean_2[:, :-1], deviation)
            log_pi_BT = log_pi_BT + F.pad(log_l_BT, (0, 1))
        reward_B = game.caught_B.to(chosen.expected.dtype)
        credit_BT = glimpsing.passed_on(reward_B, chosen.expected, self.settings.credit)
        learned = glimpsing.reward_loss(log_pi_BT, reward_B[:, None], chosen.expected, credit_BT).sum()
        log_p_BTA = chosen.z_A[:, 1:].log_softmax(-1)
        entropy = -(log_p_BTA.exp() * log_p_BTA).sum()
        return learned - self.settings.entropy * entropy


# Many games of catch at once, as tensors on one device (`vision/acting/game.py` has the rules, and plays one).
#
# The ball's way does not depend on what is done: all columns come from one formula. A step moves paddles and asks the
# device for nothing. Shapes: B episodes, T steps of a game, P pixels that are lit.


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
