"""The real lm-evaluation-harness on local tasks: its figures are those of `thereafter score` and `inspect pairs`."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_tasks import TASKS, Questions

import thereafter
from thereafter import instruments
from thereafter.language_model import LanguageModel, load_language_model
from thereafter.ready import shipped
from thereafter.ready.models import READY

pytestmark = pytest.mark.wide
ROOT = Path(__file__).parents[2]
RUNS = ("ngram", "lstm", "transformer", "letters")
WAYS = {"transformer": ["num_concurrent=3"], "letters": ["max_length=4096"]}
"""How a server is asked, beside one request at a time."""
GRAMMAR = [
    ("the dogs are old .", "the dogs is old ."),
    ("the dog is old .", "the dog are old ."),
    ("the cats near the teacher were here .", "the cats near the teacher was here ."),
    ("the teacher near the cats was here .", "the teacher near the cats were here ."),
    ("my friend that the lions follow sleeps .", "my friend that the lions follow sleep ."),
    ("her coins that the boy sees shine .", "her coins that the boy sees shines ."),
]
CODE = [
    ("return self.name", "return self name"),
    ("for item in items:", "for item items in:"),
    ("if x is not None:", "if x not is None:"),
    ("import os", "imptro os"),
]
PROSE = "the dogs near the teacher are old .\nmy friend that the lions follow sleeps .\nher coins were here .\n"
PROGRAM = "def add(self, name):\n    if name is None:\n        return self.name\n    return name\n"


@dataclass(frozen=True)
class Asked:
    """Runs, what they were asked, and what each call of the harness gave, by run and way of asking."""

    runs: dict[str, Path]
    models: dict[str, LanguageModel]
    questions: dict[str, Questions]
    calls: dict[tuple[str, str], dict[str, Any]]
    errors: str

    def both(self, name: str) -> list[dict[str, Any]]:
        """The figures of a run, asked directly and through a server."""
        return [self.calls[name, "own"], self.calls[name, "served"]]


def oracle_python() -> Path:
    named = os.environ.get("THEREAFTER_ORACLES")
    python = Path(named) if named else ROOT / ".oracles" / "bin" / "python"
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('lm_eval') is None)"
    if not python.exists() or subprocess.run([python, "-c", look], capture_output=True).returncode:
        pytest.skip("SKIPPED LOUDLY: the oracle lm_eval is not installed; run `make oracles`")
    return python


def run_of(name: str, folder: Path) -> Path:
    if name == "ngram":
        text = (PROSE + "".join(f"{good}\n" for good, _ in GRAMMAR) + "the boys sleep .\nher coin shines .\n") * 2
        return thereafter.train(text=text, order=3, tokens="word", min_count=1).save(folder / name)
    recipe = next(one for one in READY if one.name == name)
    assert shipped.unpack(recipe, folder, folder / "texts")
    return folder / name


def questions_for(lm: LanguageModel) -> Questions:
    """Documents, pairs with the line ends that `inspect pairs` counts, and texts of which the last one is wrong."""
    line = lm.model.facts.context == "line"
    document, sentences = (PROSE, GRAMMAR) if line else (PROGRAM, CODE)
    begin = "" if line else "\n"
    pairs = [("", f"{begin}{good}\n", f"{begin}{bad}\n") for good, bad in sentences]
    prompts = ["the dogs", "my friend that", "her coins"] if line else ["def get", "return ", "import "]
    texts = [lm.generate(prompt, 12, do_sample=False, stop_strings="\n") for prompt in prompts]
    answers = [text.removeprefix(prompt) for text, prompt in zip(texts, prompts, strict=True)]
    return Questions([document, document * 2], pairs, [*zip(prompts[:2], answers, strict=False), (prompts[2], "no")])


def write_guide(folder: Path) -> Path:
    """The tasks of docs/lm-eval.md, and the files that they name, in the folder where the harness runs."""
    (folder / "page.txt").write_text(PROSE)
    (folder / "pairs.tsv").write_text("".join(f"{good}\t{bad}\n" for good, bad in GRAMMAR))
    (folder / "endings.tsv").write_text("the dogs are\told\nthe dogs are\tnew\n")
    (folder / "guide").mkdir()
    blocks = re.findall(r"```yaml\n# tasks/(\S+\.yaml):(.*?)```", (ROOT / "docs" / "lm-eval.md").read_text(), re.DOTALL)
    for name, block in blocks:
        (folder / "guide" / name).write_text(f"#{block}")
    return folder / "guide"


@contextmanager
def serving(run: Path) -> Iterator[str]:
    """The address of a server of one run, on a thread."""
    from thereafter.serving.server.app import make_app
    from thereafter.serving.server.models import open_models
    from thereafter.serving.server.start import make_server

    server = make_server(make_app(open_models([run])))
    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}/v1/completions"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Asked:
    """The runs that are tested, asked by the harness itself and through a server; one process of the oracle does it
    all."""
    python, folder = oracle_python(), tmp_path_factory.mktemp("harness")
    runs = {name: run_of(name, folder) for name in RUNS}
    models = {name: load_language_model(run) for name, run in runs.items()}
    questions = {name: questions_for(lm) for name, lm in models.items()}
    calls: dict[tuple[str, str], tuple[str, list[str]]] = {}
    with ExitStack() as servers:
        for name in runs:
            local = ["--include_path", str(questions[name].write(folder / "tasks" / name)), "--tasks"]
            calls[name, "own"] = ("thereafter", ["lm-eval", "--run", str(runs[name]), *local, ",".join(TASKS)])
            address = servers.enter_context(serving(runs[name]))
            remote = ["--model", "local-completions", "--model_args", f"model={name},base_url={address}"]
            calls[name, "served"] = ("lm_eval", [*remote, *WAYS.get(name, []), *local, ",".join(TASKS)])
            if name == "ngram":
                guide = ["--include_path", str(write_guide(folder)), "--tasks", "page,agreement,ending"]
                kept = ["--use_cache", str(folder / "cache")]
                calls[name, "guide"] = ("thereafter", ["lm-eval", "--run", str(runs[name]), *guide, *kept])
            if name == "lstm":
                calls[name, "texts"] = ("lm_eval", [*remote, "tokenizer_backend=None", *local, "texts"])
                calls[name, "no task"] = ("thereafter", ["lm-eval", "--run", str(runs[name]), *local, "nonsense"])
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT / "src"), "HF_HOME": str(folder / "hf"), "NO_PROXY": "127.0.0.1"}
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        script, out = ROOT / "tests" / "oracles" / "harness_figures.py", folder / "out.json"
        entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["lm_eval.models"]
        words = [str(python), str(script), json.dumps(list(calls.values())), str(out), entry["thereafter"]]
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    figures = dict(zip(calls, json.loads(out.read_text()), strict=True))
    refused = [call for call, one in figures.items() if "exit" in one]
    assert refused == [("lstm", "no task")], done.stderr[-5000:]
    return Asked(runs, models, questions, figures, done.stderr)


@pytest.mark.oracle
@pytest.mark.parametrize("name", RUNS)
def test_rolling_likelihoods_are_those_of_score(name: str, asked: Asked) -> None:
    texts = asked.questions[name].documents
    scores = [asked.models[name].score(text=text) for text in texts]
    assert [score.bytes for score in scores] == [len(text.encode()) for text in texts]
    nats = sum(score.nats + score.spelling_nats for score in scores)
    bits = nats / math.log(2) / sum(score.bytes for score in scores)
    words = sum(len(text.split()) + 1 for text in texts)  # by its rule there is an empty one after the last line end
    for figures in asked.both(name):
        documents = figures["results"]["documents"]
        assert documents["bits_per_byte,none"] == pytest.approx(bits, abs=1e-6)
        assert documents["word_perplexity,none"] == pytest.approx(math.exp(nats / words), rel=1e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("name", RUNS)
def test_choices_are_those_of_inspect_pairs(name: str, asked: Asked, tmp_path: Path) -> None:
    sentences = CODE if name == "letters" else GRAMMAR
    (tmp_path / "pairs.tsv").write_text("".join(f"{good}\t{bad}\n" for good, bad in sentences))
    table = instruments.pair_table(asked.models[name], tmp_path / "pairs.tsv")
    assert table.judged_K.all()
    for figures in asked.both(name):
        assert figures["results"]["pairs"]["acc,none"] == pytest.approx(table.accuracy)
        logp = [[float(answer[0][0]) for answer in answers] for answers in figures["answers"]["pairs"]]
        assert np.array(logp) == pytest.approx(table.logp_K2, abs=1e-4)


@pytest.mark.oracle
@pytest.mark.parametrize("name", RUNS)
def test_generated_texts_are_those_of_generate(name: str, asked: Asked) -> None:
    sent_as_texts = [asked.calls[name, "texts"]] if name == "lstm" else []
    for figures in (*asked.both(name), *sent_as_texts):
        assert figures["results"]["texts"]["exact_match,none"] == pytest.approx(2 / 3)
        answers = [answer[0][0] for answer in figures["answers"]["texts"]]
        assert answers[:2] == [answer for _, answer in asked.questions[name].texts[:2]]


@pytest.mark.oracle
def test_the_tasks_of_the_guide(asked: Asked, tmp_path: Path) -> None:
    lm, results = asked.models["ngram"], asked.calls["ngram", "guide"]["results"]
    (tmp_path / "page.txt").write_text(PROSE)
    (tmp_path / "pairs.tsv").write_text("".join(f"{good}\t{bad}\n" for good, bad in GRAMMAR))
    score = lm.score(tmp_path / "page.txt")
    assert results["page"]["bits_per_byte,none"] == pytest.approx(score.bits_per_byte, abs=1e-6)
    assert results["agreement"]["acc,none"] == instruments.pair_table(lm, tmp_path / "pairs.tsv").accuracy
    assert lm.generate("the dogs are", 12, do_sample=False, stop_strings=".").rstrip() == "the dogs are old"
    assert [answer[0][0].strip() for answer in asked.calls["ngram", "guide"]["answers"]["ending"]] == ["old", "old"]


@pytest.mark.oracle
def test_the_harness_notes_which_run_it_asked(asked: Asked) -> None:
    config = asked.calls["lstm", "own"]["config"]
    assert config["model"] == "thereafter"
    assert config["run"] == str(asked.runs["lstm"])
    assert config["thereafter_version"] == thereafter.__version__


@pytest.mark.oracle
def test_tasks_that_are_not_there_are_refused_in_a_sentence(asked: Asked) -> None:
    assert asked.calls["lstm", "no task"] == {"exit": 2}
    assert "error: lm_eval: " in asked.errors
    assert "nonsense" in asked.errors
    assert "Traceback" not in asked.errors
