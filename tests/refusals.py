"""`refused`: a test of an error states its class and the facts that its sentence must name; the words are free.

    with assert_refused(OptionError, "epochs", -1.0):
        train(text=TEXT, epochs=-1)

Facts are what the user needs to see: the value that was got, the names or the range that would be right. Never pass a
piece of the sentence. What the sentence says to try is parsed as well (`assert_remedies_parse`): a remedy that cannot
be typed is worse than none.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from thereafter.errors import ThereafterError

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
COMMAND = re.compile(r"(?:`|\btry:? |\bor |\bwith )thereafter ((?:[a-z]+(?:-[a-z]+)*)(?: [^;,`)\n]*)?)")
CALL = re.compile(r"\b(?:try|with|instance)[: ]+`?([A-Za-z_][\w.]*\([^;\n]*?\))(?=[;,`.]?(?:\s|$))")
SETTING = re.compile(r"\b([a-z_]+)=('(?:[^'\\]|\\.)*'|[\d.]+)")
QUOTED = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
BOTH_FORMS = re.compile(rf"(?:^| )--[a-z-]+ ((?:(?!--)[^;(])*) \([a-z_]+={QUOTED}\)")
EXTRA = re.compile(r"thereafter\[([\w,-]+)\]")
OTHER_PROGRAMS = re.compile(r"\b(?:pip|cp|unzip|apt|tar|ssh|soffice) [^;]*")


@contextmanager
def assert_refused(error: type[BaseException], *facts: object) -> Iterator[pytest.ExceptionInfo[Any]]:
    """The block raises this error, its sentence names every fact, and what it says to try can be typed."""
    with pytest.raises(error) as caught:
        yield caught
    assert_names(str(caught.value), *facts)
    assert_remedies_parse(str(caught.value))
    if isinstance(caught.value, ThereafterError):
        assert_remedies_parse(caught.value.in_shell)


def assert_names(sentence: str, *facts: object) -> None:
    """Every fact stands in the sentence: not as a part of a longer word or number, numbers with or without commas."""
    for fact in facts:
        text = f"{fact}"
        grouped = f"{fact:,}" if isinstance(fact, int) and not isinstance(fact, bool) else text
        wanted = rf"(?<![\w])(?:{re.escape(text)}|{re.escape(grouped)})(?![\w])"
        if not text[:1].isalnum() or not text[-1:].isalnum():
            wanted = re.escape(text)
        assert re.search(wanted, sentence), f"{text!r} is not named in: {sentence}"


def assert_remedies_parse(sentence: str) -> None:
    """Commands and options that the sentence names exist, calls are Python, extras can be installed."""
    for words in COMMAND.findall(sentence):
        name, *inner = re.findall(r"[a-z][a-z-]*|--[a-z-]+|\S+", words)
        assert name in _commands(), f"there is no command {name!r}: {sentence}"
        unknown = set(OPTION.findall(words)) - _options(name, inner[0] if inner else "") - {"--help"}
        assert not unknown, f"{name} has no option {', '.join(unknown)}: {sentence}"
    own = OTHER_PROGRAMS.sub("", sentence.partition("try")[2])
    unknown = set(OPTION.findall(own)) - _all_options()
    assert not unknown, f"no command has the option {', '.join(unknown)}: {sentence}"
    for in_shell, in_python in BOTH_FORMS.findall(sentence):
        assert shlex.split(in_shell) == [ast.literal_eval(in_python)], f"a shell reads it otherwise: {sentence}"
    for call in CALL.findall(sentence):
        ast.parse(call, mode="eval")
    for name, value in SETTING.findall(own):
        ast.parse(f"f({name}={value})", mode="eval")
    for extras in EXTRA.findall(sentence):
        known = importlib.metadata.metadata("thereafter").get_all("Provides-Extra") or []
        assert set(extras.split(",")) <= set(known), f"no extra {extras!r}: {sentence}"


@cache
def _commands() -> dict[str, Any]:
    """The commands, and those of a group as "inspect gates"."""
    from typer.main import get_command

    from thereafter.cli import app

    top: Any = get_command(app)
    context = top.make_context("thereafter", [], resilient_parsing=True)
    commands = {name: top.get_command(context, name) for name in top.list_commands(context)}
    groups = {f"{name} {inner}": c for name in commands for inner, c in getattr(commands[name], "commands", {}).items()}
    return commands | groups


def _options(name: str, inner: str) -> set[str]:
    command = _commands().get(f"{name} {inner}", _commands()[name])
    context = command.make_context(name, [], resilient_parsing=True)
    return {option for param in command.get_params(context) for option in (*param.opts, *param.secondary_opts)}


@cache
def _all_options() -> set[str]:
    return {"--help", "--version"}.union(*(_options(*name.partition(" ")[::2]) for name in _commands()))
