"""Recorded steps and generation on a GPU against the CPU. Needs numpy, torch and Triton.

    PYTHONPATH=src python tests/decoding/gpu_generation_check.py [--times] [--dry]

1. Steps of every kind of model against `model.step` on the CPU, over line ends: float32 and bfloat16.
2. Drawing against the host's, for every kind of warping, by torch's operators and by the program.
3. Texts: greedy, sampled, 64 rows at once and alone, seeds, other weights, threads, beams, a Transformer.
4. `--times`: `benchmarks/stream_gpu.py` after that. `--dry`: on a CPU, to try the script.

Exit status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
import torch
from drawing_cases import SEEN, WARPINGS, OneNumber, log_probs

from thereafter.decoding.generation import Generated, GenerationSettings, Prompted, generate
from thereafter.decoding.graph_generation import DeviceDrawing, graph_sampler
from thereafter.decoding.sampling import Warping, draw, generators
from thereafter.kernels.gpu import lacks
from thereafter.kernels.one_token import Places, draw_rows
from thereafter.models.build import build, settings_of
from thereafter.models.graph_step import GraphStep
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("lstm", {"hidden": 150}),
    ("lstm", {"hidden": 40, "embed": 24, "layers": 3, "tied": False}),
    ("awd-lstm", {"embed": 40, "sizes": (60, 70, 40)}),
    ("lstm", {"hidden": 40, "peephole": True, "connect": "residual"}),
    ("lstm", {"hidden": 40, "layer_norm": True}),
    ("lstm", {"hidden": 40, "connect": "highway"}),
    ("gru", {"hidden": 40}),
    ("gru", {"hidden": 40, "reset": "before", "head": "adaptive", "cutoffs": (60, 200)}),
    ("rnn", {"hidden": 40}),
    ("mingru", {"hidden": 40}),
    ("minlstm", {"hidden": 40}),
    ("window", {"embed": 16, "hidden": 40}),
    ("average", {"embed": 40}),
]
V, END = 700, 3
FLOAT32, BFLOAT16 = 1e-4, 5e-2


class Checks:
    """Runs checks, prints a line each, and keeps what failed."""

    def __init__(self, device: str) -> None:
        self.device, self.failed = device, 0

    def run(self, label: str, check: Callable[[], str]) -> None:
        try:
            outcome = check()
        except Exception as error:  # the other checks are still worth running
            self.failed += 1
            outcome = f"FAILED: {error}"
            if not isinstance(error, AssertionError):
                outcome += "\n" + traceback.format_exc(limit=-4)
        sys.stdout.write(f"{label}: {outcome}\n")
        sys.stdout.flush()


def drawn(name: str, options: dict[str, Any]) -> NeuralModel:
    torch.manual_seed(1)
    return build(name, settings_of(name)(**options), vocabulary_size=V, context="line", line_end=END).eval()


def step_errors(name: str, options: dict[str, Any], weights: str | None, device: str) -> str:
    cpu = drawn(name, options)
    gpu = deepcopy(cpu).to(device)
    limit = FLOAT32 if weights is None else BFLOAT16
    outcomes = []
    has_programs = device == "cuda" and lacks(torch.cuda.current_device()) is None
    for rows, programs in ((1, False), (5, False), *(((1, True), (5, True)) if has_programs else ())):
        ids = np.random.default_rng(0).integers(0, V, (rows, 24))
        ids[0, 7] = ids[-1, 15] = ids[-1, 16] = END
        step, state = GraphStep(gpu, rows, weights, programs=programs), cpu.start(rows)
        worst = _apart(step.logp_BV, cpu.predict(state))
        for place, token_B in enumerate(ids.T):
            logp_BV, state = cpu.step(token_B, state)
            worst = max(worst, _apart(step.step(token_B), logp_BV))
            if place == 12:  # another step carries its state on
                other = GraphStep(gpu, rows, weights, programs=programs)
                logp_BV = step.logp_BV.clone()
                assert _apart(other.reset(step.state), logp_BV.cpu().numpy()) < limit, "a state is not carried on"
                step = other
        assert _apart(step.reset(), cpu.predict(cpu.start(rows))) < limit, "another text does not start as the first"
        step.step(ids[:, 0])
        h_BH = step.state.tensors()["features"]
        expected_BH = cpu.step(ids[:, 0], cpu.start(rows))[1].tensors()["features"]
        assert _apart(h_BH, expected_BH.numpy()) < limit, "the features of a state are not those of its last step"
        outcomes.append(f"{rows} rows{' by programs' if programs else ''} {worst:.1e}")
        assert worst < limit, ", ".join(outcomes)
    return ", ".join(outcomes)


def start_errors(device: str) -> str:
    """How far a prompt's log p, read by the ordinary path, is from the CPU's: reported, not judged."""
    cpu = drawn("lstm", {"hidden": 1150})
    gpu, ids = deepcopy(cpu).to(device), np.random.default_rng(0).integers(4, V, (1, 20))
    logs = [model.predict(model.read(ids, model.start(1))) for model in (cpu, gpu)]
    return f"log p after 20 tokens within {np.abs(logs[0] - logs[1]).max():.1e}"


def _apart(logp_BV: torch.Tensor, expected_BV: np.ndarray) -> float:
    assert bool(torch.isfinite(logp_BV).all()), "not finite"
    return float(np.abs(logp_BV.cpu().numpy() - expected_BV).max())


def drawing(warping: Warping, device: str, *, program: bool) -> str:
    logp_BV, forbidden, seen = log_probs(64, V, ties=True), (0, 5), np.array(SEEN)
    logp = torch.from_numpy(logp_BV).to(device)
    expected = [warping.weights(row, seen=seen, forbidden=forbidden) for row in logp_BV]
    alike = total = 0
    for seed in range(5):
        u_B = np.random.default_rng(seed).random(64)
        own = DeviceDrawing(warping, forbidden, logp)
        if own.seen_BV is not None:
            own.seen_BV[:, list(SEEN)] = True
        u_1B = torch.from_numpy(u_B).to(device).unsqueeze(0)
        tokens = (_by_program(own, logp, u_1B) if program else own.draw(logp, u_1B[0])).tolist()
        for token, weights_V, u in zip(tokens, expected, u_B, strict=True):
            assert weights_V is not None
            host = int(np.argmax(weights_V)) if warping.temperature == 0 else draw(weights_V, OneNumber(u))
            alike, total = alike + (token == host), total + 1
    assert alike >= total - 1, f"{alike} of {total} tokens are the host's"
    return f"{alike} of {total} tokens are the host's"


def _by_program(own: DeviceDrawing, logp: torch.Tensor, u_1B: torch.Tensor) -> torch.Tensor:
    rows = len(logp)
    place_B, token_B = (torch.zeros(rows, dtype=torch.int32, device=logp.device) for _ in range(2))
    drawn_12B = torch.zeros(1, 2, rows, dtype=torch.float64, device=logp.device)
    seen_BV = None if own.seen_BV is None else own.seen_BV.view(torch.uint8)
    places = Places(u_1B, place_B, drawn_12B, token_B, seen_BV, own.forbidden_V.view(torch.uint8))
    draw_rows(logp, places, **vars(own.warping))
    assert place_B.tolist() == [1] * rows, "the places of the rows did not go on"
    assert torch.equal(drawn_12B[0, 0], token_B.double()), "tokens were not written down"
    assert torch.equal(drawn_12B[0, 1], logp.gather(1, token_B.long().unsqueeze(1))[:, 0].double()), "log p is wrong"
    return token_B


class Talker:
    """A model that continues one prompt; its words are numbers."""

    def __init__(self, model: NeuralModel) -> None:
        self.model = model

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        return prompt + "".join(f" {token}" for token in ids)

    def begin(self, weights: str | None = None) -> Prompted[NeuralState]:
        model = self.model if weights is None else self.model.stored(weights)
        ids = np.array([5, 9, 2])
        return Prompted(model, self, "", ids, model.read(ids[None], model.start(1)), (0,))

    def generate(self, tokens: int, **options: Any) -> list[Generated]:
        settings = GenerationSettings(max_new_tokens=tokens, **options)
        return generate(self.begin(settings.weights), settings)

    def texts(self, tokens: int, **options: Any) -> list[str]:
        return [one.text for one in self.generate(tokens, **options)]


def both(name: str, device: str) -> tuple[Talker, Talker]:
    """A model on the CPU, and the same on the device; its weights are large enough to prefer some words."""
    options = next(about for kind, about in [*KINDS, ("transformer", {"hidden": 32, "context": 16})] if kind == name)
    cpu = drawn(name, options)
    with torch.no_grad():
        for weight in cpu.parameters():
            weight.mul_(3.0 if weight.dim() > 1 else 1.0)
    cpu.forget()
    return Talker(cpu), Talker(deepcopy(cpu).to(device))


def texts(name: str, device: str) -> str:
    cpu, gpu = both(name, device)
    sampler = graph_sampler(gpu.model, gpu.begin().state, generators(0, 2), Warping(), most=4)
    on_gpu = sampler is not None
    assert on_gpu == (device == "cuda" and name != "transformer"), "the sampler is not where it should be"
    assert gpu.texts(70, temperature=0.0) == cpu.texts(70, temperature=0.0), "greedy texts differ"
    options: list[dict[str, Any]] = [{}, {"top_k": 9, "top_p": 0.9, "repetition_penalty": 1.2, "temperature": 0.8}]
    alike = alone = 0
    for one in options:
        about: dict[str, Any] = {"num_return_sequences": 64, "seed": 5, **one}
        ours, theirs = gpu.texts(40, **about), cpu.texts(40, **about)
        assert gpu.texts(40, **about) == ours, "the same seed gave another text"
        assert gpu.texts(40, **{**about, "seed": 6}) != ours, "another seed gave the same text"
        alike += sum(our == their for our, their in zip(ours, theirs, strict=True))
        alone += gpu.texts(40, seed=5, **one) == ours[:1]
    stops: dict[str, Any] = {"num_return_sequences": 8, "seed": 1, "stop_strings": ("7", "13")}
    assert gpu.texts(60, **stops) == cpu.texts(60, **stops), "texts with stop strings differ"
    assert alone == 2, "one row alone is not the first of 64"
    assert alike >= 124, f"{alike} of 128 texts are the CPU's"
    return f"greedy equal, {alike} of 128 sampled texts are the CPU's{'' if on_gpu else ' (the host draws)'}"


def other_weights(device: str) -> str:
    cpu, gpu = both("lstm", device)
    first = gpu.texts(30, temperature=0.0)
    for talker in (cpu, gpu):
        with torch.no_grad():
            for weight in talker.model.parameters():
                weight.mul_(-1.25)
    second = gpu.texts(30, temperature=0.0)
    assert second != first, "the old weights were used"
    assert second == cpu.texts(30, temperature=0.0), "other weights than the CPU's were used"
    for weight in gpu.model.parameters():
        weight.data.div_(-1.25)  # not counted by torch: the model is told
    gpu.model.eval()
    assert gpu.texts(30, temperature=0.0) == first, "the old weights were used after eval()"
    return "recorded again"


def threads(device: str) -> str:
    _, gpu = both("lstm", device)
    asked: list[dict[str, Any]] = [{"seed": seed, "num_return_sequences": 4} for seed in range(12)]
    alone = [gpu.texts(50, **one) for one in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: gpu.texts(50, **one), asked))
    assert together == alone, f"{sum(map(eq, together, alone))} of 12 are those drawn alone"
    return "12 texts by 4 threads are the same"


def narrow(device: str) -> str:
    _, gpu = both("lstm", device)
    (wide,), (low,) = gpu.generate(20, temperature=0.0), gpu.generate(20, temperature=0.0, weights="bfloat16")
    same = next((at for at, pair in enumerate(zip(wide.tokens, low.tokens, strict=True)) if pair[0] != pair[1]), 20)
    apart = max((abs(a - b) for a, b in zip(wide.log_probs[:same], low.log_probs[:same], strict=True)), default=0.0)
    assert apart < BFLOAT16, f"log p {apart:.1e} apart"
    assert gpu.texts(20, num_beams=3, weights="bfloat16")
    return f"the first {same} of 20 tokens agree, log p within {apart:.1e}"


def beams(device: str) -> str:
    cpu, gpu = both("lstm", device)
    assert gpu.texts(20, num_beams=4) == cpu.texts(20, num_beams=4), "texts differ"
    return "the CPU's text"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", action="store_true", help="benchmarks/stream_gpu.py as well")
    options.add_argument("--dry", action="store_true", help="on a CPU, to try the script")
    given = options.parse_args()
    device = "cpu" if given.dry else "cuda"
    faulthandler.dump_traceback_later(120, exit=True)
    checks = Checks(device)
    if device == "cuda":
        checks.run("start of an LSTM read by cuDNN, TF32 as torch has it", lambda: start_errors(device))
        torch.backends.cudnn.allow_tf32 = False  # prompts are compared in float32
        checks.run("start of an LSTM read by cuDNN, no TF32", lambda: start_errors(device))
        sys.stdout.write(f"programs: {lacks(torch.cuda.current_device()) or 'run here'}\n")
    for name, about in KINDS:
        label = f"step {name} {about}"
        checks.run(f"{label} float32", lambda n=name, o=about: step_errors(n, o, None, device))
        if name not in ("window", "average"):
            checks.run(f"{label} bfloat16", lambda n=name, o=about: step_errors(n, o, "bfloat16", device))
    for warping in WARPINGS:
        checks.run(f"draw {warping}", lambda w=warping: drawing(w, device, program=False))
        if device == "cuda":
            checks.run(f"draw by a program {warping}", lambda w=warping: drawing(w, device, program=True))
    for name in ("lstm", "awd-lstm", "gru", "mingru", "window", "transformer"):
        checks.run(f"texts {name}", lambda n=name: texts(n, device))
    checks.run("other weights", lambda: other_weights(device))
    checks.run("threads", lambda: threads(device))
    checks.run("bfloat16 texts", lambda: narrow(device))
    checks.run("beams", lambda: beams(device))
    if given.times and not given.dry:
        sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
        sys.argv[1:] = []
        checks.run("times", lambda: str(importlib.import_module("stream_gpu").main()))
    sys.stdout.write("all passed\n" if not checks.failed else f"{checks.failed} failed\n")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
