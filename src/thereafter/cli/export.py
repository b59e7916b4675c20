"""What leaves this package, and runs over HTTP.

`export` and `arpa` write files, `lm-eval` hands a model to lm-evaluation-harness, `serve` answers over HTTP,
`studio` is the web page.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli import app, load
from thereafter.cli.options import Loading, chosen, command, library, option
from thereafter.cli.tables import print_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.export.export import Exported
    from thereafter.language_model import LanguageModel


@command(app)
def export(
    run: str,
    to: Annotated[str, typer.Option(show_default=False)],
    out: Annotated[Path, typer.Option(show_default=False)],
    int8: bool = False,
    dtype: str | None = None,
    check: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    check_steps: Annotated[int | None, typer.Option(metavar="N")] = None,
    memory: Annotated[bool, typer.Option("--check-memory")] = False,
    tokens: str = "word",
    form: str = "",
) -> None:
    """Write a model as a file that runs without this package, checked against the model before it is handed over.

    Example: thereafter export runs/book --to onnx --out book.onnx

    Example: thereafter export runs/book --to html --out book.html --check other.txt

    Example: thereafter export runs/book --to run --out runs/book-small --dtype int8

    Args:
        to: onnx, torch, html, c, arpa, transformers, run: the form to write.
        out: File to write; of transformers and run, a folder.
        int8: Weights of one byte each; at most 1 % more bits per byte.
        dtype: With --to run: float32, float16 or int8, the weights of the run folder.
        check: Text of the check: a file, a folder, a 'glob*' or a corpus name. Default: the validation part of the
            training text, else a text that the model writes.
        check_steps: Number of tokens to check. Default: 200; 1,000 for int8 and float16; more than the context of a
            Transformer.
        memory: First list training lines that the model repeats verbatim, on stderr.
    """
    from thereafter.runs.folder import holds_task

    if holds_task(Path(run)):
        from thereafter.task_model import load_task

        if check is not None or check_steps is not None or memory:
            raise OptionError(
                "the run holds a task, which is checked with random inputs; "
                "try it without --check, --check-steps and --check-memory"
            )
        written = load_task(run).export(out, to, int8=int8, dtype=dtype)
    else:
        lm = load(run, tokens)
        if memory:
            _print_memory(lm)
        written = lm.export(out, to, int8=int8, check=check, check_steps=check_steps, dtype=dtype)
    if not print_rows(written.to_rows(), form):
        for line in lines(written):
            typer.echo(line)


def _print_memory(lm: LanguageModel) -> None:
    """What the model says by heart of its training text."""
    from thereafter.export.recalling import check_memory

    recited = check_memory(lm.trained)
    typer.echo(str(recited), err=True)
    for line in recited.lines:
        typer.echo(f"  {line.beginning}|{line.rest}", err=True)


def lines(written: Exported) -> list[str]:
    """What is printed: the files, their size, what the check has seen, and what else there is to say."""
    checked = written.checked
    listed = [*map(str, written.paths), f"size: {written.size:,} bytes"]
    if written.replaced:
        listed.append("replaced: " + ", ".join(path.name for path in written.replaced))
    listed.append(
        f"checked by {written.program}: {checked.read}, largest difference in {checked.what} {checked.largest:.2g}"
    )
    if checked.bits and written.form != "float32":
        loss = f"{checked.bits_exported:.4f} ({100 * checked.loss:+.2f} %)"
        listed.append(f"bits per byte: {checked.bits:.4f}, in {written.form} {loss}")
    return [*listed, *(f"{name}: {value}" for name, value in written.facts.items())]


@command(app)
def arpa(run: str, path: Path) -> None:
    """Write an n-gram model as an ARPA file, which KenLM and speech recognisers read.

    They read models of lines of words: train with --tokens word.

    Example: thereafter arpa runs/book book.arpa.gz

    Args:
        path: File to write, - for standard output. A name that ends in .gz is compressed.
    """
    to_stdout = str(path) == "-"
    lm = load(run)
    written = lm.to_arpa(Path("/dev/stdout") if to_stdout else path)
    if lm.trained.context != "line":
        typer.echo("no </s> at line ends: KenLM does not read this file; train with --tokens word", err=True)
    if not to_stdout:
        typer.echo(written)


@command(app, name="lm-eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lm_eval(
    context: typer.Context,
    run: Annotated[str, typer.Option(show_default=False)],
    tokens: str = "word",
    as_written: bool = False,
) -> None:
    """Evaluate a language model on the tasks of lm-evaluation-harness; all other options are those of lm_eval.

    Takes any run, n-grams included. Needs pip install 'thereafter[harness]'.

    Example: thereafter lm-eval --run runs/book --tasks blimp --limit 100

    Example: thereafter lm-eval --run runs/book --include_path my_tasks --tasks my_task --output_path results
    """
    from thereafter.serving.harness.backend import run_harness

    run_harness(run, context.args, tokens=tokens, as_written=as_written)


_HOST = "Address to listen on. Any address that other machines can reach needs a token."
_DOOR = (
    option("host", str, _HOST, default="127.0.0.1"),
    option("token", str),
    option("token_file", Path, "File that holds the token, in a single line."),
)


@command(
    app,
    *library("thereafter.serving.server.start:serve", "port", port={"min": 0, "max": 65535}),
    *_DOOR,
    *library(
        "thereafter.serving.server.start:serve", "most_rows", "timeout", "grace", most_rows={"min": 1}, grace={"min": 0}
    ),
)
def serve(runs: list[str], *, token: str | None, token_file: Path | None, loading: Loading, **options: object) -> None:
    """Serve runs over HTTP, to any client of OpenAI's completions.

    Example: thereafter serve runs/book --port 8138

    Args:
        runs: Run folders, or ARPA files.
        port: Port; 0 takes a free one.
        token: Token that clients send as their API key. Other users see it in the list of processes: better set
            THEREAFTER_TOKEN or --token-file. Default: a random one if needed.
        most_rows: Maximum number of texts generated concurrently per run.
        timeout: Time limit for one answer, in seconds.
        grace: Seconds that answers have to finish when the server is stopped.
    """
    from thereafter.serving.listening import read_token
    from thereafter.serving.server.start import serve

    serve(runs, token=read_token(token, token_file), say=typer.echo, **chosen(options), **asdict(loading))


@command(app, *_DOOR)
def studio(
    runs: Path = Path("runs"),
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    *,
    host: str,
    token: str | None,
    token_file: Path | None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser")] = True,
) -> None:
    """Open the studio, a web page to train, compare and look inside models.

    Example: thereafter studio --runs runs

    Args:
        runs: Folder of your runs. Models you train in the studio go there too.
        port: Port. Default: a free one.
        token: Token that visitors must present. Other users see it in the list of processes: better set
            THEREAFTER_TOKEN or --token-file. Default: a random one if needed.
        browser: Open the page in a browser.
    """
    from thereafter.serving.listening import read_token
    from thereafter.studio.serve import serve

    serve(runs, host=host, port=port, token=read_token(token, token_file), browser=browser, say=typer.echo)
