"""Completing half-typed words: milliseconds a word, and how much of that is the model's own prediction.

    python benchmarks/completion.py [--corpus ptb] [--rounds 9] [--json FILE] [--quick]

Prompts are lines of the test part, cut inside a word: the first two letters of it are typed. A completion is
`lm.complete(prompt)`. The model's share is reading the context and predicting once, `lm.distribution(context)`. What is
beyond it is timed with that prediction made already, and is asked to stay below 2 ms over 10,000 words. An LSTM has
fresh weights: its speed does not depend on them. Figures are medians over all prompts of medians over rounds. Exit code
1 if one is missed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from statistics import median

import torch

import thereafter
from report import Report, machine
from thereafter.models.base import Ids, Logs, State
from thereafter.models.build import build, settings_of
from thereafter.training.kinds import Trained

MOST_MS = 2.0
WORDS = 10_000
TYPED = 2
LSTM = {"hidden": 200, "embed": 200, "layers": 2}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", default="ptb", help="a corpus or a text; a named one has a test part")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="fewer prompts and rounds")
    given = options.parse_args()
    rounds, prompts = (3, 20) if given.quick else (given.rounds, 100)
    print(machine(), end="\n\n")
    report = Report()
    for tokens in ("word", "prose", "char", "bpe"):
        counted = thereafter.train(given.corpus, tokens=tokens, order=5, **_cap(tokens))
        texts = half_typed(counted, prompts)
        for name, lm in (("5-gram", counted), ("lstm", with_lstm(counted))):
            spelled = tokens in ("char", "bpe")
            time_completions(report, f"{tokens}, {name}", lm, texts[:20] if spelled else texts, rounds, not spelled)
    return report.close(given.json)


def _cap(tokens: str) -> dict[str, int]:
    return {"vocabulary": WORDS} if tokens in ("word", "prose") else {}


def half_typed(lm: thereafter.LanguageModel, count: int) -> list[str]:
    """Beginnings of lines of the text, the last word of each cut after its first letters."""
    assert lm.texts is not None
    source = lm.texts.parts.get("test") or next(iter(lm.texts.parts.values()))
    prompts: list[str] = []
    for line in source.text().split("\n"):
        words = line.split()
        if len(words) > 12 and len(words[10]) > TYPED and words[10].isalpha():
            prompts.append(" ".join(words[:10]) + " " + words[10][:TYPED])
        if len(prompts) == count:
            break
    return prompts


def with_lstm(lm: thereafter.LanguageModel) -> thereafter.LanguageModel:
    """An LSTM with fresh weights over the tokens of a model."""
    torch.manual_seed(1)
    known = {field.name for field in fields(settings_of("lstm"))}
    net = build(
        "lstm",
        settings_of("lstm")(**{option: value for option, value in LSTM.items() if option in known}),
        vocabulary_size=lm.tokenizer.size,
        context=lm.config["text"]["context"],
        line_end=lm.tokenizer.line_end_id,
    )
    return thereafter.LanguageModel(Trained(net, lm.tokenizer, {**lm.config, "model": "lstm"}))


class Remembered:
    """A model that has made its one prediction already: what a completion costs with it is beyond the model's share."""

    def __init__(self, lm: thereafter.LanguageModel, context: str) -> None:
        self.vocabulary_size = lm.tokenizer.size
        self._state = lm.state_after(lm.encode(context))
        self._logp_BV = lm.model.predict(self._state)

    def start(self, batch: int) -> State:
        return self._state

    def read(self, tokens_BT: Ids, state: State) -> State:
        return state

    def predict(self, state: State) -> Logs:
        return self._logp_BV


def time_completions(
    report: Report, name: str, lm: thereafter.LanguageModel, prompts: list[str], rounds: int, required: bool
) -> None:
    """Time whole completions and, in turns with them, the model's own share and what is beyond it."""
    whole, own, beyond, covered = [], [], [], []
    for prompt in prompts:
        context = prompt[: -TYPED - 1]
        covered.append(lm.complete(prompt).covered)
        turns = [(lm.complete, prompt), (lm.distribution, context)]
        if required:
            known = thereafter.LanguageModel(replace(lm.trained, model=Remembered(lm, context)))
            known.complete(prompt)  # the words are put into order once
            turns.append((known.complete, prompt))
        taken = [[elapsed(work, text) for work, text in turns] for _ in range(rounds)]
        for times, column in zip((whole, own, beyond), zip(*taken, strict=True), strict=False):
            times.append(median(column))
    size = f"{lm.tokenizer.size:,} {name.split(',')[0]} tokens"
    report.add(f"{name}: a completion, ms", median(whole), beside=f"{size}, {median(covered):.0%} covered")
    report.add(f"{name}: the model's own prediction, ms", median(own))
    if required:
        report.add(f"{name}: beyond it, ms", median(beyond), MOST_MS, at_least=False)


def elapsed(work: Callable[[str], object], text: str) -> float:
    """Milliseconds of a call with a text."""
    begin = time.perf_counter()
    work(text)
    return 1e3 * (time.perf_counter() - begin)


if __name__ == "__main__":
    raise SystemExit(main())
