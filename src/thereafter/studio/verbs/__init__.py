"""What can be asked of a model here: plain functions that take a model and return answers (`studio/answers/`).

- `prediction`: what comes next, how a half-typed word may go on, example texts
- `generation`, `tracing`: a text that grows, what a model did over a text
- `stepping`, `number`: one word more with the equations of the cell, singular and plural
- `counting`, `window`: the table of word pairs, the network over the last few words
- `backprop`, `eigenvalue`: gradients back through a sentence, and through many steps
- `surprisal`: what each word of a text cost several models
- `units`: which units follow a property of the text
- `tasks`: translations, tags, labels
- `series`, `forecasting`: series of numbers, what forecasters expect of them
- `pictures`, `captioning`: pictures, and their captions word by word
- `clips`, `moving`: clips of moving digits, beliefs after every frame, the frames that come next
- `digit_pictures`, `glimpsing`, `drawing`: pictures, seen glimpse by glimpse and drawn stroke by stroke
- `acting`: a game of catch step by step
- `comparison`, `curves`: models beside each other, and how their training went
- `numbers`: arrays as plain lists
"""
