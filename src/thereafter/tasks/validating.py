"""What examples have been to a trained task: those that chose its weights, those that it learned from."""

from __future__ import annotations

from thereafter.tasks import answering, finding
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import Measured

_SEEN = {"captioned": "pictures", "pictures": "pictures", "clips": "clips"}


def training_caveat(fitted: Fitted, scored: Part) -> str:
    """Why the score of these examples is no test score; "" where nothing is known against it.

    Examples are known by a hash of their files: a copy under another name is the same.
    """
    learned = fitted.config["source"].get("sha256")
    if fitted.task.divides or not learned or scored.fingerprint != learned:  # parts of one file have one hash
        return ""
    what = _SEEN.get(fitted.task.kind, "examples")
    return f"training score, not a test: it learned from these very {what} ({scored.name})"


def validation_score(fitted: Fitted) -> Measured:
    """Measure the answers of a network on its validation examples: those that were given, else those held out."""
    _, valid = finding.learned_from(fitted.task, fitted.config, "the training")
    answers = answering.answers(fitted, valid.examples)
    return fitted.task.measure(valid.examples, answers, fitted.codecs)
