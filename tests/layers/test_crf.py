"""The conditional random field against brute force over all tag sequences, on every length and number of tags."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.switches import leaving_unread
from thereafter.tasks.tag.chains import Crf

T = 5
LENGTHS = [3, 1, 5, 2, 4, 1]


def drawn(tags: int, dtype: torch.dtype = torch.float64, lengths: list[int] = LENGTHS) -> tuple[Crf, Tensor, Tensor]:
    """A field whose scores all matter, emissions and tags for it."""
    made = torch.Generator().manual_seed(tags)
    crf = Crf(tags).to(dtype)
    with torch.no_grad():
        for weight in crf.parameters():
            weight.copy_(torch.randn(weight.shape, generator=made) * 1.5)
    e = torch.randn(len(lengths), T, tags, generator=made, dtype=torch.float64).to(dtype)
    return crf, e, torch.randint(0, tags, (len(lengths), T), generator=made)


def weights_of_all(crf: Crf, e_TK: Tensor) -> dict[tuple[int, ...], float]:
    """s(x, y) of every sequence, added up as the formula says, in Python's own numbers."""
    start, end, step = (w.tolist() for w in (crf.start_K, crf.end_K, crf.transition_KK))
    e = e_TK.tolist()

    def weight(y: tuple[int, ...]) -> float:
        words = sum(e[t][k] for t, k in enumerate(y))
        return start[y[0]] + words + sum(step[i][j] for i, j in pairwise(y)) + end[y[-1]]

    return {y: weight(y) for y in product(range(crf.tags), repeat=len(e))}


@pytest.mark.parametrize("tags", [1, 2, 3, 4])
@torch.no_grad()
def test_everything_is_what_brute_force_finds(tags: int) -> None:
    crf, e, y = drawn(tags)
    log_z, score = crf.log_partition(e, LENGTHS), crf.score(e, y, LENGTHS)
    marginals, paths = crf.marginals(e, LENGTHS), crf.decode(e, LENGTHS)
    total = 0.0
    for b, n in enumerate(LENGTHS):
        every = weights_of_all(crf, e[b, :n])
        partition = math.log(math.fsum(map(math.exp, every.values())))
        own = every[tuple(y[b, :n].tolist())]
        total += partition - own
        assert float(log_z[b]) == pytest.approx(partition, abs=1e-12)
        assert float(score[b]) == pytest.approx(own, abs=1e-12)
        assert tuple(paths[b]) == max(every, key=lambda sequence: every[sequence])
        for t, k in product(range(n), range(tags)):
            share = math.fsum(math.exp(s - partition) for sequence, s in every.items() if sequence[t] == k)
            assert float(marginals[b, t, k]) == pytest.approx(share, abs=1e-12)
        assert (marginals[b, n:] == 0).all()
    assert float(crf.nll(e, y, LENGTHS)) == pytest.approx(total, abs=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batched_equals_single(dtype: torch.dtype) -> None:
    crf, e, y = drawn(4, dtype)
    rows = [(e[b : b + 1, :n], y[b : b + 1, :n]) for b, n in enumerate(LENGTHS)]
    torch.testing.assert_close(crf.log_partition(e, LENGTHS), torch.cat([crf.log_partition(x) for x, _ in rows]))
    torch.testing.assert_close(crf.score(e, y, LENGTHS), torch.cat([crf.score(x, z) for x, z in rows]))
    torch.testing.assert_close(crf.nll(e, y, LENGTHS), torch.stack([crf.nll(x, z) for x, z in rows]).sum())
    assert crf.nll(e, y, LENGTHS).dtype == dtype
    assert crf.decode(e, LENGTHS) == [crf.decode(x)[0] for x, _ in rows]
    for b, (x, _) in enumerate(rows):
        torch.testing.assert_close(crf.marginals(e, LENGTHS)[b, : LENGTHS[b]], crf.marginals(x)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tag_that_nothing_leads_to_has_no_gradient_and_changes_no_other(dtype: torch.dtype) -> None:
    """Forbidden by -inf it is as if it were not there: all results are those of a CRF without it."""
    crf, e, y = drawn(4, dtype)
    small, few = Crf(3).to(dtype), e[..., :3].clone()
    with torch.no_grad():
        for own, whole in zip(small.parameters(), crf.parameters(), strict=True):
            own.copy_(whole[(slice(3),) * whole.dim()])
        crf.transition_KK[:, 3] = crf.start_K[3] = -math.inf
    e, few, y = e.requires_grad_(), few.requires_grad_(), y.clamp(max=2)
    losses = [one.nll(x, y, LENGTHS) for one, x in ((crf, e), (small, few))]
    torch.testing.assert_close(*losses)
    gradients = torch.autograd.grad(losses[0], [e, *crf.parameters()])
    expected = torch.autograd.grad(losses[1], [few, *small.parameters()])
    for mine, theirs in zip(gradients, expected, strict=True):
        place = (..., slice(3)) if mine.dim() == 3 else (slice(3),) * mine.dim()
        torch.testing.assert_close(mine[place], theirs)
        assert float(mine.abs().sum()) == pytest.approx(float(theirs.abs().sum()))  # nothing is left for the fourth
    marginals = crf.marginals(e.detach(), LENGTHS)
    torch.testing.assert_close(marginals[..., :3], small.marginals(few.detach(), LENGTHS))
    assert (marginals[..., 3] == 0).all()
    assert crf.decode(e, LENGTHS) == small.decode(few, LENGTHS)


@pytest.mark.parametrize("garbage", [1e30, math.inf, -math.inf, math.nan])
def test_what_lies_in_the_padding_changes_nothing_to_the_bit(garbage: float) -> None:
    crf, e, y = drawn(3)
    dead = torch.arange(T) >= torch.tensor(LENGTHS).unsqueeze(1)
    worse = e.masked_fill(dead.unsqueeze(2), garbage)

    def found(x: Tensor, tags: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        nll = crf.nll(x, tags, LENGTHS)
        return [nll, *torch.autograd.grad(nll, [x, *crf.parameters()]), crf.marginals(x, LENGTHS)]

    clean, dirty = found(e, y), found(worse, y.masked_fill(dead, -100))
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))
    assert (dirty[1][dead] == 0).all()
    assert crf.decode(e, LENGTHS) == crf.decode(worse, LENGTHS)


def test_more_padding_changes_nothing() -> None:
    crf, e, y = drawn(3)
    longer, tags = torch.cat([e, e, e], 1), torch.cat([y, y, y], 1)
    torch.testing.assert_close(crf.nll(longer, tags, LENGTHS), crf.nll(e, y, LENGTHS))
    assert crf.decode(longer, torch.tensor(LENGTHS)) == crf.decode(e, LENGTHS)


def test_gradients_pass_gradcheck() -> None:
    crf, e, y = drawn(3)
    weights = [w.detach().clone().requires_grad_() for w in crf.parameters()]
    names = [name for name, _ in crf.named_parameters()]

    def nll(x: Tensor, *given: Tensor) -> Tensor:
        for name, weight in zip(names, given, strict=True):
            delattr(crf, name)
            setattr(crf, name, weight)
        return crf.nll(x, y, LENGTHS)

    assert torch.autograd.gradcheck(nll, (e.requires_grad_(), *weights))


def test_marginals_are_the_gradient_of_log_z() -> None:
    crf, e, _ = drawn(4)
    e.requires_grad_()
    (slope,) = torch.autograd.grad(crf.log_partition(e, LENGTHS).sum(), e)
    torch.testing.assert_close(crf.marginals(e, LENGTHS), slope)
    torch.testing.assert_close(slope.sum(2), (torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)).double())


def test_a_field_without_transitions_is_a_softmax_at_every_step() -> None:
    e, y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1]])
    each = torch.nn.functional.cross_entropy(e.flatten(0, 1), y.flatten(), reduction="sum")
    torch.testing.assert_close(Crf(3).nll(e, y), each)
    assert Crf(3).decode(e) == e.argmax(2).tolist()


@torch.no_grad()
def test_long_rows_and_large_scores_stay_finite() -> None:
    e = torch.full((1, 2000, 3), 1e4)
    exact = 2000 * (1e4 + math.log(3))
    assert float(Crf(3).double().log_partition(e.double())) == pytest.approx(exact, rel=1e-12)
    assert float(Crf(3).log_partition(e)) == pytest.approx(exact, rel=1e-5)
    assert len(Crf(3).decode(e)[0]) == 2000


def test_it_learns_what_no_word_says() -> None:
    """Tags that alternate over words that are all the same: only transitions can know."""
    crf, e, y = Crf(2), torch.zeros(4, 6, 2), torch.tensor([[0, 1, 0, 1, 0, 1]] * 4)
    weights = list(crf.parameters())
    for _ in range(20):
        slopes = torch.autograd.grad(crf.nll(e, y), weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight -= 0.1 * slope
    assert crf.decode(e, [6, 4, 2, 6]) == [[0, 1] * 3, [0, 1] * 2, [0, 1], [0, 1] * 3]


@pytest.mark.parametrize("kind", [torch.bool, torch.float64])
def test_rows_that_fill_a_batch_add_nothing(kind: torch.dtype) -> None:
    """Whatever they hold: no numbers, no tags, no steps."""
    crf, e, y = drawn(3)
    counted = torch.tensor([1, 0, 1, 1, 0, 1]).to(kind)
    filled, tags, lengths = e.clone(), y.clone(), list(LENGTHS)
    filled[1], tags[1], lengths[4] = math.nan, 99, 0
    filled.requires_grad_()
    rows = counted.bool()
    alone = e[rows].clone().requires_grad_()
    loss = crf.nll(filled, tags, lengths, counted)
    expected = crf.nll(alone, y[rows], torch.tensor(LENGTHS)[rows])
    torch.testing.assert_close(loss, expected)
    slope, *slopes = torch.autograd.grad(loss, [filled, *crf.parameters()])
    truth, *truths = torch.autograd.grad(expected, [alone, *crf.parameters()])
    torch.testing.assert_close(slope[rows], truth)
    assert (slope[~rows] == 0).all()
    torch.testing.assert_close(slopes, truths)


def test_a_row_may_have_a_weight() -> None:
    crf, e, y = drawn(3)
    weights = torch.tensor([2.0, 0.0, 1.0, 0.5, 1.0, 3.0], dtype=torch.float64)
    each = torch.stack([crf.nll(e[b : b + 1, :n], y[b : b + 1, :n]) for b, n in enumerate(LENGTHS)])
    torch.testing.assert_close(crf.nll(e, y, LENGTHS, weights), (weights * each).sum())
    with assert_refused(ShapeError, "counted_B", "(2,)", 6):
        crf.nll(e, y, LENGTHS, weights[:2])


def test_the_best_tags_as_a_tensor_are_0_beyond_the_end() -> None:
    crf, e, _ = drawn(4)
    best = crf.best(e, LENGTHS)
    assert best.dtype == torch.int64
    assert [row[:n] for row, n in zip(best.tolist(), LENGTHS, strict=True)] == crf.decode(e, LENGTHS)
    assert not best[torch.arange(T) >= torch.tensor(LENGTHS).unsqueeze(1)].any()


def test_while_a_step_is_recorded_nothing_is_read_from_the_device() -> None:
    """Tensors without numbers stand for those on a GPU: whoever reads one is told so."""
    crf = Crf(5).to("meta")
    e = torch.zeros(3, 4, 5, device="meta", requires_grad=True)
    y, lengths = (torch.zeros(shape, dtype=torch.int64, device="meta") for shape in ((3, 4), (3,)))
    with leaving_unread():
        for counted in (None, torch.zeros(3, device="meta"), torch.zeros(3, dtype=torch.bool, device="meta")):
            torch.autograd.grad(crf.nll(e, y, lengths, counted), [e, *crf.parameters()])
        assert crf.nll(e, y).shape == ()
        assert crf.marginals(e, lengths).shape == (3, 4, 5)
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        crf.nll(e, y, lengths)


def test_half_precision_is_added_up_in_float32() -> None:
    crf, e, y = drawn(3, torch.float32)
    found = crf.nll(e.half(), y, LENGTHS)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, crf.nll(e.half().float(), y, LENGTHS))


@torch.no_grad()
def test_a_batch_of_no_rows_is_no_mistake() -> None:
    crf, e, y = Crf(3), torch.zeros(0, 4, 3), torch.zeros(0, 4, dtype=torch.int64)
    assert float(crf.nll(e, y, [])) == 0.0
    assert crf.decode(e, []) == []
    assert crf.marginals(e, []).shape == (0, 4, 3)


def test_mistakes_are_sentences() -> None:
    crf, e, y = drawn(3)
    with assert_refused(ShapeError, 1, 0):
        crf.nll(e, y, [3, 0, 5, 2, 4, 1])
    with assert_refused(ShapeError, 1, 6, 0, 5):
        crf.decode(e, [3, 1, 6, 2, 4, 1])
    with assert_refused(ShapeError, "(6, 5, 3)", "[rows, steps, 4]"):
        Crf(4).decode(e, LENGTHS)
    with assert_refused(ShapeError, 0, 3, 2):
        crf.nll(e, y.masked_fill(y == 2, 3), LENGTHS)
    with assert_refused(ShapeError, "(6, 5)"):
        crf.nll(e, y[:, :4], LENGTHS)
    with assert_refused(ShapeError, "torch.int64", "emissions.float()"):
        crf.decode(e.long(), LENGTHS)
    with assert_refused(OptionError, 0):
        Crf(0)
