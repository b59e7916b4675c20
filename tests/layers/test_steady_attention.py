"""Attention whose gradients add in a fixed order is torch's attention."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from refusals import assert_refused
from thereafter.kernels.switches import apply_one
from thereafter.layers import attention
from thereafter.layers.attention import _OrderedAttention, _strictly, attend

MASKS = {
    "all": (None, False),
    "causal": (None, True),
    "masked": (torch.tensor([[True, True, False], [True, False, True]])[:, None, None, :], False),
}


def heads(learned: tuple[bool, bool, bool] = (True, True, True)) -> list[Tensor]:
    torch.manual_seed(2)
    return [torch.randn(2, 4, 3, 5).requires_grad_(one) for one in learned]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("learned", [(True, True, True), (True, False, False), (False, True, True)])
def test_values_and_gradients_are_torchs(kind: str, learned: tuple[bool, bool, bool]):
    mask, causal = MASKS[kind]
    own, other = heads(learned), heads(learned)
    y = apply_one(_OrderedAttention, *own, mask, 0.0, causal)
    expected = F.scaled_dot_product_attention(*other, attn_mask=mask, is_causal=causal)
    assert torch.equal(y, expected)
    assert torch.equal(attend(*other, mask, causal=causal), expected)
    (y * y.detach().cos()).sum().backward()
    (expected * expected.detach().cos()).sum().backward()
    for a, b in zip(own, other, strict=True):
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or torch.equal(a.grad, b.grad)


def test_dropout_draws_the_same_numbers():
    q, k, v = heads()
    torch.manual_seed(7)
    own = apply_one(_OrderedAttention, q, k, v, None, 0.5, False)
    after = torch.get_rng_state()
    torch.manual_seed(7)
    assert torch.equal(own, F.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    assert torch.equal(after, torch.get_rng_state())


def test_the_switch_is_strict_for_a_moment():
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    try:
        assert _strictly(torch.is_deterministic_algorithms_warn_only_enabled) is False
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        with pytest.raises(ZeroDivisionError):
            _strictly(lambda: 1 // 0)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)


def test_threads_that_overlap_leave_the_switch_as_it_was():
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    strict: list[bool] = []

    def first() -> None:
        _strictly(lambda: (first_is_in.set(), second_is_in.wait(10)))
        first_is_out.set()

    def second() -> None:
        second_is_in.set()
        first_is_out.wait(10)
        strict.append(not torch.is_deterministic_algorithms_warn_only_enabled())

    torch._C._set_deterministic_algorithms(True, warn_only=True)
    try:
        thread = threading.Thread(target=first)
        thread.start()
        first_is_in.wait(10)
        _strictly(second)
        thread.join(10)
        assert strict == [True]
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)


def test_products_that_a_strict_switch_refuses_are_computed_all_the_same():
    def product() -> str:
        if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
            raise RuntimeError("this operation is not deterministic because it uses CuBLAS")
        return "computed"

    torch._C._set_deterministic_algorithms(True, warn_only=True)
    try:
        assert _strictly(product) == "computed"
        with assert_refused(RuntimeError, "other"):
            _strictly(lambda: (_ for _ in ()).throw(RuntimeError("other")))
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)


def test_a_cpu_and_evaluation_take_torchs_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention, "apply_one", None)
    q, k, v = heads()
    expected = F.scaled_dot_product_attention(q, k, v)
    assert torch.equal(attend(q, k, v), expected)
    with torch.no_grad():
        assert torch.equal(attend(q, k, v), expected)
