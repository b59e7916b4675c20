"""What the ready models score on text that no training has seen: the figures of `weights/cards.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.base.config import Table
from thereafter.ready.models import (
    HAVE_UNITS,
    LETTERS_TEXT,
    SENTENCES_NAME,
    Ready,
    search_letters,
    search_number,
    sentences,
)
from thereafter.ready.tasks import TASKS, ReadyTask, examples
from thereafter.tasks.classify.measures import TOGETHER

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

UnitScore = list[str | float]
"""A unit, its AUC or correlation on text it was not chosen on, and that of the control."""
FAR = (6, 10)
"""Words between subject and verb that count as far."""
_CHARACTERS = 100_000
"""Of the held-out Python code."""


def measure(one: Ready, folder: Path) -> Table:
    """The scores of a ready language model, and for each property the AUC or correlation of its best unit."""
    from thereafter.language_model import load_language_model
    from thereafter.text.sources import Source, resolve

    lm = load_language_model(folder / one.name)
    scores: Table = {}
    if one.source == SENTENCES_NAME:
        scores = _sentence_scores(lm, folder)
    else:
        text = resolve(LETTERS_TEXT).parts["text"].text()[:_CHARACTERS]
        scores["bits_per_character"] = round(lm.score(Source.of_text(text)).bits_per_char, 4)
    if one.kind in HAVE_UNITS:
        scores["units"] = _unit_scores(one, lm, folder)
    return scores


def _sentence_scores(lm: LanguageModel, folder: Path) -> dict[str, float]:
    from thereafter.evaluation.agreement import measure_agreement
    from thereafter.text.agreement import read_sentences

    test = sentences(folder)["test"]
    known = list(read_sentences(test.with_suffix(".jsonl")))
    agreement = measure_agreement(lm.model, lm.tokenizer, known, context=lm.config["text"]["context"])
    return {
        "perplexity": round(lm.score(test).perplexity, 3),
        "agreement": round(100 * agreement.overall.accuracy, 2),
        "agreement_far": round(100 * agreement.between(*FAR).accuracy, 2),
    }


def _unit_scores(one: Ready, lm: LanguageModel, folder: Path) -> dict[str, UnitScore]:
    """For each property: the unit, its figure on the half it was not chosen on, and the control's."""
    if one.source == SENTENCES_NAME:
        units = search_number(lm, folder)
        rows = {"number": (units["unit"][0], units["held_out"][0], units["control"].max())}
    else:
        units = search_letters(lm)
        columns = (units["unit"][:, 0], units["held_out"][:, 0], units["control"])
        rows = dict(zip(units["property"].tolist(), zip(*columns, strict=True), strict=True))
    return {
        name: [str(unit), round(float(figure), 3), round(float(luck), 3)] for name, (unit, figure, luck) in rows.items()
    }


def in_words(scores: Mapping[str, float]) -> str:
    """The figures of a card that say most, in a line."""
    forms = {
        "agreement_far": f"{{:.1f}} % of the verbs right at {FAR[0]} to {FAR[1]} words",
        "perplexity": "perplexity {:.1f}",
        "bits_per_character": "{:.2f} bits a letter",
        "bleu": "BLEU {:.1f}",
        "bleu_4": "BLEU-4 {:.1f}",
        "cider_d": "CIDEr-D {:.2f}",
        "nats": "{:.0f} nats a picture" if "latent" in scores else "{:.0f} nats a frame",
        "caught": "{:.3f} of the balls caught",
        "mase": "{:.2f} of the seasonal naive error (MASE)",
    }
    words = [form.format(scores[name]) for name, form in forms.items() if name in scores]
    if TOGETHER in scores:
        words += [f"{name} {100 * share:.1f} % right" for name, share in scores.items() if name != TOGETHER]
    return ", ".join(words) or f"{100 * scores['accuracy']:.1f} % right"


def measure_task(one: ReadyTask, folder: Path) -> dict[str, float]:
    """The scores of a ready task model on its test examples: plain numbers alone."""
    from thereafter.task_model import load_task

    model = load_task(folder / TASKS / one.name)
    facts = model.score(examples(folder, one, "test")).as_dict()
    return {name: round(value, 4) for name, value in facts.items() if isinstance(value, float) and math.isfinite(value)}
