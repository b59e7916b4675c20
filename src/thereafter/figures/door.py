"""The functions that `thereafter.figures` offers, and where each of them is. Nothing is imported before it is used."""

from __future__ import annotations

from thereafter.base.kinds import Registry

_FUNCTIONS = {
    "figures.agreement": ("accuracy_by_congruence", "accuracy_by_distance", "accuracy_by_group", "expectation_along"),
    "figures.catalogue": ("draw",),
    "figures.comparisons": ("bits_by_model",),
    "figures.dynamics": ("gate_surface", "prediction_surface", "saturation", "senses", "timescales", "trajectory"),
    "figures.export": ("write",),
    "figures.figure": ("Figure",),
    "figures.gradients": ("gradient_decay", "gradient_depth", "jacobian_paths", "jacobian_spectrum", "truncation_kept"),
    "figures.memory": (
        "accuracy_by_n",
        "bptt_memory_by_length",
        "information_decay",
        "memory_by_length",
        "state_by_length",
        "time_by_length",
        "word_class_by_layer",
    ),
    "figures.stability": ("activation_stability", "repeated_multiplication"),
    "figures.surprisal": ("coloured_words", "unusual_points"),
    "figures.tasks": (
        "alignment",
        "bleu_by_length",
        "confusion",
        "measured_alignment",
        "measured_bleu",
        "measured_confusion",
    ),
    "figures.text": ("sparsity", "temperature"),
    "figures.traces": ("gates", "gates_by_class", "head_maps", "parameter_counts", "positions", "training_curves"),
    "figures.units": ("coloured_units", "number_along", "unit_ranking"),
    "series.forecasting.figures": ("forecast_fan",),
    "series.lines": ("error_by_steps", "gates_over_series", "steps_ahead"),
    "vision.figures": (
        "attended_picture",
        "belief_by_frame",
        "drawn_strokes",
        "glimpse_path",
        "measured_belief",
        "measured_caption",
        "measured_frames",
        "measured_glimpses",
        "measured_nats",
        "measured_strokes",
        "nats_by_step",
        "predicted_frames",
    ),
}

DOOR = Registry(
    "figure function",
    {name: f"thereafter.{module}:{name}" for module, names in _FUNCTIONS.items() for name in names},
)
"""What a user may call, and where it is."""
