"""Training lines that a trained model says by heart: what stands in its file, and should perhaps not be handed over.

A line is given up to its middle, from a fresh state. The model says it verbatim where the likeliest token is the line's
own at every place after that, which is what greedy decoding would write ("extractable" of Carlini et al. 2023,
"Quantifying Memorization Across Neural Language Models"; their beginnings have 50 tokens, ours are half of a line):

    verbatim  <=>  argmax_v p(v | x_1 ... x_{t-1}) = x_t    for all t > T/2

Lines are drawn without replacement from the distinct ones that are long enough to be no accident. Lines that the model
never saw are the control: a line that stands in every licence is guessed as well as remembered, so `times` says how
often a line is in the text.

Shapes: B lines that are read side by side, T tokens of the longest, V words.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from thereafter.base import progress
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError, SourceError
from thereafter.models.base import Ids, S, SequenceModel
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.finding import find_again, find_texts, part_of
from thereafter.training.kinds import MODELS, ModelKind, Trained
from thereafter.training.settings import TextSettings

LINES, SHORTEST = 200, 40
"""Lines that are drawn unless more are asked for, and the fewest characters of one."""
_LONGEST = 400  # tokens of a line that are read: one that is right so far is by heart
_ROWS = 32


@dataclass(frozen=True)
class RecitedLine:
    """A line that is said verbatim: what was given, what the model said, how often it is in the text."""

    beginning: str
    rest: str
    times: int


@dataclass(frozen=True)
class Recitation(Tabular):
    """The lines of a text that a model says verbatim, of `drawn` that were tried."""

    name: str
    lines: tuple[RecitedLine, ...]
    drawn: int
    shortest: int
    seed: int

    @property
    def share(self) -> float:
        """The share of the lines that were tried."""
        return len(self.lines) / self.drawn if self.drawn else 0.0

    def to_rows(self) -> list[Row]:
        """A row a line that is said verbatim."""
        return [{"times": line.times, "beginning": line.beginning, "rest": line.rest} for line in self.lines]

    def __str__(self) -> str:
        tried = f"{self.drawn:,} lines of {self.name} of at least {self.shortest} characters"
        return f"{len(self.lines):,} of {tried} are said verbatim when their first half is given (seed {self.seed})"


def recite(
    model: SequenceModel[S],
    tokenizer: Tokenizer,
    chunks: Callable[[], Iterable[str]],
    name: str,
    *,
    lines: int = LINES,
    shortest: int = SHORTEST,
    seed: int = 0,
) -> Recitation:
    """Which of `lines` lines of a text a model says verbatim; `chunks` gives the text from its beginning, in pieces."""
    if lines < 1 or shortest < 2:
        raise OptionError(
            f"lines is {lines} and shortest is {shortest}; expected at least 1 and 2; try lines={LINES}, "
            f"shortest={SHORTEST}"
        )
    drawn = draw_lines(chunks(), lines, shortest, seed)
    recited: list[tuple[str, str]] = []
    with progress.task("asking for training lines", total=len(drawn), unit="lines") as advance:
        for first in range(0, len(drawn), _ROWS):
            some = drawn[first : first + _ROWS]
            recited += _verbatim(model, tokenizer, some)
            advance(len(some), f"{len(recited):,} verbatim")
    wanted = {beginning + rest for beginning, rest in recited}
    counts = Counter(line for line in lines_of(chunks()) if line in wanted) if wanted else Counter()
    whole = [RecitedLine(beginning, rest, counts[beginning + rest]) for beginning, rest in recited]
    return Recitation(name, tuple(whole), len(drawn), shortest, seed)


def draw_lines(chunks: Iterable[str], count: int, shortest: int, seed: int) -> list[str]:
    """Distinct lines of a text in the order of their draw, each equally likely, in one pass and in little memory."""
    dice = random.Random(seed)
    salt = dice.getrandbits(64)
    best: list[tuple[float, str]] = []  # a heap of the lines with the smallest draws, largest first
    taken: set[str] = set()
    for line in lines_of(chunks):
        if len(line) < shortest or line in taken:
            continue
        draw = random.Random(f"{salt} {line}").random()  # by its content: a line that comes twice draws once
        if len(best) < count:
            heapq.heappush(best, (-draw, line))
            taken.add(line)
        elif -draw > best[0][0]:
            taken.discard(heapq.heappushpop(best, (-draw, line))[1])
            taken.add(line)
    return [line for _, line in sorted(best, reverse=True)]


def lines_of(chunks: Iterable[str]) -> Iterator[str]:
    """The lines of a text that comes in pieces, without their ends."""
    rest = ""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
    if rest:
        yield rest


def _verbatim(model: SequenceModel[S], tokenizer: Tokenizer, lines: Sequence[str]) -> list[tuple[str, str]]:
    """Of some lines those that are said verbatim, each as its beginning and the rest."""
    encoded = [tokenizer.encode(line)[:_LONGEST] for line in lines]
    half_B = np.array([len(ids) // 2 for ids in encoded])
    rows = np.flatnonzero(half_B)
    state = model.start(len(lines)).select(rows)
    logp_BV = model.predict(state)
    recited: list[int] = []
    step = 0
    while len(rows):
        token_B: Ids = np.array([encoded[row][step] for row in rows])
        right_B = np.asarray(logp_BV).argmax(axis=1) == token_B
        if tokenizer.unknown_id is not None:  # what it stands for cannot be said
            right_B &= token_B != tokenizer.unknown_id
        go_on_B = right_B | (half_B[rows] > step)
        ends_B = np.array([len(encoded[row]) == step + 1 for row in rows])
        recited += rows[go_on_B & ends_B].tolist()
        going = np.flatnonzero(go_on_B & ~ends_B)
        rows, step = rows[going], step + 1
        if len(rows):
            logp_BV, state = model.step(token_B[going], state.select(going))
    halves = []
    for row in sorted(recited):  # cut as the line was written, where its first tokens decode to its beginning
        line, beginning = lines[row], tokenizer.decode(encoded[row][: half_B[row]])
        cut = len(beginning) if line.startswith(beginning) else len(line) // 2
        halves.append((line[:cut], line[cut:]))
    return halves


def training_text(trained: Trained, run: Path | None = None) -> Source:
    """What a model learned from; SourceError where that is gone or has changed."""
    if trained.members:
        raise OptionError(
            "a mixture has no training text of its own; expected one model; try each of its models by itself"
        )
    if trained.texts is not None:
        return part_of(trained.texts, "train")
    kind: ModelKind = MODELS.load(trained.config["model"])
    if kind.trained_in_steps:
        return part_of(find_again(trained.config, run or Path("of this model")), "train")
    about, how = trained.config["source"], trained.config["text"]
    settings = TextSettings.of_config(how, how.get("encoding"))
    texts = find_texts(str(about["name"]), None, settings, parts="part_files" in about)
    source = part_of(texts, "train")
    if source.fingerprint() != about.get("sha256"):
        raise SourceError(
            f"{source.name} has changed since the model learned from it (its sha256 is another); try the text itself"
        )
    return source


def check_memory(
    trained: Trained, source: Source | None = None, *, lines: int = LINES, shortest: int = SHORTEST, seed: int = 0
) -> Recitation:
    """Training lines that a model says verbatim when it is given their first half.

    `source`: another text, such as one with the names and numbers that must not come out.
    """
    text = source or training_text(trained)
    return recite(trained.model, trained.tokenizer, text.chunks, text.name, lines=lines, shortest=shortest, seed=seed)
