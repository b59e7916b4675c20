"""`thereafter train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter.cli.app import Encoding, SourceName, app
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.api import LanguageModel


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
