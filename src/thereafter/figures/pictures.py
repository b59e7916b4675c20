"""Figures as PNG or SVG: title above, plot, caption below. Kaleido draws them in a browser, one for all."""

from __future__ import annotations

import asyncio
import base64
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from html import escape
from typing import Any

from thereafter import progress
from thereafter.errors import ExportError, MissingPackageError
from thereafter.figures.figure import Figure
from thereafter.figures.plot import Plot
from thereafter.figures.style import canvas
from thereafter.packages import require

PATIENCE = 60
"""Seconds in which a browser opens, or draws a picture; it takes one or two."""
SCALE = 1.5
"""Pixels of a PNG for each pixel of the plot."""
_TITLE_SIZE, _CAPTION_SIZE = 18, 13
_TITLE_LINE, _CAPTION_LINE = 26, 18
_SIDE, _ABOVE, _BELOW = 24, 12, 14
_TYPES = {"png": "image/png", "svg": "image/svg+xml"}


def render(figures: Sequence[Figure], format: str = "png", scale: float = SCALE) -> list[bytes]:
    """Each figure as the bytes of a picture, in `format` png or svg."""
    kaleido = require("kaleido", f"a picture as .{format}")
    # a notebook runs a loop of its own in this thread, so ours runs in another
    with ThreadPoolExecutor(1) as thread, progress.task("drawing", total=len(figures), unit="pictures") as advance:
        work = thread.submit(copy_context().run, asyncio.run, _drawn(kaleido, figures, format, scale, advance))  # noqa: TID251
        try:
            return work.result()
        except TimeoutError as error:
            raise ExportError(
                f"a picture as .{format} is drawn by a browser, and two did not answer within {PATIENCE} s each; "
                "try again, or write it as .html instead"
            ) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "choreographer":  # what starts the browser for kaleido
                raise
            raise MissingPackageError(
                f"a picture as .{format} needs a browser that kaleido can start, and got {type(error).__name__}; "
                "try: apt-get install chromium, or kaleido_get_chrome, or write it as .html instead"
            ) from error


async def _drawn(
    kaleido: Any, figures: Sequence[Figure], format: str, scale: float, advance: progress.Advance
) -> list[bytes]:
    """All pictures by one browser; on a busy machine one may stop to answer, and a second one goes on."""
    pictures: list[bytes] = []
    for last in (False, True):
        browser = kaleido.Kaleido(mathjax=False)  # the default asks the network for a formula typesetter
        try:
            await asyncio.wait_for(browser.open(), PATIENCE)
            for figure in figures[len(pictures) :]:
                pictures.append(await asyncio.wait_for(_picture(browser, figure, format, scale), PATIENCE))
                advance(1)
            break
        except TimeoutError:
            if last:
                raise
        finally:
            with suppress(TimeoutError):
                await asyncio.wait_for(browser.close(), PATIENCE)
    return pictures


async def _picture(browser: Any, figure: Figure, format: str, scale: float) -> bytes:
    size = {"format": format, "scale": scale}
    plot = await browser.calc_fig(figure.plot, opts=size)
    # two steps, so that nothing the plot puts round its axes can meet the title or the caption
    picture: bytes = await browser.calc_fig(framed(figure, plot, format), opts=size)
    return picture


def framed(figure: Figure, picture: bytes, format: str) -> Plot:
    """A plotly figure that shows a drawn plot between the figure's title and its caption."""
    width, height = int(figure.plot.layout.width), int(figure.plot.layout.height)
    title = textwrap.wrap(figure.title, max(20, (width - 2 * _SIDE) // 11)) or [""]
    caption = textwrap.wrap(figure.caption, max(30, int((width - 2 * _SIDE) / 6.9))) or [""]
    top = _even(_ABOVE + _TITLE_LINE * len(title))
    bottom = _even(_BELOW + _CAPTION_LINE * len(caption) + 4)
    frame = canvas(width=width, height=top + height + bottom)
    frame.update_layout(margin={"l": 0, "r": 0, "t": top, "b": bottom})
    frame.update_xaxes(visible=False, range=(0, 1))
    frame.update_yaxes(visible=False, range=(0, 1))
    source = f"data:{_TYPES[format]};base64,{base64.b64encode(picture).decode()}"
    corner = {"x": 0, "y": 1, "sizex": 1, "sizey": 1, "xanchor": "left", "yanchor": "top"}
    frame.add_layout_image(source=source, xref="paper", yref="paper", sizing="stretch", layer="above", **corner)
    common = {"xref": "paper", "yref": "paper", "x": 0, "xshift": _SIDE, "showarrow": False, "align": "left"}
    common |= {"xanchor": "left"}
    frame.add_annotation(
        text="<b>" + "<br>".join(map(_plain, title)) + "</b>", y=1, yanchor="bottom", font_size=_TITLE_SIZE, **common
    )
    frame.add_annotation(
        text="<br>".join(map(_plain, caption)), y=0, yanchor="top", yshift=-6, font_size=_CAPTION_SIZE,
        font_color="#444444", **common,
    )  # fmt: skip
    return frame


def _plain(text: str) -> str:
    """Text that plotly shows as it is; it knows the names of <, > and &, and would show that of a quotation mark."""
    return escape(text, quote=False)


def _even(size: int) -> int:
    """Sizes that stay whole at scale 1.5, so that the drawn plot keeps its own pixels."""
    return size + size % 2
