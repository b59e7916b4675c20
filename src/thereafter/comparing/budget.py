"""The models of a comparison, what each of them reads, the same for all, and the folder that keeps to such a plan.

A budget is counted in text, and in time only where that is asked for: on a busy machine, or one on which a kernel is
slow, a budget in minutes gives some models less to learn from than others, and ranks the machine. What a comparison was
begun under is written down in its folder, and only the same plan goes on there.

The one text that all models of a comparison get: cut once, normalised once, the same bytes for everyone.

A corpus with train, valid and test parts keeps them; any other text is cut 90 / 5 / 5, each cut before the line it
falls into. Where some models read words between white space and others do not, white space is made what it is for the
former: single spaces, none at the ends of lines, and a newline behind the last.

The name of a model is `lstm`, `ngram-3`, `unigram` or `lstm:char`:

>>> Entry.parse("ngram-3:char", "word")
Entry(name='ngram-3:char', model='ngram', tokens='char', order=3)

Models of the same number of parameters, whatever their kind, have all widths scaled by one factor until the count fits.
n-grams are left as they are: their tables follow from the text.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS
from thereafter.base.storage import replacing, write_text
from thereafter.errors import EmptyCorpusError, OptionError, SourceError, UnknownNameError
from thereafter.models.settings import NeuralSettings, TransformerSettings
from thereafter.runs.folder import LOCK, is_file, owning
from thereafter.text.encoded import encode_source
from thereafter.text.reading import WORD_TAIL, recut
from thereafter.text.sources import Source, Texts
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training import protocol
from thereafter.training.finding import SourceSlice, form_notes, part_of, split_texts
from thereafter.training.kinds import MODELS, ModelKind, Sorted, sort_options
from thereafter.training.settings import TextSettings, TrainingSettings

PARTS = ("train", "valid", "test")
SHARES = (0.90, 0.95)
_COARSE = "word"  # the one tokenizer that does not keep white space


@dataclass(frozen=True)
class SharedText:
    """`texts` and `valid` are what training is given, `settings` how it is to read them, `parts` all three parts."""

    texts: Texts
    valid: Texts | None
    parts: dict[str, Source]
    settings: TextSettings
    notes: tuple[str, ...]


def fingerprint(texts: Texts) -> str:
    """sha256 of all parts."""
    return hashlib.sha256(
        " ".join(f"{name} {part.fingerprint()}" for name, part in texts.parts.items()).encode()
    ).hexdigest()


def is_mixed(tokens: Collection[str]) -> bool:
    """Whether white space must be made alike: some read words between it, and others read it."""
    return _COARSE in tokens and len(set(tokens)) > 1


def share(texts: Texts, settings: TextSettings, tokens: Collection[str], folder: Path) -> SharedText:
    """The text for models over these kinds of tokens; what is cut or normalised is written to `folder`."""
    mixed = is_mixed(tokens)
    notes = [*texts.notes, *form_notes(next(iter(texts.parts.values())))]
    texts = replace(texts, notes=())  # which every training would repeat
    if all(part in texts.parts for part in PARTS):
        parts = {part: texts.parts[part] for part in PARTS}
        notes.append(f"train, valid and test are parts of {texts.name}")
    elif "test" in texts.parts:
        cut, sentences = split_texts(texts, None, hold_out=True)
        parts = {part: cut.parts[part] for part in PARTS}
        notes += sentences
    elif "text" in texts.parts:
        parts = cut_in_three(texts.parts["text"])
        notes.append("cut 90 / 5 / 5 at ends of lines")
    else:
        named = ", ".join(f"{texts.name}:{part}" for part in texts.parts)
        raise SourceError(f"{texts.name} has no part to test on; name one of its parts, which is then cut: {named}")
    if mixed:
        notes.append("white space as the word tokenizer leaves it, for all")
    if not mixed and all(part in texts.parts for part in PARTS):
        return SharedText(texts, None, parts, settings, tuple(notes))
    written = {
        name: _write(source, folder / f"{name}.txt", f"{texts.name} ({name})", mixed) for name, source in parts.items()
    }
    name = f"{texts.name} (cut)" if not mixed else f"{texts.name} (normalised)"
    return SharedText(
        replace(texts, name=name, parts={"text": written["train"]}),
        Texts(f"{name}, valid", {"text": written["valid"]}, texts.tokens),
        written,
        replace(settings, encoding=None),  # whatever it was, the parts are written as UTF-8
        tuple(notes),
    )


def cut_in_three(source: Source) -> dict[str, Source]:
    """The first 90 % of the characters, the next 5 % and the rest; each cut is moved before the line it falls into."""
    length = sum(len(chunk) for chunk in source.chunks())
    marks = [round(length * share) for share in SHARES]
    ends = _line_ends(source, marks)
    bounds = [0, ends[0], ends[1], length]
    if not all(low < high for low, high in pairwise(bounds)):
        bounds = [0, *marks, length]  # lines too long to cut between them
    if not all(low < high for low, high in pairwise(bounds)):
        raise EmptyCorpusError(
            f"{source.name} has {length:,} characters, too few to cut into parts for training, validation and test; "
            "try a longer text"
        )
    return {
        name: SourceSlice.of(source, f"{source.name} ({name})", low, high)
        for name, low, high in zip(PARTS, bounds[:-1], bounds[1:], strict=True)
    }


def normalise_space(chunks: Iterable[str]) -> Iterator[str]:
    """Words with single spaces between, a newline behind every line.

    >>> "".join(normalise_space([" so ", "long\\n\\n and", " thanks"]))
    'so long\\n\\nand thanks\\n'
    """
    inside, ended = False, True
    for piece in recut(chunks, WORD_TAIL):
        lines = piece.split("\n")
        for number, line in enumerate(lines):
            words = line.split()
            if words:
                yield (" " if inside else "") + " ".join(words)
                inside = True
            if number + 1 < len(lines):
                yield "\n"
                inside = False
        ended = piece.endswith("\n")
    if not ended:
        yield "\n"


def _line_ends(source: Source, marks: list[int]) -> list[int]:
    """Behind which characters the last lines end that lie before the marks; 0 where none does."""
    ends = [0] * len(marks)
    at = 0
    for chunk in source.chunks():
        for number, mark in enumerate(marks):
            newline = chunk.rfind("\n", 0, max(0, mark - at))
            if newline >= 0:
                ends[number] = at + newline + 1
        at += len(chunk)
        if at >= marks[-1]:
            break
    return ends


def _write(source: Source, path: Path, name: str, normalise: bool) -> Source:
    chunks = source.chunks(f"writing {name}")
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for piece in normalise_space(chunks) if normalise else chunks:
            file.write(piece)
    return Source(name, (path,), lower=source.lower, letters_only=source.letters_only)


UNITS = ("epochs", "tokens_budget", "minutes")
TOKENS = 600_000
"""Tokens each model reads by default, about: the whole ladder takes a few minutes on two cores."""
EPOCHS = 30.0
"""At most: a small text is soon known by heart."""
# of a token with the white space before it, about; others have 1
_CHARACTERS = {"word": 5.5, "prose": 5.0, "bpe": 4.0, "wordpiece": 4.0, "unigram": 4.0}


def read_budget(given: Table) -> Table:
    """The budget that was asked for; empty where none was."""
    budget = {name: given[name] for name in UNITS if given.get(name) is not None}
    toml.build(TrainingSettings, budget, "training")  # refuses what training would refuse, before anything is read
    return budget


def default_budget(texts: Texts, tokens: Collection[str], total: int = TOKENS) -> Table:
    """Epochs, equal for all models: as many as make about `total` of the finest of these tokens, at most `EPOCHS`.

    Not tokens: where some models read words and others characters, the same number of tokens is not the same text.
    """
    return {"epochs": min(EPOCHS, float(f"{total / count_tokens(texts, tokens):.2g}"))}


def count_tokens(texts: Texts, tokens: Collection[str]) -> float:
    """How many of the finest of these tokens a training text has, about, by its length: at least one."""
    part, share = (texts.parts["text"], SHARES[0]) if "text" in texts.parts else (part_of(texts, "train"), 1.0)
    length = share * sum(len(chunk) for chunk in part.chunks())
    return max(1.0, length / min(_CHARACTERS.get(name, 1.0) for name in tokens))


def describe_budget(budget: Table) -> str:
    """A budget in words: "4.2 epochs", "1 epoch", "600,000 tokens"."""
    units = {name: name.removesuffix("_budget") for name in budget}
    return ", ".join(
        f"{value:,.12g} {units[name].removesuffix('s') if value == 1 else units[name]}"
        for name, value in budget.items()
    )


def read_seeds(seeds: int | Sequence[int] | None, seed: int | None) -> list[int]:
    """The seeds of all neural models: `seed` is one of them, `seeds` are how many, or which; 0 where none is given."""
    if seed is not None:
        if seeds is not None:
            raise OptionError(f"got seed={seed!r} and seeds={seeds!r}; expected one of them; try seeds=[{seed!r}]")
        if not isinstance(seed, int):
            raise OptionError(f"seed is {seed!r}; expected a whole number, 0 or more; try seed=1")
        toml.build(TrainingSettings, {"seed": seed}, "training")
        return [seed]
    wanted = 1 if seeds is None else seeds
    chosen = list(range(wanted)) if isinstance(wanted, int) else list(dict.fromkeys(wanted))
    if not chosen or not all(isinstance(one, int) and one >= 0 for one in chosen):
        raise OptionError(f"seeds is {seeds!r}; expected how many, 1 or more, or a list of them; try seeds=3")
    return chosen


def refuse_uneven(options: Table) -> None:
    """Raise where a budget or a seed is given to one kind of model: `lstm.epochs`."""
    for spelled in options:
        table, _, name = spelled.rpartition(".")
        if table in MODELS and name in (*UNITS, "seed"):
            raise OptionError(
                f"{spelled} is for one kind of model, and in a comparison all have the same; "
                f"try {name}={options[spelled]!r}"
            )


PLAN = "plan.json"
_OURS = (PLAN, "text", "runs", "results", "compare.json", "report.html", LOCK)


@contextmanager
def planned_folder(out: str | PathLike[str] | None, base: str | PathLike[str] | None, plan: Table) -> Iterator[Path]:
    """The folder of the comparison, its plan written down; one that is thrown away where none is asked for."""
    if out is None and base is None:
        with tempfile.TemporaryDirectory(prefix="thereafter-compare-") as name:
            yield Path(name)
        return
    folder = Path(out) if out is not None else _free(Path(base or "."), plan)
    other = _difference(folder, plan)
    if other:
        raise OptionError(f"{folder} {other}; try another --out, or what it was begun with")
    with owning(folder):
        write_text(folder / PLAN, _to_json(plan) + "\n", durable=True)
        yield folder


def _free(base: Path, plan: Table) -> Path:
    """The first of NAME, NAME-2, NAME-3 that is free or was begun under the same plan."""
    name = "compare-" + protocol.run_name(plan["source"], "").removesuffix("-")
    folder, number = base / name, 2
    while _difference(folder, plan):
        folder, number = base / f"{name}-{number}", number + 1
    return folder


def _difference(folder: Path, plan: Table) -> str:
    """Why a folder cannot take a comparison under a plan; nothing where it can."""
    try:
        others = [path.name for path in folder.iterdir() if path.name not in _OURS]
        if not is_file(folder / PLAN):
            return "holds other files and no comparison" if others else ""
        begun = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError) as error:
        return f"cannot be used for a comparison: {getattr(error, 'strerror', None) or error}"
    wanted = json.loads(_to_json(plan))
    if isinstance(begun, dict) and ("task" in begun) != ("task" in wanted):
        return f"holds a comparison of {'networks of a task' if 'task' in begun else 'language models'}"
    for name, value in wanted.items():
        planned = begun.get(name) if isinstance(begun, dict) else None
        if planned != value:
            return f"holds a comparison with {name} {planned!r}, and this one has {value!r}"
    return ""


def _to_json(plan: Table) -> str:
    """A plan as JSON; numbers of numpy as Python's, a path as its name."""
    return json.dumps(
        plan, indent=1, default=lambda value: value.item() if isinstance(value, np.generic) else str(value)
    )


ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}


def ladder() -> tuple[str, ...]:
    """The generations of language models, oldest first."""
    return ("unigram", *(name for name, kind in KINDS.items() if kind.compared))


@dataclass(frozen=True)
class Entry:
    """One model of a comparison: as it was named, its kind, its tokenizer, and the order of an n-gram."""

    name: str
    model: str
    tokens: str
    order: int | None = None

    @classmethod
    def parse(cls, spelled: str, tokens: str) -> Entry:
        """Read a name; `tokens` is the tokenizer where it names none."""
        name = spelled.strip()
        base, colon, asked = name.partition(":")
        if colon and asked not in TOKENIZERS:
            raise UnknownNameError("tokenizer", asked, TOKENIZERS)
        tokens = asked or tokens
        if base in ORDERS:
            return cls(name, "ngram", tokens, ORDERS[base])
        stem, _, order = base.rpartition("-")
        if stem == "ngram":
            if not order.isascii() or not order.isdigit() or not int(order):
                raise OptionError(f"the model {name!r} has no order that can be read; try ngram-3, 1 or more")
            return cls(name, "ngram", tokens, int(order))
        if base not in MODELS:
            raise UnknownNameError("model", base, [*MODELS, *ORDERS])
        return cls(name, base, tokens)

    @property
    def kind(self) -> ModelKind:
        kind: ModelKind = MODELS.load(self.model)
        return kind

    @property
    def stem(self) -> str:
        """What its files are called."""
        order = "" if self.order is None else f"-{self.order}"
        return f"{self.model}{order}-{self.tokens}"


def parse_entries(models: str | Iterable[str], tokens: str) -> list[Entry]:
    """Entries from names, or from one text with commas; the same model twice is taken once."""
    names = models.split(",") if isinstance(models, str) else [part for name in models for part in name.split(",")]
    entries = {entry.stem: entry for entry in reversed([Entry.parse(name, tokens) for name in names if name.strip()])}
    if not entries:
        raise OptionError(f"there are no models to compare; expected some of {', '.join([*ORDERS, *MODELS])}")
    return list(reversed(entries.values()))


def deal_options(entries: Sequence[Entry], options: Table) -> dict[str, Table]:
    """Options for each entry, by its stem, all spelled in full.

    `lstm.hidden` and `lstm.rate` go to the LSTMs, `training.rate` to all that are trained in steps, `text.min_count` to
    all, and a plain `hidden` to every model that has it. One that goes to none of them is refused. An option for
    one kind of model overrules the same one for all.
    """
    dealt: dict[str, Table] = {
        entry.stem: {} if entry.order is None else {"ngram.order": entry.order} for entry in entries
    }
    for name, value in sorted(options.items(), key=lambda option: option[0].rpartition(".")[0] in MODELS):
        table = name.rpartition(".")[0]
        taken, refused = False, None
        for entry in entries:
            others = table in MODELS and table != entry.model
            if others or (entry.order is not None and name in ("order", "ngram.order")):
                continue
            try:
                taken_as = _sort_option(entry.model, name, value)
            except OptionError as error:
                refused = refused or error
                continue
            dealt[entry.stem] |= taken_as.full_names(entry.model)
            taken = True
        if not taken:
            raise refused or OptionError(
                f"the option {name!r} is for no model that is compared ({', '.join(entry.name for entry in entries)}); "
                "leave it out"
            )
    return dealt


def _sort_option(model: str, name: str, value: object) -> Sorted:
    """Where an option belongs; in `lstm.rate` it is one of training, for LSTMs alone."""
    table, _, plain = name.rpartition(".")
    kind: ModelKind = MODELS.load(model)
    own = toml.field_names(kind.settings)
    if table == model and plain in toml.field_names(TrainingSettings) and plain not in own:
        name = f"training.{plain}"
    return sort_options(model, {name: value})


PARAMETERS = "parameters"
_REFERENCE = "lstm"
_LARGEST = 64.0  # the most a model is widened
_HALVINGS = 24


def read_match(match: str | int | None) -> str | int | None:
    """`parameters`, or a number of them: 2000000, or with k or M behind it."""
    if match is None or match == PARAMETERS:
        return match
    try:
        spelled = str(match).replace("_", "").replace(",", "")
        factor = {"k": 1_000, "m": 1_000_000}.get(spelled[-1:].lower(), 1)
        count = round(float(spelled[:-1] if factor > 1 else spelled) * factor)
    except (ValueError, OverflowError):
        count = 0
    if count < 1:
        raise OptionError(f"match is {match!r}; expected 'parameters', or how many; try match='parameters' or 2M")
    return count


def count_parameters(name: str, vocabulary_size: int, settings: NeuralSettings) -> int:
    """How many numbers such a model learns; the model is built without memory for its weights."""
    import torch

    from thereafter.models.build import build

    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return build(name, settings, vocabulary_size=vocabulary_size).parameters_count()


def scale(settings: NeuralSettings, factor: float) -> NeuralSettings:
    """The same settings with all widths times a factor, rounded to what such a model can have."""
    unit = 2 * settings.heads if isinstance(settings, TransformerSettings) else 2

    def width(size: int) -> int:
        return max(1, round(size * factor / unit)) * unit

    wider: Table = {
        name: tuple(map(width, value)) if isinstance(value, tuple) else width(value)
        for name, value in settings.widths().items()
    }
    return replace(settings, **wider)


def match_settings(settings: NeuralSettings, target: int, count: Callable[[NeuralSettings], int]) -> NeuralSettings:
    """The settings scaled so that `count` comes as near to the target as it can."""
    counted: dict[NeuralSettings, int] = {}

    def at(factor: float) -> int:
        one = scale(settings, factor)
        if one not in counted:
            counted[one] = count(one)
        return counted[one]

    low, high = 0.0, 1.0
    while at(high) < target and high < _LARGEST:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) < target else (low, middle)
    at(low)
    return min(counted, key=lambda one: abs(counted[one] - target))


def reference(entries: Sequence[Entry]) -> str | None:
    """The stem of the model whose parameters the others are matched to: an LSTM if there is one, else the first."""
    neural = [entry.stem for entry in entries if entry.kind.trained_in_steps]
    return next((stem for stem in neural if stem.startswith(f"{_REFERENCE}-")), neural[0] if neural else None)


def match_entries(entries: Sequence[Entry], dealt: dict[str, Table], text: SharedText, match: str | int) -> list[str]:
    """Add to the options of all neural models those that give them as many parameters; returns a note about it."""
    neural = {entry.stem: entry for entry in entries if entry.kind.trained_in_steps}
    sizes = {stem: _sizes(entry, dealt[stem], text) for stem, entry in neural.items()}
    counts = {stem: partial(count_parameters, neural[stem].model, sizes[stem][1]) for stem in neural}
    matched_to = reference(entries)
    if isinstance(match, int):
        target = match
    elif matched_to is None:
        raise OptionError("match='parameters' is for neural models, and there is none to compare; leave it out")
    else:
        target = counts[matched_to](sizes[matched_to][0])
    sizes_reached = []
    for stem, entry in neural.items():
        one = match_settings(sizes[stem][0], target, counts[stem])
        dealt[stem] |= {f"{entry.model}.{name}": value for name, value in one.widths().items() if value}
        sizes_reached.append(f"{entry.name} {counts[stem](one):,}")
    return [f"matched to {target:,} parameters: " + ", ".join(sizes_reached)]


def _sizes(entry: Entry, options: Table, text: SharedText) -> tuple[NeuralSettings, int]:
    """The settings a model would have on a text, and its vocabulary."""
    from thereafter.training.neural import complete_model

    tables: dict[str, Table] = {"text": {}, entry.model: {}, "training": {}}
    for name, value in options.items():
        table, _, key = name.rpartition(".")
        tables[table][key] = value
    settings = replace(text.settings, **{**tables["text"], "tokens": entry.tokens})
    tokenizer, ids = protocol.tokenize(text.parts["train"], entry.tokens, settings)
    training = toml.build(TrainingSettings, tables["training"], "training")
    context = protocol.choose_context(entry.kind, tokenizer, text.texts, settings, training)
    valid = encode_source(tokenizer, text.parts["valid"])
    about = protocol.measure(entry.kind, tokenizer, ids, valid, context, text.texts.name)
    return complete_model(entry.model, tables[entry.model], about)[0], about.vocabulary
