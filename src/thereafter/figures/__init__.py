"""Figures of traces, measurements and training logs: a plot, a caption, and the numbers as a table.

    from thereafter import figures
    figures.gradient_decay([flow]).save("decay.html")       # or: flow.figure("gradient-decay").save("decay.html")

A measurement, a trace and a comparison draw themselves: `m.figure()`, `m.figure("name")`. `dir(figures)` lists what can
be called; nothing is imported before it is used.

What every figure is made of:
    figure              Figure: a plot with title, caption and table, as a notebook and an HTML page show it
    style               colours, fonts, an empty plot in the common look, what is used of a plotly figure
    scene               3-D plots and their labels

What is drawn, one file for each family:
    traces              gates over a sentence, training curves, parameter counts
    attention           attention maps, positional encodings
    gradients           gradients by distance and depth, Jacobians, truncation, and their captions
    stability           activation functions, eigenvalues; lines with the spread over seeds, marks, legends
    dynamics            trajectories, senses of a word, surfaces, saturation, timescales
    memory, agreement   what a model remembers, and what length costs; what it gets right, minimal pairs too
    units               a text in the colours of a unit, the unit of the subject's number
    surprisal           a text in the colours of its surprisal, unusual points of a series
    text                temperature, sparsity of n-grams
    tasks               alignments, BLEU by length, confusion matrices
    (in `series` and `vision`: fan charts, forecasts k steps ahead, gates over a window, where a captioner or a glimpse
    looked, strokes, frames)
    diagrams/           architecture diagrams, read off the code

How it is written:
    catalogue           every figure that `thereafter figure` can draw, and from which file
    choosing            which figure is drawn of a measurement, a trace or a comparison
    comparisons         the results of `thereafter compare` as measurements, and its models side by side
    export              files by their ending: HTML, PNG and SVG (pictures, within a plot too), CSV, JSON
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thereafter.base.registry import Registry

if TYPE_CHECKING:
    from thereafter.figures.agreement import accuracy_by_congruence as accuracy_by_congruence
    from thereafter.figures.agreement import accuracy_by_distance as accuracy_by_distance
    from thereafter.figures.agreement import accuracy_by_group as accuracy_by_group
    from thereafter.figures.agreement import expectation_along as expectation_along
    from thereafter.figures.attention import head_maps as head_maps
    from thereafter.figures.attention import positions as positions
    from thereafter.figures.catalogue import draw as draw
    from thereafter.figures.comparisons import bits_by_model as bits_by_model
    from thereafter.figures.dynamics import gate_surface as gate_surface
    from thereafter.figures.dynamics import prediction_surface as prediction_surface
    from thereafter.figures.dynamics import saturation as saturation
    from thereafter.figures.dynamics import senses as senses
    from thereafter.figures.dynamics import timescales as timescales
    from thereafter.figures.dynamics import trajectory as trajectory
    from thereafter.figures.export import write as write
    from thereafter.figures.figure import Figure as Figure
    from thereafter.figures.gradients import gradient_decay as gradient_decay
    from thereafter.figures.gradients import gradient_depth as gradient_depth
    from thereafter.figures.gradients import jacobian_paths as jacobian_paths
    from thereafter.figures.gradients import jacobian_spectrum as jacobian_spectrum
    from thereafter.figures.gradients import truncation_kept as truncation_kept
    from thereafter.figures.memory import accuracy_by_n as accuracy_by_n
    from thereafter.figures.memory import bptt_memory_by_length as bptt_memory_by_length
    from thereafter.figures.memory import information_decay as information_decay
    from thereafter.figures.memory import memory_by_length as memory_by_length
    from thereafter.figures.memory import state_by_length as state_by_length
    from thereafter.figures.memory import time_by_length as time_by_length
    from thereafter.figures.memory import word_class_by_layer as word_class_by_layer
    from thereafter.figures.stability import activation_stability as activation_stability
    from thereafter.figures.stability import repeated_multiplication as repeated_multiplication
    from thereafter.figures.surprisal import coloured as coloured_words  # noqa: F401, a name of the door
    from thereafter.figures.surprisal import unusual_points as unusual_points
    from thereafter.figures.tasks import alignment as alignment
    from thereafter.figures.tasks import bleu_by_length as bleu_by_length
    from thereafter.figures.tasks import confusion as confusion
    from thereafter.figures.tasks import measured_alignment as measured_alignment
    from thereafter.figures.tasks import measured_bleu as measured_bleu
    from thereafter.figures.tasks import measured_confusion as measured_confusion
    from thereafter.figures.text import sparsity as sparsity
    from thereafter.figures.text import temperature as temperature
    from thereafter.figures.traces import gates as gates
    from thereafter.figures.traces import gates_by_class as gates_by_class
    from thereafter.figures.traces import parameter_counts as parameter_counts
    from thereafter.figures.traces import training_curves as training_curves
    from thereafter.figures.units import coloured as coloured_units  # noqa: F401, a name of the door
    from thereafter.figures.units import number_along as number_along
    from thereafter.figures.units import ranking as unit_ranking  # noqa: F401, a name of the door
    from thereafter.series.forecasting.figures import forecast_fan as forecast_fan
    from thereafter.series.lines import error_by_steps as error_by_steps
    from thereafter.series.lines import gates_over_series as gates_over_series
    from thereafter.series.lines import steps_ahead as steps_ahead
    from thereafter.vision.clips.figures import belief_by_frame as belief_by_frame
    from thereafter.vision.clips.figures import measured_belief as measured_belief
    from thereafter.vision.clips.figures import measured_frames as measured_frames
    from thereafter.vision.clips.figures import measured_nats as measured_nats
    from thereafter.vision.clips.figures import nats_by_step as nats_by_step
    from thereafter.vision.clips.figures import predicted_frames as predicted_frames
    from thereafter.vision.figures import attended_picture as attended_picture
    from thereafter.vision.figures import drawn_strokes as drawn_strokes
    from thereafter.vision.figures import glimpse_path as glimpse_path
    from thereafter.vision.figures import measured_caption as measured_caption
    from thereafter.vision.figures import measured_glimpses as measured_glimpses
    from thereafter.vision.figures import measured_strokes as measured_strokes

_DOOR = Registry(
    "figure function",
    {
        "Figure": "thereafter.figures.figure:Figure",
        "accuracy_by_congruence": "thereafter.figures.agreement:accuracy_by_congruence",
        "accuracy_by_distance": "thereafter.figures.agreement:accuracy_by_distance",
        "accuracy_by_group": "thereafter.figures.agreement:accuracy_by_group",
        "accuracy_by_n": "thereafter.figures.memory:accuracy_by_n",
        "activation_stability": "thereafter.figures.stability:activation_stability",
        "alignment": "thereafter.figures.tasks:alignment",
        "attended_picture": "thereafter.vision.figures:attended_picture",
        "belief_by_frame": "thereafter.vision.clips.figures:belief_by_frame",
        "bits_by_model": "thereafter.figures.comparisons:bits_by_model",
        "bleu_by_length": "thereafter.figures.tasks:bleu_by_length",
        "bptt_memory_by_length": "thereafter.figures.memory:bptt_memory_by_length",
        "coloured_units": "thereafter.figures.units:coloured",
        "coloured_words": "thereafter.figures.surprisal:coloured",
        "confusion": "thereafter.figures.tasks:confusion",
        "draw": "thereafter.figures.catalogue:draw",
        "drawn_strokes": "thereafter.vision.figures:drawn_strokes",
        "error_by_steps": "thereafter.series.lines:error_by_steps",
        "expectation_along": "thereafter.figures.agreement:expectation_along",
        "forecast_fan": "thereafter.series.forecasting.figures:forecast_fan",
        "gate_surface": "thereafter.figures.dynamics:gate_surface",
        "gates": "thereafter.figures.traces:gates",
        "gates_by_class": "thereafter.figures.traces:gates_by_class",
        "gates_over_series": "thereafter.series.lines:gates_over_series",
        "glimpse_path": "thereafter.vision.figures:glimpse_path",
        "gradient_decay": "thereafter.figures.gradients:gradient_decay",
        "gradient_depth": "thereafter.figures.gradients:gradient_depth",
        "head_maps": "thereafter.figures.attention:head_maps",
        "information_decay": "thereafter.figures.memory:information_decay",
        "jacobian_paths": "thereafter.figures.gradients:jacobian_paths",
        "jacobian_spectrum": "thereafter.figures.gradients:jacobian_spectrum",
        "measured_alignment": "thereafter.figures.tasks:measured_alignment",
        "measured_belief": "thereafter.vision.clips.figures:measured_belief",
        "measured_bleu": "thereafter.figures.tasks:measured_bleu",
        "measured_caption": "thereafter.vision.figures:measured_caption",
        "measured_confusion": "thereafter.figures.tasks:measured_confusion",
        "measured_frames": "thereafter.vision.clips.figures:measured_frames",
        "measured_glimpses": "thereafter.vision.figures:measured_glimpses",
        "measured_nats": "thereafter.vision.clips.figures:measured_nats",
        "measured_strokes": "thereafter.vision.figures:measured_strokes",
        "memory_by_length": "thereafter.figures.memory:memory_by_length",
        "nats_by_step": "thereafter.vision.clips.figures:nats_by_step",
        "number_along": "thereafter.figures.units:number_along",
        "parameter_counts": "thereafter.figures.traces:parameter_counts",
        "positions": "thereafter.figures.attention:positions",
        "predicted_frames": "thereafter.vision.clips.figures:predicted_frames",
        "prediction_surface": "thereafter.figures.dynamics:prediction_surface",
        "repeated_multiplication": "thereafter.figures.stability:repeated_multiplication",
        "saturation": "thereafter.figures.dynamics:saturation",
        "senses": "thereafter.figures.dynamics:senses",
        "sparsity": "thereafter.figures.text:sparsity",
        "state_by_length": "thereafter.figures.memory:state_by_length",
        "steps_ahead": "thereafter.series.lines:steps_ahead",
        "temperature": "thereafter.figures.text:temperature",
        "time_by_length": "thereafter.figures.memory:time_by_length",
        "timescales": "thereafter.figures.dynamics:timescales",
        "training_curves": "thereafter.figures.traces:training_curves",
        "trajectory": "thereafter.figures.dynamics:trajectory",
        "truncation_kept": "thereafter.figures.gradients:truncation_kept",
        "unit_ranking": "thereafter.figures.units:ranking",
        "unusual_points": "thereafter.figures.surprisal:unusual_points",
        "word_class_by_layer": "thereafter.figures.memory:word_class_by_layer",
        "write": "thereafter.figures.export:write",
    },
)
"""What a user may call, and where it is."""

__all__ = list(_DOOR)


def __getattr__(name: str) -> object:
    if name not in _DOOR:
        raise AttributeError(f"module 'thereafter.figures' has no attribute {name!r}")
    figure_function: object = _DOOR.load(name)
    return figure_function


def __dir__() -> list[str]:
    return list(__all__)
