"""Trained runs over HTTP: the completions protocol of OpenAI, and the library's other verbs.

- `start`, `app`: the command's work (port, token, signals, the end), and the application with the addresses under /v1
- `models`: the runs that are served, by name, each language model with its engine
- `wire`: requests and answers of the protocol; `refusals`: errors in its shape, the guard's too
- `prompts`, `choices`, `jobs`: a request as rows of the engine, a row as text and log probabilities, rows in flight
- `events`: an answer that is sent while it is generated
- `tokens`: texts as token ids and back, as evaluation harnesses ask for them
- `verbs`, `verb_work`: /score, /next, /tag, /classify, /translate, /forecast; `metrics`: figures

Who may ask, limits, queues and the engine stand below, in `serving/`.
"""
