"""Gradient flows as lines of a table: norms or shares by distance, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement

DISTANCES = (1, 2, 5, 10, 20, 40, 80, 160, 320)


def flow_lines(flows: Sequence[Measurement]) -> Iterator[str]:
    """A line for each field of each layer of each model, under a head."""
    from thereafter.inspection.gradients import decays

    width = max(len(str(flow.about["model"])) for flow in flows) + 2
    if all(flow.about.get("at") == "verb" for flow in flows):
        yield from _verb_lines(flows, width)
        return
    shown = [d for d in DISTANCES if d <= max(flow.about["distance"] for flow in flows)]
    yield f"{'model':{width}}{'layer':9}{'field':6}" + "".join(f"{d:>9}" for d in shown) + "   verdict"
    for flow in flows:
        for (layer, field), decay in decays(flow).items():
            norm_D = flow["norm"][flow["layer"].tolist().index(layer), :, flow["field"].tolist().index(field)]
            cells = "".join(f"{norm_D[d]:>9.1e}" if d < len(norm_D) else f"{'':>9}" for d in shown)
            yield f"{flow.about['model']:{width}}{layer:9}{field:6}{cells}   {decay}"
    yield "norm of d loss / d state by steps back; the verdict is the share of distance 1 at the farthest distance"


def _verb_lines(flows: Sequence[Measurement], width: int) -> Iterator[str]:
    """Shares of distance 1 from the verb to its subject, and under a memory what comes along its gates alone."""
    from thereafter.inspection.decay import in_words
    from thereafter.inspection.gradients import decays

    between = int(flows[0].about["distance"])
    shown = sorted({d for d in (1, 2, 3, 5, 8, *DISTANCES) if d < between} | {between})
    yield f"gradient of the loss at the verb back to its subject, {between} words between; {flows[0].about['text']}"
    yield f"{'model':{width}}{'layer':9}{'field':8}{'norm at 1':>10}" + "".join(f"{d:>8}" for d in shown) + "   verdict"
    for flow in flows:
        model, layers = flow.about["model"], flow["layer"].tolist()
        for (layer, field), decay in decays(flow).items():
            i = layers.index(layer)
            norm_D = flow["norm"][i, :, flow["field"].tolist().index(field)]
            shares = "".join(f"{_percent(norm_D[d] / norm_D[1] if norm_D[1] > 0 else 0.0):>8}" for d in shown)
            yield f"{model:{width}}{layer:9}{field:8}{norm_D[1]:>10.1e}{shares}   {decay}"
        for i, layer in enumerate(layers):
            for key in ("gates", "direct") if flow["gates"][i, 0] == 1 else ():
                value_D = flow["gates"][i] if key == "gates" else flow["additive"][i]
                cells = "".join(f"{_percent(value_D[d]):>8}" for d in shown)
                yield f"{model:{width}}{layer:9}{key:8}{'':>10}{cells}"
        right = in_words(flow.about["right"])
        yield f"{model:{width}}is right at {right} of these verbs, loss {flow.about['loss']:.3f}"
    yield "shares of the norm one step back, in %; the last column is the state that has just read the subject;"
    yield "gates: product of the gates on the memory's direct path (c, else h), mean over units; direct: how much of"
    yield "the gradient in the memory comes along that path alone;"
    yield "d loss / d c includes what leaves c by h, d loss / d h is with c held fixed;"
    yield "norms of different models stand for states of different size and scale: compare shares"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"
