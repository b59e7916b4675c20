"""Which probes the built-in corpora offer: the table, and the questions about a test text.

A new corpus that knows the truth about its lines gets a row here, and `thereafter compare` asks its questions.
"""

from __future__ import annotations

from thereafter.evaluation.corpus_probe import CorpusProbe, Questions
from thereafter.evaluation.dependencies import DEPENDENCIES
from thereafter.evaluation.remembering import MEMORY_TASKS
from thereafter.text.sources import Source

PROBES: dict[str, CorpusProbe] = {probe.name: probe for probe in (*DEPENDENCIES, *MEMORY_TASKS)}

ALWAYS_STORED = ("agreement",)
"""The results that files have a key for whether they were measured or not: those of the first probe there was."""


def offered_questions(test: Source) -> dict[str, Questions]:
    """The questions that the corpus of a test text asks, by the name of their probe; none for any other text."""
    offered = {name: probe.questions(test) for name, probe in PROBES.items()}
    return {name: questions for name, questions in offered.items() if questions is not None}
