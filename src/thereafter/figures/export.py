"""Figures as files, by the ending of the name: a page, a picture, the numbers, or the plot's own description.

.html        one page, however many figures; plotly's script is a file beside it, which all pages of a folder share
.png .svg    pictures with title and caption, through kaleido and a browser
.csv         the numbers
.json        plotly's description of the plot, which `plotly.io.read_json` reads
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thereafter.base import progress
from thereafter.base.storage import replacing
from thereafter.errors import OptionError
from thereafter.figures.figure import Figure, page, script_name, script_text
from thereafter.figures.pictures import render

SUFFIXES = (".html", ".png", ".svg", ".csv", ".json")


def write(figures: Sequence[Figure], path: Path) -> Path:
    """Write figures in the format that the ending of `path` names; returns the path of the first.

    Several figures share one page; of the other formats each gets a file of its own, named after `path` and itself:
    `flow.png` becomes `flow-gradient-decay.png` and so on.

    Example: figures.write([flow.figure("gradient-decay")], Path("decay.html"))
    """
    path = Path(path)
    suffix = format_of(path)
    if not figures:
        raise OptionError(f"there is no figure to write as {path.name!r}; expected at least one")
    if suffix == ".html":
        title = figures[0].title if len(figures) == 1 else path.stem.replace("-", " ").replace("_", " ")
        beside = not path.exists() or path.is_file()  # a pipe has no folder of its own
        contents = {path: page(figures, title=title, beside=beside).encode()}
        script = path.with_name(script_name())
        if beside and not script.exists():
            contents[script] = script_text().encode()
        if beside:
            progress.note(f"{path.name} needs {script.name} beside it: to send the page, copy both, or draw a .png")
    else:
        places = [path] if len(figures) == 1 else [path.with_stem(f"{path.stem}-{one.name}") for one in figures]
        if len(set(places)) < len(places):
            raise OptionError(f"two figures have one name among {', '.join(one.name for one in figures)}")
        if suffix in (".png", ".svg"):
            files = render(figures, suffix.removeprefix("."))
        else:
            files = [(one.csv() if suffix == ".csv" else str(one.plot.to_json())).encode() for one in figures]
        contents = dict(zip(places, files, strict=True))
    for place, content in contents.items():
        with replacing(place) as temporary:
            temporary.write_bytes(content)
    return next(iter(contents))


def format_of(path: Path) -> str:
    """The ending of a figure's name; one that names no format is refused."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        listed = ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]}"
        raise OptionError(f"cannot write a figure as {path.name!r}; expected a name that ends in {listed}")
    return suffix
