"""The CRF's programs: their twin against the plain loop and brute force, and what is launched against their text."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from gpu_crf_check import CrfCase, differs_from_brute_force, draw, errors_of, path_is_the_loops
from gpu_twins import CrfTwin, parameters
from launches import Launched, noted_launches
from torch import Tensor

from thereafter.kernels.chain import Chain, ChainLoop
from thereafter.kernels.gpu.crf import CRF_PROGRAMS, WalkedChains, chains_on_gpu, crf_refuses, padded_tags
from thereafter.kernels.switches import leaving_unread
from thereafter.tasks.tag import chains as layer
from thereafter.tasks.tag.chains import Crf

TWIN = WalkedChains(CrfTwin())
KINDS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SHAPES = ((1, 1, 1), (1, 5, 2), (2, 1, 3), (2, 7, 3), (5, 6, 4), (16, 3, 2), (17, 9, 4), (50, 4, 2))


@pytest.fixture
def on_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer takes the twin, as it would take the programs on a GPU."""
    monkeypatch.setattr(layer, "chain_kernel", lambda chain: TWIN)


def assert_right(case: CrfCase) -> None:
    chain = draw(case)
    errors = errors_of(TWIN, chain)
    assert all(error <= 1 for error in errors.values()), (case, errors)
    assert path_is_the_loops(TWIN, chain), case


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_results_and_gradients_are_those_of_the_loop(dtype: torch.dtype) -> None:
    for tags, steps, rows in SHAPES:
        for ragged in (True, False):
            assert_right(CrfCase(tags, steps, rows, dtype, ragged=ragged))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("counted", "forbidden"), [(True, False), (False, True), (True, True)])
def test_rows_that_do_not_count_and_forbidden_tags(dtype: torch.dtype, counted: bool, forbidden: bool) -> None:
    """Without a NaN, even where the loop has some."""
    for tags, steps, rows in ((3, 2, 2), (5, 6, 4), (17, 5, 5), (4, 1, 3)):
        assert_right(CrfCase(tags, steps, rows, dtype, counted, forbidden))


@pytest.mark.parametrize("forbidden", [False, True])
def test_results_are_those_of_brute_force(forbidden: bool) -> None:
    for tags, steps in ((1, 4), (2, 6), (3, 5), (5, 4), (17, 2), (60, 1)):
        if tags > 2 or not forbidden:
            assert differs_from_brute_force(TWIN, draw(CrfCase(tags, steps, 3, forbidden=forbidden))) < 2e-5


def test_a_long_row_is_as_exact_as_a_short_one() -> None:
    """alpha is kept near 0, and what is taken off is added up in float64."""
    chain = draw(CrfCase(3, 600, 1, ragged=False))
    assert max(errors_of(TWIN, chain).values()) < 0.2
    with torch.no_grad():
        far = chain._replace(emissions_BTK=chain.emissions_BTK + 1e3)
        assert float(TWIN.values(far)) == pytest.approx(float(TWIN.values(chain)), abs=0.05)


def test_among_equal_sequences_it_is_the_loops() -> None:
    for seed, tags in product(range(5), (2, 5, 17)):
        chain = draw(CrfCase(tags, 8, 4), seed=seed)
        coarse = [array.detach().round().clamp(-1, 1) for array in chain[:4]]
        assert path_is_the_loops(TWIN, Chain(*coarse, *chain[4:]))
    none = Chain(torch.zeros(2, 4, 3), torch.zeros(3), torch.zeros(3, 3), torch.zeros(3), torch.tensor([4, 2]))
    assert not TWIN.path(none).any()


def test_a_tag_that_is_none_is_nan_and_is_not_read() -> None:
    chain = draw(CrfCase(3, 4, 2, ragged=False))
    for tag in (-1, 3, 10**9):
        bad = torch.tensor([[0, 1, tag, 0], [0, 1, 2, 0]])
        values = TWIN.values(chain._replace(tags_BT=bad))
        assert values.isnan().tolist() == [True, False]


def test_lengths_out_of_range_are_cut() -> None:
    """Inside a graph nobody looks at them."""
    chain = draw(CrfCase(3, 4, 3, ragged=False))
    odd = TWIN.values(chain._replace(lengths_B=torch.tensor([9, -2, 0]), tags_BT=None))
    assert odd[0] == TWIN.values(chain._replace(tags_BT=None))[0]
    assert odd[1:].tolist() == [0, 0]


def test_second_derivatives_are_those_of_the_loop() -> None:
    chain = draw(CrfCase(4, 5, 3, torch.float64, ragged=False))

    def penalty(kernel: ChainLoop | WalkedChains) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(kernel.values(chain).square().sum(), chain[:4], create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), chain[:4])

    for got, truth in zip(penalty(TWIN), penalty(ChainLoop()), strict=True):
        torch.testing.assert_close(got, truth)


def test_marginals_have_derivatives() -> None:
    chain = draw(CrfCase(4, 5, 3, torch.float64, ragged=False))
    for kernel in (TWIN, ChainLoop()):
        assert kernel.marginals(chain).requires_grad
    with torch.no_grad():
        assert not TWIN.marginals(chain).requires_grad


def test_only_what_needs_a_gradient_gets_one() -> None:
    chain = draw(CrfCase(4, 5, 3))
    alone = chain._replace(start_K=chain.start_K.detach(), transition_KK=chain.transition_KK.detach())
    alone = alone._replace(end_K=chain.end_K.detach())
    TWIN.values(alone).sum().backward()
    assert chain.emissions_BTK.grad is not None
    assert chain.end_K.grad is None
    fixed = chain._replace(emissions_BTK=chain.emissions_BTK.detach())
    TWIN.values(fixed).sum().backward()
    assert chain.transition_KK.grad is not None


def test_nothing_is_kept_where_nothing_is_differentiated() -> None:
    chain = draw(CrfCase(4, 5, 3))
    with torch.no_grad():
        walk = CrfTwin().forward(chain, keep=False)
        assert walk.reach_BTK is None
        assert torch.equal(walk.values_B, TWIN.values(chain))


@pytest.mark.usefixtures("on_the_twin")
def test_a_layer_on_the_programs_is_the_layer_on_the_loop() -> None:
    crf = Crf(5)
    chain = draw(CrfCase(5, 7, 4))
    with torch.no_grad():
        for weight, value in zip((crf.start_K, crf.transition_KK, crf.end_K), chain[1:4], strict=True):
            weight.copy_(value)
    e, tags, lengths = chain.emissions_BTK, chain.tags_BT, chain.lengths_B
    assert tags is not None
    counted = torch.tensor([True, False, True, True])
    for given in (None, counted, counted.float()):
        weights = [e, *crf.parameters()]
        loss = crf.nll(e, tags, lengths, given)
        slopes = torch.autograd.grad(loss, weights)
        own = Chain(e, crf.start_K, crf.transition_KK, crf.end_K, lengths, tags, given)
        exact = ChainLoop().values(own).sum()
        torch.testing.assert_close(loss, exact)
        for got, truth in zip(slopes, torch.autograd.grad(exact, weights), strict=True):
            torch.testing.assert_close(got, truth, atol=1e-5, rtol=1e-5)
    assert [len(row) for row in crf.decode(e, lengths)] == lengths.tolist()
    own = own._replace(counted_B=None)
    assert torch.equal(crf.best(e, lengths), ChainLoop().path(own))
    assert crf.log_partition(e, lengths).shape == (4,)


def test_what_launches_the_programs_reads_nothing_from_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As inside a CUDA graph; tensors without numbers stand for those on a GPU."""
    monkeypatch.setattr(layer, "chain_kernel", lambda chain: WalkedChains(CRF_PROGRAMS))
    crf = Crf(5).to("meta")
    e = torch.zeros(3, 4, 5, device="meta", dtype=torch.bfloat16, requires_grad=True)
    tags, lengths = (torch.zeros(shape, dtype=torch.int64, device="meta") for shape in ((3, 4), (3,)))
    with leaving_unread(), noted_launches() as launched:
        loss = crf.nll(e, tags, lengths, torch.zeros(3, dtype=torch.bool, device="meta"))
        slopes = torch.autograd.grad(loss, [e, *crf.parameters()])
        assert crf.best(e, lengths).shape == (3, 4)
    assert [slope.dtype for slope in slopes] == [torch.bfloat16] + [torch.float32] * 3
    assert len({each.wanted for each in launched}) == 3


def test_what_is_refused_is_refused_in_words() -> None:
    def chain(tags: int = 3, steps: int = 2, dtype: torch.dtype = torch.float32) -> Chain:
        scores = [torch.zeros(shape, dtype=dtype) for shape in ((tags,), (tags, tags), (tags,))]
        return Chain(torch.zeros(1, dtype=dtype).expand(1, steps, tags), *scores, torch.tensor([steps]))

    for fine in (chain(), chain(128), chain(1), chain(dtype=torch.bfloat16)):
        assert crf_refuses(fine) is None
    assert "129 tags; the programs take up to 128" in str(crf_refuses(chain(129)))
    assert "float64" in str(crf_refuses(chain(dtype=torch.float64)))
    assert "nothing to do" in str(crf_refuses(chain(steps=0)))
    assert "counts to" in str(crf_refuses(chain(128, 1 << 25)))
    assert chains_on_gpu(chain()) is None  # not on a GPU


def launches_of(chain: Chain, keep: bool) -> list[Launched]:
    with noted_launches() as launched:
        walk = CRF_PROGRAMS.forward(chain, keep)
        grad = torch.ones(1).expand(len(chain.lengths_B))
        made = CRF_PROGRAMS.backward(chain, walk, grad, chain.emissions_BTK.dtype)
        path_BT = CRF_PROGRAMS.path(chain)
    assert made.emissions_BTK.shape == chain.emissions_BTK.shape
    assert path_BT.shape == chain.emissions_BTK.shape[:2]
    return launched


@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("counted", [True, False])
def test_what_is_launched_is_what_the_programs_take(tagged: bool, counted: bool) -> None:
    chain = draw(CrfCase(17, 6, 4, torch.bfloat16, counted))
    chain = chain if tagged else chain._replace(tags_BT=None)
    for launch in launches_of(chain, keep=True):
        wanted = launch.wanted
        arguments, constants = parameters("crf", wanted.function)
        assert [name for name, _ in wanted.arguments] == arguments
        assert {name for name, _ in wanted.constants} == constants
        assert len(launch.arguments) == len(arguments)
        assert launch.blocks == 4
        by_name = launch.by_name
        kinds = dict(wanted.arguments)
        for name, value in by_name.items():
            assert isinstance(value, Tensor) <= kinds[name].startswith("*"), name
            assert isinstance(value, Tensor) or value == 0 or not kinds[name].startswith("*"), name
        marks = dict(wanted.constants)
        assert marks["K"] == 32
        assert marks.get("TAGGED", tagged) == isinstance(by_name.get("tags", 0), Tensor) or "tags" not in by_name
        assert (
            marks.get("COUNTED", counted) == isinstance(by_name.get("counted", 0), Tensor) or "counted" not in by_name
        )
        assert kinds["emissions"] == "*bf16"
        assert (by_name["steps"], by_name["size"]) == (6, 17)
        assert (by_name["e_row"], by_name["e_step"]) == (6 * 17, 17)
        for name, divisor in zip(arguments, wanted.divisors, strict=True):
            value = by_name[name]
            assert (value.data_ptr() if isinstance(value, Tensor) else value) % divisor == 0, name


def test_views_are_not_copied() -> None:
    chain = draw(CrfCase(5, 6, 4))
    turned = chain.emissions_BTK.detach().transpose(0, 1).contiguous().transpose(0, 1)
    with noted_launches() as launched:
        WalkedChains(CRF_PROGRAMS).path(chain._replace(emissions_BTK=turned))
    by_name = launches_of(chain._replace(emissions_BTK=turned), keep=False)[0].by_name
    assert by_name["emissions"] is turned
    assert (by_name["e_row"], by_name["e_step"]) == (5, 20)
    assert (by_name["reach"], by_name["shift"]) == (0, 0)
    assert {each.wanted.function for each in launched} == {"crf_viterbi"}


def test_tags_are_filled_up_to_a_power_of_two() -> None:
    assert [padded_tags(size) for size in (1, 2, 16, 17, 50, 64, 65, 128)] == [16, 16, 16, 32, 64, 64, 128, 128]
    assert all(math.log2(padded_tags(size)).is_integer() for size in range(1, 129))
