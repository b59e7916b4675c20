"""Run by the oracle's own interpreter: lm-evaluation-harness on local tasks, by the command lines of both packages.

harness_figures.py CALLS OUT ENTRY    CALLS: a JSON list of [program, arguments]; OUT: what each wrote, results and
                                      answers; ENTRY: what an entry point names, which must be a model of the harness
"""

import inspect
import json
import sys
import tempfile
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import lm_eval.__main__
import lm_eval.api.model
import lm_eval.evaluator
import lm_eval.tasks

import thereafter.cli

# Its ten thousand tasks, and the facts of this machine that it notes beside results, take longer than all the rest.
lm_eval.tasks.TaskManager = partial(lm_eval.tasks.TaskManager, include_defaults=False)
lm_eval.evaluator.add_env_info = lambda results: None
PROGRAMS = {"thereafter": thereafter.cli.main, "lm_eval": lm_eval.__main__.cli_evaluate}


def figures(program, arguments):
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [program, *arguments, "--output_path", folder, "--log_samples"]
        try:
            PROGRAMS[program]()
        except SystemExit as ended:
            if ended.code:
                return {"exit": ended.code}
        (results,) = Path(folder).rglob("results_*.json")
        whole = json.loads(results.read_text())
        answers = {
            path.name.removeprefix("samples_").rsplit("_", 1)[0]: [
                line["resps"] for line in sorted(map(json.loads, path.open()), key=lambda line: line["doc_id"])
            ]
            for path in Path(folder).rglob("samples_*.jsonl")
        }
        return {"results": whole["results"], "config": whole["config"], "answers": answers}


calls, out, entry = sys.argv[1:]
backend = EntryPoint("thereafter", entry, "lm_eval.models").load()
assert issubclass(backend, lm_eval.api.model.LM)
assert not inspect.isabstract(backend)
Path(out).write_text(json.dumps([figures(program, arguments) for program, arguments in json.loads(calls)]))
