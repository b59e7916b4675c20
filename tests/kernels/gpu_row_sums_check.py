"""Operations that add in a fixed order on a GPU: right, the same to the bit, and their cost. Needs torch and Triton.

    PYTHONPATH=src:tests/kernels python -W ignore tests/kernels/gpu_row_sums_check.py [--sweep]

1. `add_rows` against float64, and the same bits at every launch and from a CUDA graph, over indices as words have them.
2. Its time from a graph beside torch's ways, in microseconds. `--sweep` tries other tiles.
3. One number of each row of logits changed: scatter_add_ and the ways that need no sort.
4. Rows picked by an index: gradients of index_select, F.embedding and `pick_rows`.
5. Attention: gradients by `attend`, the same bits, and their time.
6. Dropout from a graph draws what it draws without one, and goes on from a state that was saved.

Exit status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.base import progress
from thereafter.kernels.gpu.row_sums import add_rows_on_gpu
from thereafter.kernels.rows import add_rows, pick_rows
from thereafter.layers.attention import attend
from thereafter.training.numerics import same_bits

CUDA = torch.device("cuda")
CASES = {
    "ptb 20x35": (700, 10001, 200, 0.0),
    "awd 80x70": (5600, 33279, 400, 0.0),
    "pairs 128x24, padded": (3072, 8001, 512, 0.4),
    "words 64x32, padded": (2048, 20000, 100, 0.3),
    "letters": (20000, 120, 50, 0.3),
    "wide": (1280, 50000, 1024, 0.0),
}
"""Tokens, rows of the table, columns, share of padding."""
TILES = [(64, 32, 4), (32, 64, 4), (32, 128, 4), (128, 32, 4), (64, 64, 4), (16, 64, 2), (256, 32, 8), (256, 16, 4)]
failures: list[str] = []


class Notes(progress.Silent):
    def note(self, message: str) -> None:
        print(f"note: {message}")  # noqa: T201


def report(good: bool, words: str) -> None:
    print(f"{'' if good else 'FAILED '}{words}", flush=True)  # noqa: T201
    if not good:
        failures.append(words)


def drawn(tokens: int, rows: int, columns: int, padding: float) -> tuple[Tensor, Tensor, Tensor]:
    """A table, indices by Zipf's law with some padding (0), and rows to add."""
    torch.manual_seed(tokens)
    share_R = 1.0 / torch.arange(1, rows + 1, dtype=torch.float64)
    index_N = torch.multinomial(share_R, tokens, replacement=True)
    index_N[torch.rand(tokens) < padding] = 0
    return torch.randn(rows, columns, device=CUDA), index_N.to(CUDA), torch.randn(tokens, columns, device=CUDA)


def microseconds(run: Callable[..., object], *arguments: object, launches: int = 20) -> float:
    """The time of one run, from a CUDA graph of several."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(*arguments)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            run(*arguments)
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * begin.elapsed_time(end) / launches)
    return statistics.median(times[2:])


def tried(run: Callable[..., object], *arguments: object, ordered: bool = True) -> str:
    torch._C._set_deterministic_algorithms(ordered, warn_only=True)
    try:
        return f"{microseconds(run, *arguments):8.1f}"
    except RuntimeError as error:
        torch.cuda.synchronize()
        return f"refused ({str(error).splitlines()[0][:60]})"
    finally:
        torch._C._set_deterministic_algorithms(True, warn_only=True)


def index_add(table: Tensor, index: Tensor, values: Tensor) -> None:
    table.index_add_(0, index, values)


def embedding_add(table: Tensor, index: Tensor, values: Tensor) -> None:
    table.add_(torch.ops.aten.embedding_dense_backward(values, index, len(table), -1, False))


def searched(table: Tensor, index: Tensor, values: Tensor, tile: tuple[int, int, int] | None = None) -> None:
    add_rows_on_gpu(table, index, values, short=1 << 30, tile=tile)


def sorted_first(table: Tensor, index: Tensor, values: Tensor, tile: tuple[int, int, int] | None = None) -> None:
    add_rows_on_gpu(table, index, values, short=0, tile=tile)


def rows_are_added(sweep: bool) -> None:
    print("\nrows added to a table: microseconds of index_add_ in any order, in torch's fixed order,")  # noqa: T201
    print("of F.embedding's gradient and a sum, and of add_rows: as chosen, searched, sorted")  # noqa: T201
    for name, (tokens, rows, columns, padding) in CASES.items():
        table, index, values = drawn(tokens, rows, columns, padding)
        expected = table.double().index_add_(0, index, values.double())
        results = [add_rows(table.clone(), index, values) for _ in range(20)]
        for way in (searched, sorted_first):
            other = table.clone()
            way(other, index, values)
            wrong = float((other - expected).abs().max() / expected.abs().max())
            report(wrong < 1e-6, f"{name}, {way.__name__}: largest error {wrong:.1e}")
        report(all(torch.equal(results[0], one) for one in results), f"{name}: the same bits 20 times")
        graph, replayed = torch.cuda.CUDAGraph(), table.clone()
        with torch.cuda.graph(graph):
            add_rows(replayed, index, values)
        graph.replay()
        report(torch.equal(replayed, results[0]), f"{name}: the same bits from a graph")
        given = (table, index, values)
        times = [tried(index_add, *given, ordered=False)]
        times += [tried(way, *given) for way in (index_add, embedding_add, add_rows, searched, sorted_first)]
        print(f"{name:22} {'  '.join(times)}", flush=True)  # noqa: T201
        for tile in TILES if sweep else ():
            times = [tried(way, *given, tile) for way in (searched, sorted_first)]
            print(f"{'':22} tile {tile}: searched {times[0]}  sorted {times[1]}", flush=True)  # noqa: T201


def scatter_add(p_NV: Tensor, target_N1: Tensor, one_N1: Tensor) -> None:
    p_NV.scatter_add_(1, target_N1, one_N1)


def amin(p_NV: Tensor, target_N1: Tensor, one_N1: Tensor) -> None:
    p_NV.scatter_reduce_(1, target_N1, p_NV.gather(1, target_N1) + one_N1, "amin")


def one_of_each_row() -> None:
    print("\none number of each row of logits: scatter_add_ in any order, in torch's fixed order, by amin")  # noqa: T201
    for tokens, words, kind in (
        (700, 10000, torch.float32),
        (700, 10000, torch.bfloat16),
        (1792, 33278, torch.bfloat16),
    ):
        p_NV = torch.rand(tokens, words, device=CUDA).mul_(0.9).to(kind)
        target_N1 = torch.randint(0, words, (tokens, 1), device=CUDA)
        one_N1 = p_NV.new_full((1, 1), -1.0).expand_as(target_N1)
        plain, own = p_NV.clone(), p_NV.clone()
        plain[torch.arange(tokens, device=CUDA), target_N1.squeeze(1)] -= 1.0
        amin(own, target_N1, one_N1)
        report(torch.equal(plain, own), f"{tokens} x {words} {kind}: amin puts p - 1 in its place")
        given = (p_NV, target_N1, one_N1)
        times = [tried(scatter_add, *given, ordered=False), tried(scatter_add, *given), tried(amin, *given)]
        print(f"{tokens} x {words} {kind}: {'  '.join(times)}", flush=True)  # noqa: T201


def pick(way: Callable[[Tensor, Tensor], Tensor], x: Tensor, index: Tensor, dy: Tensor) -> Tensor:
    return torch.autograd.grad(way(x, index), x, dy)[0]


def picked_rows() -> None:
    print("\nthe gradient of picked rows: index_select, F.embedding, pick_rows")  # noqa: T201
    ways = (lambda x, i: x.index_select(0, i), lambda x, i: F.embedding(i, x), pick_rows)
    for rows, columns, share in ((3072, 512, 0.6), (2048, 400, 1.0)):
        x = torch.randn(rows, columns, device=CUDA, requires_grad=True)
        index = torch.randperm(rows, device=CUDA)[: int(share * rows)]
        dy = torch.randn(len(index), columns, device=CUDA)
        made = [pick(way, x, index, dy) for way in ways]
        report(torch.equal(made[0], made[2]), f"{len(index)} of {rows} rows: the gradient is index_select's")
        times = [tried(pick, way, x, index, dy) for way in ways]
        print(f"{len(index)} of {rows} x {columns}: {'  '.join(times)}", flush=True)  # noqa: T201


def attended(q: Tensor, k: Tensor, v: Tensor, dy: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
    return torch.autograd.grad(attend(q, k, v, mask, causal=causal), (q, k, v), dy)


def attention() -> None:
    print("\nattention: microseconds forward and back, in any order and by attend")  # noqa: T201
    kinds, sights = (torch.bfloat16, torch.float32), ((True, False), (False, False), (False, True))
    for kind, length, (causal, masked) in itertools.product(kinds, (35, 512), sights):
        shape, mask = (16, 8, length, 64), None
        q, k, v = (torch.randn(shape, device=CUDA, dtype=kind, requires_grad=True) for _ in range(3))
        dy = torch.randn(shape, device=CUDA, dtype=kind)
        if masked:
            mask = (torch.arange(length, device=CUDA) < torch.randint(1, length, (16, 1), device=CUDA))[:, None, None]
        given = (q, k, v, dy, mask, causal)
        first = attended(*given)
        same = all(all(map(torch.equal, first, attended(*given))) for _ in range(20))
        words = f"{str(kind)[6:]} of {length}{', causal' if causal else ''}{', masked' if masked else ''}"
        report(same, f"attention in {words}: the same bits 20 times")
        print(f"{words}: {tried(attended, *given, ordered=False)}  {tried(attended, *given)}", flush=True)  # noqa: T201


def dropout_goes_on() -> None:
    x = torch.ones(1000, 700, device=CUDA)
    torch.manual_seed(3)
    plain = [F.dropout(F.dropout(x, 0.5), 0.3) for _ in range(4)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = F.dropout(F.dropout(x, 0.5), 0.3)
    torch.manual_seed(3)
    played = []
    for number in range(4):
        if number == 2:
            state = torch.cuda.get_rng_state(CUDA)
        graph.replay()
        played.append(y.clone())
    report(all(torch.equal(a, b) for a, b in zip(plain, played, strict=True)), "dropout from a graph draws the same")
    torch.cuda.set_rng_state(state, CUDA)
    graph.replay()
    report(torch.equal(y, plain[2]), "dropout from a graph goes on from a saved state")
    torch.cuda.set_rng_state(state, CUDA)
    report(torch.equal(F.dropout(F.dropout(x, 0.5), 0.3), plain[2]), "dropout without a graph goes on from it too")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sweep", action="store_true", help="other tiles of add_rows")
    given = parser.parse_args()
    faulthandler.dump_traceback_later(90, exit=True)
    with progress.reporting(Notes()), same_bits(CUDA):
        rows_are_added(given.sweep)
        one_of_each_row()
        picked_rows()
        attention()
        dropout_goes_on()
    if failures:
        raise SystemExit("not as it should be: " + "; ".join(failures))
    print("all passed")  # noqa: T201


if __name__ == "__main__":
    main()
