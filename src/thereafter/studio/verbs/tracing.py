"""The verb `trace`: what a model did over a text, as plain lists."""

from __future__ import annotations

from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.studio.answers.tracing import FieldAnswer, TraceAnswer, WordAnswer
from thereafter.studio.verbs.numbers import nested


def trace(lm: LanguageModel, text: str, *, limit: int, top: int, fields: list[str] | None = None) -> TraceAnswer:
    """A trace of a text: tokens, and for each field its axes and values. `fields` chooses some; none means all.

    Values are those of `lm.trace`, in float32 as they are.
    """
    recorded = lm.trace(text, limit=limit, top=top)
    wanted = [name for name in recorded.arrays if name != "top_token"] if fields is None else fields
    missing = [name for name in wanted if name not in recorded.arrays]
    if missing:
        raise OptionError(f"the trace has no field {missing[0]!r}; it has {', '.join(recorded.arrays)}")
    steps = range(len(recorded.tokens))
    return TraceAnswer(
        tokens=recorded.tokens,
        fields={name: FieldAnswer(axes=list(recorded.axes[name]), values=nested(recorded[name])) for name in wanted},
        cut=str(recorded.about.get("cut", "")),
        top=[[WordAnswer(text=word, p=p) for word, p in recorded.top(step)] for step in steps],
    )
