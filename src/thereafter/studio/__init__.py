"""The studio: a local web page where one trains, steps through and questions a model.

- `serve`, `app`: the start (port, address, browser); the application put together, with the addresses that concern the
  studio itself
- `panels/`: what can be asked of a model: plain functions, their requests, answers and addresses
- `asking`: how such a function is asked, and its route in FastAPI
- `studio`: what all requests share, the ready models made behind the page, and the verb `export`
- `queue`: all trainings, what runs and what waits, each a process; `worker`: that process, from its own side, and the
  commands it is given
- `jobs`: the user's own trainings, their curves, and runs that were broken off
- `page/`: what the browser shows, one panel a file

Who may ask, models by name and whose turn it is stand below, in `serving/`.
"""
