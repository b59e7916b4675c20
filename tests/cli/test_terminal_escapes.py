"""What a stranger's model, file or label says is shown on a terminal, not obeyed by it; a file gets the text itself."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import thereafter
from thereafter.base import progress
from thereafter.cli import main

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OWN = re.compile("\x1b\\[(?:1;33|0)m")  # the one colour that this program writes itself
COLOURS = re.compile("\x1b\\[[0-9;]*m")
EVIL = "\x1b]0;pwned\x07 \x1b[2J \x1b[31mred \x9b2J \u202ecba\u2066 a\u2028b \x7f\x08 x\ry"
HONEST = "naïve 漢字 👨‍👩‍👧 שלום été—“so”\tyes"
WORDS = f"the {EVIL} cat sat on the {HONEST} mat"


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Runs commands in this process, on a terminal or not; gives both streams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, *words: object, screen: bool = True) -> tuple[int, str, str]:
        out, err = (Screen(), Screen()) if screen else (io.StringIO(), io.StringIO())
        code = 0
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["thereafter", *map(str, words)])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            try:
                main()
            except SystemExit as stop:
                code = int(stop.code or 0)
            assert sys.stdout is out
        return code, out.getvalue(), err.getvalue()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with evil names, words and labels."""
    folder = tmp_path_factory.mktemp("runs")
    text = f"{WORDS} .\n" * 30
    thereafter.train(text=text, tokens="byte", order=6).save(folder / "byte\x1b]0;pwned\x07")
    thereafter.train(text=text, tokens="word", order=3, min_count=1).save(folder / "word\x1b[2J")
    kinds = (("good", "pos"), ("bad", "neg"))
    rows = (f"{word} film {k % 5}\t{label}\x1b[31m\x9b2J\n" for k in range(20) for word, label in kinds)
    (folder / "films.tsv").write_text("".join(rows))
    options = {"epochs": 1, "embed": 4, "hidden": 4}
    thereafter.train(folder / "films.tsv", task="classify", **options).save(folder / "labels\x1b[2J")
    (folder / "book\x1b[2J.txt").write_text(text)
    return folder


COMMANDS = [
    ("generate", "byte*", "the ", "--seed", "1", "--max-new-tokens", "120"),
    ("generate", "byte*", "the ", "--seed", "1", "--samples", "2", "--max-new-tokens", "60"),
    ("generate", "byte*", "the ", "--num-beams", "2", "--max-new-tokens", "60"),
    ("generate", "byte*", f"the {EVIL}", "--json"),
    ("generate", "word*", "the", "--seed", "1"),
    ("next", "word*", "the", "-k", "20"),
    ("next", "word*", "the", "-k", "20", "--csv"),
    ("next", "word*", "the", "-k", "20", "--json"),
    ("surprisal", "word*", "--text", WORDS, "--detail"),
    ("surprisal", "byte*", "--text", WORDS, "--by", "token", "--detail"),
    ("surprisal", "word*", "book*"),
    ("surprisal", "word*", "--text", WORDS, "--csv"),
    ("rank", "word*", WORDS, EVIL),
    ("score", "word*", "book*"),
    ("score", "word*", "--text", EVIL),
    ("predict", "labels*", f"good {EVIL}", "bad film"),
    ("predict", "labels*", "good film", "--csv"),
    ("predict", "labels*", "good film", "--explain"),
    ("score", "labels*", "films.tsv"),
    ("train", "book*", "--out", "new\x1b[2J", "--order", "3"),
    ("inspect", "trace", "word*", "--text", EVIL, "--out", "t.npz"),
    ("score", f"nowhere{EVIL}", "book*"),
    ("score", "word*", f"nowhere{EVIL}"),
    ("predict", "labels*", "good", "--set", f"x{EVIL}=1"),
    (f"no{EVIL}",),
    ("next", "word*", f"--no{EVIL}"),
]


def in_folder(folder: Path, word: str) -> str:
    """A word of a command, with the path of a file where it is the beginning of a name."""
    if word.endswith("*"):
        return str(next(path for path in sorted(folder.iterdir()) if path.name.startswith(word[:-1])))
    return word


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: re.sub(r"[^ -~]", "", " ".join(words))[:40])
def test_no_command_lets_controls_reach_a_terminal(
    words: tuple[str, ...], shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = shell(*(in_folder(folder, word) for word in words))
    assert code in (0, 2), err
    assert "Traceback" not in err
    assert not CONTROLS.findall(OWN.sub("", out))
    is_usage = "Usage:" in err  # in the colours of rich
    assert not CONTROLS.findall((COLOURS if is_usage else OWN).sub("", err))
    assert out + err


def test_a_run_with_an_evil_name_is_served_by_a_harmless_line(
    folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda *args, **options: None)  # it would serve until Ctrl-C
    code, out, err = shell("serve", in_folder(folder, "word*"), in_folder(folder, "labels*"), "--port", "0")
    assert code == 0, err
    assert r"serving word\x1b[2J, labels\x1b[2J at http://127.0.0.1:" in out
    assert not CONTROLS.findall(out + err)


def test_honest_text_is_shown_as_it_is(shell: Shell, folder: Path) -> None:
    code, out, _ = shell("generate", in_folder(folder, "byte*"), f"{HONEST}\n\t{HONEST}", "--max-new-tokens", "0")
    assert (code, out) == (0, f"{HONEST}\n\t{HONEST}\n")
    assert progress.visible(f"{HONEST}\n{HONEST}") == f"{HONEST}\n{HONEST}"
    assert progress.visible("a\x1b[2J\r\x00\x7f\x9b\u202e\u2028\u200f") == r"a\x1b[2J\r\x00\x7f\x9b\u202e\u2028\u200f"


def test_a_file_gets_the_text_itself(shell: Shell, folder: Path) -> None:
    lm = thereafter.load(in_folder(folder, "byte*"))
    expected = lm.generate("the ", 120, seed=1)
    words = ("generate", in_folder(folder, "byte*"), "the ", "--seed", "1", "--max-new-tokens", "120")
    _, out, _ = shell(*words, screen=False)
    assert CONTROLS.search(expected)
    assert out == expected + "\n"
    _, shown, _ = shell(*words)
    assert shown == progress.visible(expected) + "\n"
    assert json.loads(shell(*words, "--json", screen=False)[1])["samples"][0]["text"] == expected
    _, table, _ = shell("next", in_folder(folder, "word*"), "the", "-k", "20", "--csv", screen=False)
    tokens = [row["text"] for row in csv.DictReader(io.StringIO(table, newline=""))]
    assert any("\x1b[31mred" in token for token in tokens)
    _, answers, _ = shell("predict", in_folder(folder, "labels*"), "good film", screen=False)
    assert answers.endswith("\x1b[31m\x9b2J\n")


def test_lines_that_are_no_text_of_a_model_are_escaped_in_files_too(shell: Shell, folder: Path) -> None:
    _, out, err = shell("surprisal", in_folder(folder, "word*"), "--text", "a\x9b2J b\x1b]0;x\x07", screen=False)
    assert r"a\x9b2J" in out
    _, _, refused = shell("score", f"nowhere{EVIL}", "book", screen=False)
    assert not CONTROLS.findall(out + err + refused)


def test_progress_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1_000))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 10.0 * next(clock)))
    for fancy in (True, False):
        screen = Screen()
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setattr(progress, "installed", lambda name, fancy=fancy: fancy)
        monkeypatch.setenv("TERM", "xterm")
        reporter = progress.TerminalReporter()
        with progress.reporting(reporter), progress.task(f"reading [/x] {EVIL}", total=3, unit="B") as advance:
            advance(1, f"loss {EVIL}")
            progress.note(f"{progress.WARNING} {EVIL}")
            advance(1, f"loss {EVIL}")
            progress.note(EVIL)
        shown = screen.getvalue()
        assert "pwned" in shown
        assert "[/x]" in shown
        assert "\x1b]0;" not in shown
        assert not re.search("[\x07\x9b\u202e\u2028\u2066]|\x1b\\[2J|\x1b\\[31mred", shown)
        assert r"\x1b]0;pwned\x07" in re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", shown)


def test_colours_are_written_in_one_place() -> None:
    commands = Path(thereafter.__file__).parent / "cli"
    assert not [path for path in commands.rglob("*.py") if "secho(" in path.read_text(encoding="utf-8")]
