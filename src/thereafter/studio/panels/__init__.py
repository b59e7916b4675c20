"""What can be asked of a model here, one file a panel: plain functions of a model, what they are asked and what they
answer, each field declared once. `ADDRESSES` says which function answers where.

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
- `numbers`: arrays as plain lists
"""

from __future__ import annotations

ADDRESSES = {
    "POST /next": "prediction:next_words",
    "POST /complete": "prediction:complete_words",
    "POST /examples": "prediction:examples",
    "POST /count": "counting:count",
    "POST /window": "stepping:look",
    "POST /step": "stepping:step",
    "POST /trace": "stepping:trace",
    "POST /trace.npz": "stepping:trace_file",
    "POST /generate": "generation:generate",
    "SOCKET /generating": "generation:generating",
    "GET /units/properties": "units:properties",
    "POST /units/ranked": "units:ranked",
    "POST /units/shown": "units:show_unit",
    "POST /surprisal": "prediction:compared",
    "POST /compare": "comparison:compare",
    "GET /comparisons": "comparison:comparisons",
    "GET /comparisons/{name}": "comparison:comparison",
    "POST /curves": "comparison:curves",
    "GET /tasks": "tasks:tasks",
    "POST /tasks/train": "tasks:train_task",
    "POST /tasks/translate": "tasks:translate",
    "POST /tasks/quality": "tasks:quality_of_each",
    "POST /tasks/example": "tasks:example_judged",
    "POST /tasks/tag": "tasks:tag",
    "POST /tasks/classify": "tasks:classify",
    "GET /tasks/forecast/series": "forecasting:offered_series",
    "POST /tasks/forecast": "forecasting:forecast",
    "POST /tasks/forecast/ahead": "forecasting:ahead",
    "POST /tasks/forecast/gates": "forecasting:gates_before",
    "GET /tasks/caption/pictures": "captioning:pictures",
    "POST /tasks/caption": "captioning:caption_of",
    "GET /tasks/video/digit": "moving:digit",
    "POST /tasks/video": "moving:watch_clip",
    "POST /tasks/next-frames": "moving:foresee_clip",
    "POST /tasks/glimpse": "glimpsing:glimpse_picture",
    "POST /tasks/draw/new": "glimpsing:draw_new",
    "POST /tasks/draw": "glimpsing:draw_picture",
    "POST /tasks/act": "glimpsing:play",
    "POST /backprop": "backprop:backprop",
    "POST /verb-gradients": "backprop:verb_gradients",
    "POST /eigenvalue": "backprop:eigenvalue",
}
"""Method and address below /api: the panel and its function. A socket is taken before its coroutine gets it."""
