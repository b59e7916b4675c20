"""Help and start-up: every command's help in one form, commands in groups, and nothing heavy imported for a short
answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from thereafter.cli import GROUPS, app
from thereafter.cli.options import EVERYDAY, TRAIN, _fields

HEAVY = {"torch", "numba", "tokenizers", "pandas", "plotly", "rich", "fastapi", "uvicorn", "matplotlib", "scipy"}
SETTINGS = [
    "thereafter.training.settings:TextSettings",
    "thereafter.training.settings:TrainingSettings",
    "thereafter.training.ngram:NgramSettings",
    "thereafter.series.forecasters.settings:ForecastSettings",
    "thereafter.models.settings:RecurrentSettings",
]
WRITTEN_OUT = {"<unk>"}  # what may stand between angle brackets: a token


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.output


def all_commands() -> Iterator[tuple[str, ...]]:
    """Every command and subcommand, in the order of the help."""
    top: Any = get_command(app)
    context = top.make_context("thereafter", [], resilient_parsing=True)
    for name in top.list_commands(context):
        yield (name,)
        yield from ((name, inner) for inner in getattr(top.get_command(context, name), "commands", ()))


def test_commands_stand_in_groups_with_train_first() -> None:
    text = shown()
    sections = re.findall(r"^(\S.*):\n((?:  .*\n)+)", text, re.MULTILINE)
    listed = {title: tuple(re.findall(r"^  (\S+) ", rows, re.MULTILINE)) for title, rows in sections}
    assert {title: names for title, names in listed.items() if title != "Options"} == GROUPS
    assert next(all_commands()) == ("train",)
    assert text.index("train") < text.index("compare")


def test_every_command_of_the_package_is_in_a_group() -> None:
    """A file in `cli/` whose command is in no group could never be called."""
    folder = Path(sys.modules["thereafter.cli"].__path__[0])
    named = re.compile(r"^@(?:command\(\s*app|app\.command\()(?:[^@]*?name=)?[^@]*?^def (\w+)", re.M)
    in_files = [name for path in sorted(folder.glob("*.py")) for name in named.findall(path.read_text())]
    names = {"next_": "next", "lm_eval": "lm-eval"}
    listed = [name for group in GROUPS.values() for name in group]
    assert sorted([names.get(name, name) for name in in_files] + ["data", "inspect"]) == sorted(listed)


@pytest.mark.parametrize("words", list(all_commands()), ids=" ".join)
def test_help_of_a_command(words: tuple[str, ...]) -> None:
    """An example to copy, on one line, and values in words: no types of Python, no markup."""
    text = shown(*words)
    if words not in [("data",), ("inspect",)]:
        command = rf"^  (Example|First): .*thereafter (data path|{' '.join(words)}).*$"
        assert re.search(command, text, re.MULTILINE), text
    assert not set(re.findall(r"<[^>\s]*>", text)) - WRITTEN_OUT
    of_python = r"(list|dict|tuple)\[|\bNone\b|--[\w-]+ (str|int|float|bool|Path)\b|\[/|\\\[|\.{4}"
    assert re.search(of_python, text, re.MULTILINE) is None
    assert text.startswith(f"Usage: thereafter {' '.join(words)} ")


def test_train_shows_a_dozen_options_and_the_rest_when_asked() -> None:
    brief, whole = shown("train"), CliRunner().invoke(app, ["train", "--help-all"], env={"COLUMNS": "100"}).output
    options = [set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)) for text in (brief, whole)]
    assert len(options[0]) == len(EVERYDAY) == 14
    assert {"--model", "--out", "--minutes", "--resume", "--help-all"} < options[0] < options[1]
    assert len(options[1]) > 50
    assert "N-gram models:" in whole
    assert "N-gram models:" not in brief


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.partition(":")[2])
def test_options_of_train_are_fields_of_settings_with_their_types(row: str) -> None:
    """Help reads the source of the settings and imports none of it: it says of names and types what they say."""
    module, _, name = row.partition(":")
    settings = getattr(import_module(module), name)
    hints = get_type_hints(settings)
    for option in (option for option in TRAIN if option.name in _fields(row) and option.name != "help"):
        kinds = {kind for kind in (hints[option.name], *get_args(hints[option.name])) if isinstance(kind, type)}
        annotation, _ = get_args(option.annotation)
        annotated = {annotation, *get_args(annotation)}
        if option.name not in ("cutoffs", "seed", "split"):  # spelled with commas; arguments of `train`
            assert annotated & kinds, option.name


def test_a_misspelt_command_is_compared_with_those_that_were_not_imported() -> None:
    result = CliRunner().invoke(app, ["surprizal"])
    assert result.exit_code == 2
    assert "Did you mean 'surprisal'" in result.output


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("started")
    (folder / "book.txt").write_text("the cat sat on the mat .\nthe dog sat on the log .\n" * 40)
    CliRunner().invoke(app, ["train", str(folder / "book.txt"), "--order", "3", "--out", str(folder / "run")])
    return folder / "run"


def imported_by(*commands: tuple[str, ...]) -> dict[tuple[str, ...], set[str]]:
    """The modules that are there when each of several commands ends, one after the other in a process of their own."""
    script = """
import json, sys
from thereafter.cli import main
imported = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["thereafter", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
    imported.append(sorted(sys.modules))
print(json.dumps(imported), file=sys.stderr)
"""
    words = [sys.executable, "-c", script, json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(commands, map(set, json.loads(done.stderr.splitlines()[-1])), strict=True))


def test_help_imports_nothing_heavy() -> None:
    for words, modules in imported_by(("--help",), ("train", "--help"), ("inspect", "--help")).items():
        assert not modules & (HEAVY | {"numpy"}), words
        assert not [name for name in modules if name.startswith(("thereafter.training", "thereafter.ngram"))], words


def test_an_n_gram_answers_without_torch_numba_or_a_tokenizer_it_has_not(run: Path) -> None:
    asked = (("next", "the cat"), ("rank", "the cat", "the dog"), ("score", "--text", "the cat"))
    for words, modules in imported_by(*((command, str(run), *rest) for command, *rest in asked)).items():
        assert not modules & HEAVY, words
