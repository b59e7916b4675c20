"""The contract of a task. The table of tasks is in `thereafter.tasks`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, Never, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row
from thereafter.data.codecs import StoredCodec
from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.finding import FileKind
from thereafter.evaluation.bootstrap import Resampled
from thereafter.inspection.measurement import DrawnFigure
from thereafter.inspection.trace import Trace
from thereafter.models.task_net import Batched, TaskNet
from thereafter.tasks.answers import Explained, PredictedRows, Shown
from thereafter.tasks.bodies import Body
from thereafter.text.sources import TEXT_FILES
from thereafter.training.settings import TrainingSettings


class Measured(Protocol):
    """How good answers are: a line to read, and numbers by name."""

    def __str__(self) -> str: ...

    def as_dict(self) -> Table:
        """The figures as plain JSON values."""


@runtime_checkable
class MeasuredByClass(Measured, Protocol):
    """Figures of answers that are labels: they know what was taken for what."""

    def confusions(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: the right label, the one given, how often."""


class Headed:
    """Figures of which one says how good a network is beside simple models."""

    headline: ClassVar[tuple[str, str]]
    """That figure: its field, and its name in a sentence."""
    more_is_better: ClassVar[bool] = False

    def line(self) -> str:
        """The figures that models are compared by, in one line."""
        return str(self)

    def loses_to(self, other: object) -> str:
        """Both headlines, where that of another score of this kind is better; else nothing."""
        if not isinstance(other, type(self)):
            return ""
        field, name = self.headline
        ours, simple = vars(self)[field], vars(other)[field]
        is_worse = simple > ours if self.more_is_better else simple < ours
        return f"{name} {ours:.4g}, not {simple:.4g}" if is_worse else ""


Codecs = Mapping[str, StoredCodec]
S = TypeVar("S")
"""The settings of the network, a dataclass."""
E = TypeVar("E")
"""An example, with its answer or without."""
X = TypeVar("X", bound=Batched)
"""A batch: examples as tensors."""
N = TypeVar("N", bound=TaskNet[Never])
"""The network."""
A = TypeVar("A")
"""An answer."""
C = TypeVar("C", bound=Mapping[str, object])
"""What numbers the parts of an example: codecs by name, a TypedDict."""


class Task(ABC, Generic[S, E, X, N, A, C]):
    """One row of the table of tasks: what training, predicting and scoring need.

    What only some tasks can do is in the classes below: a task is one of those too (`class Tagging(Explaining[...],
    Task[...])`), and callers ask for them with `isinstance`, or with `aspect` where there are defaults.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    """What a named corpus must hold: "tagged", "labelled", "labelled-series", "series", "pairs", "text"."""
    settings: type[S]
    """A dataclass with the settings of its network."""
    defaults: ClassVar[Mapping[str, object]] = {}
    """Defaults of its training: fields of `TrainingSettings`."""
    file_kind: ClassVar[FileKind] = TEXT_FILES
    """Which files are taken where a folder is named."""
    mixed_on_gpu: ClassVar[bool] = False
    """Whether products are taken in bfloat16 on a GPU where no precision is given: it is measured to learn as well."""

    def __init__(self, chosen: S | None = None) -> None:
        """`chosen`: the settings that it is configured with, else all defaults."""
        self.chosen = chosen or self.settings()

    def configured(self, settings: S) -> Self:
        """The task as these settings want it."""
        return type(self)(settings)

    @abstractmethod
    def read(self, files: Sequence[Path]) -> Sequence[E]:
        """The examples of a file, or of the files that make one part."""

    @abstractmethod
    def codecs(self, examples: Sequence[E]) -> C:
        """What numbers the parts of an example, fitted to those that are learned from."""

    def check(self, examples: Sequence[E], codecs: C, name: str) -> None:
        """Refuse examples that cannot be learned from or measured on, such as those with a label never trained on."""
        return None

    @abstractmethod
    def build(self, settings: S, codecs: C) -> N:
        """The network, with fresh random weights."""

    @abstractmethod
    def lengths(self, examples: Sequence[E], codecs: C) -> NDArray[np.int64]:
        """The places each example takes in a batch."""

    @abstractmethod
    def targets(self, examples: Sequence[E], codecs: C) -> int:
        """The number of targets of these examples: what a loss is divided by."""

    @abstractmethod
    def batch(self, examples: Sequence[E], codecs: C) -> X:
        """Examples as tensors."""

    @abstractmethod
    def answers(self, net: N, batch: X, codecs: C) -> list[A]:
        """The answers of the network to every example of a batch."""

    @abstractmethod
    def example(self, given: object) -> E:
        """An example without its answer, from what a user hands to `predict`."""

    def prepare(self, given: object, codecs: C) -> E:
        """`example`, as these codecs read it: words are cut as those of the training examples were."""
        return self.example(given)

    @abstractmethod
    def measure(self, examples: Sequence[E], answers: Sequence[A], codecs: C) -> Measured:
        """How good answers are."""


# ---- how examples are found and read


class Locating(Generic[C]):
    """A task whose files are more than those of one name, or that stands for several tasks."""

    def name_for(self, source: AnySource) -> str | None:
        """The name of the task that takes this source in its place, if another does."""
        return None

    def part(self, given: Parts, part: str) -> Files | None:
        """A part that is more than one text of a corpus; None where the text of that name is meant."""
        return None

    def fitted(self, codecs: C) -> Self:
        """The task as a run with these codecs reads examples: what they know is not guessed again."""
        return self


class Dividing(ABC, Generic[S, E, C]):
    """All parts are in one file, and the task says which examples belong to which."""

    @abstractmethod
    def has_part(self, given: Parts, part: str) -> bool:
        """Whether a source has a part."""

    @abstractmethod
    def check_split(self, split: str) -> None:
        """Refuse a split (see `part_of`) without anything to learn from or to validate on, before anything is read."""

    @abstractmethod
    def settled(self, settings: S, given: Parts, examples: Sequence[E] | None = None) -> S:
        """The settings of a new training that validates on a part of its own files: asked for before its training
        examples are read, and again with them."""

    @abstractmethod
    def part_of(self, examples: Sequence[E], part: str, split: str) -> Sequence[E]:
        """The examples of a part, "train", "valid" or "test"; `split` is that of the corpus, where it has one. "all" of
        a file to learn from or to validate on, the "whole" of a file to test on."""

    @abstractmethod
    def notes(self, examples: Sequence[E], split: str) -> list[str]:
        """How the examples were read, in sentences to print."""

    @abstractmethod
    def scored(self, examples: Sequence[E], codecs: C) -> tuple[Sequence[E], list[str]]:
        """Those of the examples that a score is measured on, with notes on the choice."""


# ---- how a network is trained


class Preparing(Generic[E, C]):
    """A task that decides more of its training by its examples."""

    def hold_out(self, examples: Sequence[E], share: float) -> tuple[Sequence[E], list[E], str]:
        """The first and the last examples, where there are no others to validate on; and how the last were chosen."""
        cut = len(examples) - max(1, round(share * len(examples)))
        return list(examples[:cut]), list(examples[cut:]), ""

    def codec_notes(self, codecs: C) -> list[str]:
        """What fitted codecs decide that should be printed, in sentences."""
        return []

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        """How long to train on so many examples, where nothing was asked for."""
        return training


class Solving(Generic[S, N, E, C]):
    """Some of its networks learn without steps: all of their weights, or something once they are trained."""

    finishes: ClassVar[bool] = False
    """Whether `finish` has something to learn from the validation set."""

    def solves(self, settings: S) -> bool:
        """Whether the network is solved at once, by `solve`, in place of training it in steps."""
        return False

    def solve(self, net: N, examples: Sequence[E], codecs: C) -> None:
        """Find the weights of a network that `solves`."""
        raise TypeError("the networks of this task are trained in steps")

    def finish(self, net: N, examples: Sequence[E], codecs: C) -> None:
        """What is learned from the validation examples after the training, where the task `finishes`."""
        return None


class OnBody(ABC, Generic[E]):
    """Its network can have the word vectors and layers of a language model under it (`tasks/bodies.py`)."""

    stack: ClassVar[str]
    """The module of its network that can be the layers of a language model, over its word vectors `words`. Its weights
    are divided into layers (`TaskNet.weights_by_layer`)."""
    defaults_on_body: ClassVar[Mapping[str, object]] = {}
    """Settings of the network that are others by default over the layers of a language model."""

    @abstractmethod
    def body_settings(self, body: Body) -> Table:
        """The settings of the network that the layers of a language model decide."""

    @abstractmethod
    def count_words(self, examples: Sequence[E], body: Body) -> Counter[str]:
        """How often the examples have each word, as the language model reads them."""


# ---- how a trained network is asked, and how it answers


class Asking(ABC, Generic[E, C]):
    """Questions are more than a line of text each."""

    typed: ClassVar[str] = "'a text'"
    """One input as it is typed on the command line."""
    of_tables: ClassVar[bool] = False
    """Whether `predict --last TABLE` asks it, which samples futures and draws."""
    cuts_words: ClassVar[bool] = False
    """Whether `cut` takes a text apart into words, so that it makes a difference whether it is `pretokenised`."""

    def is_one(self, given: object) -> bool:
        """Whether `predict` was given one input, and not a list of them."""
        return not isinstance(given, list | tuple)

    def spelled(self, text: str) -> Sequence[object]:
        """The inputs that a word of the command line stands for: itself, or all examples of the file that it names."""
        return [text]

    def cut(
        self, chunks: Iterable[str], codecs: C, *, pretokenised: bool = False
    ) -> Iterator[tuple[int, str, E]] | None:
        """The examples without answers that a text holds, each with its number and as it stands there; None where each
        line is one. `pretokenised` text is a sentence a line with spaces between its words."""
        return None


class AskingFiles(Asking[E, C]):
    """A source of questions is read as files, and not as text."""

    @abstractmethod
    def ask(self, files: Sequence[Path], codecs: C) -> Iterable[tuple[int, str, E]]:
        """The examples without answers that files hold, each with its number and its name."""


class Answering(ABC, Generic[X, N, A, C]):
    """Answers depend on options, such as the beam size."""

    asked: ClassVar[Mapping[str, object]]
    """Options of `predict` with their defaults: keywords of `answers_with`."""

    def answers(self, net: N, batch: X, codecs: C) -> list[A]:
        """The answers with the defaults of all options."""
        return self.answers_with(net, batch, codecs, {})

    @abstractmethod
    def answers_with(self, net: N, batch: X, codecs: C, options: Mapping[str, object]) -> list[A]:
        """The answers of the network to every example of a batch, with options of `asked`."""

    def restore(self, answer: A, codecs: C) -> A:
        """An answer as people write it, where the training examples were written otherwise."""
        return answer


class Tabulating(Generic[E, X, N, A, C]):
    """Answers are rows of a table with columns of their own."""

    unit: ClassVar[str] = "text"
    """What an example is, such as "picture": the column of its name."""
    numbered: ClassVar[str] = "number"
    """The column that counts the examples."""

    def columns(self, answer: A) -> Sequence[Row]:
        """The rows of an answer, without the name of its example."""
        return [{"answer": describe(answer)}]

    def tabulate(
        self, net: N, batch: X, texts: Sequence[str], examples: Sequence[E], codecs: C, options: Mapping[str, object]
    ) -> Sequence[PredictedRows] | None:
        """The answer to every example of a batch as rows of a table; `texts` are the examples as they stood. None where
        an answer says all that `columns` need."""
        return None

    def choices(self, codecs: C) -> Sequence[str]:
        """The tags or labels that an answer is made of; none where answers are free."""
        return ()

    def explain_probabilities(self, net: N) -> str:
        """What the probabilities of a table are, in words; nothing where it has none."""
        return ""


class Tracing(ABC, Generic[E, X, N, C]):
    """What the network does with one example can be traced."""

    reads: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """The recurrent layers, each with the prefix of its arrays and the axis of its steps."""

    @abstractmethod
    def shown(self, net: N, batch: X, example: E, codecs: C) -> Shown:
        """The answer to one example with the arrays to trace; of each layer of `reads` the last call is recorded."""


class Explaining(Tracing[E, X, N, C]):
    """Answers come with the evidence for them, if asked for; such a network can be traced too."""

    @abstractmethod
    def explain(self, net: N, batch: X, examples: Sequence[E], codecs: C) -> Sequence[Explained]:
        """Every answer of a batch with the evidence for it."""


# ---- how answers are drawn and saved


class Picturing(ABC, Generic[N]):
    """What it explains of one example can be drawn (`predict --figure`)."""

    drawn_unasked: ClassVar[bool] = False
    """Whether every explanation is drawn, into NAME-TASK.html where no figure is asked for."""

    @abstractmethod
    def figure(
        self, net: N, explained: object, given: object, name: str, trace: Callable[[object], Trace]
    ) -> DrawnFigure:
        """The figure of an explanation; OptionError where this one shows nothing. `given` is the example as it was
        asked about, `name` what it is called, `trace` traces one."""


class Stacking(ABC):
    """Answers to many examples are arrays, too (`predict --out FILE.npz`), and the first of them is drawn."""

    stacks_explained: ClassVar[bool] = False
    """Whether arrays are always those of explanations."""

    @abstractmethod
    def stack(self, answers: Iterable[object]) -> dict[str, NDArray[np.generic]]:
        """Answers, or explanations, as arrays by name, with the examples as first axis."""


class Sampling(ABC, Generic[N]):
    """Its networks draw new pictures (`predict --samples`)."""

    @abstractmethod
    def sample(self, net: N, count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Pictures [N, H, W, C], 0 to 255, which can be read again, and the chance of each pixel to be lit."""


# ---- what stands beside a network


class Comparing(Generic[E, A, C]):
    """What a comparison of several networks needs to know of a task."""

    chooses: ClassVar[str] = "model"
    """The setting that chooses one of `kinds`."""
    compared: ClassVar[Mapping[str, object]] = {}
    """Defaults of its settings where networks are compared on the user's own files."""
    reported: ClassVar[tuple[str, ...]] = ()
    """The figures that the table of a comparison shows; all where none are named."""
    judged: ClassVar[str] = ""
    """The figure by which networks are compared with those that are solved at once; less of it is better."""

    def kinds(self) -> Sequence[str]:
        """The networks by name, where the setting `chooses` chooses one."""
        return ()

    def peers(self) -> Sequence[str]:
        """Those of `kinds` that are compared where none are named."""
        return self.kinds()

    def resampled(self, examples: Sequence[E], answers: Sequence[A], codecs: C) -> Resampled | None:
        """Answers ready to be resampled, so that differences between networks get intervals; None without them."""
        return None


class Baselines(Generic[E, A]):
    """Simple models stand beside every result: what a network has to beat to be worth its training."""

    printed_by: ClassVar[tuple[str, ...]] = ()
    """The commands that print the rows which need no training below a score, as figures mean little without them:
    "score", "predict", "compare"."""
    rotated: ClassVar[str] = ""
    """The row in which an example gets the answer of the network to another one, by a fixed rotation; none where it has
    no name."""

    def beside(self, learned: Sequence[E], asked: Sequence[E]) -> Mapping[str, Callable[[], Sequence[A]]]:
        """Answers that are found by counting and comparing the training examples, by the name of their row."""
        return {}

    def variants(self, learned: Sequence[E]) -> Mapping[str, Mapping[str, object]]:
        """The settings of simpler networks that are trained for their rows, where they differ from the network's."""
        return {}


AnyTask = Task[object, object, Batched, TaskNet[Batched], object, Codecs]
"""A task whose examples, batches and answers are passed on without being looked into."""
Aspect = TypeVar("Aspect")


def aspect(task: AnyTask, kind: type[Aspect]) -> Aspect:
    """The task as one of the classes above that have a default for everything; those defaults where it is none."""
    return task if isinstance(task, kind) else kind()


def name_for(task: AnyTask, source: AnySource) -> str:
    """The name of the task that takes this source: its own, unless one name stands for several tasks."""
    return aspect(task, Locating).name_for(source) or task.name


def scored(task: AnyTask, examples: Sequence[object], codecs: Codecs) -> tuple[Sequence[object], list[str]]:
    """Those of the examples that a score is measured on, with notes on the choice."""
    return task.scored(examples, codecs) if isinstance(task, Dividing) else (examples, [])


def describe(answer: object) -> str:
    """A label or a text as it is, tags with spaces between them, words for a blank with their probabilities; an answer
    of several lines that is no text as one."""
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, list):
        return "; ".join(str(answer).split("\n"))
    parts = [part if isinstance(part, str) else f"{part[0]} {part[1]:.1%}".replace("%", " %") for part in answer]
    return (" " if all(isinstance(part, str) for part in answer) else ", ").join(parts)
