"""Clips, frame by frame: what a network believes after each, which frames it expects, how many nats they cost it.

Shapes: T frames, K frames ahead, L labels, H rows of pixels, W columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_level, add_line, by_model, join_words, legend_beside
from thereafter.figures.pictures import add_frames
from thereafter.inspection.measurement import Measurement
from thereafter.vision.clips.answers import ClipExplained, FramesExplained
from thereafter.vision.figures import add_beliefs, stacked_rows
from thereafter.vision.measures import FrameScore

BELIEF, FRAMES, NATS = "clip-belief", "frames-ahead", "frame-nats"
_SIDE = 68  # pixels of a frame
_SMALL = 46  # of one of many
_APART = 1.32  # frames from one row of them to the next
_LINE = 19  # pixels of a label
_LEFT, _RIGHT = 100, 90


def measured_belief(
    explained: ClipExplained,
    *,
    model: str = "the network",
    text: str = "a clip",
    truth: Mapping[str, str] | None = None,
) -> Measurement:
    """What a network believed of each label after every frame: "clip-belief". `truth` has the right label of a column.

    Example: figures.measured_belief(model.explain(clip), model="moving-glyph", truth={"digit": "7"})
    """
    right = truth or {}
    labels = [(column, label) for column, names in explained.names.items() for label in names]
    belief_TL = np.concatenate([explained.beliefs[column] for column in explained.names], axis=1).astype(np.float64)
    arrays = {
        "frame": explained.frames_THW,
        "column": np.array([column for column, _ in labels], dtype=str),
        "label": np.array([label for _, label in labels], dtype=str),
        "right": np.array([int(right.get(column) == label) for column, label in labels], np.int64),
        "belief": belief_TL,
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("column", "label", "right"), ("label",))
    axes |= {"frame": ("step", "height", "width"), "belief": ("step", "label")}
    return Measurement(BELIEF, arrays, axes, {"model": model, "text": text})


def belief_by_frame(measurement: Measurement) -> Figure:
    """The frames of a clip in a row, and under each of them the probability of every label so far.

    Example: figures.belief_by_frame(figures.measured_belief(model.explain(clip), model="moving-glyph"))
    """
    frames_THW, belief_TL = measurement["frame"], measurement["belief"]
    column_L, label_L, right_L = (measurement[name] for name in ("column", "label", "right"))
    columns = list(dict.fromkeys(column_L.tolist()))
    heights = [_SIDE, *(_LINE * int((column_L == column).sum()) for column in columns)]
    plot = stacked_rows(len(frames_THW), heights, _SIDE, left=_LEFT, right=_RIGHT)
    add_frames(plot, frames_THW, 1, 0, row=1, col=1)
    plot.update_yaxes(visible=False, range=(0.5, -0.5), row=1, col=1)
    plot.update_xaxes(visible=False, row=1, col=1)
    for row, column in enumerate(columns, start=2):
        here = column_L == column
        add_beliefs(plot, belief_TL[:, here], label_L[here].tolist(), right_L[here].tolist(), column, row)
    plot.update_xaxes(title_text="frames read", row=len(heights), col=1)
    marked = " (◂ marks the right one)" if right_L.any() else ""
    places = [(t, at) for t in range(len(frames_THW)) for at in range(len(label_L))]
    return Figure(
        "belief-by-frame",
        "What is believed after each frame",
        f"{measurement.about['model']} reads {measurement.about['text']}: under each frame the probability of every "
        f"{' and every '.join(columns)}{marked}, given the frames so far.",
        plot,
        {
            "frame": [t + 1 for t, _ in places],
            "column": [str(column_L[at]) for _, at in places],
            "label": [str(label_L[at]) for _, at in places],
            "right": [int(right_L[at]) for _, at in places],
            "probability": [round(float(belief_TL[place]), 5) for place in places],
        },
    )


def measured_frames(explained: FramesExplained, *, model: str = "the network", text: str = "a clip") -> Measurement:
    """Frames as they were predicted, beside what came: "frames-ahead".

    Example: figures.measured_frames(model.explain(clip), model="next-glyphs", text="a clip")
    """
    arrays = {
        "read": explained.read_THW,
        "came": explained.came_KHW,
        "predicted": explained.predicted.pixels_KHW,
        "nats": np.array(explained.judged.nats_K),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("came", "predicted"), ("step", "height", "width"))
    axes |= {"read": ("frame", "height", "width"), "nats": ("step",)}
    return Measurement(FRAMES, arrays, axes, {"model": model, "text": text})


def predicted_frames(measurements: Sequence[Measurement]) -> Figure:
    """The frames of a clip, and under those that were not read yet what each network expected there, with its nats.

    Example: figures.predicted_frames([figures.measured_frames(model.explain(clip), model="next-glyphs")])
    """
    groups = by_model(measurements, FRAMES)
    first = measurements[0]
    read_THW, came_KHW = first["read"], first["came"]
    for one in measurements:
        if not np.array_equal(one["came"], came_KHW):
            raise OptionError(f"{one.about['model']} predicted another clip; expected several networks on one clip")
    seen, ahead = len(read_THW), len(came_KHW)
    side = _SIDE if seen + ahead <= 12 else _SMALL
    height = round(_APART * side * (1 + len(groups)))
    plot = stacked_rows(seen + ahead, [height], side, left=_LEFT, right=_RIGHT)
    names: list[str] = ["observed", *groups]
    add_frames(plot, np.concatenate([read_THW, came_KHW]), 1, 0, row=1, col=1)
    table: dict[str, list[Cell]] = {"model": [], "step": [], "nats": []}
    for row, (model, trials) in enumerate(groups.items(), start=1):
        add_frames(plot, trials[0]["predicted"], seen + 1, _APART * row, row=1, col=1)
        for step, nats in enumerate(trials[0]["nats"].tolist(), start=1):
            text = {"text": f"{nats:.0f}", "showarrow": False, "font": {"size": 10, "color": style.GREY}}
            plot.add_annotation(x=seen + step, y=_APART * row + 0.62, **text)
            for head, cell in zip(table, (model, step, round(nats, 3)), strict=True):
                table[head].append(cell)
    plot.add_vline(x=seen + 0.5, line={"color": style.ORANGE, "width": 2})
    plot.update_yaxes(
        range=(_APART * len(names) - 0.5, -0.5),
        tickvals=[_APART * at for at in range(len(names))],
        ticktext=names,
        showgrid=False,
    )
    plot.update_yaxes(ticks="", linecolor="white")
    plot.update_xaxes(title_text=f"frame: {seen} are read, {ahead} predicted", showgrid=False)
    return Figure(
        "predicted-frames",
        "The frames that come next",
        f"{join_words(groups)} on {first.about['text']}: above the observed frames, below the ones predicted after the "
        f"{seen} before the line, with the nats of each frame.",
        plot,
        table,
    )


def measured_nats(score: FrameScore, *, model: str, text: str) -> Measurement:
    """Nats a frame by how far ahead it is: "frame-nats".

    Example: figures.measured_nats(model.score("moving-glyphs:test"), model="conv-lstm", text="moving-glyphs")
    """
    arrays = {
        "step": np.array([one.step for one in score.steps], np.int64),
        "nats": np.array([one.nats for one in score.steps]),
        "squared_error": np.array([one.squared_error for one in score.steps]),
    }
    about = {"model": model, "text": text, "clips": score.clips, "least": score.least}
    return Measurement(NATS, arrays, dict.fromkeys(arrays, ("step",)), about)


def nats_by_step(measurements: Sequence[Measurement]) -> Figure:
    """Nats a frame by frames ahead, a line a model; several of one name are seeds.

    Example: figures.nats_by_step([figures.measured_nats(score, model="conv-lstm", text="moving-glyphs")])
    """
    groups = by_model(measurements, NATS)
    first = measurements[0]
    plot = style.canvas("frames ahead", "nats a frame")
    table: dict[str, list[Cell]] = {head: [] for head in ("model", "step", "nats", "squared error")}
    tints = style.tints(list(groups))
    for place, (model, trials) in enumerate(groups.items()):
        steps = trials[0]["step"].tolist()
        add_line(plot, model, steps, np.stack([one["nats"] for one in trials]), place, tint=tints[place])
        for one in trials:
            table["model"] += [model] * len(steps)
            table["step"] += steps
            table["nats"] += one["nats"].round(3).tolist()
            table["squared error"] += one["squared_error"].round(3).tolist()
    add_level(plot, float(first.about["least"]), "the frames<br>themselves")
    legend_beside(plot, 150)
    plot.update_yaxes(rangemode="tozero")
    return Figure(
        "nats-by-step",
        "How much worse it becomes, frame by frame",
        f"Cross-entropy of the pixels of a frame, in nats, of {join_words(groups)} on {int(first.about['clips']):,} "
        f"clips of {join_words(one.about['text'] for one in measurements)}, by how many frames ahead it is predicted.",
        plot,
        table,
    )
