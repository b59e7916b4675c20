"""Addresses of the verbs, one file a family, called like its verbs: each checks a request and calls one function.

`common` is what all of them need; `models`, `ready`, `training` and `events` are about the studio itself: which models
there are, making ready ones, trainings, and what changes by itself.

Functions of routes import verbs when they are called: what a model needs takes seconds to import, and the page is up
before that. What asks a model waits for its lane on the event loop and works on a thread; all others are plain
functions, which FastAPI runs on threads. So no model ever holds up the event loop.
"""

from __future__ import annotations

from thereafter.studio.routes import (
    acting,
    backprop,
    captioning,
    comparison,
    counting,
    drawing,
    eigenvalue,
    events,
    forecasting,
    generation,
    glimpsing,
    models,
    moving,
    prediction,
    ready,
    stepping,
    surprisal,
    tasks,
    tracing,
    training,
    units,
    window,
)

ROUTERS = (
    models.router,
    prediction.router,
    counting.router,
    window.router,
    stepping.router,
    tracing.router,
    generation.router,
    units.router,
    surprisal.router,
    comparison.router,
    tasks.router,
    forecasting.router,
    captioning.router,
    moving.router,
    glimpsing.router,
    drawing.router,
    acting.router,
    ready.router,
    training.router,
    backprop.router,
    eigenvalue.router,
    events.router,
)
