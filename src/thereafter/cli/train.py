"""`thereafter train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter import progress
from thereafter.cli.app import Encoding, app
from thereafter.errors import OptionError
from thereafter.kinds import listed
from thereafter.tasks import TASKS

if TYPE_CHECKING:
    from thereafter.api import LanguageModel
    from thereafter.data.files import AnySource
    from thereafter.task_model import TaskModel
    from thereafter.training.recipes import Recipe

_MISTAKES = 5  # the most frequent ones that are shown

NGRAM, NEURAL, TEXT = "Options of n-grams", "Options of neural models", "Options of the text"


@app.command()
def train(
    source: Annotated[
        str | None,
        typer.Argument(
            help="A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list).",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help=f"Learn something else than the next word: {listed(list(TASKS))}, from examples."),
    ] = None,
    no_baselines: Annotated[
        bool,
        typer.Option("--no-baselines", help="With --task: train and measure no simple models to compare with."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help=f"The kind of model (ngram): {listed()}."),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help="word, prose, char, byte or bpe; by default what suits the source.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default a new one under runs/.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Go on with a neural training that was stopped or killed; takes no other option."
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take source and options from a TOML file, such as a run's config.toml."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything random (0); n-grams have nothing random.")
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(help="Size of the hidden layers; by the size of the text.", rich_help_panel=NEURAL)
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="How many layers; by the size of the text.", rich_help_panel=NEURAL)
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Share of features dropped while training, 0 to 1.", rich_help_panel=NEURAL)
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="How often the text is read; by its size.", rich_help_panel=NEURAL)
    ] = None,
    tokens_budget: Annotated[
        int | None, typer.Option(help="Stop after training on so many tokens.", rich_help_panel=NEURAL)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes.", rich_help_panel=NEURAL)] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of text read side by side.", rich_help_panel=NEURAL)] = None,
    steps: Annotated[
        int | None, typer.Option(help="Tokens of each row before a step is taken.", rich_help_panel=NEURAL)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="The learning rate.", rich_help_panel=NEURAL)] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="adamw (the default), adam, sgd or nt-asgd.", rich_help_panel=NEURAL)
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="constant, step, cosine (the default), plateau or one-cycle.", rich_help_panel=NEURAL),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(help="A source to validate on; else the corpus' valid part.", rich_help_panel=NEURAL),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Cut the text, 90/10; else the last 5 % of lines validate.", rich_help_panel=NEURAL),
    ] = None,
    order: Annotated[
        int | None, typer.Option(help="How many words an n-gram is long at most, 1 to 10 (5).", rich_help_panel=NGRAM)
    ] = None,
    smoothing: Annotated[
        str | None,
        typer.Option(
            help="mle, add-alpha, stupid-backoff, katz, witten-bell, absolute, kneser-ney, or modified-kneser-ney.",
            rich_help_panel=NGRAM,
        ),
    ] = None,
    cutoffs: Annotated[
        str | None,
        typer.Option(help="n-grams seen this often or less are dropped, by order: 0,0,1.", rich_help_panel=NGRAM),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="add-alpha's constant (0.1).", rich_help_panel=NGRAM)] = None,
    factor: Annotated[
        float | None, typer.Option(help="stupid-backoff's constant (0.4).", rich_help_panel=NGRAM)
    ] = None,
    arpa: Annotated[
        Path | None, typer.Option(help="Write the n-gram model also as this ARPA file.", rich_help_panel=NGRAM)
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(help="Forms seen less often become <unk> (2).", rich_help_panel=TEXT)
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(help="Most forms to keep; for bpe the pieces to learn (4096).", rich_help_panel=TEXT),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="line (each line on its own) or stream.", rich_help_panel=TEXT)
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Lower-case the text.", rich_help_panel=TEXT)] = False,
    letters_only: Annotated[
        bool, typer.Option("--letters-only", help="Keep letters; the rest becomes spaces.", rich_help_panel=TEXT)
    ] = False,
    encoding: Encoding = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other option by its name in config.toml: --set training.clip=0.25 --set lstm.tied=false.",
        ),
    ] = None,
) -> None:
    """Train a model on a text and save it as a run folder.

    Example: thereafter train book.txt --model lstm --minutes 5 --out runs/book
    """
    own = {name: value for name, value in locals().items() if value is not None and value is not False}
    for name in ("source", "task", "model", "out", "resume", "recipe", "valid", "split", "arpa", "settings", "cutoffs"):
        own.pop(name, None)
    options: dict[str, Any] = own | ({} if cutoffs is None else {"cutoffs": _numbers(cutoffs)})
    simple = not options.pop("no_baselines", False)
    if resume is not None:
        _resume(resume, [source, task, model, out, recipe, valid, split, arpa, settings, *options.values()], simple)
        return
    asked = None if recipe is None else _task_of(recipe)
    if asked is not None and asked.task == (task or asked.task):
        given = asked.options | options
        _fit(
            str(asked.task),
            source or asked.source,
            out,
            valid or asked.valid,
            [model, split, arpa],
            given,
            settings or [],
            simple,
        )
        return
    if task is not None:
        _fit(task, source, out, valid, [model, recipe, split, arpa], options, settings or [], simple)
        return
    _train(source, model, out, recipe, valid, split, arpa, options, settings or [])


def _task_of(path: Path) -> Recipe | None:
    """The recipe of a task; None where it is that of a language model."""
    from thereafter.training import recipes

    found = recipes.read_recipe(path)
    return found if found.task is not None else None


def _fit(
    task: str,
    source: str | list[str] | None,
    out: Path | None,
    valid: str | list[str] | None,
    others: list[Any],
    options: dict[str, Any],
    settings: list[str],
    baselines: bool,
) -> None:
    """Train for a task, and measure on the test part where the source has one, simple models beside it."""
    import thereafter
    from thereafter.runs import folder as run_folder
    from thereafter.training import protocol, recipes

    if source is None:
        raise OptionError(f"the task {task!r} needs examples; try: thereafter train examples.conllu --task {task}")
    if any(other is not None for other in others):
        raise OptionError("--task takes none of --model, --recipe, --split and --arpa; leave them out")
    folder = out or run_folder.free_folder(
        Path("runs"), protocol.run_name(source if isinstance(source, str) else source[0], task)
    )
    given = options | recipes.parse_settings(settings)
    fitted = thereafter.train(source, task=task, valid=valid, out=folder, **given)
    _report(fitted, source, baselines)
    typer.echo(f"saved      {folder}")


def _report(fitted: TaskModel, source: AnySource, baselines: bool) -> None:
    """What was trained, and how good it is on the parts of the source that were held out."""
    from thereafter.tasks import finding

    last = fitted.log[-1]
    seconds = f"{last['seconds_training']:.1f} s"
    typer.echo(f"task       {fitted.config['task']}, {last['parameters']:,} parameters, {seconds}")
    if finding.has(fitted.task, source, "valid"):
        typer.echo(f"valid      {fitted.score(source, part='valid')}")
    if finding.has(fitted.task, source, "test"):
        _beside(fitted, source, baselines)


def _beside(fitted: TaskModel, source: AnySource, baselines: bool) -> None:
    """The result on the test part as a table: this model, the simple ones below it; then its usual mistakes."""
    from thereafter.tasks.task import MeasuredByClass

    result = fitted.score(source, part="test")
    rows = [("this model", result)] + (fitted.baselines(source) if baselines else [])
    width = max(len(name) for name, _ in rows)
    for place, (name, measured) in enumerate(rows):
        typer.echo(f"{'' if place else 'test':<11}{name:<{width}}  {measured}")
    if isinstance(result, MeasuredByClass) and (mistakes := result.confusions(_MISTAKES)):
        taken = (f"{gold} taken for {given} {count:,} times" for gold, given, count in mistakes)
        typer.echo(f"mistakes   {', '.join(taken)}")


def _resume(run: Path, others: list[Any], baselines: bool) -> None:
    from thereafter.language_model import resume_language_model
    from thereafter.runs import folder as run_folder

    if any(other is not None for other in others):
        raise OptionError("--resume goes on with the text and the options of the run itself; leave the others out")
    if run_folder.holds_task(run):
        from thereafter.task_model import resume_task
        from thereafter.tasks import store

        ended = run_folder.is_finished(run)  # then it is loaded, and nothing is read
        fitted = resume_task(run)
        if not ended:
            _report(fitted, store.source_of(fitted.config), baselines)
        typer.echo(f"{'finished' if ended else 'saved':<11}{run}")
        return
    if not baselines:
        raise OptionError("--no-baselines is for tasks, and this is the run of a language model; leave it out")
    lm = resume_language_model(run)
    finished = lm.texts is None  # a run that had come to its end is loaded, and nothing is read
    if "training" in lm.config:
        _summary(lm)
    if not finished:
        _scores(lm)
    typer.echo(f"{'finished' if finished else 'saved':<11}{run}")


def _train(
    source: str | None,
    model: str | None,
    out: Path | None,
    recipe: Path | None,
    valid: str | None,
    split: str | None,
    arpa: Path | None,
    options: dict[str, Any],
    settings: list[str],
) -> None:
    import thereafter
    from thereafter.runs import folder as run_folder
    from thereafter.training import protocol, recipes

    asked = recipes.Recipe() if recipe is None else recipes.read_recipe(recipe)
    if recipe is not None and model not in (None, asked.model):
        raise OptionError(f"--model is {model} and the recipe is for {asked.model}; leave one of them out")
    model = asked.model or model or "ngram"
    chosen: Any = source or asked.source
    if chosen is None:
        raise OptionError("train needs a text; try: thereafter train book.txt, or a corpus: thereafter data list")
    if out is not None:
        run_folder.check_free(out)
    name = chosen if isinstance(chosen, str) else str(chosen[0])
    folder = out or run_folder.free_folder(Path("runs"), protocol.run_name(name, model))
    lm = thereafter.train(
        chosen,
        model=model,
        out=folder,
        valid=valid or asked.valid,
        split=split or asked.split,
        **_merged(model, asked.options, options, recipes.parse_settings(settings)),
    )
    _summary(lm)
    _scores(lm)
    typer.echo(f"saved      {folder}")
    if arpa is not None:
        typer.echo(f"arpa       {lm.to_arpa(arpa)}")


def _merged(model: str, *layers: dict[str, Any]) -> dict[str, Any]:
    """Options under their full names, later ones over earlier ones."""
    from thereafter.training.options import sort_options

    merged: dict[str, Any] = {}
    for layer in layers:
        found = sort_options(model, layer)
        for table, values in (("text", found.text), (model, found.model), ("training", found.training)):
            merged |= {f"{table}.{name}": value for name, value in values.items()}
    return merged


def _numbers(listed: str) -> tuple[int, ...]:
    """ "0,0,1" as numbers."""
    try:
        return tuple(int(number) for number in listed.replace(",", " ").split())
    except ValueError:
        raise OptionError(f"cut-offs are {listed!r}; expected whole numbers with commas; try 0,0,1") from None


def _summary(lm: LanguageModel) -> None:
    about, facts = lm.config, lm.summary()
    off: tuple[Any, ...] = (None, (), [], 0.0, False)
    settings = [f"{name} {_shown(value)}" for name, value in about[about["model"]].items() if value not in off]
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
        loud = note.startswith(progress.WARNING)
        typer.secho(f"note       {note}", fg=typer.colors.YELLOW if loud else None, bold=loud or None)
    if "parameters" in facts:
        typer.echo(f"parameters {facts['parameters']:,}")
        typer.echo(
            f"training   {facts['steps']:,} steps, {facts['seen']:,} tokens, {facts['tokens_per_second']:,} a second, "
            f"best at step {facts['best_step']:,}"
        )
    typer.echo(f"seconds    {facts['seconds_tokenizing']:.2f} tokenizing, {facts['seconds_training']:.2f} training")


def _scores(lm: LanguageModel) -> None:
    """Scores on what was held out; the part that chose the weights is called validation."""
    stepwise = "training" in lm.config
    for held_out, label in (("valid", "validation" if stepwise else "valid"), ("test", "test")):
        if lm.texts is not None and held_out in lm.texts.parts:
            typer.echo(f"{label:<11}{lm.score(lm.texts, part=held_out)}")


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
