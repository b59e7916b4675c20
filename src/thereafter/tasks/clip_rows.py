"""What a network over clips has to beat without being a network itself: the most frequent label of every column."""

from __future__ import annotations

from collections import Counter

from thereafter.images.clips import Clip, Clips
from thereafter.tasks.clip_answers import ClipLabels
from thereafter.tasks.clip_examples import label_columns
from thereafter.tasks.finding import Part


def frequent_labels(train: Part, test: Part) -> list[ClipLabels]:
    """The same answer for every clip; equal counts are decided by the spelling."""
    examples = train.examples
    learned = examples if isinstance(examples, Clips) else [one for one in examples if isinstance(one, Clip)]
    spread = {}
    for name, labels in label_columns(learned, train.name).items():
        counts = Counter(labels)
        ranked = sorted(counts, key=lambda label: (-counts[label], label))
        spread[name] = {label: counts[label] / len(labels) for label in ranked}
    answer = ClipLabels({name: next(iter(known)) for name, known in spread.items()}, spread)
    return [answer] * len(test.examples)
