"""Training and next-word speed of language models, against the same model written with torch.nn and a plain loop.

    python benchmarks/training.py [--rounds 7] [--steps 12] [--json FILE] [--only training|latency|shell|letters]

Penn Treebank, a 2-layer tied LSTM, batch 20, 35 steps, full softmax, dropout 0.2, SGD with clipping, hidden 200 and
650. "torch" is the faster of its oneDNN on and off. Medians of alternating rounds, ratios within one run. Needs ptb
and tinyshakespeare in $THEREAFTER_DATA; "letters" takes three minutes. Exit code 1 if a requirement is missed.
"""

from __future__ import annotations

import thereafter  # isort: skip  # before torch: so its threads wait as they do under a command

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from report import Report, machine
from stopwatch import Stopwatch
from thereafter.models.build import build
from thereafter.models.settings import LstmSettings
from thereafter.runs.writer import Journal
from thereafter.text.encoded import encode_source, fit_source
from thereafter.text.sources import resolve
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training import blocks
from thereafter.training.blocks import Blocks, TextBatch, TextEpochs
from thereafter.training.learner import Course
from thereafter.training.loop import Loop
from thereafter.training.neural import TextLearner, Validation
from thereafter.training.settings import TrainingSettings

warnings.filterwarnings("ignore", message=".*TF32.*")
BATCH, STEPS, DROPOUT, RATE, CLIP = 20, 35, 0.2, 5.0, 0.25


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=12, help="training steps a turn")
    options.add_argument("--json", type=Path)
    options.add_argument("--only", choices=("training", "latency", "shell", "letters"))
    given = options.parse_args()
    torch.manual_seed(0)
    print(machine(), end="\n\n")
    report = Report()
    text = penn_treebank()
    if given.only in (None, "training"):
        for hidden in (200, 650):
            outside = against_torch(report, hidden, text, given.rounds, given.steps)
            figure = f"time outside the model's work, hidden {hidden}"
            report.add(figure, outside, 0.05, "share of a step", at_least=False)
    if given.only in (None, "latency", "shell"):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            lm = thereafter.train(
                "ptb", model="lstm", hidden=256, layers=1, tokens_budget=20_000, batch=20, steps=35, out=run, seed=1
            )
            assert len(lm.tokenizer.vocabulary) == text.words
            if given.only != "shell":
                latency(report, thereafter.load(run), given.rounds)
            if given.only != "latency":
                shell(report, run)
    if given.only in (None, "letters"):
        letters(report)
    return report.close(given.json)


@dataclass(frozen=True)
class Text:
    """Ids to train on and to validate on, of a vocabulary of some words."""

    ids: np.ndarray
    valid: np.ndarray
    words: int


def penn_treebank() -> Text:
    texts = resolve("ptb")
    tokenizer, ids = fit_source(TOKENIZERS.load("word"), texts.parts["train"])
    return Text(ids, encode_source(tokenizer, texts.parts["valid"]), len(tokenizer.vocabulary))


class Plain(torch.nn.Module):
    """The model as one writes it with torch.nn."""

    def __init__(self, words: int, hidden: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, hidden)
        self.lstm = torch.nn.LSTM(hidden, hidden, 2, batch_first=True, dropout=DROPOUT)
        self.out = torch.nn.Linear(hidden, words)
        self.out.weight = self.embedding.weight
        self.drop = torch.nn.Dropout(DROPOUT)

    def forward(self, x_BT: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h_BTH, state = self.lstm(self.drop(self.embedding(x_BT)), state)
        return self.out(self.drop(h_BTH)), state


def plain_loop(text: Text, hidden: int) -> Callable[[int], None]:
    """A training loop of thirty lines; each call goes on for some steps."""
    model = Plain(text.words, hidden)
    ids, rows = text.ids, (len(text.ids) - 1) // BATCH
    x_BN = torch.from_numpy(ids[: BATCH * rows].astype(np.int64)).view(BATCH, rows)
    y_BN = torch.from_numpy(ids[1 : BATCH * rows + 1].astype(np.int64)).view(BATCH, rows)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    state = (torch.zeros(2, BATCH, hidden), torch.zeros(2, BATCH, hidden))
    at = 0

    def go_on(steps: int) -> None:
        nonlocal at, state
        model.train()
        for _ in range(steps):
            x, y = x_BN[:, at : at + STEPS], y_BN[:, at : at + STEPS]
            at = (at + STEPS) % (rows - STEPS)
            optimizer.zero_grad()
            logits, after = model(x, state)
            F.cross_entropy(logits.reshape(-1, text.words), y.reshape(-1)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            state = (after[0].detach(), after[1].detach())

    return go_on


def our_loop(text: Text, hidden: int) -> Loop[TextBatch]:
    """thereafter's own training loop, with its guard, log and clipping."""
    settings = LstmSettings(
        hidden=hidden, layers=2, tied=True, dropout=DROPOUT, dropout_input=DROPOUT, dropout_hidden=DROPOUT
    )
    model = build("lstm", settings, vocabulary_size=text.words, context="stream", line_end=None)
    training = TrainingSettings(
        batching="stream", batch=BATCH, steps=STEPS, jitter=False, epochs=100, validate_every=10**9, optimizer="sgd",
        rate=RATE, weight_decay=0.0, clip=CLIP, schedule="constant", warmup=0.0, device="cpu", precision="float32",
        log_every=10, checkpoint_every=10**9, patience=0,
    )  # fmt: skip
    cpu = torch.device("cpu")
    epochs = TextEpochs(Blocks(text.ids, text.words, cpu), lambda epoch: blocks.stream(len(text.ids), BATCH, STEPS))
    course = Course(TextLearner(model), epochs, Validation(text.valid, model, cpu))
    return Loop(course, training, Journal(None), lambda: None)


def against_torch(report: Report, hidden: int, text: Text, rounds: int, steps: int) -> float:
    """Our training loop against a plain one, in turns of some steps; the share of our time outside the model's work."""
    theirs, loop = plain_loop(text, hidden), our_loop(text, hidden)
    loop.model.train()

    def ours(count: int) -> None:
        for _ in range(count):
            loop.step()

    def without_onednn(count: int) -> None:
        with torch.backends.mkldnn.flags(enabled=False):
            theirs(count)

    jobs = {"ours": ours, "on": theirs, "off": without_onednn}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    outside = []
    draw = np.random.default_rng(0)
    with Stopwatch(loop) as inside:
        for job in jobs.values():
            job(2)
        for _ in range(rounds):
            for name in draw.permutation(list(jobs)).tolist():
                inside.seconds = 0.0
                began = time.perf_counter()
                jobs[name](steps)
                took = time.perf_counter() - began
                times[name].append(steps * BATCH * STEPS / took)
                if name == "ours":
                    outside.append(1 - inside.seconds / took)
    rate = {name: statistics.median(speeds) for name, speeds in times.items()}
    ratio = rate["ours"] / max(rate["on"], rate["off"])
    beside = f"tokens/s: ours {rate['ours']:,.0f}, torch {rate['on']:,.0f} with oneDNN, {rate['off']:,.0f} without"
    aim = 1.5 if hidden < 400 else 1.3
    report.add(f"training, hidden {hidden}, against torch", ratio, 1.2, beside, aim=aim, job=loop.step)
    return statistics.median(outside)


def latency(report: Report, lm: thereafter.LanguageModel, rounds: int) -> None:
    """lm.next of a saved word LSTM, hidden 256, 10,000 words."""
    for prompt in ("the", "the company said it expects to"):
        times = []
        lm.next(prompt)
        for _ in range(40 * rounds):
            began = time.perf_counter()
            lm.next(prompt)
            times.append(1e3 * (time.perf_counter() - began))
        figure = f"lm.next after {len(prompt.split())} words, ms"
        report.add(figure, statistics.median(times), 1.5, f"fastest {min(times):.2f}", at_least=False)


def letters(report: Report) -> None:
    """A char LSTM on tinyshakespeare, three minutes on this CPU, the last 10 % of the text held out."""
    lm = thereafter.train(
        "tinyshakespeare", model="lstm", tokens="char", split="90/10", minutes=3, hidden=512, layers=1, embed=64,
        tied=False, dropout=0.0, weight_decay=0.0, batch=16, steps=64, rate=0.003, validate_every=500, seed=1,
        device="cpu",
    )  # fmt: skip
    facts = lm.summary()
    beside = f"{facts['parameters']:,} parameters, {facts['tokens_per_second']:,} tokens/s, {facts['steps']:,} steps"
    report.add("tinyshakespeare, 3 minutes, nats a character", facts["validation"], 1.62, beside, at_least=False)


def shell(report: Report, run: Path) -> None:
    """From the shell to the first answer."""
    command = [sys.executable, "-m", "thereafter", "next", str(run), "the company said", "-k", "3"]
    times = []
    for _ in range(4):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    report.add(
        "thereafter next, from the shell, s", statistics.median(times), 4.0, f"first {times[0]:.2f}", at_least=False
    )


if __name__ == "__main__":
    sys.exit(main())
