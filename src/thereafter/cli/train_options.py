"""The options of `thereafter train`, a type each: what it may be, and its help.

What `--set` takes are the settings of a task: name, default and meaning.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

from thereafter.base.kinds import listed
from thereafter.cli.commands import show_all_options
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

if TYPE_CHECKING:
    from thereafter.data.files import AnySource


EVERYDAY = ("model", "task", "tokens", "order", "hidden", "epochs", "minutes", "split", "out", "resume", "start_from",
    "seed", "help", "help_all")  # fmt: skip
"""Options that `train --help` shows; `--help-all` shows them all."""
_SERIES = "Series (--task forecast)"


def _neural(text: str) -> OptionInfo:
    option: OptionInfo = typer.Option(help=text, rich_help_panel="Neural models")
    return option


def _batch(spelled: str) -> int | str:
    """A number of rows, or the word that stands for one."""
    return int(spelled) if spelled.removeprefix("-").isdecimal() else spelled


def wants_parts(spelled: str | None) -> bool:
    """What --parts says; OptionError for a word that is neither yes nor no."""
    if spelled not in (None, "yes", "no"):
        raise OptionError(
            f"--parts is {spelled!r}; expected yes or no; no reads all files of a folder as one; try FOLDER:train for "
            "one part"
        )
    return spelled != "no"


def _ngram(text: str) -> OptionInfo:
    option: OptionInfo = typer.Option(help=text, rich_help_panel="N-gram models")
    return option


def _rows(lookback: int | None) -> int | None:
    """The lookback; OptionError for 0, which in the settings of a run means that it is chosen."""
    if lookback == 0:
        raise OptionError("--lookback is 0; expected 1 row or more to read; try leaving it out, and it is chosen")
    return lookback


def _of_table(text: str, *names: str) -> OptionInfo:
    option: OptionInfo = typer.Option(*names, help=text, rich_help_panel=_SERIES)
    return option


def _of_text(text: str, *names: str) -> OptionInfo:
    option: OptionInfo = typer.Option(*names, help=text, rich_help_panel="Text")
    return option


Source = Annotated[
    str | None,
    typer.Argument(
        help="A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list).",
        show_default=False,
    ),
]
Parts = Annotated[
    str | None,
    typer.Option(
        metavar="yes|no",
        help="Recognise the training, validation and test files of a folder by name: train.txt, valid.txt (or dev, "
        "val), test.txt; ptb.test.txt; train/ and test/ (default yes). no: read all files as one.",
        show_default=False,
    ),
]
Task = Annotated[
    str | None,
    typer.Option(help=f"Train for a task on labelled examples, instead of a language model: {listed(list(TASKS))}."),
]
NoBaselines = Annotated[
    bool, typer.Option("--no-baselines", help="With --task: train no simple baselines for comparison.")
]
Model = Annotated[
    str | None,
    typer.Option(
        help=f"Kind of model (default ngram): {listed()}. With --task forecast: naive, linear, gru ... "
        "(docs/forecasting.md lists them)."
    ),
]
Tokens = Annotated[
    str | None,
    typer.Option(help="Tokenizer: word, prose, char, byte, bpe, wordpiece or unigram. Default: what suits the source."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Run folder to write; a finished run in it is replaced. Default: a new one under runs/."),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN", help="Resume a neural training run that was stopped or killed. Takes no other options."
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Read source and options from a TOML file, such as a run's config.toml."),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Start from the weights and the tokenizer of another run: a language model learns from more text; "
        "with --task classify or tag its word vectors and recurrent layers get a new head.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Random seed (default 0). N-grams use no random numbers.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting by its name in config.toml: --set training.clip=0.25 --set lstm.tied=false. --options "
        "lists those of a task.",
    ),
]
HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=show_all_options,
        help="Show all options: of n-grams, networks, text and series, and --set.",
    ),
]
ListOptions = Annotated[
    bool,
    typer.Option("--options", help="With --task: list what --set takes, with its default and meaning; train nothing."),
]

Hidden = Annotated[int | None, _neural("Hidden size. Default: chosen from the size of the text.")]
Layers = Annotated[int | None, _neural("Number of layers. Default: chosen from the size of the text.")]
Dropout = Annotated[float | None, _neural("Dropout probability, 0 to 1.")]
Epochs = Annotated[float | None, _neural("Passes over the text. Default: chosen from its size.")]
TokensBudget = Annotated[int | None, _neural("Stop after training on this many tokens.")]
Minutes = Annotated[float | None, _neural("Stop training after this many minutes; scores and baselines come after.")]
Batch = Annotated[
    str | None,
    typer.Option(
        parser=_batch,
        metavar="INTEGER|auto",
        help="Batch size: rows of text read in parallel; auto: the largest that fits in the memory of a GPU.",
        rich_help_panel="Neural models",
    ),
]
Steps = Annotated[int | None, _neural("Tokens of each row in a batch: the length of truncated BPTT.")]
Rate = Annotated[float | None, _neural("Learning rate.")]
Optimizer = Annotated[str | None, _neural("adamw (the default), adam, sgd or nt-asgd.")]
Schedule = Annotated[
    str | None, _neural("Learning rate schedule: constant, step, cosine (the default), plateau or one-cycle.")
]
Unfreeze = Annotated[
    bool,
    typer.Option(
        "--unfreeze",
        help="Gradual unfreezing: the head alone learns in the first epoch, and one layer more in each after it.",
        rich_help_panel="Neural models",
    ),
]
LayerDecay = Annotated[
    float | None,
    _neural("Multiply the learning rate by this from each layer to the one below it, from the head down: 0.38."),
]
Log = Annotated[
    str | None,
    _neural(
        "Also write the figures of every step to the run folder: csv (log.csv), tensorboard, or csv,tensorboard "
        "(docs/logging.md)."
    ),
]
Valid = Annotated[str | None, _neural("Text to validate on. Default: the valid part of the corpus or folder.")]
Split = Annotated[
    str | None,
    _neural(
        "Split off a validation set, such as 90/10. Default: the last 5 % of lines, if there is no validation text. "
        "With --task forecast: train, valid and test by time, such as 70/10/20; default: the last tenth tests, the "
        "one before it validates."
    ),
]

Order = Annotated[int | None, _ngram("Longest n-gram, in tokens: 1 to 10 (default 5).")]
Smoothing = Annotated[
    str | None,
    _ngram("mle, add-alpha, stupid-backoff, katz, witten-bell, absolute, kneser-ney or modified-kneser-ney."),
]
Cutoffs = Annotated[str | None, _ngram("Drop n-grams seen this often or less, one number per order: 0,0,1.")]
Alpha = Annotated[float | None, _ngram("Constant of add-alpha (default 0.1).")]
Factor = Annotated[float | None, _ngram("Back-off factor of stupid-backoff (default 0.4).")]
Arpa = Annotated[Path | None, _ngram("Also write the n-gram model to this ARPA file.")]

MinCount = Annotated[int | None, _of_text("Tokens seen less often than this become <unk> (default 2).")]
Vocabulary = Annotated[
    int | None,
    _of_text("Largest vocabulary to keep; for bpe, wordpiece and unigram, how many pieces to learn (default 4096)."),
]
Context = Annotated[str | None, _of_text("line: each line starts afresh. stream: the context runs on across lines.")]
Lower = Annotated[bool, _of_text("Convert the text to lower case.", "--lower")]
LettersOnly = Annotated[bool, _of_text("Keep letters only; everything else becomes a space.", "--letters-only")]
KeepLicence = Annotated[
    bool, _of_text("Keep Project Gutenberg's header and licence in your own files.", "--keep-licence")
]
Wrapped = Annotated[bool, _of_text("Keep the line breaks of hard-wrapped prose in your own files.", "--wrapped")]
KeepMarkup = Annotated[
    bool, _of_text("Read HTML, Markdown and subtitles as they are, markup and times with them.", "--keep-markup")
]

Target = Annotated[str | None, _of_table("The column to forecast; several, separated by commas.")]
Horizon = Annotated[int | None, _of_table("Steps that are forecast (default 24).")]
Lookback = Annotated[
    int | None,
    typer.Option(
        help="Rows that a forecast reads. Default: chosen from season and horizon.",
        rich_help_panel=_SERIES,
        callback=_rows,
    ),
]
Time = Annotated[
    str | None, _of_table("The column of the time stamps; row: rows are counted. Default: found in the table.")
]
Series = Annotated[str | None, _of_table("The column that names the series, for a table with many of them.")]
Past = Annotated[str | None, _of_table("Columns that are known only up to now, read with the target.")]
Known = Annotated[str | None, _of_table("Columns that are known ahead, such as holidays or prices.")]
Calendar = Annotated[bool, _of_table("Read the hour, the day of the week and the like of each row.", "--calendar")]


_WIDTH = 110  # of a line, in characters
_HERE = 22  # where the default stands
_MEANING = 35  # where the meaning stands


def settings_of(task: str, source: AnySource | None) -> set[str]:
    """The options of the network of a task, or of the one that takes this source in its place."""
    from thereafter.base import config
    from thereafter.tasks import TASKS

    return set(config.field_names(TASKS.load(_named(task, source)).settings))


def _named(task: str, source: AnySource | None) -> str:
    """The task that takes this source."""
    from thereafter.tasks import TASKS
    from thereafter.tasks.task import name_for

    return task if source is None else name_for(TASKS.load(task), source)


def remedy_for(task: str, model: str, own: set[str]) -> str:
    """Which settings of a task are meant by a kind of model, as what to try."""
    from thereafter.tasks import TASKS

    known = TASKS.load(task)
    if known.chooses in own and model in known.kinds():
        return f"try --set {known.chooses}={model}"
    layers = next((option for option in ("cell", "encoder") if option in own), "")
    remedies = [f"--set {layers}={model}"] if layers else []
    if known.chooses in own:
        remedies.append(f"--set {known.chooses}= with {', '.join(known.kinds())}")
    return f"try {', or '.join(remedies)}" if remedies else "leave one of them out"


def print_settings(task: str | None, source: AnySource | None = None) -> None:
    """The settings of the network of a task and those of its training, a line each."""
    from thereafter.base.config import as_table
    from thereafter.tasks import TASKS
    from thereafter.tasks.fitting import idle_options, training_of
    from thereafter.training.settings import TrainingSettings

    if task is None:
        raise OptionError(
            f"--options lists the settings of a task; expected --task with {', '.join(TASKS)}; the settings of a "
            "language model are those of --help and docs/models.md"
        )
    known = TASKS.load(_named(task, source))
    typer.echo(f"{known.name}: --set NAME=VALUE, with these names and defaults")
    for name, default, meaning in described_settings(known.settings):
        _print_line(name, default, meaning)
    typer.echo("\nits training:")
    values, idle = as_table(training_of(known)), idle_options(known)
    for name, _, meaning in described_settings(TrainingSettings):
        if name not in idle:
            _print_line(name, _spelled(values[name]), meaning)
    typer.echo("\nWhere no default stands there is none, or it is chosen from the examples.")


def described_settings(settings: type[object]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each field of a dataclass of settings that does something.

    A meaning is the docstring below the field, here or in a class it inherits from. What stands there as `CHOICES` or
    `choices()` of its module is spelled out.
    """
    if not is_dataclass(settings):
        raise TypeError(f"{settings!r} is not a dataclass")
    idle = getattr(settings, "idle", ())
    meanings: dict[str, str] = {}
    for owner in settings.__mro__:
        meanings = _below_fields(owner) | meanings
    return [
        (one.name, "" if one.default is MISSING else _spelled(one.default), meanings.get(one.name, ""))
        for one in fields(settings)
        if not one.name.startswith("_") and one.name not in idle
    ]


def _below_fields(owner: type[object]) -> dict[str, str]:
    """The docstrings that stand below the fields of a class in its source; none where there is no source."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, TypeError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    module = sys.modules[owner.__module__]
    return {
        before.target.id: _with_choices(" ".join(after.value.value.split()), module)
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr)
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


def _with_choices(meaning: str, module: ModuleType) -> str:
    """A meaning with the choices in the place of their name.

    >>> from thereafter.training import settings
    >>> _with_choices("Where it is computed: `DEVICES`.", settings)
    'Where it is computed: auto, cpu or cuda.'
    """

    def choices(name: re.Match[str]) -> str:
        listed = getattr(module, name[1], None)
        if listed is None:
            return name[0]
        *before, last = listed() if name[2] else listed
        return f"{', '.join(before)} or {last}"

    return re.sub(r"`([A-Z_]+|[a-z_]+(?=\(\)))(\(\))?`", choices, meaning)


def _spelled(value: object) -> str:
    """A default as `--set` takes it; nothing where it is chosen."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _print_line(name: str, default: str, meaning: str) -> None:
    head = f"  {name:<{_HERE - 3}} {default}"
    lines = textwrap.wrap(meaning, _WIDTH - _MEANING, break_on_hyphens=False) or [""]
    typer.echo(f"{head:<{_MEANING - 1}} {lines[0]}".rstrip())
    for line in lines[1:]:
        typer.echo(" " * _MEANING + line)
