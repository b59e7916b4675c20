"""Transformer blocks against torch's own layer, caches against the whole pass, positions against their formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.layers.attention import Block, CausalAttention, Sight
from thereafter.layers.embedding import Positions, sinusoids

B, T, H, K = 3, 9, 8, 2


def block(norm: str = "pre") -> Block:
    torch.manual_seed(0)
    return Block(H, K, 20, norm=norm).double().eval()


def inputs() -> torch.Tensor:
    return torch.randn(B, T, H, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def whole(made: Block, x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = made(x, None, Sight.of([0] * len(x), x.shape[1], x.device))[0]
    return found


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_is_torchs_encoder_layer_with_a_causal_mask(norm: str) -> None:
    ours = block(norm)
    theirs = nn.TransformerEncoderLayer(
        H, K, 20, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    pairs = {
        "self_attn.in_proj_weight": ours.attention.into.weight,
        "self_attn.in_proj_bias": ours.attention.into.bias,
        "self_attn.out_proj.weight": ours.attention.out.weight,
        "self_attn.out_proj.bias": ours.attention.out.bias,
        "linear1.weight": ours.widen.weight,
        "linear1.bias": ours.widen.bias,
        "linear2.weight": ours.narrow.weight,
        "linear2.bias": ours.narrow.bias,
    }
    with torch.no_grad():
        for name, weight in pairs.items():
            theirs.get_parameter(name).copy_(weight)
        for mine, other in ((ours.norm_attention, theirs.norm1), (ours.norm_forward, theirs.norm2)):
            for made in (mine.weight, mine.bias):
                made.uniform_(0.5, 1.5)
            other.load_state_dict(mine.state_dict())
    x = inputs().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    expected = theirs(x, src_mask=mask, is_causal=True)
    torch.testing.assert_close(whole(ours, x), expected)
    torch.testing.assert_close(
        torch.autograd.grad(whole(ours, x).square().sum(), x), torch.autograd.grad(expected.square().sum(), x)
    )


def test_no_token_sees_a_later_one() -> None:
    x = inputs().requires_grad_()
    whole(block(), x)[:, 4].sum().backward()
    assert x.grad is not None
    assert x.grad[:, :5].abs().sum((0, 2)).min() > 0
    assert not x.grad[:, 5:].any()


@pytest.mark.parametrize("pieces", [[9], [1] * 9, [4, 5], [2, 1, 6]])
def test_pieces_with_a_cache_equal_the_whole(pieces: list[int]) -> None:
    made, x = block(), inputs()
    held, before, outputs = None, 0, []
    for piece in x.split(pieces, dim=1):
        y, held = made(piece, held, Sight.of([before] * B, piece.shape[1], x.device))
        outputs.append(y)
        before += piece.shape[1]
    torch.testing.assert_close(torch.cat(outputs, dim=1), whole(made, x))


def test_rows_may_hold_unequally_many_tokens() -> None:
    made, x = block(), inputs()
    held_rows = [5, 0, 3]
    expected = whole(made, x)
    # what lies beyond a row's own tokens must not be looked at
    caches = [torch.full((B, K, 6, H // K), 1e3, dtype=torch.float64) for _ in range(2)]
    for row, count in enumerate(held_rows):
        if count:
            _, kept = made(x[row : row + 1, :count], None, Sight.of([0], count, x.device))
            for cache, part in zip(caches, kept, strict=True):
                cache[row, :, :count] = part[0]
    new = torch.stack([x[row, count : count + 4] for row, count in enumerate(held_rows)])
    y, kept = made(new, (caches[0], caches[1]), Sight.of(held_rows, 4, x.device))
    for row, count in enumerate(held_rows):
        torch.testing.assert_close(y[row], expected[row, count : count + 4])
    assert kept[0].shape == (B, K, 9, H // K)


@pytest.mark.parametrize("held", [[0, 0, 0], [2, 2, 2], [2, 0, 1]])
def test_attention_shows_weights_that_sum_to_one(held: list[int]) -> None:
    torch.manual_seed(0)
    attention = CausalAttention(H, K).double()
    caches = (torch.randn(B, K, 2, H // K).double(), torch.randn(B, K, 2, H // K).double())
    shown: list[torch.Tensor] = []
    y, (_, values) = attention(inputs(), caches, Sight.of(held, T, torch.device("cpu")), shown)
    torch.testing.assert_close(shown[0].sum(-1), torch.ones(B, K, T, dtype=torch.float64))
    for row, count in enumerate(held):
        for t in range(T):
            assert not shown[0][row, :, t, count + t + 1 :].any()
    mixed = (shown[0] @ values).transpose(1, 2).reshape(B, T, H)
    torch.testing.assert_close(attention.out(mixed), y)


def test_dropout_acts_while_training_only() -> None:
    torch.manual_seed(0)
    made = Block(H, K, 20, dropout=0.5).double()
    assert not torch.equal(whole(made, inputs()), whole(made, inputs()))
    made.eval()
    assert torch.equal(whole(made, inputs()), whole(made, inputs()))


def test_sinusoids_are_their_formula() -> None:
    table = sinusoids(50, 6)
    for t in (0, 1, 49):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)
    assert sinusoids(4, 5).shape == (4, 5)


def test_learned_positions_are_parameters_and_sinusoidal_ones_are_not() -> None:
    assert len(list(Positions("learned", 4, 6).parameters())) == 1
    assert not Positions("sinusoidal", 4, 6).state_dict()
    assert Positions("learned", 4, 6)(torch.tensor([[0, 3], [1, 2]])).shape == (2, 2, 6)


def test_wrong_options_are_refused() -> None:
    with assert_refused(OptionError, "sinusoidal", "learned"):
        Positions("rotary", 4, 6)
    with assert_refused(OptionError, "pre", "post"):
        Block(8, 2, 8, norm="both")
    with pytest.raises(OptionError, match="expected a multiple"):
        CausalAttention(8, 3)
