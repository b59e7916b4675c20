"""The command line: every command is a library function with a name. Results go to the standard output."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter import __version__, progress
from thereafter.errors import OptionError, ThereafterError
from thereafter.terminal import TerminalReporter

if TYPE_CHECKING:
    from thereafter.api import LanguageModel

app = typer.Typer(
    name="thereafter",
    help="A workbench for sequence models: train, score, predict and generate, on your own text.\n\n"
    "Start with: thereafter train python-docs --out runs/docs",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Named corpora: what there is, getting one, where it lies.", no_args_is_help=True)
app.add_typer(data_app, name="data")

Run = Annotated[str, typer.Argument(help="A run folder, or an ARPA file.", show_default=False)]
SourceName = Annotated[
    str,
    typer.Argument(help="A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list)."),
]
ArpaTokens = Annotated[str, typer.Option("--tokens", help="What the words of an ARPA file are: word, prose or char.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of the text, such as latin-1; UTF-8 or a BOM by default.")]


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a text may hold what this terminal cannot show
    try:
        with progress.reporting(TerminalReporter()):
            app()
    except ThereafterError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            _reader_went_away()
        sys.stderr.write(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}\n")
        sys.exit(2)


def _reader_went_away() -> None:
    """The reader of our output stopped reading, as `head` does: no error of ours, and nothing more to say."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"thereafter {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    return None


@app.command()
def train(
    source: SourceName,
    model: Annotated[str, typer.Option(help="The kind of model: ngram.")] = "ngram",
    tokens: Annotated[
        str | None, typer.Option(help="word, prose, char, byte or bpe; by default what suits the source.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default a new one under runs/.")] = None,
    order: Annotated[int, typer.Option(help="n-grams: how many words an n-gram is long at most, 1 to 10.")] = 5,
    smoothing: Annotated[
        str,
        typer.Option(
            help="n-grams: mle, add-alpha, stupid-backoff, katz, witten-bell, absolute, kneser-ney, or the default."
        ),
    ] = "modified-kneser-ney",
    cutoffs: Annotated[
        str | None, typer.Option(help="n-grams seen this often or less are dropped, by order: 0,0,1.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="add-alpha's constant (default 0.1).")] = None,
    factor: Annotated[float | None, typer.Option(help="stupid-backoff's constant (default 0.4).")] = None,
    min_count: Annotated[int | None, typer.Option(help="Forms seen less often become <unk> (default 2).")] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Most forms to keep; for bpe the pieces to learn (4096).")
    ] = None,
    context: Annotated[str | None, typer.Option(help="line (each line on its own) or stream.")] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Lower-case the text.")] = False,
    letters_only: Annotated[
        bool, typer.Option("--letters-only", help="Keep letters; the rest becomes spaces.")
    ] = False,
    encoding: Encoding = None,
    arpa: Annotated[Path | None, typer.Option(help="Write the n-gram model also as this ARPA file.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random; n-grams have nothing random.")] = 0,
) -> None:
    """Train a model on a text and save it as a run folder.

    Example: thereafter train book.txt --order 4 --out runs/book
    """
    import thereafter
    from thereafter.training import protocol, run_folder

    if out is not None:
        run_folder.check_free(out)
    options: dict[str, Any] = {
        "order": order,
        "smoothing": smoothing,
        "cutoffs": _numbers(cutoffs),
        "alpha": alpha,
        "factor": factor,
    }
    lm = thereafter.train(
        source,
        model=model,
        tokens=tokens,
        min_count=min_count,
        vocabulary=vocabulary,
        context=context,
        lower=lower,
        letters_only=letters_only,
        encoding=encoding,
        **{name: value for name, value in options.items() if value is not None},
    )
    if lm.texts is None:
        raise OptionError("the source was not kept")  # train always keeps it
    folder = lm.save(out or run_folder.free_folder(Path("runs"), protocol.run_name(lm.texts, model)))
    _summary(lm)
    for held_out in ("valid", "test"):
        if held_out in lm.texts.parts:
            typer.echo(f"{held_out:<11}{lm.score(lm.texts, part=held_out)}")
    typer.echo(f"saved      {folder}")
    if arpa is not None:
        typer.echo(f"arpa       {lm.to_arpa(arpa)}")


@app.command()
def score(
    run: Run,
    source: Annotated[
        str | None, typer.Argument(help="What to score: a file, a folder, a 'glob*', - or a corpus.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Score this text instead of a source.")] = None,
    part: Annotated[str | None, typer.Option(help="The part of a corpus (default: test).")] = None,
    encoding: Encoding = None,
    tokens: ArpaTokens = "word",
    as_json: Annotated[bool, typer.Option("--json", help="All figures as JSON.")] = False,
) -> None:
    """Perplexity and bits per byte of a text under a model.

    Example: thereafter score runs/book other.txt
    """
    lm = _load(run, tokens)
    result = lm.score(source, text=text, part=part, encoding=encoding)
    if as_json:
        finite = {name: None if value in (math.inf, -math.inf) else value for name, value in result.as_dict().items()}
        typer.echo(json.dumps(finite, allow_nan=False))
        return
    rows = {
        "text": result.name,
        "perplexity": f"{result.perplexity:.3f}",
        "bits per byte": f"{result.bits_per_byte:.4f}",
        "bits per char": f"{result.bits_per_char:.4f}",
        "tokens": f"{result.tokens:,} {result.tokenizer}",
        "vocabulary": f"{result.vocabulary:,}",
        "unknown": f"{result.unknown:,}",
        "context": result.context,
        "lines": f"{result.lines:,}",
        "bytes": f"{result.bytes:,}",
        "nats": f"{result.nats:.3f} and {result.spelling_nats:.3f} for spelling unknown forms",
    }
    for name, value in rows.items():
        typer.echo(f"{name:<14} {value}")


@app.command(name="next")
def next_(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The text so far; it gets no line end.")] = "",
    k: Annotated[int, typer.Option("-k", "--k", help="How many.")] = 5,
    tokens: ArpaTokens = "word",
) -> None:
    """The likeliest next tokens after a prompt, with their probabilities.

    Example: thereafter next runs/book "the cat sat on the" -k 5
    """
    for piece, probability in _load(run, tokens).next(prompt, k):
        typer.echo(f"{probability:.6f}  {piece!r}")


@app.command()
def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The text to go on from.")] = "",
    max_new_tokens: Annotated[int, typer.Option(help="How many tokens to add.")] = 40,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder, 0 always the likeliest.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest only.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    tokens: ArpaTokens = "word",
) -> None:
    """The prompt and a sampled continuation.

    Example: thereafter generate runs/book "the cat" --temperature 0.8 --top-k 40 --seed 1
    """
    lm = _load(run, tokens)
    typer.echo(lm.generate(prompt, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed))


@app.command()
def arpa(
    run: Run,
    path: Annotated[
        Path,
        typer.Argument(help="The file to write, gzip by .gz; or -.", show_default=False),
    ],
) -> None:
    """Write an n-gram model as an ARPA file, which KenLM and speech recognisers read.

    Example: thereafter arpa runs/book book.arpa.gz
    """
    to_stdout = str(path) == "-"
    written = _load(run).to_arpa(Path("/dev/stdout") if to_stdout else path)
    if not to_stdout:
        typer.echo(written)


@app.command()
def kernels() -> None:
    """The ways to run a recurrent layer: which can run on this machine, and why the others cannot.

    Example: thereafter kernels
    """
    from thereafter.kernels.scan import KERNELS

    for name in KERNELS:
        typer.echo(f"{name:<10} {KERNELS.load(name).status()}")


@data_app.command(name="list")
def data_list() -> None:
    """The named corpora and where each one is."""
    from thereafter.text import corpora

    for name in corpora.names():
        card = corpora.card(name)
        typer.echo(f"{name:<16} {card.tokens:<6} {card.title}\n{'':<24}{corpora.status(name)}")


@data_app.command(name="get")
def data_get(name: Annotated[str, typer.Argument(help="The corpus.")]) -> None:
    """Find, download or make a corpus, check it, and say where its parts are.

    Example: thereafter data get tinyshakespeare
    """
    from thereafter.text import corpora

    corpus = corpora.locate(name)
    typer.echo(f"{name}: {corpus.detail}")
    for part, path in corpus.parts.items():
        typer.echo(f"{part:<10} {path}")


@data_app.command(name="path")
def data_path(
    name: Annotated[str, typer.Argument(help="The corpus, or one part of it as in ptb:valid.")],
) -> None:
    """The path of a corpus' files, one a line; nothing is downloaded.

    Example: wc -w $(thereafter data path ptb:test)
    """
    from thereafter.errors import UnknownNameError
    from thereafter.text import corpora

    corpus_name, _, part = name.partition(":")
    parts = corpora.locate(corpus_name, download=False).parts
    if part and part not in parts:
        raise UnknownNameError(f"part of {corpus_name}", part, parts)
    for path in [parts[part]] if part else parts.values():
        typer.echo(path)


def _load(run: str, tokens: str = "word") -> LanguageModel:
    import thereafter

    return thereafter.load(run, tokens)


def _numbers(listed: str | None) -> tuple[int, ...] | None:
    """ "0,0,1" as numbers."""
    if listed is None:
        return None
    try:
        return tuple(int(number) for number in listed.replace(",", " ").split())
    except ValueError:
        raise OptionError(f"cut-offs are {listed!r}; expected whole numbers with commas; try 0,0,1") from None


def _summary(lm: LanguageModel) -> None:
    about, facts = lm.config, lm.summary()
    settings = [f"{name} {value}" for name, value in about[about["model"]].items() if value not in (None, ())]
    typer.echo(f"model      {', '.join([about['model'], *settings])}")
    source = f"{about['source']['part']}" + (f" ({about['source']['detail']})" if about["source"]["detail"] else "")
    typer.echo(f"text       {source}")
    typer.echo(
        f"tokens     {facts['tokens']:,} {about['text']['tokens']}, vocabulary {facts['vocabulary']:,}, "
        f"context {about['text']['context']}"
    )
    if "ngrams" in facts:
        typer.echo("n-grams    " + ", ".join(f"{size:,}" for size in facts["ngrams"]))
    for order, amounts in facts.get("discounts", {}).items():
        typer.echo(f"discounts  order {order}: " + ", ".join(f"{amount:.4f}" for amount in amounts))
    for note in facts.get("notes", []):
        typer.echo(f"note       {note}")
    typer.echo(f"seconds    {facts['seconds_tokenizing']:.2f} tokenizing, {facts['seconds_training']:.2f} training")
