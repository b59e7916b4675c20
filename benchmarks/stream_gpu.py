"""Streaming on a GPU: one step of a language model as one CUDA graph, and generation of many texts from one graph.

    PYTHONPATH=src python benchmarks/stream_gpu.py [--sweep] [--units 1150] [--words 10000] [--dry]

numpy, torch and Triton are enough. A 2-layer LSTM of 1150 units over 10,000 words with drawn weights. A step reads all
matrices once: the bound is their bytes at 4.8 TB/s. Times are medians of 9 runs of 200 replays, one after the other, as
in streaming. `--sweep` tries tiles of the programs for one row. `--dry`: small sizes on a CPU, to try the script. Exit
code 1 where a bfloat16 step of one row takes more than 60 microseconds.
"""

from __future__ import annotations

import argparse
import faulthandler
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import torch

from thereafter.decoding.generation import GenerationSettings, Prompted, generate
from thereafter.decoding.graph_generation import GraphSampler
from thereafter.decoding.sampling import Sampler, Warping, generators
from thereafter.kernels.one_token import VectorTile
from thereafter.models.build import build, settings_of
from thereafter.models.graph_step import GraphStep
from thereafter.models.neural import NeuralModel

BANDWIDTH = 4.8e12  # bytes a second of an H200's memory
LIMIT = 60e-6
_ROUNDS, _REPLAYS = 9, 200
_WARPINGS = {
    "temperature 1": Warping(),
    "greedy": Warping(temperature=0.0),
    "top_k 40": Warping(temperature=0.8, top_k=40),
    "top_p 0.9": Warping(temperature=0.8, top_p=0.9),
    "top_k 40, top_p 0.9, penalty": Warping(temperature=0.8, top_k=40, top_p=0.9, repetition_penalty=1.2),
}


class Words:
    """Stands in for a tokenizer: ids as numbers."""

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        return prompt + "".join(f" {token}" for token in ids)


def drawn_model(units: int, words: int, device: str) -> NeuralModel:
    """The model of the measurement, with the weights it would begin a training with."""
    torch.manual_seed(0)
    settings = settings_of("lstm")(hidden=units, layers=2)
    return build("lstm", settings, vocabulary_size=words, context="stream", line_end=None).eval().to(device)


def seconds(run: Callable[[], object], device: str, times: int = _REPLAYS) -> float:
    """The median time of one run among many in a row."""
    for _ in range(3):
        run()
    measured = []
    for _ in range(_ROUNDS if device == "cuda" else 1):
        _wait(device)
        began = time.perf_counter()
        for _ in range(times if device == "cuda" else 2):
            run()
        _wait(device)
        measured.append((time.perf_counter() - began) / (times if device == "cuda" else 2))
    return statistics.median(measured)


def step_seconds(step: GraphStep, device: str) -> float:
    """A step whose token is on the GPU already, launched again and again."""
    token_B = step.token_B.clone()
    return seconds(lambda: step.step(token_B), device)


def bound(model: NeuralModel, size: int) -> float:
    """Seconds to read every matrix once. Tied word vectors are the head's matrix."""
    return size * sum(weight.numel() for weight in model.parameters() if weight.dim() > 1) / BANDWIDTH


def steps(model: NeuralModel, device: str) -> float:
    """Prints the times of a step; returns the best of one row in bfloat16."""
    best = float("inf")
    for weights, size in (("bfloat16", 2), (None, 4)):
        say(f"step, {weights or 'float32'}: {1e6 * bound(model, size):.1f} us to read the matrices")
        for rows, programs in product((1, 64), (False, True)):
            if programs and device == "cpu":
                continue
            label = f"  {rows:2d} rows, {'programs' if programs else 'torch   '}"
            try:
                took = step_seconds(GraphStep(model, rows, weights, programs=programs), device)
            except Exception:  # the others are still worth measuring
                say(f"{label}: failed\n{traceback.format_exc(limit=-3)}")
                continue
            say(f"{label}: {1e6 * took:7.1f} us a step, {rows / took:,.0f} tokens/s")
            best = min(best, took) if rows == 1 and weights else best
    for rows in (1, 64):
        plain = GraphStep(model, rows, "bfloat16", programs=False, recorded=False)
        say(f"  {rows:2d} rows, the same operators launched one by one: {1e6 * step_seconds(plain, device):7.1f} us")
        state, token_B = model.start(rows), np.zeros(rows, dtype=np.int64)
        took = seconds(lambda state=state, token_B=token_B: model.step(token_B, state), device, 20)
        say(f"  {rows:2d} rows, model.step over numpy, float32: {1e6 * took:7.1f} us")
    return best


def sweep(model: NeuralModel, device: str) -> None:
    """Tiles of the programs for one row."""
    for units, columns, warps in product((1, 2, 4), (256, 512, 1024, 2048), (2, 4, 8)):
        if not 8 <= units * columns * 4 // (32 * warps) <= 128:
            continue
        tile = VectorTile(units, 4 * units, columns, warps)
        took = step_seconds(GraphStep(model, 1, "bfloat16", programs=True, tile=tile), device)
        say(f"  {tile}: {1e6 * took:7.1f} us")


def generation(model: NeuralModel, device: str, rows: int = 64, tokens: int = 128) -> None:
    """Tokens a second: the loop alone, all of `generate`, and the host's sampler over the same model."""
    state, recorded = model.start(1), device == "cuda"
    narrow = model if device == "cpu" else model.stored("bfloat16")

    def loop(warping: Warping, count: int) -> None:
        sampler = GraphSampler(narrow, state, generators(0, count), warping, most=tokens, recorded=recorded)
        while sampler.draw():
            pass

    for count, (name, warping) in product((1, rows), _WARPINGS.items()):
        took = seconds(lambda w=warping, n=count: loop(w, n), device, 1)
        say(f"  {count:2d} rows, {name}: {1e6 * took / tokens:7.1f} us a step, {count * tokens / took:,.0f} tokens/s")
    begin = Prompted(narrow, Words(), "", np.zeros(0, dtype=np.int32), state)
    settings = GenerationSettings(max_new_tokens=tokens, num_return_sequences=rows, seed=0)
    took = seconds(lambda: generate(begin, settings), device, 1)
    say(f"  generate, {rows} rows: {rows * tokens / took:,.0f} tokens/s with the text")

    def host() -> None:
        sampler = Sampler(model, state, generators(0, rows), Warping())
        for _ in range(8):
            sampler.draw()

    took = seconds(host, device, 1)
    say(f"  the host's sampler over model.step, {rows} rows: {rows * 8 / took:,.0f} tokens/s")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--units", type=int, default=1150)
    options.add_argument("--words", type=int, default=10_000)
    options.add_argument("--sweep", action="store_true", help="tiles of the programs for one row")
    options.add_argument("--dry", action="store_true", help="small sizes on a CPU, to try the script")
    given = options.parse_args()
    faulthandler.dump_traceback_later(150, exit=True)
    if not given.dry and not torch.cuda.is_available():
        say("no GPU here")
        return 2
    device = "cpu" if given.dry else "cuda"
    model = drawn_model(24, 50, device) if given.dry else drawn_model(given.units, given.words, device)
    if given.sweep:
        sweep(model, device)
        return 0
    best = steps(model, device)
    say(f"generation, {'float32' if given.dry else 'bfloat16'}:")
    generation(model, device, tokens=8 if given.dry else 128)
    missed = best > LIMIT and not given.dry
    say(f"one row in bfloat16: {1e6 * best:.1f} us, at most {1e6 * LIMIT:.0f}: {'missed' if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
