"""The studio: a local web page where one trains, steps through and questions a model.

- `serve`, `app`: the start (port, address, browser), and the application put together
- `panels/`: what can be asked of a model: plain functions, their requests and answers, and the table of addresses
- `asking`: how such a function is asked; `routes`: its route in FastAPI, and those that concern the studio itself
- `studio`: what all requests share, the ready models made behind the page, and the verb `export`
- `queue`: all trainings, what runs and what waits, each a process; `worker`: that process, from its own side
- `jobs`: the user's own trainings, their curves, and runs that were broken off (`commands`: what a worker
  is asked to do)
- `page/`: what the browser shows, one panel a file

Who may ask, models by name and whose turn it is stand below, in `serving/`.
"""
