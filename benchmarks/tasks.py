"""Speed of tasks beyond the next word: translators and taggers against the same networks written with torch.nn.

    python benchmarks/tasks.py [--rounds 7] [--steps 6] [--minutes 3] [--run RUN] [--quick] [--json FILE]
                               [--only training|tagging|beam]

training  multi30k de-en, a GRU of 512 units with additive attention (embedding 256, both ways 256 each, tied, words met
          twice, batches of at most 64 pairs): sentences/s of our training loop, batches made as it goes; torch has the
          same batches made beforehand, packed sequences, fused AdamW and the loss of real places only. Its decoder runs
          in one call of torch.nn.GRU (the required row), and step by step with torch.nn.GRUCell, as a decoder must that
          reads its context.
tagging   ud-english-ewt test, words and letters, 2-layer BiLSTM of 200 units, batches of 64 sentences: words/s. Ours
          as `predict` runs it: a word that an earlier batch of the same turn had is not spelled again; torch spells the
          distinct words of each batch. The same without letters is there for information.
beam      the first 512 test sentences of multi30k, in batches of 64: a beam of 5 against greedy. The translator is RUN,
          else one that is trained for some minutes here: how long it goes on depends on how well it has learned to end.

"torch" is the faster of its oneDNN on and off. Both networks have the same weights, and must give the same scores
before anything is timed. Medians of alternating rounds, ratios within one run. Exit code 1 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import thereafter
from report import Report, machine
from thereafter.runs.writer import Journal
from thereafter.tasks import batching, finding, fitting
from thereafter.tasks.tag.network import TagBatch, Tagger, TaggerSettings
from thereafter.tasks.tag.task import TAGGING
from thereafter.tasks.translate.task import PairBatch, Translating, TranslatorSettings
from thereafter.training.learner import Course
from thereafter.training.loop import Loop

warnings.filterwarnings("ignore", message=".*TF32.*")
TRANSLATOR = TranslatorSettings(languages="de-en")
DROPOUT, RATE, CLIP, SMOOTHING = TRANSLATOR.dropout, 1e-3, 1.0, TRANSLATOR.label_smoothing
CELL = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_SHORTEST = 6  # words of an answer, on average: a translator that was trained has about 12
Job = Callable[[], int]
"""Does a turn's work; gives how many sentences or words it was."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=6, help="training steps a turn")
    options.add_argument(
        "--minutes", type=float, default=3.0, help="training of the translator that beams are timed on"
    )
    options.add_argument("--run", type=Path, help="a translator trained before, in its place")
    options.add_argument(
        "--quick", action="store_true", help="three rounds, few steps and sentences: to see that it runs"
    )
    options.add_argument("--json", type=Path)
    options.add_argument("--only", choices=("training", "tagging", "beam"))
    given = options.parse_args()
    if given.quick:
        given.rounds, given.steps, given.minutes = 3, 2, min(given.minutes, 0.3)
    torch.manual_seed(0)
    torch.set_num_threads(torch.get_num_threads())  # said aloud, so that the product library does not choose fewer
    print(machine(), end="\n\n")
    report = Report()
    if given.only in (None, "training"):
        training(report, given.rounds, given.steps)
    if given.only in (None, "tagging"):
        tagging(report, given.rounds, 128 if given.quick else None)
    if given.only in (None, "beam"):
        beam(report, given.rounds, given.run, given.minutes, 64 if given.quick else 512)
    return report.close(given.json)


def alternating(rounds: int, jobs: dict[str, Job]) -> dict[str, float]:
    """The median rate of each job, the jobs taking turns in an order drawn anew each round."""
    for job in jobs.values():
        job()
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    draw = np.random.default_rng(0)
    for _ in range(rounds):
        for name in draw.permutation(list(jobs)).tolist():
            began = time.perf_counter()
            count = jobs[name]()
            rates[name].append(count / (time.perf_counter() - began))
    return {name: statistics.median(found) for name, found in rates.items()}


def without_onednn(job: Job) -> Job:
    def off() -> int:
        with torch.backends.mkldnn.flags(enabled=False):
            return job()

    return off


def against(report: Report, figure: str, rate: dict[str, float], name: str, required: float | None, what: str) -> None:
    """Our rate against the faster setting of the job `name`."""
    on, off = rate[name], rate[f"{name} off"]
    beside = f"{what}/s: ours {rate['ours']:,.0f}, torch {on:,.0f} with oneDNN, {off:,.0f} without"
    report.add(figure, rate["ours"] / max(on, off), required, beside)


def check_same(ours: Tensor, theirs: Tensor, what: str) -> None:
    if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4):
        sys.exit(f"{what}: ours and torch's differ by {float((ours - theirs).abs().max()):.2e}; nothing was timed")


class PlainTranslator(torch.nn.Module):
    """The translator as one writes it with torch.nn; its parameters have our names, but for the head's bias."""

    def __init__(self, source: int, target: int, *, stepwise: bool) -> None:
        super().__init__()
        embed, hidden = TRANSLATOR.embed, TRANSLATOR.hidden
        self.stepwise, self.target = stepwise, target
        self.source_words = torch.nn.Embedding(source + 1, embed)
        self.words = torch.nn.Embedding(target + 1, embed)  # the last row is read before the first word
        self.encoder = torch.nn.GRU(embed, hidden // 2, batch_first=True, bidirectional=True)
        self.decoder = torch.nn.GRU(embed, hidden, batch_first=True)
        self.of_query = torch.nn.Linear(hidden, hidden, bias=False)
        self.of_memory = torch.nn.Linear(hidden, hidden, bias=False)
        self.v_A = torch.nn.Parameter(torch.zeros(hidden))
        self.join = torch.nn.Linear(2 * hidden, embed)
        self.bias = torch.nn.Parameter(torch.zeros(target))
        self.drop = torch.nn.Dropout(DROPOUT)
        self.cell = torch.nn.GRUCell(embed, hidden)
        for name in CELL:  # the step-by-step decoder has the same weights
            setattr(self.cell, name, getattr(self.decoder, f"{name}_l0"))

    def forward(self, batch: PairBatch) -> Tensor:
        """The logits of all real places, [N, V]."""
        scale = self.words.embedding_dim**0.5
        x_BSE = self.drop(scale * self.source_words(batch.source_BS))
        packed = pack_padded_sequence(x_BSE, batch.lengths_B, batch_first=True, enforce_sorted=False)
        read, last_2BH = self.encoder(packed)
        h_BSH, _ = pad_packed_sequence(read, batch_first=True)
        outside_BS = torch.arange(h_BSH.shape[1]) >= batch.lengths_B[:, None]
        start_BH = torch.cat((last_2BH[0], last_2BH[1]), -1)
        start = torch.full_like(batch.target_BT[:, :1], self.target)
        y_BTE = self.drop(scale * self.words(torch.cat((start, batch.target_BT[:, :-1]), 1)))
        keys_BSH = self.of_memory(h_BSH)
        if self.stepwise:
            state_BH, features = start_BH, []
            for t in range(y_BTE.shape[1]):
                state_BH = self.cell(y_BTE[:, t], state_BH)
                features.append(self.looked(state_BH[:, None], h_BSH, keys_BSH, outside_BS))
            f_BTE = torch.cat(features, 1)
        else:
            q_BTH, _ = self.decoder(y_BTE, start_BH[None])
            f_BTE = self.looked(q_BTH, h_BSH, keys_BSH, outside_BS)
        f_NE = self.drop(f_BTE).flatten(0, 1)[batch.at_N]
        return F.linear(f_NE, self.words.weight[: self.target], self.bias)

    def looked(self, q_BTH: Tensor, h_BSH: Tensor, keys_BSH: Tensor, outside_BS: Tensor) -> Tensor:
        score_BTS = torch.tanh(self.of_query(q_BTH)[:, :, None] + keys_BSH[:, None]) @ self.v_A
        weight_BTS = score_BTS.masked_fill(outside_BS[:, None], -torch.inf).softmax(-1)
        return torch.tanh(self.join(torch.cat((weight_BTS @ h_BSH, q_BTH), -1)))


def training(report: Report, rounds: int, steps: int) -> None:
    task = Translating(TRANSLATOR)
    train = finding.find(task, "multi30k", "train")
    lexicons = task.codecs(train.examples)
    _, settings = fitting.settle(task, {"device": "cpu", "schedule": "constant", "warmup": 0.0, "epochs": 100.0})
    examples = batching.Examples(task, lexicons, settings, train.examples)
    epoch = examples.epoch(0)
    plan = epoch.plan
    net = task.build(TRANSLATOR, lexicons)
    heldout = batching.HeldOut(net, examples)
    loop = Loop(Course(batching.ExampleLearner(net), examples, heldout), settings, Journal(None), lambda: None)
    net.train()
    ready = [epoch.batch(k).made for k in range(min(len(plan), steps * (rounds + 1)))]

    def ours() -> int:
        done = 0
        for _ in range(steps):
            done += len(plan.examples(loop.at.block))
            loop.step()
        return done

    def plain(stepwise: bool) -> Job:
        model = PlainTranslator(len(lexicons["source"]), len(lexicons["target"]), stepwise=stepwise)
        weights = {name.removeprefix("attention.").replace("head.", ""): w for name, w in net.state_dict().items()}
        cell = {f"cell.{name}": weights[f"decoder.{name}_l0"] for name in CELL}
        model.load_state_dict(weights | cell)
        with torch.no_grad():
            loss = F.cross_entropy(model.eval()(ready[0]), ready[0].target_BT.flatten()[ready[0].at_N], reduction="sum")
            check_same(net.eval().nats(ready[0]), loss, "the loss of a translator")
        net.train()
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
        batches = itertools.cycle(ready)

        def go_on() -> int:
            done = 0
            for batch in itertools.islice(batches, steps):
                optimizer.zero_grad()
                targets_N = batch.target_BT.flatten()[batch.at_N]
                F.cross_entropy(model(batch), targets_N, label_smoothing=SMOOTHING).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                optimizer.step()
                done += len(batch)
            return done

        return go_on

    jobs = {"ours": ours, "whole": plain(False), "whole off": without_onednn(plain(False))}
    jobs |= {"steps": plain(True), "steps off": without_onednn(plain(True))}
    rate = alternating(rounds, jobs)
    size = f"{net.parameters_count() / 1e6:.1f} M parameters"
    print(f"attention GRU, {size}, {len(lexicons['source']):,} and {len(lexicons['target']):,} words")
    against(report, "training, against torch.nn, decoder in one call", rate, "whole", 1.15, "sentences")
    against(report, "training, against torch.nn, decoder step by step", rate, "steps", None, "sentences")


class PlainTagger(torch.nn.Module):
    """The tagger as one writes it with torch.nn. `packed=False` reads padding as words, for other tags."""

    def __init__(self, settings: TaggerSettings, words: int, letters: int, tags: int, *, packed: bool = True) -> None:
        super().__init__()
        self.packed = packed
        both = {"batch_first": True, "bidirectional": True}
        self.words, size = torch.nn.Embedding(words, settings.embed), settings.embed
        self.speller = None
        if settings.letters != "none":
            self.letters = torch.nn.Embedding(letters, settings.letter_embed)
            self.speller = torch.nn.LSTM(settings.letter_embed, settings.letter_hidden, **both)
            size += 2 * settings.letter_hidden
        self.layers = torch.nn.LSTM(size, settings.hidden, settings.layers, **both)
        self.head = torch.nn.Linear(2 * settings.hidden, tags)

    def forward(self, batch: TagBatch) -> Tensor:
        x_BTE = self.words(batch.words_BT)
        if self.speller is not None:
            last_2UH = self.read(self.speller, self.letters(batch.letters_UL), batch.letter_lengths_U)[1]
            spelled_UE = torch.cat((last_2UH[0], last_2UH[1]), -1)
            x_BTE = torch.cat((x_BTE, F.embedding(batch.spelled_BT, spelled_UE)), -1)
        return self.head(self.read(self.layers, x_BTE, batch.lengths_B)[0])

    def read(self, lstm: torch.nn.LSTM, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        if not self.packed:
            y, (last, _) = lstm(x)
            return y, last
        y, (last, _) = lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(y, batch_first=True)[0], last

    def decide(self, batch: TagBatch) -> list[list[int]]:
        with torch.inference_mode():
            rows = self(batch).argmax(-1).tolist()
        return [row[:length] for row, length in zip(rows, batch.lengths_B.tolist(), strict=True)]


def tagging(report: Report, rounds: int, most: int | None) -> None:
    train, test = (finding.find(TAGGING, "ud-english-ewt", part).examples for part in ("train", "test"))
    test = test[:most]
    lexicons = TAGGING.codecs(train)
    plan = batching.batches(TAGGING.lengths(test, lexicons), 64, 64 * 64, shuffle=False)
    batches = [TAGGING.batch([test[i] for i in plan.examples(k)], lexicons) for k in range(len(plan))]
    print(f"tagger, {len(plan)} batches, {sum(map(len, test)):,} words")
    for letters, required in (("lstm", 1.1), ("none", None)):
        settings = TaggerSettings(letters=letters)
        name = "words and letters" if letters == "lstm" else "words alone"
        rate = alternating(rounds, tagging_jobs(settings, batches, {name: len(one) for name, one in lexicons.items()}))
        against(report, f"tagging, {name}, against torch.nn, packed", rate, "packed", required, "words")
        against(report, "  padding read as words (other tags)", rate, "padded", None, "words")


def tagging_jobs(settings: TaggerSettings, batches: list[TagBatch], sizes: dict[str, int]) -> dict[str, Job]:
    net = Tagger(settings, **sizes).eval()
    plain = {packed: PlainTagger(settings, **sizes, packed=packed).eval() for packed in (True, False)}
    names = {"speller.embedding.": "letters.", "speller.reader.": "speller."}
    weights = {}
    for name, tensor in net.state_dict().items():
        old = next((old for old in names if name.startswith(old)), "")
        weights[names.get(old, "") + name.removeprefix(old)] = tensor
    for model in plain.values():
        model.load_state_dict(weights)
    for batch in (batches[0], batches[-1]):
        with torch.inference_mode():
            inside = torch.arange(batch.words_BT.shape[1]) < batch.lengths_B[:, None]
            check_same(net.scores(batch)[inside], plain[True](batch)[inside], "the scores of a tagger")

    def job(decide: Callable[[TagBatch], list[list[int]]]) -> Job:
        return lambda: sum(len(row) for batch in batches for row in decide(batch))

    def ours() -> int:
        with net.remembering():
            return job(net.decide)()

    jobs = {"ours": ours}
    for name, packed in (("packed", True), ("padded", False)):
        jobs |= {name: job(plain[packed].decide), f"{name} off": without_onednn(job(plain[packed].decide))}
    return jobs


def beam(report: Report, rounds: int, run: Path | None, minutes: float, most: int) -> None:
    if run is not None:
        model = thereafter.load(run)
    else:
        model = thereafter.train("multi30k", task="translate", languages="de-en", device="cpu", minutes=minutes, seed=1)
    test = finding.find(model.task, "multi30k", "test").examples[:most]
    lengths = {}

    def job(name: str, **options: Any) -> Job:
        def said() -> int:
            answers = model.predict(test, **options)
            lengths[name] = sum(len(answer.split()) for answer in answers) / len(answers)
            return len(answers)

        return said

    rate = alternating(rounds, {"greedy": job("greedy"), "beam": job("beam", beam=5)})
    if lengths["greedy"] < _SHORTEST:
        print(f"answers of {lengths['greedy']:.1f} words say little of a search; try --minutes, or --run RUN")
    about = f"{lengths['greedy']:.1f} and {lengths['beam']:.1f} words an answer"
    beside = f"sentences/s: greedy {rate['greedy']:,.0f}, beam {rate['beam']:,.0f}; {about}"
    report.add("a beam of 5, times greedy", rate["greedy"] / rate["beam"], 3.0, beside, at_least=False)


if __name__ == "__main__":
    sys.exit(main())
