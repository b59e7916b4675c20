"""The options of a text, and those of training, which are the same for every neural model and checked when set.

Nothing here needs torch. None means "chosen by the size of the text": `neural.complete_training`
puts the choice in its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from thereafter.base import packages
from thereafter.base.config import Table
from thereafter.base.devices import DEVICES as DEVICES
from thereafter.base.devices import check_device
from thereafter.errors import OptionError, nearest
from thereafter.text.form import Forming

BATCHINGS = ("stream", "partition", "lines")
OPTIMIZERS = ("adamw", "adam", "sgd", "nt-asgd")
SCHEDULES = ("constant", "step", "cosine", "plateau", "one-cycle")
PRECISIONS = ("auto", "float32", "bfloat16")
AUTO = "auto"
"""The batch that is found by trying (`fit.py`)."""
LOGS = ("csv", "tensorboard")
SEEDS = 2**64
"""How many there are: torch's generators take 64 bits."""

START = "start"
"""What a configuration calls the run that its own began with."""


@dataclass(frozen=True)
class TextSettings:
    """How the text is read and cut. None means the rule of the tokenizer or the corpus.

    The first paragraph below a field here, and in the other settings, is its help on the command line (`cli.options`).
    """

    tokens: str | None = None
    """Tokenizer: word, prose, char, byte, bpe, wordpiece or unigram. Default: what suits the source."""
    context: str | None = None
    """line: each line starts afresh. stream: the context runs on across lines."""
    min_count: int | None = None
    """Tokens seen less often than this become <unk> (default 2)."""
    vocabulary: int | None = None
    """Largest vocabulary to keep; for bpe, wordpiece and unigram, how many pieces to learn (default 4096)."""
    lower: bool = False
    """Convert the text to lower case."""
    letters_only: bool = False
    """Keep letters only; everything else becomes a space."""
    encoding: str | None = None
    """Encoding of the text, such as latin-1. Default: UTF-8, or as its BOM says."""
    keep_licence: bool = False
    """Keep Project Gutenberg's header and licence in your own files."""
    wrapped: bool = False
    """Keep the line breaks of hard-wrapped prose in your own files."""
    markup: bool = False
    """Read HTML, Markdown and subtitles as they are, markup and times with them."""

    @classmethod
    def of_config(cls, about: Table, encoding: str | None) -> TextSettings:
        """How a run reads texts, by its table `text`. Runs of earlier versions read every file as it is.

        Not by `config.build`, which compiles the types of a class: a run that is read compiles nothing.
        """
        return cls(
            lower=bool(about["lower"]),
            letters_only=bool(about["letters_only"]),
            encoding=encoding,
            keep_licence=bool(about.get("keep_licence", True)),
            wrapped=bool(about.get("wrapped", True)),
            markup=bool(about.get("markup", True)),
        )

    @property
    def forming(self) -> Forming:
        """What is kept as it is in files of the user's own."""
        return Forming(keep_licence=self.keep_licence, wrapped=self.wrapped, markup=self.markup)


@dataclass(frozen=True)
class TrainingSettings:
    """How a neural model is trained."""

    seed: int = 0
    """The seed of all random numbers: fresh weights, dropout, the order of batches."""

    # ---- batches
    batching: str | None = None
    """How a text is cut. "stream": rows run through the text side by side, the state is carried, gradients are cut
    after `steps` tokens. "partition": pieces of `steps` tokens from a random offset, shuffled, each from a fresh state.
    "lines": each line on its own, gradients through all of it; one longer than `steps` is cut."""
    batch: int | str | None = None
    """Batch size: rows of text read in parallel; auto: the largest that fits in the memory of a GPU.

    For a task: examples."""
    steps: int | None = None
    """Tokens of each row in a batch: the length of truncated BPTT.

    For a task: a batch has at most `batch` times this many words, steps or frames."""
    jitter: bool | None = None
    """Whether `steps` varies from block to block as in AWD-LSTM, the learning rate in proportion."""

    # ---- budget: the first that is used up ends the training
    epochs: float | None = None
    """Passes over the text. Default: chosen from its size.

    For a task: over its examples."""
    tokens_budget: int | None = None
    """Stop after training on this many tokens."""
    minutes: float | None = None
    """Stop training after this many minutes; scores and baselines come after."""
    patience: int | None = None
    """Validations without a better one that end the training; 0 never ends it."""
    validate_every: int | None = None
    """Steps between two validations."""

    # ---- optimizer
    optimizer: str | None = None
    """adamw (the default), adam, sgd or nt-asgd."""
    rate: float | None = None
    """Learning rate."""
    momentum: float = 0.0
    """The momentum of sgd."""
    betas: tuple[float, ...] = (0.9, 0.999)
    """How slowly the two averages of adam and adamw forget: of gradients and of their squares."""
    weight_decay: float | None = None
    """How strongly weights are drawn to 0: by adamw apart from the gradient, by the others as a part of it."""
    clip: float | None = None
    """The largest norm of the gradient; a larger one is scaled down to it. 0: none is."""
    nonmono: int = 5
    """nt-asgd averages weights once a validation is worse than the best of those at least so many before it."""
    unfreeze: bool = False
    """Gradual unfreezing: the head alone learns in the first epoch, and one layer more in each after it."""
    layer_decay: float = 1.0
    """Multiply the learning rate by this from each layer to the one below it, from the head down: 0.38."""

    # ---- schedule of the learning rate
    schedule: str | None = None
    """Learning rate schedule: constant, step, cosine (the default), plateau or one-cycle."""
    warmup: float | None = None
    """How long the learning rate rises first: below 1 a share of the budget, else steps."""
    final: float = 0.05
    """The share of the learning rate that cosine and one-cycle end with."""
    decay: float = 0.5
    """What step and plateau multiply the learning rate by."""
    decay_from: float = 4.0
    """The epoch at which step begins to lower the learning rate."""
    decay_every: float = 1.0
    """Epochs between two decays of step."""
    plateau: int = 1
    """Validations without a better one after which plateau lowers the learning rate."""

    # ---- machine and log
    device: str = "auto"
    """Where it is computed: `DEVICES`."""
    precision: str = "auto"
    """The numbers that are multiplied: `PRECISIONS`."""
    graphs: bool = True
    """Whether steps on a GPU are recorded as CUDA graphs and replayed."""
    log_every: int | None = None
    """Steps between two lines of the log."""
    checkpoint_every: int | None = None
    """Steps between two snapshots."""
    checkpoint_seconds: float = 30.0
    """The fewest seconds between two writes of a snapshot to disk."""
    log: str = ""
    """Also write the figures of every step to the run folder: csv (log.csv), tensorboard, or csv,tensorboard
    (docs/logging.md).

    csv has a row for each step and validation; tensorboard takes one step in `log_every`."""
    tensorboard: bool = False
    """The same as log = "tensorboard"."""

    def __post_init__(self) -> None:
        _choice("batching", self.batching, BATCHINGS)
        _choice("optimizer", self.optimizer, OPTIMIZERS)
        _choice("schedule", self.schedule, SCHEDULES)
        _choice("precision", self.precision, PRECISIONS)
        check_device(self.device)
        for name in self.logs:
            _choice("log", name, LOGS)
        values = vars(self)
        if isinstance(self.batch, str) and self.batch != AUTO:
            raise OptionError(f"batch is {self.batch!r}; expected a whole number, or {AUTO!r}; try 32")
        _at_least("batch", None if isinstance(self.batch, str) else self.batch, 1)
        for name in ("steps", "tokens_budget", "validate_every", "nonmono", "log_every", "checkpoint_every"):
            _at_least(name, values[name], 1)
        if self.seed >= SEEDS:
            raise OptionError(f"seed is {self.seed}; expected 0 to {SEEDS - 1} (64 bits); try a smaller one")
        for name in ("seed", "patience", "weight_decay", "clip", "warmup", "checkpoint_seconds", "plateau"):
            _at_least(name, values[name], 0)
        for name, example in (("rate", "0.001"), ("epochs", "10"), ("minutes", "5"), ("decay_every", "1")):
            value = values[name]
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise OptionError(f"{name} is {value!r}; expected a finite number above 0; try {example}")
        _at_least("decay_from", self.decay_from, 0)
        for name in ("momentum", "final", "decay"):
            if not 0.0 <= values[name] <= 1.0:
                raise OptionError(f"{name} is {values[name]!r}; expected 0 to 1")
        if not 0.0 < self.layer_decay <= 1.0:
            raise OptionError(f"layer_decay is {self.layer_decay!r}; expected more than 0, at most 1; try 0.38")
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise OptionError(f"betas are {self.betas!r}; expected two numbers from 0 to below 1; try 0.9, 0.999")
        if self.momentum and self.optimizer in ("adamw", "adam", "nt-asgd"):
            raise OptionError(f"{self.optimizer} has no momentum (got {self.momentum}); try optimizer='sgd'")

    @property
    def rows(self) -> int:
        """The batch as a number, where it is chosen."""
        return 1 if self.batch is None or isinstance(self.batch, str) else self.batch

    @property
    def has_length(self) -> bool:
        """Whether it says how long to train."""
        return (self.epochs, self.tokens_budget, self.minutes) != (None, None, None)

    def lasting(self, examples: int, epochs: float, *, least_steps: int = 0, most_steps: int) -> TrainingSettings:
        """So many epochs, but neither too few nor too many steps, where no length is asked for; by default validated as
        often as there would be epochs, and once in each at least."""
        if self.has_length:
            return self
        batches = max(1, -(-examples // self.rows))
        length = min(max(epochs, least_steps / batches), most_steps / batches)
        every = self.validate_every or max(1, min(batches, round(length * batches / epochs)))
        return replace(self, epochs=length, validate_every=every)

    def completed(self, device: str, precision: str, **defaults: object) -> TrainingSettings:
        """These settings on a device, where those that are left open have defaults: these, and what all share."""
        shared: Table = {"optimizer": "adamw", "weight_decay": 0.01, "clip": 1.0}
        shared |= {"log_every": 10, "checkpoint_every": 100}
        given: Table = {name: value for name, value in vars(self).items() if value is not None}
        return TrainingSettings(**shared | defaults | given | {"device": device, "precision": precision})

    @property
    def logs(self) -> tuple[str, ...]:
        """The names in `log`, each once."""
        named = {name.strip() for name in self.log.split(",")} | ({"tensorboard"} if self.tensorboard else set())
        return tuple(sorted(named - {""}))


def check_logs(training: TrainingSettings, folder: Path | None) -> None:
    """Refuse logs that have no run folder to be written to, or need a package that is not here: before any work."""
    if training.logs and folder is None:
        raise OptionError(
            f"log is {','.join(training.logs)!r} and there is no run folder to write to; try out='runs/NAME' (--out), "
            "or thereafter.logging_to"
        )
    if "tensorboard" in training.logs:
        require_tensorboard()


def require_tensorboard() -> None:
    """MissingPackageError, with the line that installs it, where TensorBoard is not installed."""
    packages.require("tensorboard", "a log for TensorBoard", install="'thereafter[tensorboard]'")


def _choice(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise OptionError(f"{name} is {value!r}; {nearest(value, list(known))}")


def _at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and not (value >= least and math.isfinite(value)):
        finite = "" if math.isfinite(value) else "a finite number, "
        raise OptionError(f"{name} is {value!r}; expected {finite}{least} or more")
