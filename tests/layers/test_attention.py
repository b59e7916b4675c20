"""Attention on numbers worked by hand, against torch's own multi-head attention, step by step and all at once."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError, UnknownNameError
from thereafter.layers import attention
from thereafter.layers.attention import KINDS, Attention, CrossAttention, masked_softmax

B, T, S, Q, M = 3, 4, 5, 6, 6
LENGTHS = torch.tensor([5, 2, 1])
MASK = torch.arange(S) < LENGTHS.unsqueeze(1)


def drawn(kind: str, memory_size: int = M) -> tuple[Attention, Tensor, Tensor]:
    torch.manual_seed(0)
    look = Attention(Q, memory_size, kind, inner=7 if kind == "additive" else None).double()
    return look, torch.randn(B, T, Q, dtype=torch.float64), torch.randn(B, S, memory_size, dtype=torch.float64)


def by_hand(look: Attention, **weights: list[list[float]] | list[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, weights and context of the query (1, 2) over the memory (3, 0), (0, 1)."""
    with torch.no_grad():
        for name, value in weights.items():
            look.get_parameter(name.replace("__", ".")).copy_(torch.tensor(value))
        query, memory = torch.tensor([[1.0, 2.0]]), torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])
        scores = look.scores(query.unsqueeze(1), look.keys(memory))[0, 0]
        context, shares = look(query, memory)
    return scores, shares[0], context[0]


def test_dot_by_hand() -> None:
    # (1, 2) . (3, 0) = 3, (1, 2) . (0, 1) = 2; softmax(3, 2) = e / (e + 1), 1 / (e + 1)
    scores, weights, context = by_hand(Attention(2, 2, "dot"))
    assert scores.tolist() == [3.0, 2.0]
    assert weights.tolist() == pytest.approx([0.7310586, 0.2689414])
    # 0.7310586 (3, 0) + 0.2689414 (0, 1)
    assert context.tolist() == pytest.approx([2.1931757, 0.2689414])


def test_bilinear_by_hand() -> None:
    # W = [[0, 1], [1, 1]]: W (3, 0) = (0, 3), W (0, 1) = (1, 1); (1, 2) . (0, 3) = 6, (1, 2) . (1, 1) = 3
    scores, weights, context = by_hand(Attention(2, 2, "bilinear"), of_memory__weight=[[0.0, 1.0], [1.0, 1.0]])
    assert scores.tolist() == [6.0, 3.0]
    # 1 / (1 + e^-3) = 0.9525741
    assert weights.tolist() == pytest.approx([0.9525741, 0.0474259])
    assert context.tolist() == pytest.approx([2.8577224, 0.0474259])


def test_additive_by_hand() -> None:
    # W1 = [[1, 0], [0, -1]]: W1 (1, 2) = (1, -2).   W2 = [[0, 1], [1, 0]]: W2 (3, 0) = (0, 3), W2 (0, 1) = (1, 0)
    # tanh((1, -2) + (0, 3)) = tanh(1, 1) = (0.7615942, 0.7615942)
    # tanh((1, -2) + (1, 0)) = tanh(2, -2) = (0.9640276, -0.9640276);   v = (2, 1)
    # scores 3 * 0.7615942 = 2.2847825 and 2 * 0.9640276 - 0.9640276 = 0.9640276
    scores, weights, context = by_hand(
        Attention(2, 2, "additive"),
        of_query__weight=[[1.0, 0.0], [0.0, -1.0]],
        of_memory__weight=[[0.0, 1.0], [1.0, 0.0]],
        v_A=[2.0, 1.0],
    )
    assert scores.tolist() == pytest.approx([2.2847825, 0.9640276])
    # 1 / (1 + e^-1.3207549) = 0.7893073
    assert weights.tolist() == pytest.approx([0.7893073, 0.2106927])
    assert context.tolist() == pytest.approx([2.3679219, 0.2106927])


@pytest.mark.parametrize(("kind", "memory_size"), [("dot", M), ("bilinear", 4), ("additive", 4)])
def test_every_score_is_its_formula(kind: str, memory_size: int) -> None:
    look, query, memory = drawn(kind, memory_size)
    found = look.scores(query, look.keys(memory))
    for b, t, s in torch.cartesian_prod(*map(torch.arange, (B, T, S))).tolist():
        q, h = query[b, t], memory[b, s]
        expected = {
            "dot": lambda q, h: q.dot(h),
            "bilinear": lambda q, h: q.dot(look.of_memory.weight.mv(h)),
            "additive": lambda q, h: look.v_A.dot(torch.tanh(look.of_query.weight.mv(q) + look.of_memory.weight.mv(h))),
        }[kind](q, h)
        torch.testing.assert_close(found[b, t, s], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_1_padding_gets_0_and_says_nothing(kind: str) -> None:
    look, query, memory = drawn(kind)
    context, weights = look(query, memory, look.keys(memory), MASK)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))
    assert (weights[~MASK.unsqueeze(1).expand(-1, T, -1)] == 0).all()
    assert (weights[MASK.unsqueeze(1).expand(-1, T, -1)] > 0).all()
    garbage = memory.masked_fill(~MASK.unsqueeze(2), 1e6)
    assert torch.equal(look(query, garbage, None, MASK)[0], context)
    for b, n in enumerate(LENGTHS.tolist()):
        alone, shares = look(query[b : b + 1], memory[b : b + 1, :n])
        torch.testing.assert_close(alone[0], context[b])
        torch.testing.assert_close(shares[0], weights[b, :, :n])


@pytest.mark.parametrize("kind", KINDS)
def test_padding_gets_no_gradient_and_gives_none(kind: str) -> None:
    look, query, memory = drawn(kind)
    memory = memory.masked_fill(~MASK.unsqueeze(2), 1e6).requires_grad_()
    context, weights = look(query, memory, None, MASK)
    (slope,) = torch.autograd.grad(context.square().sum() + weights.square().sum(), memory)
    assert (slope[~MASK] == 0).all()
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_at_a_time_equals_the_whole(kind: str) -> None:
    look, query, memory = drawn(kind)
    keys = look.keys(memory)
    context, weights = look(query, memory, keys, MASK)
    steps = [look(query[:, t], memory, keys, MASK) for t in range(T)]
    torch.testing.assert_close(torch.stack([step[0] for step in steps], 1), context)
    torch.testing.assert_close(torch.stack([step[1] for step in steps], 1), weights)
    assert steps[0][0].shape == (B, M)
    assert steps[0][1].shape == (B, S)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_pass_gradcheck(kind: str) -> None:
    look, query, memory = drawn(kind)
    names = [name for name, _ in look.named_parameters()]
    weights = [weight.detach().requires_grad_() for weight in look.parameters()]

    def run(query: Tensor, memory: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        given = dict(zip(names, weights, strict=True))
        found: tuple[Tensor, Tensor] = torch.func.functional_call(look, given, (query, memory, None, MASK))
        return found

    assert torch.autograd.gradcheck(run, (query[:, :2].clone().requires_grad_(), memory.requires_grad_(), *weights))


@pytest.mark.parametrize("steps_at_once", [1, 3])
def test_pieces_change_neither_scores_nor_gradients(steps_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look, query, memory = drawn("additive")
    inputs = (query.requires_grad_(), memory.requires_grad_(), *look.parameters())

    def found() -> tuple[Tensor, ...]:
        context, weights = look(query, memory, None, MASK)
        slopes = torch.autograd.grad(context.square().sum() + weights.square().sum(), inputs)
        with torch.no_grad():
            return (context, weights, *slopes, *look(query, memory, None, MASK))

    whole = found()
    monkeypatch.setattr(attention, "PIECE", steps_at_once * B * S * 7)
    torch.testing.assert_close(found(), whole)


def test_a_long_pair_of_sentences_never_makes_all_numbers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for the way back is B x T x S, not B x T x S x A."""
    monkeypatch.setattr(attention, "PIECE", 50 * 200 * 16)
    look, query, memory = Attention(8, 8, "additive", inner=16), torch.randn(1, 200, 8), torch.randn(1, 200, 8)
    largest = 0

    def note(kept: Tensor) -> Tensor:
        nonlocal largest
        largest = max(largest, kept.numel())
        return kept

    with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        context, _ = look(query, memory)
    assert largest == 200 * 200
    context.sum().backward()


@pytest.mark.parametrize("own", [False, True])
def test_several_heads_are_torchs_own(own: bool) -> None:
    torch.manual_seed(0)
    size, heads = 8, 2
    ours, theirs = CrossAttention(size, heads).double(), nn.MultiheadAttention(size, heads, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.of_query.weight, ours.of_memory.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.of_query.bias, ours.of_memory.bias]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    memory = torch.randn(B, S, size, dtype=torch.float64)
    query = memory if own else torch.randn(B, T, size, dtype=torch.float64)
    expected, expected_weights = theirs(query, memory, memory, key_padding_mask=~MASK, average_attn_weights=False)
    weights: list[Tensor] = []
    found = ours(query, ours.keys(memory), MASK, weights)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(weights[0], expected_weights)
    assert (weights[0].masked_select(~MASK[:, None, None, :]) == 0).all()
    steps = [ours(query[:, t : t + 1], ours.keys(memory), MASK) for t in range(query.shape[1])]
    torch.testing.assert_close(torch.cat(steps, 1), found)


def test_huge_scores_stay_finite() -> None:
    weights = masked_softmax(torch.tensor([[1e30, -1e30, 1e30]]), torch.tensor([[True, True, False]]))
    assert weights.tolist() == [[1.0, 0.0, 0.0]]


def test_mistakes_are_sentences() -> None:
    look, query, memory = drawn("dot")
    with assert_refused(UnknownNameError, "aditive", "additive"):
        Attention(2, 2, "aditive")
    with assert_refused(OptionError, 2, 4, "bilinear"):
        Attention(2, 4, "dot")
    with pytest.raises(OptionError, match="no inner layer"):
        Attention(2, 2, "dot", inner=5)
    with assert_refused(OptionError, "size", 8, 3):
        CrossAttention(8, 3)
    with assert_refused(ShapeError, "[B, T, 6]", "[B, 6]", "[B, S, 6]"):
        look(query[..., :3], memory)
    with pytest.raises(ShapeError, match="expected as many rows in both"):
        look(query[:2], memory)
    with pytest.raises(ShapeError, match="at least one place to look at"):
        look(query, memory[:, :0])
    with pytest.raises(ShapeError, match="expected as many rows in both"):
        look(query, memory[0])
    with assert_refused(ShapeError, "(3, 5)"):
        look(query, memory, None, MASK.long())
    empty = MASK & (LENGTHS > 1).unsqueeze(1)
    with assert_refused(ShapeError, 2):
        look(query, memory, None, empty)
    assert math.isfinite(float(look(query, memory, None, MASK)[0].sum()))
