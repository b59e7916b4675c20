"""A kind of model from another package: a cell of its own, made known by an entry point, and nothing edited here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import thereafter
from thereafter.base.kinds import Kinds

TESTS = Path(__file__).parent
PACKAGE = TESTS / "strangers" / "my_mogrifier"
TEXT = "the cat sat on the mat\nthe dog sat on the cat\na cat ate the fish\n" * 20
SUITES = ("kernels/test_parity.py", "cells/test_cells.py", "models/test_contract.py", "models/test_neural.py")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with this one in it, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    about = folder / "my_mogrifier-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-mogrifier\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[thereafter.kinds]\nmy-mogrifier = my_mogrifier:KIND\n", encoding="utf-8")
    return folder


def run(folder: Path, *command: str, cwd: Path | None = None) -> str:
    source = str(Path(thereafter.__file__).parents[1])
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), source)), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *command], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SCRIPTS = {
    "threads": """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from thereafter.base.kinds import KINDS
all_here = Barrier(8)
def ask(_):
    all_here.wait()
    return "my-mogrifier" in KINDS, len(KINDS)
with ThreadPoolExecutor(8) as threads:
    print(set(threads.map(ask, range(8))))
""",
    "light": """
import sys
import thereafter.cli
from thereafter.base.kinds import KINDS
print("my-mogrifier" in KINDS, "torch" in sys.modules)
""",
    "rule": """
import json, torch
from my_mogrifier.model import Mogrifier
from thereafter.kernels.scan import unroll
torch.manual_seed(1)
cell = Mogrifier(3, 4, rounds=5)
weights = {name: torch.randn(shape, dtype=torch.float64) for name, shape in cell.shapes().items()}
x, state = torch.randn(1, 2, 3, dtype=torch.float64), cell.zero_state(1, torch.zeros(1, dtype=torch.float64))
state = type(state)(torch.randn_like(state.h), torch.randn_like(state.c))
done = unroll(cell, x, state, weights)
weights = {name: weight.tolist() for name, weight in weights.items()}
print(json.dumps([weights, x.tolist(), [part.tolist() for part in state], done.y_BTO.tolist()]))
""",
    "instruments": """
import numpy as np, torch
from thereafter.inspection import dynamics, gradients, jacobians, sentence_reader, units
from thereafter.inspection.properties import of_regex
from thereafter.models.build import build, settings_of
from thereafter.text.tokenizers import TOKENIZERS
torch.manual_seed(0)
text = "the cat sat on the mat and the dog sat on the cat " * 120
tokenizer = TOKENIZERS.load("char").fit(lambda: iter([text]))
settings = settings_of("my-mogrifier")(hidden=6, layers=2)
model = build("my-mogrifier", settings, vocabulary_size=len(tokenizer.vocabulary))
ids = tokenizer.encode(text)
flow = gradients.gradient_flow(model, ids, distance=5)
print(flow["layer"].tolist(), flow["field"].tolist(), bool((flow["norm"][1:, :, 1:] > 0).all()))
last = gradients.last_loss(model, ids[:9])
print(bool(np.isfinite(last["gates"][1:]).all()), last["share"][-1])
print(jacobians.jacobians(model, ids, steps=4).about["memory"])
print(jacobians.truncation_effect(model, ids, lengths=(2,), steps=8)["share"][:, -1].tolist())
print(sorted(next(sentence_reader.stream_states(model, ids[:50], rows=1)).fields))
print(units.search(model, tokenizer, text, [of_regex("cat")], top=2)["unit"].shape)
print(list(sentence_reader.with_units(model).cells))
try:
    dynamics.gate_surface(model, tokenizer, "the cat")
except Exception as error:
    print(error)
""",
    "studio": """
import sys, tempfile
from pathlib import Path
from fastapi.testclient import TestClient
from thereafter.studio.app import make_app
from thereafter.studio.studio import Studio
folder = Path(tempfile.mkdtemp())
app = make_app(Studio(folder / "runs", folder / "ready"))
client = TestClient(app, base_url="http://127.0.0.1")
print(client.get("/kinds.js").text, app.openapi()["components"]["schemas"])
""",
    "built-in": """
from my_mogrifier.model import Mogrifier
from thereafter.cells import CELLS
from thereafter.errors import OptionError
from thereafter.base.kinds import KINDS, Kind
from thereafter.layers.convert import to_torch
from thereafter.layers.recurrent import Recurrent
from thereafter.studio.panels.stepping import equations
print(equations(Mogrifier(3, 4)))
try:
    to_torch(Recurrent("my-mogrifier", 3, 4))
except OptionError as error:
    print(error)
KINDS.add(Kind("elman", "mine", "#000000", cell="my_mogrifier.model:Mogrifier"))
print(CELLS.load("elman").__name__)
""",
}
"""What is asked of the cell, one after the other in a process that has it installed; the last adds a row of its own."""
EACH = """
import contextlib, io, json, sys
printed = {}
for name, script in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(script, {})
    printed[name] = out.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed(installed: Path) -> dict[str, str]:
    """What each of the scripts prints."""
    answers: dict[str, str] = json.loads(run(installed, "-c", EACH, json.dumps(SCRIPTS)))
    return answers


def test_its_rule_is_the_papers(printed: dict[str, str]):
    """One step written out with numpy, from x and h that gate each other five times to the LSTM's own equations."""
    stored, x, (h, c), outputs = json.loads(printed["rule"])
    w = {name: np.array(weight) for name, weight in stored.items()}
    h, c = np.array(h)[0], np.array(c)[0]

    def sigmoid(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-a))

    for step, output in zip(np.array(x)[0], np.array(outputs)[0], strict=True):
        seen, gated = step, h
        for i in (1, 3, 5):
            seen = 2 * sigmoid(w[f"mogrify_{i}"] @ gated) * seen
            gated = 2 * sigmoid(w[f"mogrify_{i + 1}"] @ seen) * gated if i < 5 else gated
        a = w["weight_ih"] @ seen + w["bias_ih"] + w["weight_hh"] @ gated + w["bias_hh"]
        i_, f, g, o = np.split(a, 4)
        c = sigmoid(f) * c + sigmoid(i_) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(output, h, rtol=1e-10)


@pytest.mark.wide
def test_it_passes_the_suites_of_this_house(installed: Path):
    without = ("cacheprovider", "schemathesis", "anyio")  # what these suites do not use takes seconds to import
    # it has no kernel of its own: finite differences of "auto" would be those of "reference" again
    options = ("-n", "0", "-k", "my-mogrifier and not auto-my-mogrifier", *(f"-pno:{name}" for name in without))
    shown = run(installed, "-m", "pytest", *(str(TESTS / suite) for suite in SUITES), *options)
    assert int(re.search(r"(\d+) passed", shown)[1]) > 80  # type: ignore[index]
    assert "skipped" not in shown


def test_the_command_line_knows_it(installed: Path, tmp_path: Path):
    """Three commands and the library in one process, as the first of them leaves it."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    script = """
import runpy, sys
train = ["text.txt", "--model", "my-mogrifier", "--hidden", "8", "--epochs", "2", "--set", "rounds=3", "--out", "run"]
for words in (["train", "--help"], ["train", *train], ["score", "run", "text.txt"]):
    sys.argv = ["thereafter", *words]
    try:
        runpy.run_module("thereafter", run_name="__main__")
    except SystemExit as end:
        assert not end.code, words
    print("-- the end of a command --")
import thereafter
lm = thereafter.load("run")
seen = lm.trace("the cat sat")
print(sorted({name.partition(".")[2] for name in seen.arrays if "." in name}), len(lm.next("the cat")))
"""
    usage, _, score, gates = run(installed, "-c", script, cwd=tmp_path).split("-- the end of a command --")
    assert "my-mogrifier" in usage
    assert "rounds = 3" in (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    assert "bits per byte" in score
    assert "'forget'" in gates


GUIDE = (TESTS.parent / "docs" / "extending.md").read_text(encoding="utf-8")
NOTEBOOK, REST, ROW = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def test_the_guide_shows_the_whole_package():
    package, row = ((PACKAGE / name).read_text(encoding="utf-8") for name in ("model.py", "__init__.py"))
    whole = NOTEBOOK[NOTEBOOK.index("class Mogrifier") : NOTEBOOK.index("thereafter.register")].strip()
    assert whole in package
    assert REST.strip() in package
    assert len((package + row).splitlines()) < 70
    installed_row = (PACKAGE / "__init__.py").read_text(encoding="utf-8").partition("_AT = ")[2]
    script = "from thereafter.base.kinds import Kind\n{}\nfirst = KIND\n_AT = {}\nassert KIND == first, (first, KIND)"
    assert run(TESTS / "strangers", "-c", script.format(ROW, installed_row)) == ""


def test_a_cell_is_registered_in_a_notebook_in_a_line(tmp_path: Path):
    """The block of the guide as it stands, then what a notebook does: the cell is defined anew, a mistake is made."""
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    script = f"""{NOTEBOOK}
thereafter.register(Mogrifier, title="again")
before = lm.next("the", k=3)
print(thereafter.load("runs/mogrifier").next("the", k=3) == before, lm.config["my-mogrifier"]["rounds"])
from thereafter.cells.base import Cell
class Nothing(Cell):
    pass
class Taken(LSTM):
    name = "gru"
class Unnamed(LSTM):
    pass
class Broken(LSTM):
    name = "broken"
    def step(self, z_BG, state, weights, record=None):
        return z_BG, state
class Unset(LSTM):
    name = "unset"
    def __init__(self, input_size, hidden_size, *, rate, **options):
        super().__init__(input_size, hidden_size, **options)
for wrong in (Nothing, Taken, Unnamed, Broken, Unset, LSTM, torch.nn.LSTM):
    try:
        thereafter.register(wrong)
    except thereafter.ThereafterError as error:
        print(error)
"""
    (tmp_path / "notebook.py").write_text(script, encoding="utf-8")
    _, gate, same, *sentences = run(tmp_path, "notebook.py", cwd=tmp_path).splitlines()[-10:]
    assert gate.endswith(", 32)")
    assert same == "True 3"
    expected = ("Nothing lacks gates, name, pointwise", "a model 'gru' already", "try: name = 'unnamed'",
                "gives the shapes [(2, 16), (2, 4), (2, 4)]", "the option 'rate' of Unset needs a default",
                "a model 'lstm' already", "expected a class that inherits from")  # fmt: skip
    for part, sentence in zip(expected, sentences, strict=True):
        assert part in sentence
    with pytest.raises(thereafter.ThereafterError) as elsewhere:  # in this process nobody has registered it
        thereafter.load(tmp_path / "runs" / "mogrifier")
    assert "thereafter.register(MyCell)" in elsewhere.value.in_shell


def test_every_instrument_for_recurrent_models_takes_it(printed: dict[str, str]):
    flow, last, memory, share, fields, best, layers, sentence = printed["instruments"].splitlines()
    assert flow == "['words', 'l0', 'l1'] ['x', 'h', 'c'] True"
    assert (last, memory, share) == ("True 1.0", "['c', 'c']", "[1.0, 1.0, 1.0]")
    assert (fields, best, layers) == ("['l0.c', 'l0.h', 'l1.c', 'l1.h']", "(1, 2)", "['l0', 'l1']")
    assert "has no gate 'forget' that is a sigmoid of two sums" in sentence  # x and h gate each other first


def test_what_knows_only_the_built_in_cells_does_not_take_it_for_one(printed: dict[str, str]):
    rows, sentence, cell = printed["built-in"].splitlines()
    assert (rows, cell) == ("[]", "Elman")
    assert printed["light"] == "True False\n"
    assert "does not know the cell 'my-mogrifier'" in sentence


def test_the_studio_offers_it(printed: dict[str, str]):
    shown = printed["studio"]
    assert "Mogrifier LSTM" in shown
    assert shown.count("my-mogrifier") > 1  # in the menu, and among what a training may ask for


def test_it_is_there_for_threads_that_ask_at_the_same_time(printed: dict[str, str]):
    assert printed["threads"].strip() == "{(True, 11)}"


def test_kinds_that_two_threads_add_at_the_same_time_are_both_there():
    class Slow:
        """A row whose name takes a while, so that a second thread comes in between."""

        def __init__(self, name: str) -> None:
            self.called = name

        @property
        def name(self) -> str:
            time.sleep(0.05)
            return self.called

    kinds, several = Kinds(()), (Slow("first"), Slow("second"))
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(kinds.add, several))  # type: ignore[arg-type]
    assert {"first", "second"} <= set(kinds)


def test_one_that_cannot_be_loaded_is_named_and_left_out(tmp_path: Path):
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[thereafter.kinds]\nbroken = broken_package:KIND\n", encoding="utf-8")
    script = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from thereafter.base.kinds import KINDS
    print(len(KINDS), [str(one.message) for one in said])
"""
    shown = run(tmp_path, "-c", script)
    assert "'broken' of broken_package:KIND cannot be used" in shown
    assert shown.startswith("10 ")
