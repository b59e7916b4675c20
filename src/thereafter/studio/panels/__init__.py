"""What can be asked of a model here, one file a panel: plain functions of a model, what they are asked and what they
answer, each field declared once, and where they are asked (`asking.py`). `PANELS` says which addresses are whose.

A panel is imported when it is first asked: what its models need takes seconds to import, and the page is up before.

- `prediction`: what comes next, how a half-typed word may go on, example texts, singular and plural, and what each word
  of a text cost several models
- `generation`: a text that grows
- `stepping`: one word more with the equations of the cell, what a model did over a text, the network over the last few
  words
- `counting`: the table of word pairs
- `backprop`: gradients back through a sentence, and through many steps
- `units`: which units follow a property of the text
- `tasks`: translations, tags, labels
- `forecasting`: series of numbers, what forecasters expect of them
- `pictures`, `captioning`: pictures of all sources, and their captions word by word
- `moving`: clips of moving digits, beliefs after every frame, the frames that come next
- `glimpsing`: pictures seen glimpse by glimpse and drawn stroke by stroke, a game of catch step by step
- `comparison`: models beside each other, and how their training went
"""

from __future__ import annotations

PANELS = {
    "prediction": ("/next", "/complete", "/examples", "/surprisal"),
    "counting": ("/count",),
    "stepping": ("/window", "/step", "/trace"),
    "generation": ("/generate", "/generating"),
    "units": ("/units",),
    "comparison": ("/compare", "/comparisons", "/curves"),
    "tasks": ("/tasks",),
    "forecasting": ("/tasks/forecast",),
    "captioning": ("/tasks/caption",),
    "moving": ("/tasks/video", "/tasks/next-frames"),
    "glimpsing": ("/tasks/glimpse", "/tasks/draw", "/tasks/act"),
    "backprop": ("/backprop", "/verb-gradients", "/eigenvalue"),
}
"""What the addresses of each panel begin with, below /api; where two fit, it is the longer one."""
