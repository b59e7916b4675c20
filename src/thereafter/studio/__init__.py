"""The studio: a local web page where one trains, steps through and questions a model.

- `serve`, `app`: the start (port, address, browser), and the application put together
- `studio`: what all requests share, and the verb `export`; `starting`: how far the start is, and the ready models that
  are missing
- `queue`: all trainings, what runs and what waits; `child` and `worker`: a training as a process, from both sides
- `jobs`: the user's own trainings and runs that were broken off (`commands`: what a worker is asked to do)
- `making`: ready models that somebody asked for
- `answers/`: what goes back to the page, each field declared once
- `verbs/`: plain functions of a model that return answers and know nothing of the web; `routes/`: their addresses
- `page/`: what the browser shows, one panel a file

Who may ask, models by name and whose turn it is stand below, in `serving/`.
"""
