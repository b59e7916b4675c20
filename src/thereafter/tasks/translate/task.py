"""The task `translate`: one sequence into another, such as a sentence into its translation, a text into its summary.

An encoder of sentences (`task_net.Encoder`) and a decoder are one network. A Transformer as Vaswani et al. (2017) had
it has an encoder that sees all of a source, and a decoder that looks at it:

    encoder:  x + attention(x, x),  x + forward(x)

with a norm before each part and one at the end (Xiong et al. 2020); `transformer_decoder.py` is the other half. An
encoder of recurrent layers stands before a decoder of such (`word_decoder.RecurrentDecoder`):

    h_s = encoder(x)_s

A reversed source (Sutskever, Vinyals and Le 2014) begins with its last word.

Shapes: B rows, S places of the source, T steps of the target, N targets without padding, E vectors, V words, H features
or units, L layers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.decoding.sources import AnswerSettings, decode_answers
from thereafter.errors import OptionError, SourceError
from thereafter.layers.attention import CrossAttention
from thereafter.layers.embedding import Embedding
from thereafter.models.decoder import Fields
from thereafter.models.settings import check_choice, check_size
from thereafter.models.task_net import Memory, TaskNet, filled, filled_length, filled_rows, inside
from thereafter.models.transformer_decoder import FeedForward, TransformerDecoder, check_heads, initialise
from thereafter.models.word_decoder import (
    END,
    DecoderSettings,
    WordDecoder,
    check_count,
    recurrent_layers,
)
from thereafter.tasks.answers import Shown
from thereafter.tasks.batching import FillableBatch
from thereafter.tasks.graphs import LONGEST, ROWS, Feeds, Inputs, RecurrentGraphs, Tensors, WritingGraphs, draw_words
from thereafter.tasks.lexicon import Wording, generators_of, padded, shown_answer
from thereafter.tasks.task import Answering, Comparing, Explaining, Locating, Task
from thereafter.tasks.translate.measures import Pairs, ResampledTranslations, measure_pairs
from thereafter.text.sources import PAIRED_FILES
from thereafter.text.tables import SentencePair, has_tabs, read_pairs, read_two

MODELS = ("recurrent", "transformer")
_STEPS = 4  # of the lengths that batches are filled up to
TOKENS = ("word", "prose", "bpe", "wordpiece", "unigram", "char")


@dataclass(frozen=True)
class TranslatorSettings(DecoderSettings):
    """Those of `DecoderSettings`, and of what reads the source. A recurrent encoder has `hidden` units in both
    directions together."""

    model: str = "recurrent"
    """The kind of encoder and decoder: `MODELS`."""
    bidirectional: bool = True
    """Whether a recurrent encoder reads in both directions."""
    reverse: bool = False
    """Whether the source is read from its end."""
    shared: bool = False
    """Whether source and target have one vocabulary and one table of word vectors."""
    tokens: str = "prose"
    """How text is cut into tokens: `TOKENS`."""
    vocabulary: int = 0
    """Tokens of a language at most (0: chosen by the tokenizer)."""
    min_count: int = 2
    """How often a word must stand in the training text to be learned."""
    lower: bool = True
    """Whether text is converted to lower case."""
    languages: str = ""
    """Which languages of a corpus, as in "de-en"; which columns of a file, as in "2-1" (else the first two)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model", self.model, MODELS)
        check_choice("tokens", self.tokens, TOKENS)
        check_size("min_count", self.min_count)
        check_count("vocabulary", self.vocabulary)
        if self.model == "transformer":
            check_heads(self)
        elif self.bidirectional and self.hidden % 2:
            raise OptionError(
                f"hidden is {self.hidden} and the encoder bidirectional, half of them each way; expected an even number"
            )


@dataclass(frozen=True)
class PairBatch(FillableBatch):
    """Sources, each with its END, and targets, which are None where they are asked for.

    `at_N`: the places of the flattened targets that are no padding, found by the host so that no device is waited for.
    `counted_BT`: true for those places instead, in a batch that is filled up.
    """

    source_BS: Tensor
    lengths_B: Tensor
    target_BT: Tensor | None = None
    at_N: Tensor | None = None
    counted_BT: Tensor | None = None

    @property
    def recorded(self) -> bool:
        return self.target_BT is not None and self.counted_BT is not None

    def filled(self, most: int, places: int) -> PairBatch:
        """See `task_net.Fillable`. Both sides get one length; added rows have a source of one token and no target."""
        if self.target_BT is None or self.at_N is None:
            return self
        rows, longest = len(self.source_BS), max(self.source_BS.shape[1], self.target_BT.shape[1])
        shape = filled_rows(rows, longest, _STEPS, most, places), filled_length(longest, _STEPS)
        counted_BT = torch.zeros_like(self.target_BT, dtype=torch.bool).flatten().index_fill(0, self.at_N, True)
        return PairBatch(
            filled(self.source_BS, shape),
            filled(self.lengths_B, shape[:1], 1),
            filled(self.target_BT, shape),
            counted_BT=filled(counted_BT.view_as(self.target_BT), shape),
        )


class Translator(WritingGraphs, TaskNet[PairBatch]):
    """Reads sentences, and decodes others."""

    settings: TranslatorSettings
    source_words: Embedding | None

    def __init__(
        self, settings: TranslatorSettings, *, source: int, target: int, unknown: int | None = None, limit: int = 100
    ) -> None:
        # not the decoder's own way: parts are drawn in an order in which a seed gives the weights it always gave
        size = settings.hidden if isinstance(self, TransformerDecoder) else settings.embed
        WordDecoder.__init__(self, settings, size, unknown=unknown, limit=limit)
        if self.settings.shared and source != target:
            raise OptionError(f"shared is true with {source:,} source and {target:,} target words; expected as many")
        self.words = self._table(target)
        self.source_words = None if self.settings.shared else self._table(source)
        self._add_head(*(table for table in (self.words, self.source_words) if table is not None))
        self._add_sides(settings)

    @abstractmethod
    def _add_sides(self, settings: TranslatorSettings) -> None:
        """The layers of encoder and decoder."""

    @abstractmethod
    def encode(self, batch: PairBatch) -> Memory:
        """The memory of all sources."""

    def nats(self, batch: PairBatch) -> Tensor:
        if batch.target_BT is None or (batch.at_N is None and batch.counted_BT is None):
            raise OptionError("a batch without targets has no loss; expected targets")
        return self.nats_given(self.encode(batch), batch.target_BT, batch.at_N, counted_BT=batch.counted_BT)

    def scores(self, batch: PairBatch) -> Tensor:
        """log p of every word at every step of known targets, [B, T, V]."""
        if batch.target_BT is None:
            raise OptionError("a batch without targets has no scores; expected targets")
        return self.scores_given(self.encode(batch), batch.target_BT)

    def alignment(self, batch: PairBatch, answers: Sequence[Sequence[int]]) -> list[Tensor]:
        """Where each token of answers looked, [tokens, source places] a row; an answer goes up to its END.

        Of a Transformer it is the mean over the heads of its last block.
        """
        if self.settings.model == "recurrent" and self.settings.attention == "none":
            raise OptionError("this translator has no attention to show; try one trained with attention='additive'")
        longest = max(map(len, answers))
        rows_BT = torch.tensor([[*row, *[END] * (longest - len(row))] for row in answers], device=self.device)
        fields: Fields = {}
        with self.quietly():
            source = self.prepare(self.encode(batch))
            self.advance(self.inputs(rows_BT), source, self.begin(source), fields)
        weights_BTS = fields["attention"][1].float().cpu()
        cut = zip(weights_BTS, answers, batch.lengths_B.tolist(), strict=True)
        return [weights_TS[: len(row), :length] for weights_TS, row, length in cut]

    def source_inputs(self) -> Inputs:
        return {"source": (torch.int64, "BS"), "lengths": (torch.int64, "B")}

    def encode_inputs(self, inputs: Tensors) -> Memory:
        return self.encode(PairBatch(inputs["source"], inputs["lengths"]))

    def draw_target(self, draw: np.random.Generator) -> tuple[Feeds, NDArray[np.int64], NDArray[np.floating]]:
        table = self.words if self.source_words is None else self.source_words
        longest, drawn = min(LONGEST, self.settings.longest), draw_words(table.words, draw)
        source_BS, lengths_B = drawn["words"][:, :longest], np.minimum(drawn["lengths"], longest)
        source_BS[np.arange(ROWS), lengths_B - 1] = END
        target_BT = draw.integers(1, self.words.words, (ROWS, longest))
        batch = PairBatch(*map(torch.from_numpy, (source_BS, lengths_B, target_BT)))
        with self.quietly():
            right_BTV = self.scores(batch.to(self.device)).float().cpu().numpy()
        return {"source": source_BS, "lengths": lengths_B}, target_BT, right_BTV

    def source_vectors(self, source_BS: Tensor) -> Tensor:
        """The vectors of a source, [B, S, E]: as those of the target sqrt(E) times their rows of the table."""
        table = self.words if self.source_words is None else self.source_words
        x_BSE: Tensor = self._scale * table(source_BS)
        return x_BSE


class TransformerTranslator(Translator, TransformerDecoder):
    """See the module's equations."""

    def _add_sides(self, settings: TranslatorSettings) -> None:
        self._add_positions()
        size, inner = settings.hidden, settings.feedforward or 4 * settings.hidden
        self.encoder = nn.ModuleList(
            _Reader(size, settings.heads, inner, settings.dropout) for _ in range(settings.layers)
        )
        self._add_blocks()
        self.norm_source, self.norm = nn.LayerNorm(size), nn.LayerNorm(size)
        for block in (*self.encoder, *self.decoder):
            initialise(block, settings.layers)

    def encode(self, batch: PairBatch) -> Memory:
        inside_BS = inside(batch.lengths_B, batch.source_BS)
        x_BSH = self._with_positions(self.source_vectors(batch.source_BS), 0)
        for block in self.encoder:
            x_BSH = block(x_BSH, inside_BS)
        return Memory(self.norm_source(x_BSH), inside_BS)

    def graph_inputs(self) -> dict[str, Inputs]:
        shape = ("B", self.settings.heads, "N", self.settings.hidden // self.settings.heads)
        inputs: Inputs = {"token": (torch.int64, "B"), "inside": (torch.bool, "BS")}
        for name in self._looks():
            inputs |= {name: (torch.float32, shape), f"look_{name}": (torch.float32, (*shape[:2], "S", shape[3]))}
        return {"decoder": inputs, "encoder": self.source_inputs()}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        names = self._looks()
        if graph == "encoder":
            source = self.prepare(self.encode_inputs(inputs))
            begun = self.begin(source)
            looked = {f"look_{name}": source[name] for name in names}
            return {"inside": source["inside_BS"], **looked, **{name: begun[name] for name in names}}
        source = {"inside_BS": inputs["inside"], **{name: inputs[f"look_{name}"] for name in names}}
        f_B1F, after = self.advance(inputs["token"][:, None], source, {name: inputs[name] for name in names})
        return {"log_p": self.head.log_prob(f_B1F[:, 0]), **{f"next_{name}": after[name] for name in names}}

    def _looks(self) -> list[str]:
        return [f"{kind}_{number}" for number in range(self.settings.layers) for kind in ("keys", "values")]


class _Reader(nn.Module):
    """A block of the encoder."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attention = CrossAttention(size, heads, dropout=dropout)
        self.after = FeedForward(size, inner, dropout)
        self.dropout = dropout

    def forward(self, x_BSH: Tensor, inside_BS: Tensor) -> Tensor:
        read = self.norm(x_BSH)
        y_BSH = self.attention(read, self.attention.keys(read), inside_BS)
        after_BSH: Tensor = self.after(x_BSH + F.dropout(y_BSH, self.dropout, self.training))
        return after_BSH


class RecurrentTranslator(Translator, RecurrentGraphs):
    """See the module's equations. `hidden` counts both directions of the encoder, so that its last states fit."""

    def _add_sides(self, settings: TranslatorSettings) -> None:
        self._both = settings.bidirectional
        size = settings.hidden // (2 if self._both else 1)
        self.encoder = recurrent_layers(settings, settings.embed, size, bidirectional=self._both)
        self._add_layers()

    def encode(self, batch: PairBatch) -> Memory:
        source_BS, place_BS = batch.source_BS, None
        if self.settings.reverse:
            place_BS = _reverse(batch.lengths_B.to(source_BS.device), source_BS.shape[1])
            source_BS = source_BS.gather(1, place_BS)
        h_BSH, state = self.encoder(self.source_vectors(source_BS), lengths=batch.lengths_B)
        parts = state if isinstance(state, tuple) else (state,)
        fields = self.encoder.lanes[0].cell.state_sizes()
        summary = {
            name: self._both_ways(part_LBH).transpose(0, 1) for name, part_LBH in zip(fields, parts, strict=True)
        }
        return Memory(h_BSH, inside(batch.lengths_B, source_BS), summary, place_BS)

    def _both_ways(self, part_LBH: Tensor) -> Tensor:
        """The last states of a layer's two directions side by side."""
        if not self._both:
            return part_LBH
        lanes, rows, size = part_LBH.shape
        return part_LBH.view(lanes // 2, 2, rows, size).transpose(1, 2).reshape(lanes // 2, rows, 2 * size)


def _reverse(lengths_B: Tensor, places: int) -> Tensor:
    """Where each place of a reversed source comes from, [B, S]: its END stays last, and so does padding."""
    place_S = torch.arange(places, device=lengths_B.device)
    turned_BS = lengths_B[:, None] - 2 - place_S
    return torch.where(turned_BS >= 0, turned_BS, place_S)


_SHOWN, _FAINT = 3, 0.05  # places of the source that are named beside a word, and the weight it takes


@dataclass(frozen=True)
class Aligned:
    """An answer with its attention: `weights[t, s]`, a row for each target token, a column for each source token.

    A row sums to 1. The last row and the last column are the end of the sentence.
    """

    answer: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        weights = [[round(float(weight), 4) for weight in row] for row in self.weights]
        return {"answer": self.answer, "source": list(self.source), "said": list(self.target), "weights": weights}

    def __str__(self) -> str:
        width = max(len(form.strip()) for form in self.target)
        lines = [self.answer]
        for form, row in zip(self.target, self.weights, strict=True):
            most = [place for place in np.argsort(-row)[:_SHOWN] if row[place] >= _FAINT]
            looked = ", ".join(f"{self.source[place].strip()} {100 * row[place]:.0f} %" for place in most)
            lines.append(f"  {form.strip():<{width}}  {looked}".rstrip())
        return "\n".join(lines)


class PairCodecs(TypedDict):
    """What numbers the parts of an example."""

    source: Wording
    target: Wording


class Translating(
    Locating[PairCodecs],
    Answering[PairBatch, Translator, str, PairCodecs],
    Explaining[SentencePair, PairBatch, Translator, PairCodecs],
    Comparing[SentencePair, str, PairCodecs],
    Task[TranslatorSettings, SentencePair, PairBatch, Translator, str, PairCodecs],
):
    """See `task.Task`. Of a corpus in several languages `languages` says which are translated, as in "de-en"."""

    name = "translate"
    kind = "pairs"
    mixed_on_gpu = True
    settings = TranslatorSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 12.0, "batch": 64, "rate": 1.5e-3, "steps": 40}
    asked: ClassVar[Mapping[str, object]] = asdict(AnswerSettings())
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"encoder": ("encoder.", "source")}
    file_kind: ClassVar[FileKind] = PAIRED_FILES

    def part(self, given: Parts, part: str) -> Files | None:
        """The two files of a part in the chosen languages."""
        languages = {name.partition(".")[2]: None for name in given.parts if "." in name}
        if not languages:
            return None
        source, _, target = self.chosen.languages.partition("-")
        if source not in languages or target not in languages or source == target:
            some = list(languages)
            raise OptionError(
                f"languages is {self.chosen.languages!r}; expected two of what {given.name} holds, {', '.join(some)}; "
                f"try languages='{some[1]}-{some[0]}' (--set languages={some[1]}-{some[0]})"
            )
        both = [given.parts.get(f"{part}.{language}") for language in (source, target)]
        if both[0] is None or both[1] is None:
            return None
        name = f"{given.name}:{part} {source}-{target}"
        return replace(both[0], name=name, files=(*both[0].files, *both[1].files))

    def read(self, files: Sequence[Path]) -> list[SentencePair]:
        if len(files) == 1 or all(map(has_tabs, files)):
            # the columns of a file with tabs: the first two, unless `languages` are numbers
            first, _, second = self.chosen.languages.partition("-")
            source, target = (int(first), int(second)) if first.isdigit() and second.isdigit() else (1, 2)
            return [pair for path in files for pair in read_pairs(path, source=source, target=target)]
        if len(files) % 2:
            raise SourceError(
                f"there are {len(files):,} files of pairs; expected one with tabs, or two that go line by line; "
                "try 'train.de,train.en'"
            )
        half = len(files) // 2
        return [pair for two in zip(files[:half], files[half:], strict=True) for pair in read_two(*two)]

    def codecs(self, examples: Sequence[SentencePair]) -> PairCodecs:
        sides = {"source": [one.source for one in examples], "target": [one.target for one in examples]}
        if self.chosen.shared:
            both = self._wording([*sides["source"], *sides["target"]])
            source, target = both, both
        else:
            source, target = self._wording(sides["source"]), self._wording(sides["target"])
        target.seen = min(self.chosen.longest, max(map(target.count, sides["target"]))) + 1
        return {"source": source, "target": target}

    def check(self, examples: Sequence[SentencePair], codecs: PairCodecs, name: str) -> None:
        longest = self.chosen.longest
        long = [one for one in examples if max(_counts(one, codecs)) > longest]
        if long:
            most = max(max(_counts(one, codecs)) for one in long)
            progress.note(
                f"{name}: {len(long):,} of {len(examples):,} pairs have a side of more than {longest} tokens, at most "
                f"{most:,} (line {long[0].line} is the first); they are read up to there (longest={longest})"
            )

    def build(self, settings: TranslatorSettings, codecs: PairCodecs) -> Translator:
        source, target = codecs["source"], codecs["target"]
        kind = TransformerTranslator if settings.model == "transformer" else RecurrentTranslator
        return kind(settings, source=len(source), target=len(target), unknown=target.unknown, limit=max(1, target.seen))

    def lengths(self, examples: Sequence[SentencePair], codecs: PairCodecs) -> NDArray[np.int64]:
        most = self.chosen.longest
        return np.array([min(most, max(_counts(one, codecs))) + 1 for one in examples], np.int64)

    def targets(self, examples: Sequence[SentencePair], codecs: PairCodecs) -> int:
        return sum(len(codecs["target"].encode(one.target)) for one in examples)

    def batch(self, examples: Sequence[SentencePair], codecs: PairCodecs) -> PairBatch:
        sources = [codecs["source"].encode(one.source) for one in examples]
        lengths_B = torch.tensor([len(row) for row in sources])
        batch = PairBatch(torch.from_numpy(padded(sources)), lengths_B)
        if not all(one.target for one in examples):
            return batch
        targets = [codecs["target"].encode(one.target) for one in examples]
        target_BT = padded(targets)
        inside_BT = np.arange(target_BT.shape[1]) < np.array([len(row) for row in targets])[:, None]
        at_N = torch.from_numpy(np.flatnonzero(inside_BT))
        return replace(batch, target_BT=torch.from_numpy(target_BT), at_N=at_N)

    def answers_with(
        self, net: Translator, batch: PairBatch, codecs: PairCodecs, options: Mapping[str, object]
    ) -> list[str]:
        """Options are those of `AnswerSettings`. What is drawn for a sentence depends on nothing else that is asked."""
        settings = toml.build(AnswerSettings, dict(options), "predict")
        return [codecs["target"].decode(row) for row in _decode(net, batch, settings)]

    def example(self, given: object) -> SentencePair:
        """A sentence; or a `SentencePair`, whose target is ignored."""
        source = given.source if isinstance(given, SentencePair) else str(given)
        if not source.strip():
            raise OptionError("a sentence to translate has no words; expected at least one")
        return SentencePair(source, "")

    def prepare(self, given: object, codecs: PairCodecs) -> SentencePair:
        """Plain text is brought into the way the training sentences were written."""
        example, style = self.example(given), codecs["source"].style
        if style is None or isinstance(given, SentencePair):
            return example
        return SentencePair(style.rewritten(example.source), "")

    def restore(self, answer: str, codecs: PairCodecs) -> str:
        style = codecs["target"].style
        return answer if style is None else style.restored(answer)

    def measure(self, examples: Sequence[SentencePair], answers: Sequence[str], codecs: PairCodecs) -> Pairs:
        return measure_pairs(
            answers,
            [one.target for one in examples],
            [one.source for one in examples],
            lowercase=codecs["target"].lower,
        )

    def resampled(
        self, examples: Sequence[SentencePair], answers: Sequence[str], codecs: PairCodecs
    ) -> ResampledTranslations:
        references = [one.target for one in examples]
        return ResampledTranslations.of(answers, references, lowercase=codecs["target"].lower)

    def explain(
        self, net: Translator, batch: PairBatch, examples: Sequence[SentencePair], codecs: PairCodecs
    ) -> list[Aligned]:
        """The likeliest word at every step, with its attention over the source."""
        source, target = codecs["source"], codecs["target"]
        answers = [[*row, END] for row in _decode(net, batch)]
        return [
            Aligned(
                target.decode(answer),
                tuple(source.forms(source.encode(one.source))),
                tuple(target.forms(answer)),
                weights_TS.numpy().astype(np.float32),
            )
            for one, answer, weights_TS in zip(examples, answers, net.alignment(batch, answers), strict=True)
        ]

    def shown(self, net: Translator, batch: PairBatch, example: SentencePair, codecs: PairCodecs) -> Shown:
        source = codecs["source"]
        with net.quietly():
            memory = net.encode(batch)
        read = source.forms(source.encode(example.source))
        return shown_answer(net, memory, codecs["target"], {"source": list(read)})

    def _wording(self, sentences: Sequence[str]) -> Wording:
        chosen = self.chosen
        return Wording.fit(
            sentences,
            chosen.tokens,
            vocabulary=chosen.vocabulary,
            min_count=chosen.min_count,
            lower=chosen.lower,
            longest=chosen.longest,
        )


def _decode(net: Translator, batch: PairBatch, settings: AnswerSettings | None = None) -> list[list[int]]:
    """The answers to a batch as ids without END."""
    settings = settings or AnswerSettings()
    with net.quietly():
        memory = net.encode(batch)
    rows = zip(batch.source_BS.tolist(), batch.lengths_B.tolist(), strict=True)
    rngs = generators_of((tuple(row[:length]) for row, length in rows), settings)
    return decode_answers(net, memory, settings, rngs)


def _counts(one: SentencePair, codecs: PairCodecs) -> tuple[int, int]:
    return codecs["source"].count(one.source), codecs["target"].count(one.target)


TRANSLATING = Translating()
