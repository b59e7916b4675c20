"""The options of commands: each is described once, below the field of the settings it sets, or in a docstring.

    @command(app, *READING)
    def predict(run: str, texts: Texts = None, horizon: int | None = None, form: str = "", **reading: object) -> None:
        \"\"\"Predict with a model that was trained for a task.

        Args:
            horizon: Steps to forecast. Default: those of the run.
        \"\"\"

makes a command with the arguments of the function, with --csv and --json in the place of `form`, and with the options
of the group: they come by name, and are None or False where they were not given. An argument without a default is one
of the command line, any other an option. Its help stands in `Args`, or in `Shared` for those of many commands.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import cache, partial, wraps
from inspect import Parameter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.models import ParameterInfo

from thereafter.base.config import Table
from thereafter.base.kinds import listed
from thereafter.base.tabular import check_ending
from thereafter.cli import Command, show_all_options
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

ARRAYS = ".npz"
"""The ending of a file of arrays."""
_FIGURES = (".html", ".png", ".svg")


class Field(NamedTuple):
    """A field as it stands in the source of a class: its type, and the docstring below it by paragraphs."""

    kind: str
    meaning: list[str]


def fields_in(body: Iterable[ast.stmt]) -> dict[str, Field]:
    """The fields of a class that have a docstring below them."""
    return {
        field.target.id: Field(
            ast.unparse(field.annotation), [" ".join(words.split()) for words in below.value.value.split("\n\n")]
        )
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr)
        if isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


@cache
def _fields(row: str) -> dict[str, Field]:
    """The fields of a class, "module:Class", read from its source: to import settings may import numpy, or take long.

    >>> _fields("thereafter.training.settings:TrainingSettings")["rate"]
    Field(kind='float | None', meaning=['Learning rate.'])
    """
    module, _, name = row.partition(":")
    source = Path(__file__).parents[1].joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
    own = re.search(rf"^class {name}\b.*?(?=^\S|\Z)", source, re.MULTILINE | re.DOTALL)
    (tree,) = ast.parse(own[0] if own else "").body
    return fields_in(vars(tree)["body"])


_KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool, "list": list[str], "Path": Path}


def group(row: str, *names: str, panel: str | None = None, **special: Table) -> tuple[Parameter, ...]:
    """Options for fields of a class, by default for all; a name, type and help are the field's. `special`: more of some
    of them, as arguments of `option`."""
    fields = _fields(row)
    options = []
    for name in names or fields:
        kind = _KINDS.get(re.split(r"\W", fields[name].kind)[0], str)
        about: Table = {"panel": panel, "help": fields[name].meaning[0], **special.get(name, {})}
        options.append(option(name, kind, **about))
    return tuple(options)


def option(
    name: str, kind: type, help: str | None = None, spelled: str = "", *, panel: str | None = None, **more: object
) -> Parameter:
    """An option that may be left out: its value is then None, of a switch False. Without `help` it stands in the
    docstring of the command; `more` are arguments of `typer.Option`."""
    is_switch = kind is bool
    names = [spelled or f"--{name.replace('_', '-')}"] if spelled or is_switch else []
    about: Table = {"help": help, "rich_help_panel": panel, **more}
    described = typer.Option(False if is_switch else None, *names, **about)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=described, annotation=kind if is_switch else kind | None)


def _described(argument: Parameter, helps: dict[str, str]) -> Parameter:
    """An argument of a command with its help; a plain one becomes an argument or an option of the command line."""
    kind, default = argument.annotation, argument.default
    if kind is typer.Context:
        return argument
    if isinstance(default, ParameterInfo):
        info = default
    elif get_origin(kind) is Annotated:
        kind, info = get_args(kind)
    elif default is Parameter.empty:
        info = typer.Argument(show_default=False)
    else:
        info = typer.Option(*([f"--{argument.name.replace('_', '-')}"] if kind is bool else []))
    info = copy(info)
    info.help = info.help or helps[argument.name]
    if isinstance(default, ParameterInfo):
        return argument.replace(default=info)
    return argument.replace(annotation=Annotated[kind, info])


def command(
    to: typer.Typer,
    *options: Parameter,
    name: str | None = None,
    cls: type[TyperCommand] = Command,
    context_settings: Table | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command that takes these options beside its own arguments.

    An argument of the function that one of the options describes is that option.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters
        described = {one.name: one for one in (*(FORMATS if "form" in own else ()), *options)}
        arguments = [
            one
            for one in own.values()
            if one.name not in described and one.name != "form" and one.kind is not Parameter.VAR_KEYWORD
        ]
        text, _, about = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
        helps = {name: field.meaning[0] for name, field in _fields(f"{__name__}:Shared").items()}
        helps |= {
            name: " ".join(words.split())
            for name, words in re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", about, re.MULTILINE)
        }

        @wraps(function)
        def run(**values: object) -> None:
            if "form" in own:
                as_csv, as_json = values.pop("as_csv"), values.pop("as_json")
                values["form"] = "csv" if as_csv else "json" if as_json else ""
            function(**values)

        parameters = [_described(argument, helps) for argument in (*arguments, *described.values())]
        vars(run)["__signature__"] = inspect.Signature(parameters)
        registered: Callable[..., None] = to.command(name, cls=cls, help=text, context_settings=context_settings)(run)
        return registered

    return register


def chosen(values: Table) -> Table:
    """The options that were given."""
    return {name: value for name, value in values.items() if value is not None and value is not False}


# ---- what is checked before anything is computed


def one_format(context: typer.Context, wanted: bool) -> bool:
    """Whether a format is wanted; both at once are refused."""
    if wanted and (context.params.get("as_csv") or context.params.get("as_json")):
        raise OptionError("got both --csv and --json; expected one of them; try --csv")
    return wanted


def _table_file(path: Path | None) -> Path | None:
    """The file of a table, with an ending that can be written."""
    if path is not None:
        check_ending(path)
    return path


def table_or_arrays(path: Path | None) -> Path | None:
    """The file of a table or of arrays, with an ending that can be written."""
    return path if path is not None and path.suffix.lower() == ARRAYS else _table_file(path)


def writable(path: Path | None) -> Path | None:
    """The file of numbers, with an ending that can be written."""
    if path is not None:
        from thereafter.inspection.arrays import check_ending

        check_ending(path)
    return path


def figure_file(path: Path | None) -> Path | None:
    """The file of a figure, with an ending that can be written."""
    if path is not None and path.suffix.lower() not in _FIGURES:
        raise OptionError(
            f"--figure is {path.name!r}; expected a name that ends in {', '.join(_FIGURES)}; try {path.stem}.html"
        )
    return path


def drawable(path: Path | None) -> Path | None:
    """The file of a picture, with an ending that can be written, where the package that draws is installed."""
    if path is not None:
        from thereafter.base.packages import require
        from thereafter.figures.pictures import format_of

        format_of(path)
        require("plotly", "drawing a picture")
    return path


def _batch(spelled: str) -> int | str:
    """A number of rows, or the word that stands for one."""
    return int(spelled) if spelled.removeprefix("-").isdecimal() else spelled


def _rows(lookback: int | None) -> int | None:
    """The lookback; OptionError for 0, which in the settings of a run means that it is chosen."""
    if lookback == 0:
        raise OptionError("--lookback is 0; expected 1 row or more to read; try leaving it out, and it is chosen")
    return lookback


def _whole_numbers(spelled: str | None) -> tuple[int, ...] | None:
    """ "0,0,1" as numbers."""
    try:
        return None if spelled is None else tuple(int(number) for number in spelled.replace(",", " ").split())
    except ValueError:
        raise OptionError(f"--cutoffs is {spelled!r}; expected whole numbers separated by commas; try 0,0,1") from None


def wants_parts(spelled: str | None) -> bool:
    """What --parts says; OptionError for a word that is neither yes nor no."""
    if spelled not in (None, "yes", "no"):
        raise OptionError(
            f"--parts is {spelled!r}; expected yes or no; no reads all files of a folder as one; try FOLDER:train for "
            "one part"
        )
    return spelled != "no"


# ---- arguments and options of many commands


class Shared:
    """What arguments of these names mean, unless the docstring of a command says something else."""

    run: str
    """A run folder, or an ARPA file."""
    tokens: str
    """How the text of an ARPA file was tokenized: word, prose or char."""
    as_written: bool
    """Read plain text as it is. Default: with the marks of the model's own text, such as ’ for ', and in the form of a
    pre-tokenised corpus such as ptb."""
    device: str
    """Device of a network: cpu, cuda (a GPU), or auto: a GPU if there is one. For a few short inputs the CPU is often
    quicker."""
    encoding: str
    """Encoding of the text, such as latin-1. Default: UTF-8, or as its BOM says."""
    item: str
    """With --by COLUMN: the column that says which rows are one item in several conditions. Default: item."""
    context: str
    """What a line is read after. item: nothing, each from a fresh state; N: the N lines before it; document: all lines
    before it. Default: document; item for a column of a table."""
    items: bool
    """Short for --context item: the lines do not continue each other."""


TableFile = Annotated[
    Path | None, typer.Option("--out", callback=_table_file, help="Write the table to this file: .csv, .tsv or .json.")
]
Numbers = Annotated[
    Path | None,
    typer.Option(
        callback=writable, help="Write the numbers to this file: .npz (which thereafter figure reads), .json or .csv."
    ),
]
Picture = Annotated[Path | None, typer.Option(help="Write the figure to this file: .html or .png.", callback=drawable)]
ItemColumn = Annotated[str | None, typer.Option("--item", metavar="COLUMN")]
ItemContext = Annotated[str | None, typer.Option("--context", metavar="N|item|document")]


# ---- groups of options

FORMATS = (
    option("as_csv", bool, "Print the table as CSV.", "--csv", callback=one_format),
    option("as_json", bool, "Print the table as JSON.", "--json", callback=one_format),
)
_text = partial(group, "thereafter.training.settings:TextSettings", panel="Text")
READING = _text(
    *("keep_licence", "wrapped", "markup", "encoding"), markup={"spelled": "--keep-markup"}, encoding={"panel": None}
)
PARTS = option(
    "parts",
    str,
    "Recognise the training, validation and test files of a folder by name: train.txt, valid.txt (or dev, val), "
    "test.txt; ptb.test.txt; train/ and test/ (default yes). no: read all files as one.",
    metavar="yes|no",
)
SERIES_PANEL = "Series (--task forecast)"
SERIES = group(
    "thereafter.series.forecasters.settings:ForecastSettings",
    *("target", "horizon", "lookback", "time", "series", "past", "known", "calendar"),
    panel=SERIES_PANEL,
    lookback={"callback": _rows},
)
_NEURAL = "Neural models"
NEURAL = (
    *group("thereafter.models.settings:RecurrentSettings", "hidden", "layers", "dropout", panel=_NEURAL),
    *group(
        "thereafter.training.settings:TrainingSettings",
        *("epochs", "tokens_budget", "minutes", "batch", "steps", "rate", "optimizer", "schedule", "unfreeze"),
        *("layer_decay", "log"),
        panel=_NEURAL,
        batch={"parser": _batch, "metavar": "INTEGER|auto"},
    ),
    option("valid", str, panel=_NEURAL),
    option("split", str, panel=_NEURAL),
)
_NGRAM = "N-gram models"
NGRAM = (
    *group(
        "thereafter.training.ngram:NgramSettings",
        *("order", "smoothing", "cutoffs", "alpha", "factor"),
        panel=_NGRAM,
        cutoffs={"callback": _whole_numbers},
    ),
    option("arpa", Path, panel=_NGRAM),
)
TRAIN = (
    option("task", str, f"Train for a task on labelled examples, instead of a language model: {listed(list(TASKS))}."),
    option("no_baselines", bool),
    option(
        "model",
        str,
        f"Kind of model (default ngram): {listed()}. With --task forecast: naive, linear, gru ... "
        "(docs/forecasting.md lists them).",
    ),
    *_text("tokens", tokens={"panel": None}),
    option("out", Path),
    option("resume", Path, metavar="RUN"),
    option("start_from", Path, None, "--from", metavar="RUN"),
    option("recipe", Path, metavar="FILE"),
    option("seed", int),
    *NEURAL,
    PARTS,
    *SERIES,
    *NGRAM,
    *_text("min_count", "vocabulary", "context", "lower", "letters_only"),
    *READING,
    option("settings", list[str], None, "--set", metavar="NAME=VALUE"),
    option("show_settings", bool, None, "--options"),
    option("help_all", bool, callback=show_all_options, is_eager=True),
)
EVERYDAY = ("model", "task", "tokens", "order", "hidden", "epochs", "minutes", "split", "out", "resume", "start_from",
    "seed", "help", "help_all")  # fmt: skip
"""Options that `train --help` shows; `--help-all` shows them all."""


class OfScoring:
    """What may be added to a model that scores."""

    mix: list[str]
    """Interpolate with this run. Repeat the option to mix more."""
    weights: str
    """Weights of the models in order, such as 0.3,0.7. Default: equal, or tuned by --tune."""
    tune: str
    """Tune weights, cache and learning rate on this text; of a corpus, on its valid part."""
    cache: bool
    """Add a cache of the most recent words."""
    cache_size: int
    """Words in the cache (default 500)."""
    cache_weight: float
    """Weight of the cache (default 0.1, or tuned)."""
    cache_theta: float
    """How strongly similar contexts are preferred; neural models only (or tuned)."""
    cache_decay: float
    """How fast older words lose weight (or tuned)."""
    dynamic: bool
    """Dynamic evaluation: a neural model keeps learning from the text it has scored."""
    dynamic_rate: float
    """Learning rate of dynamic evaluation (or tuned)."""


_MIXTURES = {"panel": "Mixtures"}
SWITCHES = group(
    f"{__name__}:OfScoring",
    panel="Cache and dynamic evaluation",
    mix=_MIXTURES | {"metavar": "RUN"},
    weights=_MIXTURES,
    tune={"metavar": "SOURCE"},
)
PART = option("part", str, "Part of a corpus or of a folder with parts. Default: test.")
