"""Trained runs over HTTP: the completions protocol of OpenAI, and the library's other verbs.

- `start`, `app`: the command's work (port, token, signals, the end), and the application with the addresses under /v1
- `models`: the runs that are served, by name, each language model with its engine
- `protocol`: requests, answers and errors of the protocol, those of the guard too
- `texts`: a request as what a model reads, and what it writes as text and log probabilities
- `jobs`: rows in flight, and their answer, whole or sent while it is generated
- `verbs`: /score, /next, /tag, /classify, /translate, /forecast, texts as token ids; `metrics`: figures

Who may ask, limits, queues and the engine stand below, in `serving/`.
"""
