"""The CRF's programs on a GPU: right, the same to the bit, inside a CUDA graph, and how fast. Needs torch and Triton.

    PYTHONPATH=src:tests/kernels python -W ignore tests/kernels/gpu_crf_check.py [--sweep]

1. Everything against the plain loop in float64, and against all K^T sequences where there are few of them.
2. Ties of Viterbi, forbidden tags, rows that are not counted, second derivatives, what is refused.
3. The same bits 200 times, over memory full of NaN.
4. Forward and backward pass of a loss in a CUDA graph, replayed with other lengths and tags in the same memory.
5. Times against the loop, one by one and as a graph. `--sweep` tries other numbers of warps.

Exit status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise, product
from typing import NamedTuple

import torch
from launches import noted_launches
from torch import Tensor

from thereafter.kernels.chain import Chain, ChainKernel, ChainLoop
from thereafter.kernels.gpu import lacks
from thereafter.kernels.gpu.compiling import Wanted, binary
from thereafter.kernels.gpu.crf import CRF_PROGRAMS, CrfPrograms, WalkedChains
from thereafter.kernels.switches import leaving_unread
from thereafter.tasks.tag.chains import Crf, chain_kernel

TOLERANCES = {torch.float64: 1e-10, torch.float32: 5e-5, torch.bfloat16: 5e-3, torch.float16: 1e-3}
"""Of a result in such a type, as a share of its largest number, or of 1."""
FORBIDDEN = -1e5  # exp of it is 0, and unlike -inf it has derivatives that the plain loop can compute


class CrfCase(NamedTuple):
    tags: int
    steps: int
    rows: int
    dtype: torch.dtype = torch.float32
    counted: bool = False
    forbidden: bool = False
    ragged: bool = True


def draw(case: CrfCase, device: str = "cpu", seed: int = 0) -> Chain:
    """A chain with tags whose scores all matter; NaN beyond each row's end, and in a row that is not counted."""
    made = torch.Generator().manual_seed(seed + 1000 * case.tags + case.steps + case.rows)
    size, steps, rows = case.tags, case.steps, case.rows
    wide = torch.float64 if case.dtype == torch.float64 else torch.float32
    e = 2 * torch.randn(rows, steps, size, generator=made)
    start, end, transition = (torch.randn(shape, generator=made) for shape in ((size,), (size,), (size, size)))
    lengths = torch.randint(1, steps + 1, (rows,), generator=made) if case.ragged else torch.full((rows,), steps)
    lengths[0] = steps
    tags = torch.randint(0, size, (rows, steps), generator=made)
    if case.forbidden:  # the last tag is never taken, the first does not follow itself nor ends a row
        start[-1] = transition[:, -1] = transition[0, 0] = end[0] = -math.inf
        e[:, steps // 2, 0] = -math.inf
        tags[:] = 1
    beyond = torch.arange(steps) >= lengths.unsqueeze(1)
    e = e.masked_fill(beyond.unsqueeze(2), math.nan)
    tags = tags.masked_fill(beyond, -100)
    counted = None
    if case.counted:
        counted = torch.tensor([1.0, 0.0, 0.5, 2.0], dtype=wide).repeat(rows)[:rows]
        e[counted == 0] = math.nan
        lengths[1:2] = 0
    arrays = [e.to(case.dtype), start.to(wide), transition.to(wide), end.to(wide)]
    leaves = [array.to(device).requires_grad_() for array in arrays]
    placed = [None if one is None else one.to(device) for one in (tags, counted)]
    return Chain(*leaves, lengths.to(device), *placed)


def finite_twin(chain: Chain) -> Chain:
    """The same chain in float64, with leaves of its own, as the plain loop can differentiate it."""
    leaves = [array.detach().double() for array in chain[:4]]
    leaves = [torch.where(array == -math.inf, FORBIDDEN, array).requires_grad_() for array in leaves]
    tags_BT = None if chain.tags_BT is None else chain.tags_BT.clamp(min=0)
    return Chain(*leaves, chain.lengths_B, tags_BT, chain.counted_B)


def weights_of(chain: Chain) -> Tensor:
    """Gradients of the values that differ from row to row."""
    rows = len(chain.lengths_B)
    return torch.linspace(0.5, 2.0, rows, dtype=torch.float64, device=chain.lengths_B.device)


def results(kernel: ChainKernel, chain: Chain) -> dict[str, Tensor]:
    """Everything a kernel computes of a chain, with all gradients."""
    made: dict[str, Tensor] = {}
    for name, asked in (("nll", chain), ("log Z", chain._replace(tags_BT=None, counted_B=None))):
        if name == "log Z" and chain.counted_B is not None:
            continue  # rows that are not counted hold NaN
        values = kernel.values(asked)
        made[name] = values.detach()
        charge = weights_of(chain).to(values.dtype)
        gradients = torch.autograd.grad(values, chain[:4], charge, materialize_grads=True)  # one step has no transition
        made |= {f"{name} d{field}": d for field, d in zip(Chain._fields, gradients, strict=False)}
    if chain.counted_B is None:
        with torch.no_grad():
            made["marginals"] = kernel.marginals(chain)
            made["log Z alone"] = kernel.values(chain._replace(tags_BT=None))
    return made


def errors_of(kernel: ChainKernel, chain: Chain) -> dict[str, float]:
    """By how much each result differs from the plain loop's in float64, as a share of what is tolerated."""
    truth, errors = results(ChainLoop(), finite_twin(chain)), {}
    for name, got in results(kernel, chain).items():
        expected = truth[name]
        if got.shape != expected.shape:
            errors[name] = math.inf
            continue
        scale = max(1.0, float(expected.abs().max()))
        error = float((got.double() - expected).abs().max()) / scale / TOLERANCES[got.dtype]
        errors[name] = math.inf if math.isnan(error) else error
    return errors


def path_is_the_loops(kernel: ChainKernel, chain: Chain) -> bool:
    """The same tags as the loop has on a CPU from the same numbers, ties included; a row of NaN has any tags at all."""
    plain = chain._replace(counted_B=None, tags_BT=None, lengths_B=chain.lengths_B.clamp(min=1))
    cpu = Chain(*[None if array is None else array.detach().cpu() for array in plain])  # type: ignore[arg-type]
    path_BT, expected_BT = kernel.path(plain).cpu(), ChainLoop().path(cpu)
    inside_BT = torch.arange(path_BT.shape[1]) < cpu.lengths_B.unsqueeze(1)
    judged_B = ~(cpu.emissions_BTK.isnan().any(2) & inside_BT).any(1)
    known = 0 <= int(path_BT.min()) <= int(path_BT.max()) < chain.emissions_BTK.shape[2]
    return known and bool(judged_B.any()) and torch.equal(path_BT[judged_B], expected_BT[judged_B])


def brute_force(chain: Chain) -> list[dict[tuple[int, ...], float]]:
    """s(x, y) of every sequence of every row, in Python's own numbers."""
    e, start, step, end = (array.detach().double().tolist() for array in chain[:4])

    def weight(row: int, y: tuple[int, ...]) -> float:
        words = sum(e[row][t][k] for t, k in enumerate(y))
        return float(start[y[0]] + words + sum(step[i][j] for i, j in pairwise(y)) + end[y[-1]])

    size = len(start)
    return [
        {y: weight(row, y) for y in product(range(size), repeat=n)} for row, n in enumerate(chain.lengths_B.tolist())
    ]


def differs_from_brute_force(kernel: ChainKernel, chain: Chain) -> float:
    """The largest error of log Z, -log p and marginals; infinite where the best sequence has not the highest score."""
    with torch.no_grad():
        log_z = kernel.values(chain._replace(tags_BT=None)).tolist()
        nll, p, paths = kernel.values(chain).tolist(), kernel.marginals(chain).tolist(), kernel.path(chain).tolist()
    tags, worst = (chain.tags_BT if chain.tags_BT is not None else chain.lengths_B).tolist(), 0.0
    for row, every in enumerate(brute_force(chain)):
        n = len(next(iter(every)))
        top = max(every.values())
        exact = top + math.log(math.fsum(math.exp(s - top) for s in every.values()))
        own = every[tuple(tags[row][:n])]
        worst = max(
            worst, abs(log_z[row] - exact) / max(1, abs(exact)), abs(nll[row] - (exact - own)) / max(1, abs(own))
        )
        for t, k in product(range(n), range(len(chain.start_K))):
            share = math.fsum(math.exp(s - exact) for y, s in every.items() if y[t] == k)
            worst = max(worst, abs(p[row][t][k] - share))
        if every[tuple(paths[row][:n])] < top - 1e-5 or any(paths[row][n:]):
            return math.inf
    return worst


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Judge:
    """Says each line, and keeps those that are wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def __call__(self, right: bool, line: str) -> None:
        say(f"  {'right' if right else 'WRONG'}  {line}")
        if not right:
            self.wrong.append(line)


def compile_it(wanted: Wanted) -> int:
    return len(binary(wanted).cubin)


def compile_all(wanted: set[Wanted]) -> None:
    """Side by side; they are kept on disk, where this process finds them."""
    begin = time.perf_counter()
    with ProcessPoolExecutor(14, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_it, wanted))
    say(f"compiled {len(wanted)} programs in {time.perf_counter() - begin:.0f} s")


CASES = [
    CrfCase(tags, steps, rows, dtype)
    for tags, steps, rows, dtype in product(
        (2, 5, 17, 50, 128), (1, 7, 40, 160), (1, 32), (torch.float32, torch.bfloat16)
    )
]
SPECIAL = [
    CrfCase(tags, steps, rows, dtype, counted, forbidden)
    for tags, steps, rows, dtype in product((5, 17, 100), (2, 23), (1, 9), (torch.float32, torch.bfloat16))
    for counted, forbidden in ((True, False), (False, True), (True, True))
]
FEW = [CrfCase(2, 7, 4), CrfCase(5, 5, 4), CrfCase(17, 2, 4), CrfCase(17, 3, 2), CrfCase(50, 2, 2), CrfCase(128, 1, 3)]


def check_results(judge: Judge, kernel: ChainKernel) -> None:
    say("1. results and all gradients against the plain loop in float64: largest error, 1 is what is tolerated")
    for cases, label in ((CASES, "plain"), (SPECIAL, "counted or forbidden")):
        for size in sorted({case.tags for case in cases}):
            worst, names = 0.0, []
            for case in [case for case in cases if case.tags == size]:
                chain = draw(case, "cuda")
                errors = errors_of(kernel, chain)
                worst = max(worst, *errors.values())
                names += [f"{case} {name} {error:.2g}" for name, error in errors.items() if not error <= 1]
                if not path_is_the_loops(kernel, chain):
                    names.append(f"{case} path")
            judge(not names, f"{label}, {size} tags: {worst:.3f}" + "".join(f"\n         {name}" for name in names[:6]))
    for case in FEW:
        error = differs_from_brute_force(kernel, draw(case, "cuda"))
        judge(error < 2e-5, f"brute force, {case.tags} tags, {case.steps} steps: {error:.1e}")


def check_special(judge: Judge, kernel: ChainKernel) -> None:
    say("2. ties, views, second derivatives, what is refused")
    for case in (CrfCase(2, 40, 32), CrfCase(17, 40, 32), CrfCase(128, 40, 8)):
        chain = draw(case, "cuda")
        coarse = [array.detach().round().clamp(-1, 1) for array in chain[:4]]
        judge(path_is_the_loops(kernel, Chain(*coarse, *chain[4:])), f"ties of {case.tags} tags")
    chain = draw(CrfCase(17, 12, 6), "cuda")
    views = chain._replace(
        emissions_BTK=chain.emissions_BTK.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(),
        tags_BT=chain.tags_BT.t().contiguous().t() if chain.tags_BT is not None else None,
    )
    judge(max(errors_of(kernel, views).values()) <= 1, "rows and steps that lie otherwise")
    crf = Crf(5).cuda()
    e = torch.randn(3, 6, 5, device="cuda", requires_grad=True)
    tags = torch.randint(0, 5, (3, 6), device="cuda")
    (slope,) = torch.autograd.grad(crf.nll(e, tags, [6, 2, 4]), e, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), e)
    chain = Chain(e, crf.start_K, crf.transition_KK, crf.end_K, torch.tensor([6, 2, 4], device="cuda"), tags)
    (slope,) = torch.autograd.grad(ChainLoop().values(chain).sum(), e, create_graph=True)
    (truth,) = torch.autograd.grad(slope.square().sum(), e)
    judge(torch.allclose(second, truth, atol=1e-5), "second derivatives")
    judge(isinstance(chain_kernel(chain), WalkedChains), "a Crf takes the programs by itself")
    large = Chain(*(torch.zeros(shape, device="cuda") for shape in ((1, 2, 129), (129,), (129, 129), (129,))), chain[4])
    judge(isinstance(chain_kernel(large), ChainLoop), "129 tags go to the loop")
    wrong = kernel.values(Chain(*chain[:5], tags_BT=torch.full_like(tags, 5)))
    judge(bool(wrong.isnan().all()), "a tag that is none is NaN")


def check_bits(judge: Judge, kernel: ChainKernel, repeats: int) -> None:
    say(f"3. the same bits {repeats} times over NaN")
    for case in (CrfCase(17, 40, 32), CrfCase(128, 40, 32, torch.bfloat16), CrfCase(2, 160, 5)):
        chain = draw(case, "cuda")
        first: dict[str, Tensor] = {}
        different = 0
        for _ in range(repeats):
            poison = [torch.full_like(chain.emissions_BTK, math.nan, dtype=torch.float32) for _ in range(4)]
            poison.append(torch.full((case.rows * 130 * 128,), math.nan, device="cuda"))
            del poison  # what the next arrays are made of
            got = results(kernel, chain) | {"path": kernel.path(chain)}
            first = first or got
            different += not all(torch.equal(got[name], first[name]) for name in got)
        judge(not different, f"{case.tags} tags, {case.steps} steps: {different} of {repeats} differ")


def check_graph(judge: Judge) -> None:
    say("4. a loss and its gradients in a CUDA graph, replayed over other rows")
    for case in (CrfCase(17, 40, 32, torch.float32, counted=True), CrfCase(50, 23, 8, torch.bfloat16, counted=True)):
        crf = Crf(case.tags).cuda()
        drawn = [draw(case, "cuda", seed) for seed in range(4)]
        with torch.no_grad():
            for weight, value in zip((crf.start_K, crf.transition_KK, crf.end_K), drawn[0][1:4], strict=True):
                weight.copy_(value)
        e, lengths = drawn[0].emissions_BTK.detach().clone().requires_grad_(), drawn[0].lengths_B.clone()
        tags, counted = (array.clone() for array in drawn[0][5:] if array is not None)
        weights = [e, crf.start_K, crf.transition_KK, crf.end_K]

        def step(e=e, tags=tags, lengths=lengths, counted=counted, crf=crf, weights=weights):  # type: ignore[no-untyped-def]
            with leaving_unread():
                loss = crf.nll(e, tags, lengths, counted)
                return loss, torch.autograd.grad(loss, weights), crf.best(e.detach(), lengths.clamp(min=1))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss, gradients, path = step()
        for seed, other in enumerate(drawn):
            with torch.no_grad():
                pairs = ((e, other.emissions_BTK), (tags, other.tags_BT), (lengths, other.lengths_B))
                for into, value in pairs:
                    into.copy_(value)
                counted.copy_(counted.roll(1))
                e.masked_fill_(e.isnan() & (torch.arange(case.steps, device="cuda") < lengths[:, None])[..., None], 0.5)
            graph.replay()
            replayed = [array.clone() for array in (loss, *gradients, path)]
            again, slopes, best = step()
            same = all(torch.equal(one, two) for one, two in zip(replayed, (again, *slopes, best), strict=True))
            truth_chain = finite_twin(Chain(*weights, lengths, tags, counted))  # type: ignore[arg-type]
            exact = float(ChainLoop().values(truth_chain).sum().detach())
            error = abs(float(loss) - exact) / max(1.0, abs(exact))
            judge(
                same and error < 1e-5,
                f"{case.tags} tags, replay {seed}: loss {float(loss):.3f}, error {error:.1e}, same bits {same}",
            )


def seconds(work: Callable[[], object], graph: bool, calls: int = 5) -> float:
    """The median time of a call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    call: Callable[[], object] = work
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            work()
        call = captured.replay
    times = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / calls)
    return statistics.median(times)


def time_all(kernel: ChainKernel) -> None:
    say("5. microseconds: -log p of a batch with all gradients, and the best sequences")
    for case in (
        CrfCase(17, 40, 32, ragged=False),
        CrfCase(50, 40, 32, ragged=False),
        CrfCase(128, 40, 32, ragged=False),
    ):
        chain = draw(case, "cuda")

        def learn(kernel: ChainKernel, chain: Chain = chain) -> object:
            return torch.autograd.grad(kernel.values(chain).sum(), chain[:4])

        loop = ChainLoop()
        figures = [
            1e6 * seconds(lambda: learn(kernel), graph=False),
            1e6 * seconds(lambda: learn(kernel), graph=True),
            1e6 * seconds(lambda: learn(loop), graph=False, calls=2),  # noqa: B023
            1e6 * seconds(lambda: learn(loop), graph=True),  # noqa: B023
            1e6 * seconds(lambda: kernel.path(chain), graph=False),  # noqa: B023
            1e6 * seconds(lambda: kernel.path(chain), graph=True),  # noqa: B023
            1e6 * seconds(lambda: loop.path(chain), graph=False, calls=2),  # noqa: B023
        ]
        words = ("programs", "as a graph", "loop", "as a graph", "Viterbi", "as a graph", "loop")
        shape = f"{case.rows} rows, {case.steps} steps, {case.tags} tags"
        say(f"  {shape}: " + ", ".join(f"{word} {figure:.0f}" for word, figure in zip(words, figures, strict=True)))


SWEEP = {17: (1, 2, 4), 50: (2, 4, 8), 128: (4, 8, 16)}


def run_all(case: CrfCase, warps: int | None = None) -> None:
    """Every program that a chain of such a size takes."""
    chain, kernel = draw(case), WalkedChains(CrfPrograms(warps))
    results(kernel, chain)
    kernel.path(chain)


def sweep() -> None:
    say("6. microseconds in a graph by warps: forward, backward, Viterbi; 32 rows of 40 steps")
    with noted_launches() as launched:
        for size, counts in SWEEP.items():
            for warps in counts:
                run_all(CrfCase(size, 2, 1), warps)
    compile_all({each.wanted for each in launched})
    for size, counts in SWEEP.items():
        chain = draw(CrfCase(size, 40, 32, ragged=False), "cuda")
        for warps in counts:
            programs = CrfPrograms(warps)
            walk, one = programs.forward(chain, True), torch.ones(32, device="cuda")
            works: list[Callable[[], object]] = [
                lambda: programs.forward(chain, True),  # noqa: B023
                lambda: programs.backward(chain, walk, one, torch.float32),  # noqa: B023
                lambda: programs.path(chain),  # noqa: B023
            ]
            figures = ", ".join(f"{1e6 * seconds(work, graph=True):.1f}" for work in works)
            say(f"  {size} tags, {warps} warps: {figures}")


def main() -> int:
    words = argparse.ArgumentParser(description="the CRF's programs on a GPU")
    words.add_argument("--sweep", action="store_true", help="try other numbers of warps as well")
    chosen = words.parse_args()
    faulthandler.dump_traceback_later(110, exit=True)
    lacking = lacks(0) if torch.cuda.is_available() else "there is no GPU"
    if lacking:
        say(f"cannot run here: {lacking}")
        return 1
    torch.backends.cuda.matmul.allow_tf32 = False
    with noted_launches() as launched:
        for size, dtype, counted in product((2, 17, 50, 128), (torch.float32, torch.bfloat16), (False, True)):
            run_all(CrfCase(size, 2, 1, dtype, counted))
    compile_all({each.wanted for each in launched})
    kernel, judge, begin = WalkedChains(CRF_PROGRAMS), Judge(), time.perf_counter()
    check_results(judge, kernel)
    check_special(judge, kernel)
    check_bits(judge, kernel, 200)
    check_graph(judge)
    time_all(kernel)
    if chosen.sweep:
        sweep()
    say(f"{time.perf_counter() - begin:.0f} s")
    say("\n".join(["failures:", *judge.wrong]) if judge.wrong else "all passed")
    return 1 if judge.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
