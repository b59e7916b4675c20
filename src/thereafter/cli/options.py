"""The options of commands: each is described once, below the field of the settings it sets, or in a docstring.

    @command(app, *READING)
    def predict(run: str, texts: Texts = None, horizon: int | None = None, form: str = "", **reading: object) -> None:
        \"\"\"Predict with a model that was trained for a task.

        Args:
            horizon: Steps to forecast. Default: those of the run.
        \"\"\"

makes a command with the arguments of the function, with --csv and --json in the place of `form`, and with the options
of the group: they come by name, and are None or False where they were not given. An argument without a default is one
of the command line, any other an option. Its help stands in `Args`, or in `Shared` for those of many commands. An
argument that is a dataclass, such as `Loading`, stands for options that are its fields.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial, wraps
from inspect import Parameter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from thereafter.base.config import Table
from thereafter.base.kinds import listed
from thereafter.base.tabular import check_ending
from thereafter.cli import Command, load, show_all_options
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

ARRAYS = ".npz"
"""The ending of a file of arrays."""
_FIGURES = (".html", ".png", ".svg")


class Field(NamedTuple):
    """A field as it stands in the source of a class, or an argument of a function: its type, its meaning by paragraphs,
    and its default; None where that is no plain value."""

    kind: str
    meaning: list[str]
    default: object = None


def fields_in(body: Iterable[ast.stmt]) -> dict[str, Field]:
    """The fields of a class that have a docstring below them."""
    return {
        field.target.id: Field(
            ast.unparse(field.annotation),
            [" ".join(words.split()) for words in below.value.value.split("\n\n")],
            _plain_value(field.value),
        )
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr)
        if isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _plain_value(node: ast.expr | None, source: str = "") -> object:
    """The value of a number, a text or a truth value in a source, where it may be that of a constant."""
    if isinstance(node, ast.Name) and (line := re.search(rf"^{node.id} = (.+)$", source, re.MULTILINE)):
        return ast.literal_eval(line[1])
    return node.value if isinstance(node, ast.Constant) else None


@cache
def _fields(row: str) -> dict[str, Field]:
    """The fields of a class, or the arguments of a function, "module:name", read from its source: to import it may
    import numpy, or take long.

    >>> _fields("thereafter.training.settings:TrainingSettings")["rate"]
    Field(kind='float | None', meaning=['Learning rate.'], default=None)
    """
    module, _, name = row.partition(":")
    source = Path(__file__).parents[1].joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
    _, head, rest = source.partition(f"\ndef {name}(")
    if head:
        text = head + rest.partition(":\n")[0] + ": ..."
    else:
        own = re.search(rf"^class {name}\b.*?(?=^\S|\Z)", source, re.MULTILINE | re.DOTALL)
        text = own[0] if own else ""
    (tree,) = ast.parse(text).body
    if not isinstance(tree, ast.FunctionDef):
        return fields_in(vars(tree)["body"])
    plain = [*tree.args.posonlyargs, *tree.args.args]
    values = [None] * (len(plain) - len(tree.args.defaults)) + tree.args.defaults + tree.args.kw_defaults
    return {
        one.arg: Field(ast.unparse(one.annotation), [""], _plain_value(value, source))
        for one, value in zip([*plain, *tree.args.kwonlyargs], values, strict=True)
        if one.annotation is not None
    }


_KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool, "list": list[str], "Path": Path}


def group(
    row: str, *names: str, panel: str | None = None, defaults: bool = False, **special: Table
) -> tuple[Parameter, ...]:
    """Options for fields of a class, by default for all; a name, type and help are the field's. `defaults`: so is the
    default, which is otherwise left to whoever chooses it. `special`: more of some of them, as arguments of `option`.
    """
    described = _fields(row)
    options = []
    for name in names or described:
        kind = _KINDS.get(re.split(r"\W", described[name].kind)[0], str)
        about: Table = {"panel": panel, "help": described[name].meaning[0] or None}
        about |= {"default": described[name].default if defaults else None, "kind": kind, **special.get(name, {})}
        options.append(option(name, **about))
    return tuple(options)


library = partial(group, defaults=True)
"""Options for arguments of a function of the library, with its defaults; their help stands in the command."""


def option(
    name: str,
    kind: type,
    help: str | None = None,
    spelled: str = "",
    *,
    panel: str | None = None,
    default: object = None,
    **more: object,
) -> Parameter:
    """An option that may be left out: its value is then the default, of a switch without one False. Without `help` it
    stands in the docstring of the command; `more` are arguments of `typer.Option`."""
    is_switch = kind is bool
    names = [spelled or f"--{name.replace('_', '-')}"] if spelled or is_switch else []
    about: Table = {"help": help, "rich_help_panel": panel, **more}
    plain, info = kind if is_switch or default is not None else kind | None, typer.Option(*names, **about)
    value = bool(default) if is_switch else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=Annotated[plain, info])


def _described(argument: Parameter, own: dict[str, str], shared: dict[str, str]) -> Parameter:
    """An argument of a command with its help; a plain one becomes an argument or an option of the command line. The
    command's `own` words come before those of the option, and both before those that commands share."""
    kind = argument.annotation
    if kind is typer.Context:
        return argument
    if get_origin(kind) is Annotated:
        kind, info = get_args(kind)
    elif argument.default is Parameter.empty:
        info = typer.Argument(show_default=False)
    else:
        info = typer.Option(*([f"--{argument.name.replace('_', '-')}"] if kind is bool else []))
    info = copy(info)
    info.help = own.get(argument.name) or info.help or shared[argument.name]
    return argument.replace(annotation=Annotated[kind, info])


def _own_options(kind: object) -> list[Parameter]:
    """The fields of a dataclass of options, as arguments of a command; none of any other type."""
    if not isinstance(kind, type) or not is_dataclass(kind):
        return []
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(kind)
    ]


def command(
    to: typer.Typer,
    *options: Parameter,
    name: str | None = None,
    cls: type[TyperCommand] = Command,
    context_settings: Table | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command that takes these options beside its own arguments: help lists them before those
    that are keyword-only. An argument of the function that one of the options describes is that option.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True).parameters
        joined = {name: parts for name, one in signature.items() if (parts := _own_options(one.annotation))}
        described = {one.name for one in options}

        def section(*kinds: object) -> list[Parameter]:
            """The arguments of these kinds, those for the form of a table last."""
            parts = [part for name, one in signature.items() if one.kind in kinds for part in joined.get(name, [one])]
            formats = FORMATS if any(part.name == "form" for part in parts) else ()
            return [*(part for part in parts if part.name not in (*described, "form")), *formats]

        arguments = [*section(Parameter.POSITIONAL_OR_KEYWORD), *options, *section(Parameter.KEYWORD_ONLY)]
        has_form = FORMATS[0] in arguments
        text, _, about = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
        shared = {name: field.meaning[0] for name, field in _fields(f"{__name__}:Shared").items()}
        helps = {
            name: " ".join(words.split())
            for name, words in re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", about, re.MULTILINE)
        }

        @wraps(function)
        def run(**values: object) -> None:
            if has_form:
                as_csv, as_json = values.pop("as_csv"), values.pop("as_json")
                values["form"] = "csv" if as_csv else "json" if as_json else ""
            for name, parts in joined.items():
                values[name] = signature[name].annotation(**{part.name: values.pop(part.name) for part in parts})
            function(**values)

        parameters = [_described(argument, helps, shared) for argument in arguments]
        vars(run)["__signature__"] = inspect.Signature([one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters])
        registered: Callable[..., None] = to.command(name, cls=cls, help=text, context_settings=context_settings)(run)
        return registered

    return register


def chosen(values: Table) -> Table:
    """The options that were given."""
    return {name: value for name, value in values.items() if value is not None and value is not False}


def refuse_of_series(given: Table, options: Iterable[Parameter]) -> None:
    """OptionError where one of these options was given, and no task."""
    for option in options:
        if option.name in given:
            raise OptionError(
                f"--{option.name} is for tables of series; got it without a task; try adding --task forecast"
            )


# ---- what is checked before anything is computed


def one_format(context: typer.Context, wanted: bool) -> bool:
    """Whether a format is wanted; both at once are refused."""
    if wanted and (context.params.get("as_csv") or context.params.get("as_json")):
        raise OptionError("got both --csv and --json; expected one of them; try --csv")
    return wanted


def _checked(check: Callable[[Path], None]) -> Callable[[Path | None], Path | None]:
    """A callback that looks at the name of a file, before anything is computed."""

    def callback(path: Path | None) -> Path | None:
        if path is not None:
            check(path)
        return path

    return callback


def _check_numbers(path: Path) -> None:
    from thereafter.inspection.arrays import check_ending

    check_ending(path)


def _check_figure(path: Path) -> None:
    if path.suffix.lower() not in _FIGURES:
        raise OptionError(
            f"--figure is {path.name!r}; expected a name that ends in {', '.join(_FIGURES)}; try {path.stem}.html"
        )


def _check_drawable(path: Path) -> None:
    """The package that draws must be installed, too."""
    from thereafter.base.packages import require
    from thereafter.figures.pictures import format_of

    format_of(path)
    require("plotly", "drawing a picture")


table_or_arrays = _checked(partial(check_ending, more=(ARRAYS,)))
writable = _checked(_check_numbers)
figure_file = _checked(_check_figure)
drawable = _checked(_check_drawable)


def _batch(spelled: str) -> int | str:
    """A number of rows, or the word that stands for one."""
    return int(spelled) if spelled.removeprefix("-").isdecimal() else spelled


def _rows(lookback: int | None) -> int | None:
    """The lookback; OptionError for 0, which in the settings of a run means that it is chosen."""
    if lookback == 0:
        raise OptionError("--lookback is 0; expected 1 row or more to read; try leaving it out, and it is chosen")
    return lookback


def whole_numbers(param: typer.CallbackParam, spelled: str | None) -> tuple[int, ...] | None:
    """ "0,0,1" as numbers."""
    try:
        return None if spelled is None else tuple(int(number) for number in spelled.replace(",", " ").split())
    except ValueError:
        raise OptionError(
            f"--{param.name} is {spelled!r}; expected whole numbers separated by commas; try 0,0,1"
        ) from None


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


@dataclass(frozen=True)
class Loading:
    """How the model of a run is loaded."""

    tokens: str = "word"
    as_written: bool = False
    device: str = "auto"

    def load(self, run: str) -> LanguageModel:
        """The model in a run folder or an ARPA file."""
        return load(run, self.tokens, as_written=self.as_written, device=self.device)


LOADING = Loading()
TableFile = Annotated[
    Path | None,
    typer.Option("--out", callback=_checked(check_ending), help="Write the table to this file: .csv, .tsv or .json."),
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
        cutoffs={"callback": whole_numbers},
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
