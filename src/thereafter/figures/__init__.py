"""Figures of traces, measurements and training logs: a plot, a caption, and the numbers as a table.

    from thereafter import figures
    figures.gradient_decay([flow]).save("decay.html")       # or: flow.figure("gradient-decay").save("decay.html")

A measurement, a trace and a comparison draw themselves: `m.figure()`, `m.figure("name")`. `dir(figures)` lists what can
be called; nothing is imported before it is used.

What every figure is made of:
    figure              Figure: a plot with title, caption and table, as a notebook and an HTML page show it; what a
                        user may call, and from which file
    style               colours, fonts, an empty plot in the common look, what is used of a plotly figure
    lines               curves with their spread over seeds, marks, legends, letters in colours, rows of a table

What is drawn, one file for each family:
    traces              gates over a sentence, attention maps, positional encodings, training curves, parameter counts
    gradients           gradients by distance and depth, Jacobians, truncation, and their captions; activation
                        functions, eigenvalues
    dynamics            trajectories, senses of a word, surfaces, saturation, timescales; 3-D plots and their labels
    memory              what a model remembers, and what length costs; what it gets right, minimal pairs too
    units               a text in the colours of a unit, the unit of the subject's number
    surprisal           a text in the colours of its surprisal, unusual points of a series, temperature, sparsity of
                        n-grams
    tasks               alignments, BLEU by length, confusion matrices
    (in `series` and `vision`: fan charts, forecasts k steps ahead, gates over a window, where a captioner or a glimpse
    looked, strokes, frames)
    diagrams/           architecture diagrams, read off the code

How it is written:
    catalogue           every figure that `thereafter figure` can draw, and from which file; which is drawn of what; the
                        results of `thereafter compare` as measurements, and its models side by side
    pictures            files by their ending: HTML, PNG and SVG, CSV, JSON; pixels, frames and weights within a plot
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thereafter.figures.figure import DOOR
from thereafter.figures.figure import Figure as Figure

if TYPE_CHECKING:
    from thereafter.figures.catalogue import bits_by_model as bits_by_model
    from thereafter.figures.catalogue import draw as draw
    from thereafter.figures.dynamics import gate_surface as gate_surface
    from thereafter.figures.dynamics import prediction_surface as prediction_surface
    from thereafter.figures.dynamics import saturation as saturation
    from thereafter.figures.dynamics import senses as senses
    from thereafter.figures.dynamics import timescales as timescales
    from thereafter.figures.dynamics import trajectory as trajectory
    from thereafter.figures.gradients import activation_stability as activation_stability
    from thereafter.figures.gradients import gradient_decay as gradient_decay
    from thereafter.figures.gradients import gradient_depth as gradient_depth
    from thereafter.figures.gradients import jacobian_paths as jacobian_paths
    from thereafter.figures.gradients import jacobian_spectrum as jacobian_spectrum
    from thereafter.figures.gradients import repeated_multiplication as repeated_multiplication
    from thereafter.figures.gradients import truncation_kept as truncation_kept
    from thereafter.figures.memory import accuracy_by_congruence as accuracy_by_congruence
    from thereafter.figures.memory import accuracy_by_distance as accuracy_by_distance
    from thereafter.figures.memory import accuracy_by_group as accuracy_by_group
    from thereafter.figures.memory import accuracy_by_n as accuracy_by_n
    from thereafter.figures.memory import bptt_memory_by_length as bptt_memory_by_length
    from thereafter.figures.memory import expectation_along as expectation_along
    from thereafter.figures.memory import information_decay as information_decay
    from thereafter.figures.memory import memory_by_length as memory_by_length
    from thereafter.figures.memory import state_by_length as state_by_length
    from thereafter.figures.memory import time_by_length as time_by_length
    from thereafter.figures.memory import word_class_by_layer as word_class_by_layer
    from thereafter.figures.pictures import write as write
    from thereafter.figures.surprisal import coloured_words as coloured_words
    from thereafter.figures.surprisal import sparsity as sparsity
    from thereafter.figures.surprisal import temperature as temperature
    from thereafter.figures.tasks import alignment as alignment
    from thereafter.figures.tasks import bleu_by_length as bleu_by_length
    from thereafter.figures.tasks import confusion as confusion
    from thereafter.figures.tasks import measured_alignment as measured_alignment
    from thereafter.figures.tasks import measured_bleu as measured_bleu
    from thereafter.figures.tasks import measured_confusion as measured_confusion
    from thereafter.figures.traces import gates as gates
    from thereafter.figures.traces import gates_by_class as gates_by_class
    from thereafter.figures.traces import head_maps as head_maps
    from thereafter.figures.traces import parameter_counts as parameter_counts
    from thereafter.figures.traces import positions as positions
    from thereafter.figures.traces import training_curves as training_curves
    from thereafter.figures.units import coloured_units as coloured_units
    from thereafter.figures.units import number_along as number_along
    from thereafter.figures.units import unit_ranking as unit_ranking
    from thereafter.series.forecasting.figures import error_by_steps as error_by_steps
    from thereafter.series.forecasting.figures import forecast_fan as forecast_fan
    from thereafter.series.forecasting.figures import gates_over_series as gates_over_series
    from thereafter.series.forecasting.figures import steps_ahead as steps_ahead
    from thereafter.series.forecasting.figures import unusual_points as unusual_points
    from thereafter.vision.figures import attended_picture as attended_picture
    from thereafter.vision.figures import belief_by_frame as belief_by_frame
    from thereafter.vision.figures import drawn_strokes as drawn_strokes
    from thereafter.vision.figures import glimpse_path as glimpse_path
    from thereafter.vision.figures import measured_belief as measured_belief
    from thereafter.vision.figures import measured_caption as measured_caption
    from thereafter.vision.figures import measured_frames as measured_frames
    from thereafter.vision.figures import measured_glimpses as measured_glimpses
    from thereafter.vision.figures import measured_nats as measured_nats
    from thereafter.vision.figures import measured_strokes as measured_strokes
    from thereafter.vision.figures import nats_by_step as nats_by_step
    from thereafter.vision.figures import predicted_frames as predicted_frames

__all__ = list(DOOR)


def __getattr__(name: str) -> object:
    if name not in DOOR:
        raise AttributeError(f"module 'thereafter.figures' has no attribute {name!r}")
    figure_function: object = DOOR.load(name)
    return figure_function


def __dir__() -> list[str]:
    return list(__all__)
