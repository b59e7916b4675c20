"""Heads and word vectors: the loss in pieces against torch's own in one, tied matrices, the adaptive softmax."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import AdaptiveSoftmax, Softmax, rows_at_once, softmax_nll

N, V, H = 7, 11, 5


def drawn(dtype: torch.dtype = torch.float64, rows: int = V) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    f, W, b = (
        torch.randn(shape, generator=made, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((N, H), (rows, H), (V,))
    )
    return f, W, b, torch.randint(0, V, (N,), generator=made)


@pytest.mark.parametrize("chunk", [1, 3, 7, None])
@pytest.mark.parametrize("rows", [V, V + 1])
@pytest.mark.parametrize("how", ["sum", "mean", "weighted"])
def test_values_and_gradients_are_those_of_cross_entropy(chunk: int | None, rows: int, how: str) -> None:
    f, W, b, y = drawn(rows=rows)
    weights = torch.rand(N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    reduce = {"sum": Tensor.sum, "mean": Tensor.mean, "weighted": lambda nll: (nll * weights).sum()}[how]
    ours = softmax_nll(f, W, b, y, V, chunk)
    plain = F.cross_entropy(F.linear(f, W[:V], b), y, reduction="none")
    torch.testing.assert_close(ours, plain)
    found, expected = (torch.autograd.grad(reduce(nll), (f, W, b)) for nll in (ours, plain))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_pass_gradcheck(bias: bool) -> None:
    f, W, b, y = drawn(rows=V + 1)
    inputs = (f, W, b) if bias else (f, W)
    assert torch.autograd.gradcheck(lambda f, W, b=None: softmax_nll(f, W, b, y, V, 3), inputs)
    assert torch.autograd.gradcheck(lambda f, W, b=None: softmax_nll(f, W, b, y, V, 3).mean(), inputs)


def test_a_second_way_back_gives_the_same_and_adds_to_nothing() -> None:
    f, W, b, y = drawn()
    total = softmax_nll(f, W, b, y, V, 3).sum()
    first = torch.autograd.grad(total, (f, W, b), retain_graph=True)
    kept = [part.clone() for part in first]
    for part in first:
        part.zero_()  # whoever got the gradients may write to them
    torch.testing.assert_close(list(torch.autograd.grad(total, (f, W, b))), kept)


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_what_is_asked_for_gets_a_gradient(wanted: tuple[bool, ...]) -> None:
    tensors = [part.detach().requires_grad_(need) for part, need in zip(drawn()[:3], wanted, strict=True)]
    softmax_nll(*tensors, drawn()[3], V, 3).sum().backward()
    assert tuple(part.grad is not None for part in tensors) == wanted


def test_huge_logits_stay_finite() -> None:
    f = torch.full((2, 1), 1e4, requires_grad=True)
    W = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    nll = softmax_nll(f, W, None, torch.tensor([0, 1]), 3)
    assert nll.tolist() == [0.0, 2e4]
    nll.sum().backward()
    assert f.grad is not None
    assert f.grad.tolist() == [[0.0], [2.0]]


def test_float32_is_added_up_as_well_as_torch_does() -> None:
    made = torch.Generator().manual_seed(0)
    f, W = torch.randn(300, 32, generator=made), torch.randn(1000, 32, generator=made)
    y = torch.randint(0, 1000, (300,), generator=made)

    def gradients(dtype: torch.dtype, ours: bool) -> tuple[Tensor, ...]:
        a, m = f.to(dtype).requires_grad_(), W.to(dtype).requires_grad_()
        nll = softmax_nll(a, m, None, y, 1000, 64) if ours else F.cross_entropy(a @ m.t(), y, reduction="none")
        return (nll.detach(), *torch.autograd.grad(nll.sum(), (a, m)))

    exact, plain = gradients(torch.float64, False), gradients(torch.float32, False)
    for found, torchs, true in zip(gradients(torch.float32, True), plain, exact, strict=True):
        assert (found - true).abs().max() < 4 * (torchs - true).abs().max()


class Largest(TorchDispatchMode):
    """The most numbers any tensor made inside has."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("how", ["sum", "weighted", "forward", "adaptive"])
def test_no_tensor_is_ever_larger_than_a_piece(how: str) -> None:
    tokens, words, size, chunk = 64, 1000, 4, 8
    made = torch.Generator().manual_seed(0)
    f = torch.randn(tokens, size, generator=made, requires_grad=True)
    y = torch.randint(0, words, (tokens,), generator=made)
    head: Any = Softmax(size, words, chunk=chunk)
    if how == "adaptive":
        head = AdaptiveSoftmax(size, words, (100, 400), chunk=chunk)
    with Largest() as ours:
        if how == "forward":
            head.log_prob_of(f, y)
        else:
            nll = head.nll(f, y)
            (nll * torch.arange(tokens) if how == "weighted" else nll).sum().backward()
    with Largest() as plain:
        F.cross_entropy(F.linear(f, torch.zeros(words, size)), y).backward()
    assert ours.size <= chunk * words
    assert plain.size >= tokens * words  # the check can fail


def test_pieces_are_of_one_size_and_none_too_large() -> None:
    assert rows_at_once(2800, 10_000) == 700
    assert rows_at_once(2800, 10_000, device="cuda") == 2800  # a GPU takes more at once
    assert rows_at_once(700, 10_000_000) == 234  # three pieces, since a product needs some rows to be fast
    assert rows_at_once(700, 10) == 700
    assert [rows_at_once(n, 10, chunk=4) for n in (0, 1, 4, 5, 9)] == [1, 1, 4, 3, 3]


def test_nothing_costs_nothing() -> None:
    f, W, b, _ = drawn()
    nll = softmax_nll(f[:0], W, b, torch.zeros(0, dtype=torch.int64), V)
    assert nll.shape == (0,)
    for gradient in torch.autograd.grad(nll.sum(), (W, b)):
        assert not gradient.any()


@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_products_are_short_and_the_softmax_is_not() -> None:
    f, W, b, y = drawn(torch.float32)
    exact = torch.autograd.grad(softmax_nll(f, W, b, y, V, 3).sum(), (f, W, b))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        nll = softmax_nll(f, W, b, y, V, 3)
        short = softmax_nll(f.bfloat16(), W, b, y, V, 3)
    assert nll.dtype == torch.float32
    torch.testing.assert_close(short, nll)
    torch.testing.assert_close(nll, softmax_nll(f, W, b, y, V, 3), rtol=0.02, atol=0.05)
    assert not torch.equal(nll, softmax_nll(f, W, b, y, V, 3))
    found = torch.autograd.grad(nll.sum(), (f, W, b))
    assert {part.dtype for part in found} == {torch.float32}
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)


def test_wrong_shapes_say_what_was_expected() -> None:
    f, W, b, y = drawn()
    with assert_refused(ShapeError, "(7, 4)", "[N, 5]"):
        softmax_nll(f[:, :4], W, b, y, V)
    with assert_refused(ShapeError, "tied=False"):
        Softmax(5, V, tied=Embedding(V, 4))


def test_log_prob_sums_to_one_and_agrees_with_nll() -> None:
    torch.manual_seed(0)
    head = Softmax(H, V)
    f, _, _, y = drawn(torch.float32)
    logp = head.log_prob(f)
    torch.testing.assert_close(logp.exp().sum(1), torch.ones(N))
    torch.testing.assert_close(head.log_prob_of(f, y), logp.gather(1, y[:, None])[:, 0].detach())
    assert not head.log_prob_of(f, y).requires_grad
    torch.testing.assert_close(head.total(f, y), head.nll(f, y).sum())


# ---- word vectors


def tied_loss(embedding: Embedding, tokens: Tensor, y: Tensor, head: Softmax, ours: bool) -> Tensor:
    if ours:
        x, table = embedding.lookup(tokens)
        return head.nll(torch.tanh(x).flatten(0, 1), y, table).mean()
    x = F.embedding(tokens, embedding.weight)
    return F.cross_entropy(F.linear(torch.tanh(x).flatten(0, 1), embedding.weight[:V], head.bias), y)


def test_tied_matrices_share_one_gradient() -> None:
    torch.manual_seed(0)
    embedding = Embedding(V, H).double()
    head = Softmax(H, V, tied=embedding, chunk=3).double()
    tokens, y = torch.tensor([[0, V, 3], [3, 3, 1]]), torch.arange(6)
    assert [name for name, _ in head.named_parameters()] == ["bias"]  # the matrix is the embedding's own
    assert head.matrix is embedding.weight
    for _ in range(2):  # the second time gradients are added to those that are there
        tied_loss(embedding, tokens, y, head, ours=True).backward()
    found = embedding.weight.grad
    assert found is not None
    expected = torch.autograd.grad(tied_loss(embedding, tokens, y, head, ours=False), embedding.weight)[0]
    torch.testing.assert_close(found, 2 * expected)


@pytest.mark.parametrize("used", ["vectors", "table"])
def test_either_half_of_a_lookup_has_its_gradient_alone(used: str) -> None:
    embedding = Embedding(V, H)
    x, table = embedding.lookup(torch.tensor([1, 1, V]))
    (x if used == "vectors" else table).sum().backward()
    expected = torch.zeros(V + 1, H)
    expected[[1, V]] = torch.tensor([[2.0], [1.0]])
    assert embedding.weight.grad is not None
    torch.testing.assert_close(embedding.weight.grad, expected if used == "vectors" else torch.ones(V + 1, H))


def test_copies_of_a_tied_head_hold_on_to_their_own_embedding() -> None:
    embedding = Embedding(V, H)
    pair = torch.nn.ModuleList([embedding, Softmax(H, V, tied=embedding)])
    other: Any = copy.deepcopy(pair)
    assert other[1].matrix is other[0].weight
    assert other[1].matrix is not embedding.weight


def test_dropped_words_are_dropped_throughout() -> None:
    torch.manual_seed(0)
    embedding = Embedding(1000, 3, drop=0.25)
    tokens = torch.arange(1000).repeat(2, 1)
    x = embedding(tokens)
    assert torch.equal(x[0], x[1])  # one draw for the word, wherever it stands
    gone = (x[0] == 0).all(1)
    assert 0.2 < gone.float().mean() < 0.3
    torch.testing.assert_close(x[0][~gone], embedding.weight[:1000][~gone] / 0.75)
    assert not torch.equal(embedding(tokens)[0] == 0, x[0] == 0)  # another draw for each call
    embedding.eval()
    assert torch.equal(embedding(tokens)[0], embedding.weight[:1000])


# ---- the adaptive softmax


def adaptive_pair(head_bias: bool = True) -> tuple[AdaptiveSoftmax, torch.nn.AdaptiveLogSoftmaxWithLoss]:
    torch.manual_seed(0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 30, [6, 15], div_value=2.0, head_bias=head_bias)
    ours = AdaptiveSoftmax(16, 30, (6, 15), shrink=2.0, chunk=4)
    with torch.no_grad():
        ours.weight.copy_(theirs.head.weight)
        ours.bias.copy_(theirs.head.bias)
        for i, tail in enumerate(theirs.tail):
            ours.down[i].copy_(tail[0].weight)  # type: ignore[index]
            ours.out[i].copy_(tail[1].weight)  # type: ignore[index]
    return ours, theirs


def test_the_adaptive_softmax_is_torchs() -> None:
    ours, theirs = adaptive_pair()
    f, y = torch.randn(20, 16, requires_grad=True), torch.randint(0, 30, (20,))
    assert {0, 1, 2} == set(torch.bucketize(y, torch.tensor([6, 15]), right=True).tolist())
    torch.testing.assert_close(ours.log_prob(f), theirs.log_prob(f))
    torch.testing.assert_close(ours.nll(f, y), -theirs(f, y).output)
    torch.testing.assert_close(ours.log_prob_of(f, y), theirs(f, y).output.detach())
    wanted = [ours.weight, ours.bias, *ours.down, *ours.out]
    tails = [tail[k].weight for k in (0, 1) for tail in theirs.tail]  # type: ignore[index]
    expected = torch.autograd.grad(-theirs(f, y).output.sum(), [f, theirs.head.weight, theirs.head.bias, *tails])
    for total in (ours.total(f, y), ours.nll(f, y).sum()):
        torch.testing.assert_close(torch.autograd.grad(total, [f, *wanted]), expected)


@pytest.mark.parametrize("cutoffs", [(), (1,), (5, 10), (3, 4, 19)])
def test_the_adaptive_softmax_is_a_distribution(cutoffs: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    head = AdaptiveSoftmax(8, 20, cutoffs, torch.randint(0, 9, (20,)))
    f = torch.randn(4, 8)
    logp = head.log_prob(f)
    torch.testing.assert_close(logp.exp().sum(1), torch.ones(4))
    for word in range(20):
        torch.testing.assert_close(head.log_prob_of(f, torch.full((4,), word)), logp[:, word].detach())


def test_words_are_sorted_by_how_often_they_were_seen() -> None:
    counts = torch.tensor([3, 9, 0, 9, 5])
    head = AdaptiveSoftmax(4, 5, (2,), counts)
    assert head.rank_V.tolist() == [3, 0, 4, 1, 2]
    assert "rank_V" in head.state_dict()  # it belongs to the weights
    assert AdaptiveSoftmax(4, 5, (2,)).rank_V.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("cutoffs", [(0,), (5, 5), (8, 3), (20,), (25,)])
def test_bad_cutoffs_are_refused(cutoffs: tuple[int, ...]) -> None:
    with assert_refused(OptionError, "cutoffs"):
        AdaptiveSoftmax(8, 20, cutoffs)


def test_counts_that_do_not_fit_are_refused() -> None:
    with assert_refused(ShapeError, 3, 5):
        AdaptiveSoftmax(4, 5, (2,), torch.ones(3))
