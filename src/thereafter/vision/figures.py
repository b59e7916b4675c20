"""Pictures of what networks over pictures and clips do: where they look, what they believe, how they draw.

Where a captioner looked while it wrote each word of a caption (Xu et al. 2015); the path of glimpses over a picture,
with what was seen there and what was believed (Mnih et al. 2014); a picture that is drawn stroke by stroke, with the
windows that were read and written through (Gregor et al. 2015). Of clips, frame by frame, what is believed after each,
which frames are expected, and how many nats they cost.

Shapes: T words, glimpses, strokes or frames, K frames ahead, L labels, R rows and Q columns of places, H rows of
pixels, W columns, C colours (1 or 3), g pixels of a patch, V = 2 windows, of reading and of writing.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_level, add_line, by_model, join_words, legend_beside
from thereafter.figures.pictures import Pixels, add_frames, add_picture, coloured, enlarged, lit_by, outlined
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace
from thereafter.vision.rules import Floats, Integers

if TYPE_CHECKING:
    from thereafter.vision.captioning.task import CaptionExplained
    from thereafter.vision.clips.labels import ClipExplained
    from thereafter.vision.clips.next_frames import FramesExplained
    from thereafter.vision.glimpsing.task import GlimpsesExplained
    from thereafter.vision.measures import FrameScore

CAPTION, GLIMPSES, STROKES = "caption-attention", "glimpse-path", "drawn-strokes"
BELIEF, FRAMES, NATS = "clip-belief", "frames-ahead", "frame-nats"
_ACROSS = 6  # pictures beside each other
_WORD_SIDE, _TITLE = 150, 34  # pixels of a small picture, and of the word above it
_PLAIN = 32  # pixels a side where there is no picture, only features
_GLIMPSE_SIDE, _STROKE_SIDE = 112, 84  # pixels of a picture in a row
_FRAME_SIDE, _SMALL_SIDE = 68, 46  # pixels of a frame, and of one of many
_APART = 1.32  # frames from one row of them to the next
_LINE, _BARS = 19, 120  # pixels of a label, of bars
_GLIMPSE_LEAST, _STROKE_LEAST = 220, 160  # pixels that a picture is enlarged to, so that lines are thin
_BLUE, _ORANGE, _BEFORE = (0x56, 0xB4, 0xE9), (0xE6, 0x9F, 0x00), (150, 150, 150)
_GAP, _ABOVE, _BELOW = 14, 16, 60  # pixels between two rows, above the first and below the last


def stacked_rows(steps: int, heights: Sequence[int], side: int, *, left: int, right: int) -> Plot:
    """Plots over each other, so many pixels high, all as wide as pictures of `side` pixels in a row, one a step."""
    inside, width = sum(heights) + _GAP * (len(heights) - 1), steps * side + left + right
    rows = {"shared_xaxes": True, "row_heights": list(heights), "vertical_spacing": _GAP / inside}
    plot = style.panels(len(heights), 1, width=width, height=inside + _ABOVE + _BELOW, **rows)
    plot.update_layout(margin={"l": left, "r": right, "t": _ABOVE, "b": _BELOW})
    ticks = list(range(1, steps + 1, max(1, steps // 20)))
    plot.update_xaxes(range=(0.5, steps + 0.5), tickvals=ticks, showgrid=False, zeroline=False)
    plot.update_yaxes(zeroline=False)
    return plot


def add_beliefs(
    plot: Plot, belief_TL: Floats, labels: Sequence[str], right: Sequence[int], title: str, row: int
) -> None:
    """The probability of every label after each step, as a row of the plot; the right labels are marked."""
    names = [f"<b>{label} ◂</b>" if is_right else str(label) for label, is_right in zip(labels, right, strict=True)]
    places, steps = list(range(len(names))), list(range(1, len(belief_TL) + 1))
    plot.add_heatmap(z=belief_TL.T, x=steps, y=places, coloraxis="coloraxis", xgap=2, ygap=1, row=row, col=1)
    ticks = {"tickvals": places, "ticktext": names, "tickfont_size": 12, "ticks": ""}
    plot.update_yaxes(autorange="reversed", title_text=title, showgrid=False, title_standoff=6, row=row, col=1, **ticks)
    bar = {"title": {"text": "probability", "side": "right"}, "thickness": 12, "tickformat": ".1f"}
    plot.update_layout(coloraxis={"colorscale": "Blues", "cmin": 0, "cmax": 1, "colorbar": bar})


def _add_row(plot: Plot, pictures: Pixels, name: str, row: int) -> None:
    """Pictures beside each other, called by a name on their left."""
    add_frames(plot, pictures, 1, 0, row=row, col=1)
    plot.update_yaxes(range=(0.5, -0.5), tickvals=[0], ticktext=[name], ticks="", linecolor="white", row=row, col=1)
    plot.update_xaxes(visible=False, row=row, col=1)


def _table(heads: str, cells: Iterable[tuple[Cell, ...]]) -> dict[str, list[Cell]]:
    """The columns of a table by their heads, which have commas between them, from its rows."""
    rows = list(cells)
    return {head: [row[at] for row in rows] for at, head in enumerate(heads.split(", "))}


def _marked(right_L: Integers) -> str:
    """What a caption says of the right label, if that is known."""
    return " (◂ marks the right one)" if right_L.any() else ""


def measured_caption(explained: CaptionExplained, *, model: str = "the captioner") -> Measurement:
    """A caption and the attention behind it: "caption-attention", which can be saved, and drawn with `thereafter
    figure`.

    Example: figures.measured_caption(model.explain("photo.jpg"), model="shapes-captioner")
    """
    if not explained.attends:
        raise OptionError(
            "the network has no attention, so that there is nowhere it looked; expected one with see = attention"
        )
    arrays = {
        "word": np.array(explained.words, dtype=str),
        "probability": np.array(explained.probabilities, np.float64),
        "weight": explained.weights.reshape(len(explained.words), *explained.grid).astype(np.float64),
        "pixel": explained.picture,
    }
    return Measurement.of(CAPTION, arrays, {"model": model, "text": explained.name, "caption": explained.caption})


def attended_picture(explained: CaptionExplained | Measurement, *, model: str = "") -> Figure:
    """The picture, and beside it once for every word of its caption: bright where the network looked.

    Example: figures.attended_picture(model.explain("photo.jpg"), model="shapes-captioner")
    """
    if not isinstance(explained, Measurement):
        explained = measured_caption(explained, model=model or "the captioner")
    words, weight_TRQ = explained["word"].tolist(), explained["weight"]
    probabilities = explained["probability"].tolist()
    picture = explained["pixel"]
    if not picture.size:  # it was given as features: a white field of as many places
        times = max(1, _PLAIN // max(weight_TRQ.shape[1:]))
        picture = np.full((weight_TRQ.shape[1] * times, weight_TRQ.shape[2] * times, 1), 255, np.uint8)
    plot, places = _small_pictures(1 + len(words))
    add_picture(plot, enlarged(picture, _WORD_SIDE), **places[0])
    _add_title(plot, 0, "the picture", "")
    for number, (word, weight_RQ) in enumerate(zip(words, weight_TRQ, strict=True)):
        add_picture(plot, enlarged(lit_by(picture, weight_RQ), _WORD_SIDE), **places[number + 1])
        _add_title(plot, number + 1, word, f"{probabilities[number]:.2f}")
    about, cells = explained.about, np.ndindex(weight_TRQ.shape)
    return Figure(
        "attended-picture",
        "Where the captioner looks, word by word",
        f"Attention of {about['model']} while it writes “{about['caption']}” under {about['text']}: for each word the "
        "picture is clear where it looked most, and fades to grey where it did not look; beside the word its "
        "probability given those before it.",
        plot,
        _table(
            "word, probability, row, column, weight",
            ((words[t], round(probabilities[t], 5), r, q, round(float(weight_TRQ[t, r, q]), 5)) for t, r, q in cells),
        ),
    )


def _small_pictures(count: int) -> tuple[Plot, Sequence[dict[str, int]]]:
    """An empty small plot for each picture, row by row."""
    across = min(count, _ACROSS)
    rows = -(-count // across)
    width, height = across * (_WORD_SIDE + 10) + 30, rows * (_WORD_SIDE + _TITLE) + 20
    apart = {"horizontal_spacing": 10 / width, "vertical_spacing": _TITLE / height}
    plot = style.panels(rows, across, width=width, height=height, **apart)
    plot.update_layout(margin={"l": 15, "r": 15, "t": _TITLE, "b": 6})
    return plot, [{"row": at // across + 1, "col": at % across + 1} for at in range(count)]


def _add_title(plot: Plot, number: int, word: str, beside: str) -> None:
    """A word above its picture, and its probability behind it."""
    axis = "" if not number else str(number + 1)
    text = f"<b>{html.escape(word, quote=False)}</b>"
    if beside:
        text += f" <span style='color:{style.GREY};font-size:12px'>{beside}</span>"
    plot.add_annotation(
        xref=f"x{axis} domain", yref=f"y{axis} domain", x=0, y=1, text=text, showarrow=False, xanchor="left",
        yanchor="bottom", font={"size": 15}, align="left",
    )  # fmt: skip


def measured_glimpses(
    explained: GlimpsesExplained,
    *,
    patch: int,
    scales: int = 1,
    model: str = "the network",
    text: str = "a picture",
    truth: str = "",
) -> Measurement:
    """Where a network looked at a picture and what it believed then: "glimpse-path". `patch` pixels a side at `scales`
    scales are those of its sensor, `truth` is the right label.

    Example: figures.measured_glimpses(model.explain("digit.png"), patch=8, scales=3, model="glyph-glimpses")
    """
    if not 1 <= patch <= 4096 or not 1 <= scales <= 6:
        raise OptionError(f"patch is {patch} and scales is {scales}; expected those of the network's settings")
    names = np.array(explained.names, dtype=str)
    arrays = {
        "pixel": np.moveaxis(explained.pixels_CHW, 0, 2),
        "place": explained.places_T2.astype(np.float64),
        "side": patch * 2 ** np.arange(scales),
        "label": names,
        "right": (names == truth).astype(np.int64),
        "belief": explained.beliefs_TL.astype(np.float64),
    }
    return Measurement.of(GLIMPSES, arrays, {"model": model, "text": text})


def glimpse_path(measurement: Measurement) -> Figure:
    """A picture once for every glimpse with the squares that were seen, under it what was seen in them, and below what
    was believed then.

    Example: figures.glimpse_path(figures.measured_glimpses(model.explain("digit.png"), patch=8, scales=3))
    """
    by_model([measurement], GLIMPSES)
    pixels, place_T2, belief_TL, sides, label_L, right_L = (
        measurement[name] for name in ("pixel", "place", "belief", "side", "label", "right")
    )
    heights = [_GLIMPSE_SIDE, _GLIMPSE_SIDE, _LINE * len(label_L)]
    plot = stacked_rows(len(place_T2), heights, _GLIMPSE_SIDE, left=96, right=92)
    _add_row(plot, path_pictures(pixels, place_T2, sides.tolist()), "glimpses<br>so far", 1)
    seen = np.stack([_retina(pixels, place_2, sides.tolist()) for place_2 in place_T2])
    _add_row(plot, seen, "what it<br>saw", 2)
    add_beliefs(plot, belief_TL, label_L.tolist(), right_L.tolist(), "label", 3)
    plot.update_xaxes(title_text="glimpses", row=3, col=1)
    middles = [[round(number, 3) for number in place_2] for place_2 in place_T2.tolist()]
    return Figure(
        "glimpse-path",
        "What is believed after each glimpse",
        f"{measurement.about['model']} looks at {measurement.about['text']}: the squares of each glimpse, from sharp "
        f"to coarse, with those before it in grey; under it what was seen, and the probability of every "
        f"label{_marked(right_L)}, given the glimpses so far.",
        plot,
        _table(
            "glimpse, column, row, label, right, probability",
            (
                (t + 1, *middles[t], str(label_L[at]), int(right_L[at]), round(float(p), 5))
                for (t, at), p in np.ndenumerate(belief_TL)
            ),
        ),
    )


def path_pictures(pixels_HWC: Pixels, place_T2: Floats, sides: list[int]) -> Pixels:
    """The picture for every glimpse, enlarged and coloured: its squares in orange, the sharpest of those before in
    grey."""
    large = coloured(enlarged(pixels_HWC, _GLIMPSE_LEAST))
    times = large.shape[0] // pixels_HWC.shape[0]
    drawn = []
    for glimpse in range(len(place_T2)):
        picture = large
        for place_2 in place_T2[:glimpse]:
            picture = outlined(picture, _box(place_2, sides[0], times), _BEFORE, 2)
        for side in reversed(sides):
            picture = outlined(picture, _box(place_T2[glimpse], side, times), _ORANGE, 4)
        drawn.append(picture)
    return np.stack(drawn)


def _box(place_2: Floats, side: int, times: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a square, in pixels of the enlarged picture; corners as the sensor has them."""
    left, top = (times * math.floor(float(one) - side / 2 + 0.5) for one in place_2)
    return left, top, left + times * side, top + times * side


def _retina(pixels_HWC: Pixels, place_2: Floats, sides: list[int]) -> Pixels:
    """What a glimpse saw: the widest square coarse, the narrower ones sharper in its middle; black beyond the edge."""
    wide, patch = sides[-1], sides[0]
    corner = [math.floor(float(one) - wide / 2 + 0.5) for one in place_2]
    framed = np.pad(coloured(pixels_HWC), ((wide, wide), (wide, wide), (0, 0)))
    seen = framed[wide + corner[1] :, wide + corner[0] :][:wide, :wide].astype(np.float64)
    shown = np.empty_like(seen)
    for side in reversed(sides):
        left, top = (math.floor(float(one) - side / 2 + 0.5) - at for one, at in zip(place_2, corner, strict=True))
        cut, times = seen[top : top + side, left : left + side], side // patch
        means = cut.reshape(patch, times, patch, times, 3).mean((1, 3))
        shown[top : top + side, left : left + side] = means.repeat(times, 0).repeat(times, 1)
    return enlarged(np.rint(shown).astype(np.uint8), _GLIMPSE_LEAST)


def measured_strokes(
    trace: Trace, *, read: int, write: int, model: str = "the network", text: str = "a picture"
) -> Measurement:
    """How a network drew a picture again: "drawn-strokes". `read` and `write` are the places on the side of its
    windows.

    Example: figures.measured_strokes(model.trace("digit.png"), read=5, write=5, model="glyph-drawer")
    """
    if "canvas" not in trace.arrays:
        raise OptionError("the trace has no canvas; expected that of a run of the task draw, over one picture")
    canvas_TCHW = trace.arrays["canvas"]
    arrays = {
        "pixel": np.moveaxis(trace.arrays["pixels"], 0, 2),
        "canvas": np.rint(255 * np.moveaxis(canvas_TCHW, 1, 3)).astype(np.uint8),
        "latent": trace.arrays["latent"].astype(np.float64),
        "window": np.zeros((0, 2, 3)),
    }
    if "read.centre" in trace.arrays:
        # row, column and side of each stroke's windows; a side reaches from the first place to the last
        windows = [
            np.column_stack((trace.arrays[f"{name}.centre"], (places - 1) * trace.arrays[f"{name}.stride"] + 1))
            for name, places in (("read", read), ("write", write))
        ]
        arrays["window"] = np.stack(windows, 1).astype(np.float64)
    return Measurement.of(STROKES, arrays, {"model": model, "text": text, "answer": str(trace.about["answer"])})


def drawn_strokes(measurement: Measurement) -> Figure:
    """The canvas after every stroke with the window that was written through, under it the picture with the window that
    was read through, and below the nats of each stroke's z.

    Example: figures.drawn_strokes(figures.measured_strokes(model.trace("digit.png"), read=5, write=5))
    """
    by_model([measurement], STROKES)
    canvas_THWC, window_TV3, latent_T = (measurement[name] for name in ("canvas", "window", "latent"))
    strokes = len(canvas_THWC)
    plot = stacked_rows(strokes, [_STROKE_SIDE, _STROKE_SIDE, _BARS], _STROKE_SIDE, left=96, right=30)
    again_THWC = np.broadcast_to(measurement["pixel"], canvas_THWC.shape)
    rows = ((canvas_THWC, 1, _ORANGE, "canvas,<br>writing"), (again_THWC, 0, _BLUE, "picture,<br>reading"))
    for row, (pictures, window, tint, name) in enumerate(rows, start=1):
        places_T3 = window_TV3[:, window] if len(window_TV3) else [None] * strokes
        framed = [framed_canvas(one, place_3, tint) for one, place_3 in zip(pictures, places_T3, strict=True)]
        _add_row(plot, np.stack(framed), name, row)
    steps = list(range(1, strokes + 1))
    plot.add_bar(x=steps, y=latent_T, marker_color=style.BLUE, width=0.6, showlegend=False, row=3, col=1)
    plot.update_yaxes(title_text="nats of z", rangemode="tozero", row=3, col=1)
    plot.update_xaxes(title_text="stroke", row=3, col=1)
    attends = "; orange the window that it writes through, blue that it reads through" if len(window_TV3) else ""
    blank = np.full((strokes, 2, 3), np.nan) if not len(window_TV3) else window_TV3
    table = {"stroke": steps, "nats": latent_T.round(4).tolist()}
    for window, name in enumerate(("read", "write")):
        for at, part in enumerate(("row", "column", "side")):
            table[f"{name} {part}"] = [None if np.isnan(one) else round(float(one), 3) for one in blank[:, window, at]]
    return Figure(
        "drawn-strokes",
        "A picture drawn stroke by stroke",
        f"{measurement.about['model']} draws again {measurement.about['text']}: the chance of each pixel to be lit "
        f"after every stroke{attends}. Below, how many nats a stroke says of the picture (KL of z from the prior). "
        f"In all {measurement.about['answer']}.",
        plot,
        table,
    )


def framed_canvas(pixels_HWC: Pixels, place_3: Floats | None, tint: tuple[int, int, int]) -> Pixels:
    """A canvas, enlarged and coloured, with the outline of a window: row and column of its middle, and its side."""
    large = coloured(enlarged(pixels_HWC, _STROKE_LEAST))
    if place_3 is None:
        return large
    times = large.shape[0] / pixels_HWC.shape[0]
    row, column, side = (float(one) for one in place_3)
    edges = (column - side / 2, row - side / 2, column + side / 2, row + side / 2)
    left, top, right, bottom = (round(times * (one + 0.5)) for one in edges)
    return outlined(large, (left, top, right, bottom), tint, 4)


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
    return Measurement.of(BELIEF, arrays, {"model": model, "text": text})


def belief_by_frame(measurement: Measurement) -> Figure:
    """The frames of a clip in a row, and under each of them the probability of every label so far.

    Example: figures.belief_by_frame(figures.measured_belief(model.explain(clip), model="moving-glyph"))
    """
    frames_THW, belief_TL = measurement["frame"], measurement["belief"]
    column_L, label_L, right_L = (measurement[name] for name in ("column", "label", "right"))
    columns = list(dict.fromkeys(column_L.tolist()))
    heights = [_FRAME_SIDE, *(_LINE * int((column_L == column).sum()) for column in columns)]
    plot = stacked_rows(len(frames_THW), heights, _FRAME_SIDE, left=100, right=90)
    add_frames(plot, frames_THW, 1, 0, row=1, col=1)
    plot.update_yaxes(visible=False, range=(0.5, -0.5), row=1, col=1)
    plot.update_xaxes(visible=False, row=1, col=1)
    for row, column in enumerate(columns, start=2):
        here = column_L == column
        add_beliefs(plot, belief_TL[:, here], label_L[here].tolist(), right_L[here].tolist(), column, row)
    plot.update_xaxes(title_text="frames read", row=len(heights), col=1)
    return Figure(
        "belief-by-frame",
        "What is believed after each frame",
        f"{measurement.about['model']} reads {measurement.about['text']}: under each frame the probability of every "
        f"{' and every '.join(columns)}{_marked(right_L)}, given the frames so far.",
        plot,
        _table(
            "frame, column, label, right, probability",
            (
                (t + 1, str(column_L[at]), str(label_L[at]), int(right_L[at]), round(float(p), 5))
                for (t, at), p in np.ndenumerate(belief_TL)
            ),
        ),
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
    return Measurement.of(FRAMES, arrays, {"model": model, "text": text})


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
    side = _FRAME_SIDE if seen + ahead <= 12 else _SMALL_SIDE
    height = round(_APART * side * (1 + len(groups)))
    plot = stacked_rows(seen + ahead, [height], side, left=100, right=90)
    names: list[str] = ["observed", *groups]
    add_frames(plot, np.concatenate([read_THW, came_KHW]), 1, 0, row=1, col=1)
    rows: list[tuple[Cell, ...]] = []
    for row, (model, trials) in enumerate(groups.items(), start=1):
        add_frames(plot, trials[0]["predicted"], seen + 1, _APART * row, row=1, col=1)
        for step, nats in enumerate(trials[0]["nats"].tolist(), start=1):
            text = {"text": f"{nats:.0f}", "showarrow": False, "font": {"size": 10, "color": style.GREY}}
            plot.add_annotation(x=seen + step, y=_APART * row + 0.62, **text)
            rows.append((model, step, round(nats, 3)))
    plot.add_vline(x=seen + 0.5, line={"color": style.ORANGE, "width": 2})
    ticks = {"tickvals": [_APART * at for at in range(len(names))], "ticktext": names, "ticks": ""}
    plot.update_yaxes(range=(_APART * len(names) - 0.5, -0.5), showgrid=False, linecolor="white", **ticks)
    plot.update_xaxes(title_text=f"frame: {seen} are read, {ahead} predicted", showgrid=False)
    return Figure(
        "predicted-frames",
        "The frames that come next",
        f"{join_words(groups)} on {first.about['text']}: above the observed frames, below the ones predicted after the "
        f"{seen} before the line, with the nats of each frame.",
        plot,
        _table("model, step, nats", rows),
    )


def measured_nats(score: FrameScore, *, model: str, text: str) -> Measurement:
    """Nats a frame by how far ahead it is: "frame-nats".

    Example: figures.measured_nats(model.score("moving-glyphs:test"), model="conv-lstm", text="moving-glyphs")
    """
    arrays = {name: np.array([vars(one)[name] for one in score.steps]) for name in ("step", "nats", "squared_error")}
    return Measurement.of(NATS, arrays, {"model": model, "text": text, "clips": score.clips, "least": score.least})


def nats_by_step(measurements: Sequence[Measurement]) -> Figure:
    """Nats a frame by frames ahead, a line a model; several of one name are seeds.

    Example: figures.nats_by_step([figures.measured_nats(score, model="conv-lstm", text="moving-glyphs")])
    """
    groups = by_model(measurements, NATS)
    first = measurements[0]
    plot = style.canvas("frames ahead", "nats a frame")
    rows: list[tuple[Cell, ...]] = []
    tints = style.tints(list(groups))
    for place, (model, trials) in enumerate(groups.items()):
        steps = trials[0]["step"].tolist()
        add_line(plot, model, steps, np.stack([one["nats"] for one in trials]), place, tint=tints[place])
        for one in trials:
            figures = (one[name].round(3).tolist() for name in ("nats", "squared_error"))
            rows += ((model, *cells) for cells in zip(steps, *figures, strict=True))
    add_level(plot, float(first.about["least"]), "the frames<br>themselves")
    legend_beside(plot, 150)
    plot.update_yaxes(rangemode="tozero")
    return Figure(
        "nats-by-step",
        "How much worse it becomes, frame by frame",
        f"Cross-entropy of the pixels of a frame, in nats, of {join_words(groups)} on {int(first.about['clips']):,} "
        f"clips of {join_words(one.about['text'] for one in measurements)}, by how many frames ahead it is predicted.",
        plot,
        _table("model, step, nats, squared error", rows),
    )
