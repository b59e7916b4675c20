"""The score of a trained task on the examples that chose its weights, found again by its configuration."""

from __future__ import annotations

from thereafter.tasks import answering, store
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import Measured


def validation_score(fitted: Fitted) -> Measured:
    """Measure the answers of a network on its validation examples: those that were given, else those held out."""
    _, valid = store.learned_from(fitted.task, fitted.config, "the training")
    answers = answering.answers(fitted, valid.examples)
    return fitted.task.measure(valid.examples, answers, fitted.codecs)
