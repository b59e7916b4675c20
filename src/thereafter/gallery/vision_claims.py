"""Whether a claim about pictures and clips shows in a picture; see `claims`."""

from __future__ import annotations

from thereafter.figures.figure import Figure
from thereafter.gallery.claims import per_model, verdict


def more_frames_are_surer(figure: Figure) -> str:
    """Whether the right label of every column is likelier after all frames than after the first."""
    rows = [row for row in figure.to_rows() if row["right"]]
    columns = list(dict.fromkeys(str(row["column"]) for row in rows))
    ends = {}
    for column in columns:
        along = [float(str(row["probability"])) for row in rows if row["column"] == column]
        ends[column] = along[0], along[-1]
    figures = ", ".join(f"the right {column} has {first:.2f} and {last:.2f}" for column, (first, last) in ends.items())
    holds = all(last > first for first, last in ends.values())
    return verdict(holds, "more frames make the label surer", f"after the first and the last {figures}", "the paper")


def beside_copying(figure: Figure) -> str:
    """The nats of the network and of copying the last frame, farthest ahead, and whether it needs fewer everywhere."""
    nats = per_model(figure, "step", "nats")
    copying = nats.pop("copying")
    ((name, network),) = nats.items()
    last = list(copying)[-1]
    fewer = all(network[step] < copying[step] for step in copying)
    where = "fewer at every step" if fewer else "not fewer at every step"
    return f"The {name} needs {network[last]:.0f} nats {last} frames ahead, copying {copying[last]:.0f}; {where}."


def surer_by_looking(figure: Figure) -> str:
    """Whether the right label is likelier after all glimpses than after the first."""
    along = [float(str(row["probability"])) for row in figure.to_rows() if row["right"]]
    figures = f"after the first and the last the right label has {along[0]:.2f} and {along[-1]:.2f}"
    return verdict(along[-1] > along[0], "more glimpses make the label surer", figures, "the paper")
