"""The options that commands share, each described once; and `command`, which adds them to a function.

    @command(app, *READING)
    def predict(run: Run, out: TableFile = None, form: str = "", **reading: Any) -> None: ...

makes a command with the arguments of the function, with --csv and --json in the place of `form`, and with the options
of the group: they come by name, and are None or False where they were not given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from thereafter.base.config import Table
from thereafter.base.kinds import listed
from thereafter.base.tabular import check_ending
from thereafter.cli.commands import Command, show_all_options
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

ARRAYS = ".npz"
"""The ending of a file of arrays."""
_FIGURES = (".html", ".png", ".svg")


def option(
    name: str,
    kind: type,
    help: str,
    *spelled: str,
    panel: str | None = None,
    metavar: str | None = None,
    callback: Callable[..., object] | None = None,
    parser: Callable[[str], object] | None = None,
    is_eager: bool = False,
) -> Parameter:
    """An option that may be left out: its value is then None, of a switch False."""
    is_switch = kind is bool
    names = spelled or ((f"--{name.replace('_', '-')}",) if is_switch else ())
    described = typer.Option(
        False if is_switch else None,
        *names,
        help=help,
        rich_help_panel=panel,
        metavar=metavar,
        callback=callback,
        parser=parser,
        is_eager=is_eager,
    )
    return Parameter(name, Parameter.KEYWORD_ONLY, default=described, annotation=kind if is_switch else kind | None)


def command(
    to: typer.Typer, *options: Parameter, name: str | None = None, cls: type[TyperCommand] = Command
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

        @wraps(function)
        def run(**values: object) -> None:
            if "form" in own:
                as_csv, as_json = values.pop("as_csv"), values.pop("as_json")
                values["form"] = "csv" if as_csv else "json" if as_json else ""
            function(**values)

        vars(run)["__signature__"] = inspect.Signature([*arguments, *described.values()])
        registered: Callable[..., None] = to.command(name, cls=cls)(run)
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
        from thereafter.figures.export import format_of

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


# ---- arguments and options of many commands, as types of arguments

Run = Annotated[str, typer.Argument(help="A run folder, or an ARPA file.", show_default=False)]
SourceName = Annotated[
    str,
    typer.Argument(help="A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list)."),
]
ArpaTokens = Annotated[
    str, typer.Option("--tokens", help="How the text of an ARPA file was tokenized: word, prose or char.")
]
AsWritten = Annotated[
    bool,
    typer.Option(
        "--as-written",
        help="Read plain text as it is. Default: with the marks of the model's own text, such as ’ for ', and in the "
        "form of a pre-tokenised corpus such as ptb.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        help="Device of a network: cpu, cuda (a GPU), or auto: a GPU if there is one. For a few short inputs "
        "the CPU is often quicker."
    ),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of the text, such as latin-1. Default: UTF-8, or as its BOM says.")
]
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
ItemColumn = Annotated[
    str | None,
    typer.Option(
        "--item",
        metavar="COLUMN",
        help="With --by COLUMN: the column that says which rows are one item in several conditions. Default: item.",
    ),
]
ItemContext = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="N|item|document",
        help="What a line is read after. item: nothing, each from a fresh state; N: the N lines before it; document: "
        "all lines before it. Default: document; item for a column of a table.",
    ),
]
Items = Annotated[bool, typer.Option("--items", help="Short for --context item: the lines do not continue each other.")]


# ---- groups of options

FORMATS = (
    option("as_csv", bool, "Print the table as CSV.", "--csv", callback=one_format),
    option("as_json", bool, "Print the table as JSON.", "--json", callback=one_format),
)

_of_text = partial(option, panel="Text")
READING = (
    _of_text("keep_licence", bool, "Keep Project Gutenberg's header and licence in your own files."),
    _of_text("wrapped", bool, "Keep the line breaks of hard-wrapped prose in your own files."),
    _of_text(
        "markup", bool, "Read HTML, Markdown and subtitles as they are, markup and times with them.", "--keep-markup"
    ),
    option("encoding", str, "Encoding of the text, such as latin-1. Default: UTF-8, or as its BOM says."),
)
TEXT = (
    _of_text("min_count", int, "Tokens seen less often than this become <unk> (default 2)."),
    _of_text(
        "vocabulary",
        int,
        "Largest vocabulary to keep; for bpe, wordpiece and unigram, how many pieces to learn (default 4096).",
    ),
    _of_text("context", str, "line: each line starts afresh. stream: the context runs on across lines."),
    _of_text("lower", bool, "Convert the text to lower case."),
    _of_text("letters_only", bool, "Keep letters only; everything else becomes a space."),
    *READING,
)
PARTS = option(
    "parts",
    str,
    "Recognise the training, validation and test files of a folder by name: train.txt, valid.txt (or dev, val), "
    "test.txt; ptb.test.txt; train/ and test/ (default yes). no: read all files as one.",
    metavar="yes|no",
)
SERIES_PANEL = "Series (--task forecast)"
_of_table = partial(option, panel=SERIES_PANEL)
SERIES = (
    _of_table("target", str, "The column to forecast; several, separated by commas."),
    _of_table("horizon", int, "Steps that are forecast (default 24)."),
    _of_table("lookback", int, "Rows that a forecast reads. Default: chosen from season and horizon.", callback=_rows),
    _of_table("time", str, "The column of the time stamps; row: rows are counted. Default: found in the table."),
    _of_table("series", str, "The column that names the series, for a table with many of them."),
    _of_table("past", str, "Columns that are known only up to now, read with the target."),
    _of_table("known", str, "Columns that are known ahead, such as holidays or prices."),
    _of_table("calendar", bool, "Read the hour, the day of the week and the like of each row."),
)
_neural = partial(option, panel="Neural models")
NEURAL = (
    _neural("hidden", int, "Hidden size. Default: chosen from the size of the text."),
    _neural("layers", int, "Number of layers. Default: chosen from the size of the text."),
    _neural("dropout", float, "Dropout probability, 0 to 1."),
    _neural("epochs", float, "Passes over the text. Default: chosen from its size."),
    _neural("tokens_budget", int, "Stop after training on this many tokens."),
    _neural("minutes", float, "Stop training after this many minutes; scores and baselines come after."),
    _neural(
        "batch",
        str,
        "Batch size: rows of text read in parallel; auto: the largest that fits in the memory of a GPU.",
        parser=_batch,
        metavar="INTEGER|auto",
    ),
    _neural("steps", int, "Tokens of each row in a batch: the length of truncated BPTT."),
    _neural("rate", float, "Learning rate."),
    _neural("optimizer", str, "adamw (the default), adam, sgd or nt-asgd."),
    _neural("schedule", str, "Learning rate schedule: constant, step, cosine (the default), plateau or one-cycle."),
    _neural(
        "unfreeze",
        bool,
        "Gradual unfreezing: the head alone learns in the first epoch, and one layer more in each after it.",
    ),
    _neural(
        "layer_decay",
        float,
        "Multiply the learning rate by this from each layer to the one below it, from the head down: 0.38.",
    ),
    _neural(
        "log",
        str,
        "Also write the figures of every step to the run folder: csv (log.csv), tensorboard, or csv,tensorboard "
        "(docs/logging.md).",
    ),
    _neural("valid", str, "Text to validate on. Default: the valid part of the corpus or folder."),
    _neural(
        "split",
        str,
        "Split off a validation set, such as 90/10. Default: the last 5 % of lines, if there is no validation text. "
        "With --task forecast: train, valid and test by time, such as 70/10/20; default: the last tenth tests, the "
        "one before it validates.",
    ),
)
_ngram = partial(option, panel="N-gram models")
NGRAM = (
    _ngram("order", int, "Longest n-gram, in tokens: 1 to 10 (default 5)."),
    _ngram(
        "smoothing",
        str,
        "mle, add-alpha, stupid-backoff, katz, witten-bell, absolute, kneser-ney or modified-kneser-ney.",
    ),
    _ngram(
        "cutoffs",
        str,
        "Drop n-grams seen this often or less, one number per order: 0,0,1.",
        callback=_whole_numbers,
    ),
    _ngram("alpha", float, "Constant of add-alpha (default 0.1)."),
    _ngram("factor", float, "Back-off factor of stupid-backoff (default 0.4)."),
    _ngram("arpa", Path, "Also write the n-gram model to this ARPA file."),
)
TRAIN = (
    option("task", str, f"Train for a task on labelled examples, instead of a language model: {listed(list(TASKS))}."),
    option("no_baselines", bool, "With --task: train no simple baselines for comparison."),
    option(
        "model",
        str,
        f"Kind of model (default ngram): {listed()}. With --task forecast: naive, linear, gru ... "
        "(docs/forecasting.md lists them).",
    ),
    option(
        "tokens",
        str,
        "Tokenizer: word, prose, char, byte, bpe, wordpiece or unigram. Default: what suits the source.",
    ),
    option("out", Path, "Run folder to write; a finished run in it is replaced. Default: a new one under runs/."),
    option(
        "resume",
        Path,
        "Resume a neural training run that was stopped or killed. Takes no other options.",
        metavar="RUN",
    ),
    option(
        "start_from",
        Path,
        "Start from the weights and the tokenizer of another run: a language model learns from more text; with --task "
        "classify or tag its word vectors and recurrent layers get a new head.",
        "--from",
        metavar="RUN",
    ),
    option("recipe", Path, "Read source and options from a TOML file, such as a run's config.toml.", metavar="FILE"),
    option("seed", int, "Random seed (default 0). N-grams use no random numbers."),
    *NEURAL,
    PARTS,
    *SERIES,
    *NGRAM,
    *TEXT,
    option(
        "settings",
        list[str],
        "Any other setting by its name in config.toml: --set training.clip=0.25 --set lstm.tied=false. --options "
        "lists those of a task.",
        "--set",
        metavar="NAME=VALUE",
    ),
    option(
        "show_settings",
        bool,
        "With --task: list what --set takes, with its default and meaning; train nothing.",
        "--options",
    ),
    option(
        "help_all",
        bool,
        "Show all options: of n-grams, networks, text and series, and --set.",
        callback=show_all_options,
        is_eager=True,
    ),
)
EVERYDAY = ("model", "task", "tokens", "order", "hidden", "epochs", "minutes", "split", "out", "resume", "start_from",
    "seed", "help", "help_all")  # fmt: skip
"""Options that `train --help` shows; `--help-all` shows them all."""

_mixing = partial(option, panel="Mixtures")
_adapting = partial(option, panel="Cache and dynamic evaluation")
SWITCHES = (
    _mixing("mix", list[str], "Interpolate with this run. Repeat the option to mix more.", metavar="RUN"),
    _mixing("weights", str, "Weights of the models in order, such as 0.3,0.7. Default: equal, or tuned by --tune."),
    _adapting(
        "tune",
        str,
        "Tune weights, cache and learning rate on this text; of a corpus, on its valid part.",
        metavar="SOURCE",
    ),
    _adapting("cache", bool, "Add a cache of the most recent words."),
    _adapting("cache_size", int, "Words in the cache (default 500)."),
    _adapting("cache_weight", float, "Weight of the cache (default 0.1, or tuned)."),
    _adapting("cache_theta", float, "How strongly similar contexts are preferred; neural models only (or tuned)."),
    _adapting("cache_decay", float, "How fast older words lose weight (or tuned)."),
    _adapting("dynamic", bool, "Dynamic evaluation: a neural model keeps learning from the text it has scored."),
    _adapting("dynamic_rate", float, "Learning rate of dynamic evaluation (or tuned)."),
)
PART = option("part", str, "Part of a corpus or of a folder with parts. Default: test.")
