"""A network that plays catch: its gradient against enumeration, its glimpses against the screen, that it learns."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from thereafter.errors import OptionError
from thereafter.vision.acting.game import Episode, Moment, screen, starts_of
from thereafter.vision.acting.network import CatchBatch, Catcher, CatcherSettings, Game
from thereafter.vision.glimpsing import network as glimpsing
from thereafter.vision.glimpsing.network import draw_choice, log_chance, passed_on, reward_loss

SMALL = CatcherSettings(patch=2, scales=2, hidden=5, read=4, entropy=0.0, credit=1.0)


def batch_of(count: int, size: int, seed: int = 1, begin: int = 0) -> CatchBatch:
    return CatchBatch(
        torch.from_numpy(starts_of([Episode(number, seed) for number in range(begin, begin + count)], size))
    )


def net_of(settings: CatcherSettings = SMALL, size: int = 3) -> Catcher:
    torch.manual_seed(3)
    return Catcher(settings, size=size).double()


def played(net: Catcher, batch: CatchBatch, actions: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> Game:
    """Games in which every player does the same."""
    left = iter(actions)
    monkeypatch.setattr(glimpsing, "draw_choice", lambda z: torch.full(z.shape[:-1], next(left)))
    return net.play(batch)


def slopes(net: Catcher, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(net.parameters()), allow_unused=True, materialize_grads=True))


def test_its_gradient_is_that_of_the_expected_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nine ways to play two steps, each as likely as it is: the mean of what they teach is the slope of E[R]."""
    net, batch = net_of(replace(SMALL, places="centre")).train(), batch_of(6, 3)
    games = [played(net, batch, actions, monkeypatch) for actions in product(range(3), repeat=2)]
    mean = [torch.zeros_like(weight) for weight in net.parameters()]
    exact = torch.zeros(())
    won = torch.stack([game.caught_B for game in games])
    assert 0 < won.sum() < won.numel()
    for game in games:
        chosen = net.choose(torch.nn.functional.pad(net.read(game)[1], (0, 0, 1, 0)))
        p_B = log_chance(game.actions_BT, chosen.z_A[:, 1:]).sum(1).exp()
        reward_B = game.caught_B.double()
        error_B = (reward_B[:, None] - chosen.expected).square().sum(1)
        exact = exact + (-p_B * reward_B + p_B.detach() * error_B).sum()
        for row, p in enumerate(p_B.tolist()):
            alone = Game(*(None if part is None else part[row : row + 1] for part in vars(game).values()))
            for total, slope in zip(mean, slopes(net, net.loss_of(alone)), strict=True):
                total += p * slope
    for total, slope in zip(mean, slopes(net, exact), strict=True):
        torch.testing.assert_close(total, slope)
    assert any(slope.any() for slope in mean)


def test_the_gradient_of_a_softmax_is_exact_on_average_and_b_takes_no_part() -> None:
    z, rewards = torch.tensor([0.3, -0.5, 0.1], dtype=torch.float64, requires_grad=True), torch.tensor([0.2, 1.0, 0.4])
    (exact,) = torch.autograd.grad((z.softmax(0) * rewards).sum(), z)
    for b in (0.0, 0.7):
        losses = torch.stack(
            [reward_loss(log_chance(torch.tensor(a), z), rewards[a], torch.tensor(b)) for a in range(3)]
        )
        (mean,) = torch.autograd.grad(-(z.softmax(0).detach() * losses).sum(), z)
        torch.testing.assert_close(mean, exact)
    torch.manual_seed(1)
    drawn = torch.bincount(draw_choice(z.expand(20_000, 3)), minlength=3) / 20_000
    torch.testing.assert_close(drawn.double(), z.detach().softmax(0), atol=0.01, rtol=0)


def test_credit_is_passed_on_from_step_to_step() -> None:
    reward_B, expected_BT = torch.tensor([1.0, 0.0]), torch.tensor([[0.1, 0.3, 0.6], [0.2, 0.2, 0.4]])
    torch.testing.assert_close(passed_on(reward_B, expected_BT, 1.0), reward_B[:, None].expand(2, 3))
    torch.testing.assert_close(passed_on(reward_B, expected_BT, 0.0), torch.tensor([[0.3, 0.6, 1.0], [0.2, 0.4, 0.0]]))
    half = passed_on(reward_B, expected_BT, 0.5)
    torch.testing.assert_close(half[0], torch.tensor([0.5 * 0.3 + 0.5 * 0.8, 0.5 * 0.6 + 0.5, 1.0]))


def test_what_has_a_gradient_has_the_right_one() -> None:
    net = net_of()
    game = net.eval().play(batch_of(2, 3))
    names, weights = zip(*net.named_parameters(), strict=True)

    class Read(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self) -> tuple[Tensor, Tensor]:
            chosen = self.net.choose(self.net.read(game)[1])
            return chosen.z_A.log_softmax(-1), chosen.expected

    def of(*given: Tensor) -> Any:
        return functional_call(Read(), dict(zip((f"net.{name}" for name in names), given, strict=True)), ())

    assert torch.autograd.gradcheck(of, [weight.detach().requires_grad_() for weight in weights])


def test_what_is_seen_is_the_screen_around_the_place() -> None:
    net, batch = net_of(replace(SMALL, patch=3), size=7).train(), batch_of(8, 7)
    torch.manual_seed(2)
    game = net.play(batch)
    assert game.patches_BTKgg.shape == (8, 6, 2, 3, 3)
    for row, step in product(range(8), range(6)):
        moment = Moment(step, int(game.columns_BT[row, step]), int(game.paddles_BT[row, step]))
        pixels = torch.from_numpy(screen(moment, 7) // 255).double()[None, None]
        seen = net.sensor(net.sensor.frame(pixels), game.places_BT2[row, step : step + 1])[0, :, 0]
        torch.testing.assert_close(game.patches_BTKgg[row, step], seen * torch.tensor([1, 4])[:, None, None])
        moved = int(game.paddles_BT[row, step + 1] - game.paddles_BT[row, step])
        wanted = int(game.actions_BT[row, step]) - 1
        assert moved == wanted or int(game.paddles_BT[row, step]) in (0, 5)


def test_the_loss_is_the_number_of_lost_games_and_validation_draws_nothing() -> None:
    net, batch = net_of(size=6), batch_of(40, 6)
    with net.quietly():
        lost = float(net.nats(batch))
        assert lost == float(net.nats(batch)) == 40 - int(net.play(batch).caught_B.sum())
    torch.manual_seed(4)
    net.train()
    game, again = net.play(batch), net.play(batch)
    assert not torch.equal(game.actions_BT, again.actions_BT)
    assert not torch.equal(game.places_BT2, again.places_BT2)
    torch.manual_seed(4)
    assert float(net.nats(batch).detach()) == 40 - int(game.caught_B.sum())
    centre = net_of(replace(SMALL, places="centre"), size=6).train()
    assert not centre.play(batch).places_BT2.any()


def test_the_same_batch_over_other_tensors() -> None:
    batch = batch_of(4, 6)
    places = batch.places()
    other = batch.over({name: tensor + 0 for name, tensor in places.items()})
    assert torch.equal(other.starts_B3, batch.starts_B3)
    assert len(batch.to(torch.device("cpu"))) == 4


def test_it_learns_to_catch_on_a_small_screen() -> None:
    torch.manual_seed(1)
    settings = CatcherSettings(places="centre", patch=3, scales=2, hidden=24, read=16, entropy=0.01)
    net = Catcher(settings, size=6)
    asked = batch_of(300, 6, seed=7)
    with net.quietly():
        before = float(net.nats(asked)) / 300
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(110):
        optimizer.zero_grad()
        (net.nats(batch_of(128, 6, begin=128 * step)) / 128).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    with net.quietly():
        after = float(net.nats(asked)) / 300
    assert before > 0.5
    assert after < 0.4


@pytest.mark.parametrize(
    "wrong",
    [
        {"places": "left"},
        {"cell": "lstmm"},
        {"hidden": 0},
        {"deviation": 0.0},
        {"scales": 7},
        {"credit": 1.5},
        {"entropy": -1},
    ],
)
def test_settings_of_a_catcher_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="expected"):
        CatcherSettings(**wrong)


def test_dropout_lays_one_mask_over_a_game_when_it_is_played_and_when_it_is_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, batch, drawn = net_of(replace(SMALL, hidden=40, dropout=0.5), size=6), batch_of(7, 6), list[Tensor]()

    def watched(z_BA: Tensor) -> Tensor:
        drawn.append(z_BA)
        return draw_choice(z_BA)

    monkeypatch.setattr(glimpsing, "draw_choice", watched)
    game = net.train().play(batch)
    assert game.kept_BU is not None
    assert set(game.kept_BU.flatten().tolist()) == {0.0, 2.0}
    _, h_BTU = net.read(game)
    again = net.choose(h_BTU, game.kept_BU.unsqueeze(1))
    assert torch.allclose(again.z_A, torch.stack(drawn, 1))
    learned: list[Tensor] = []

    def learning(actions_BT: Tensor, z_BTA: Tensor) -> Tensor:
        learned.append(z_BTA)
        return log_chance(actions_BT, z_BTA)

    monkeypatch.setattr(glimpsing, "log_chance", learning)
    net.loss_of(game)
    assert torch.equal(learned[0], again.z_A)
    assert net.eval().play(batch).kept_BU is None
