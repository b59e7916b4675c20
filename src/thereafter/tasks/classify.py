"""The task `classify`: one label for a whole text, such as whether a review is a good one.

Words are read in both directions, or by a convolution, and pooled into one vector.

    h_t = [forward, backward](E[word])_t     or     h_t = relu(conv of widths 3, 4, 5 at t)       (Kim 2014)
    v   = the last state of both directions, the mean or the maximum over t, or sum_t a_t h_t; or
          [last, maximum, mean], "concat"                                                 (Howard and Ruder 2018)
    a_t = softmax_t(u . tanh(A h_t))                                                               (Yang et al. 2016)
    p(label | words) = softmax(W v + b)

`evidence` says which words support a label: the gradient of its score in each word vector, times that vector
(Simonyan, Vedaldi and Zisserman 2014; Denil, Demiraj and de Freitas 2014).

What every network has to beat is multinomial Naive Bayes (McCallum and Nigam 1998), with add-alpha counts over a
vocabulary of V words:

    log p(class | text) ~ log p(class) + sum over words w of log (count(w, class) + alpha) / (count(class) + alpha V)

Words that training never saw are passed over. With `binary` a word counts once a text, however often it is there.

Shapes: B rows, T words, E word vector, H features, K labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.data.corpora import is_read_once, locate_source
from thereafter.data.files import AnySource
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, OptionError, ThereafterError
from thereafter.evaluation.bootstrap import Floats
from thereafter.layers.blocks import largest_of, locked_layers
from thereafter.layers.dropout import locked
from thereafter.layers.recurrent import Recurrent
from thereafter.models.quiet import weights_by_layer
from thereafter.models.settings import check_choice, check_shares, check_sizes
from thereafter.models.task_net import (
    CELLS,
    IGNORED,
    PAD,
    counted,
    filled,
    filled_length,
    filled_rows,
    inside,
    read_as_unknown,
)
from thereafter.series.labelled import SERIES_FILES, holds_series
from thereafter.tasks.answers import Fields, LabelExplained, Shown
from thereafter.tasks.batching import FillableBatch
from thereafter.tasks.bodies import Body
from thereafter.tasks.graphs import WORDS as WORD_INPUTS
from thereafter.tasks.graphs import Feeds, Inputs, OneGraph, Tensors, draw_words
from thereafter.tasks.labelling import LabelCodecs, LabelTask, label_lexicon, numbered_labels, ranked
from thereafter.tasks.lexicon import WORDS, Lexicon, padded
from thereafter.tasks.task import Locating, OnBody
from thereafter.text.labelled import LabelledText, read_labelled, require_known_labels
from thereafter.text.sources import LABELLED_TEXTS
from thereafter.vision.pictures.labelled_pictures import has_pictures

ENCODERS = (*CELLS, "cnn")
POOLINGS = ("last", "mean", "max", "attention", "concat")
_WIDTHS = (3, 4, 5)
_STEPS = 8  # of the lengths that batches are filled up to


@dataclass(frozen=True)
class ClassifierSettings:
    """Sizes of a classifier of texts and how it is regularised."""

    encoder: str = "lstm"
    """What reads the words: a recurrent cell or a convolution: `ENCODERS`."""
    embed: int = 128
    """Numbers of a word's vector."""
    hidden: int = 128
    """Units a layer in each direction; of a convolution, for each of its widths."""
    layers: int = 1
    """Recurrent layers, one over the other."""
    sizes: tuple[int, ...] = ()
    """Units of layers that read forward only, as those of a language model do, in place of `hidden` and `layers`."""
    pooling: str = "max"
    """How the words become one vector: `POOLINGS`. A convolution takes the maximum."""
    dropout: float = 0.5
    """The share of word vectors, of what is between layers and of the pooled vector that is dropped while training."""
    drop_words: float = 0.1
    """The share of words that are read as unknown while training."""
    weight_drop: float = 0.0
    """The share of recurrent weights that is dropped throughout a batch."""

    def __post_init__(self) -> None:
        check_choice("encoder", self.encoder, ENCODERS)
        check_choice("pooling", self.pooling, POOLINGS)
        check_sizes(self, "embed", "hidden", "layers", "sizes")
        check_shares(self, "dropout", "drop_words", "weight_drop")
        if self.encoder == "cnn" and (self.sizes or self.weight_drop):
            raise OptionError(
                f"encoder is 'cnn', which has neither sizes (got {self.sizes!r}) nor weight_drop (got "
                f"{self.weight_drop}); try encoder='lstm', or leave them out"
            )

    @property
    def width(self) -> int:
        """The features of a word."""
        if self.encoder == "cnn":
            return self.hidden * len(_WIDTHS)
        return self.sizes[-1] if self.sizes else 2 * self.hidden


@dataclass(frozen=True)
class ClassBatch(FillableBatch):
    """Rows of words; `labels_B` is None where they are asked for.

    `counted_B`: false for rows that fill the batch up; None where it is not filled up.
    """

    words_BT: Tensor
    lengths_B: Tensor
    labels_B: Tensor | None = None
    counted_B: Tensor | None = None

    @property
    def recorded(self) -> bool:
        return self.labels_B is not None and self.counted_B is not None

    def filled(self, most: int, places: int) -> ClassBatch:
        """See `task_net.Fillable`. Added rows have one word, and a label that counts for nothing."""
        rows, steps = self.words_BT.shape
        shape = filled_rows(rows, steps, _STEPS, most, places), filled_length(steps, _STEPS)
        return ClassBatch(
            filled(self.words_BT, shape, PAD),
            filled(self.lengths_B, shape[:1], 1),
            None if self.labels_B is None else filled(self.labels_B, shape[:1]),
            counted(rows, shape[0]),
        )


class Classifier(OneGraph[ClassBatch]):
    """See the module's equations."""

    def __init__(self, settings: ClassifierSettings, *, words: int, labels: int) -> None:
        super().__init__()
        if labels < 2:
            raise OptionError(f"the classifier has {labels} label to choose from; expected at least 2")
        self.settings = settings
        self.words = nn.Embedding(words, settings.embed, padding_idx=PAD)
        self.reader: nn.Module = _Convolutions(settings) if settings.encoder == "cnn" else _recurrent(settings)
        width, together = settings.width, settings.pooling == "concat" and settings.encoder != "cnn"
        self.attention = nn.Linear(width, width) if settings.pooling == "attention" else None
        self.attended = nn.Linear(width, 1, bias=False) if settings.pooling == "attention" else None
        self.head = nn.Linear(3 * width if together else width, labels)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def nats(self, batch: ClassBatch) -> Tensor:
        if batch.labels_B is None:
            raise OptionError("a batch without labels has no loss; expected labels")
        labels_B = batch.labels_B
        if batch.counted_B is not None:
            labels_B = labels_B.masked_fill(~batch.counted_B, IGNORED)
        return F.cross_entropy(self.scores(batch).float(), labels_B, ignore_index=IGNORED, reduction="sum")

    def scores(self, batch: ClassBatch, vectors_BTE: Tensor | None = None) -> Tensor:
        """The score z of each label, [B, K]; `vectors_BTE`: the word vectors, where the caller has them already."""
        return self.scores_with_weights(batch, vectors_BTE)[0]

    def scores_with_weights(self, batch: ClassBatch, vectors_BTE: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The scores [B, K], and the weight of every word in the pooled vector, [B, T]."""
        x_BTE = self.vectors(batch) if vectors_BTE is None else vectors_BTE
        dropped_BTE = locked(x_BTE, self.settings.dropout, self.training)
        inside_BT = inside(batch.lengths_B, x_BTE)
        if isinstance(self.reader, Recurrent):
            h_BTH, state = self.reader(dropped_BTE, lengths=batch.lengths_B)
            v_BH, weights_BT = self._pool(h_BTH, self._last(h_BTH, state, batch.lengths_B), inside_BT)
        else:
            h_BTH = self.reader(dropped_BTE * inside_BT[..., None])
            v_BH, weights_BT = largest_of(h_BTH, inside_BT)
        kept_BH = F.dropout(v_BH, self.settings.dropout, self.training)
        z_BK: Tensor = self.head(kept_BH)
        return z_BK, weights_BT

    def vectors(self, batch: ClassBatch) -> Tensor:
        """The vector of each word, [B, T, E]."""
        words_BT = batch.words_BT
        if self.training and self.settings.drop_words:
            words_BT = read_as_unknown(words_BT, self.settings.drop_words)
        x_BTE: Tensor = self.words(words_BT)
        return x_BTE

    def decide(self, batch: ClassBatch) -> Tensor:
        """The probability of every label, [B, K]."""
        return self.decide_with_weights(batch)[0]

    def decide_with_weights(self, batch: ClassBatch) -> tuple[Tensor, Tensor]:
        """The probability of every label [B, K], and the share of every word in the pooled vector, [B, T]."""
        with self.quietly():
            z_BK, weights_BT = self.scores_with_weights(batch)
            return z_BK.float().softmax(-1), weights_BT

    def evidence(self, batch: ClassBatch, labels_B: Tensor) -> Tensor:
        """How much each word supports a label, [B, T]: the gradient of its score times the word vector."""
        with self.evaluating(), torch.enable_grad():
            x_BTE = self.vectors(batch).detach().requires_grad_()
            score = self.scores(batch, x_BTE).gather(1, labels_B[:, None]).sum()
            (slope_BTE,) = torch.autograd.grad(score, x_BTE)
        return (slope_BTE * x_BTE.detach()).sum(-1)

    def graph_inputs(self) -> dict[str, Inputs]:
        return {"classifier": WORD_INPUTS}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        return {"log_p": self.scores(ClassBatch(inputs["words"], inputs["lengths"])).log_softmax(-1)}

    def draw_inputs(self, draw: np.random.Generator) -> Feeds:
        return draw_words(self.words.num_embeddings, draw)

    def weights_by_layer(self) -> list[list[str]]:
        return weights_by_layer(self, "reader", ("words",))

    def _last(self, h_BTH: Tensor, state: Tensor | tuple[Tensor, ...], lengths_B: Tensor) -> Tensor:
        """The features at the end of every row; of both directions each at its own end."""
        if self.settings.sizes:
            rows_B = torch.arange(len(h_BTH), device=h_BTH.device)
            return h_BTH[rows_B, lengths_B.to(h_BTH.device) - 1]
        last = state[0] if isinstance(state, tuple) else state
        return torch.cat((last[-2], last[-1]), -1)

    def _pool(self, h_BTH: Tensor, last_BH: Tensor, inside_BT: Tensor) -> tuple[Tensor, Tensor]:
        if self.settings.pooling == "max":
            return largest_of(h_BTH, inside_BT)
        weights_BT = inside_BT.to(h_BTH.dtype)
        if self.settings.pooling == "concat":
            mean_BH = (weights_BT[..., None] * h_BTH).sum(1) / weights_BT.sum(1, keepdim=True)
            largest_BH, shares_BT = largest_of(h_BTH, inside_BT)
            return torch.cat((last_BH, largest_BH, mean_BH), -1), shares_BT
        if self.settings.pooling == "mean":
            weights_BT = weights_BT / weights_BT.sum(1, keepdim=True)
        elif self.attention is not None and self.attended is not None:
            score_BT = self.attended(torch.tanh(self.attention(h_BTH))).squeeze(-1)
            weights_BT = score_BT.masked_fill(~inside_BT, -torch.inf).softmax(-1)
        else:
            return last_BH, weights_BT / weights_BT.sum(1, keepdim=True)
        return (weights_BT[..., None] * h_BTH).sum(1), weights_BT


class _Convolutions(nn.Module):
    """relu of convolutions of several widths side by side, [B, T, widths H]."""

    def __init__(self, settings: ClassifierSettings) -> None:
        super().__init__()
        self.each = nn.ModuleList(nn.Conv1d(settings.embed, settings.hidden, width) for width in _WIDTHS)

    def forward(self, x_BTE: Tensor) -> Tensor:
        x_BET = x_BTE.transpose(1, 2)
        # padded by hand: torch warns of its own padding where a width is even
        features = [
            torch.relu(conv(F.pad(x_BET, ((width - 1) // 2, width // 2))))
            for width, conv in zip(_WIDTHS, self.each, strict=True)
        ]
        return torch.cat(features, 1).transpose(1, 2)


def _recurrent(settings: ClassifierSettings) -> Recurrent:
    return locked_layers(
        settings.encoder,
        settings.embed,
        list(settings.sizes) or settings.hidden,
        settings.dropout,
        layers=settings.layers,
        bidirectional=not settings.sizes,
        weight_drop=settings.weight_drop,
    )


_RARE = 2  # words met less often are learned as the unknown one


class ClassCodecs(LabelCodecs):
    """What numbers the parts of an example."""

    words: Lexicon


class Classifying(
    Locating[ClassCodecs],
    OnBody[LabelledText],
    LabelTask[ClassifierSettings, LabelledText, ClassBatch, Classifier, ClassCodecs],
):
    """See `task.Task`. Texts are cut into words, numbers and marks, in lower case."""

    name = "classify"
    kind = "labelled"
    unit = "text"
    settings = ClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 10.0, "batch": 32, "rate": 2e-3, "steps": 64}
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "step")}
    stack = "reader"
    mixed_on_gpu = True
    defaults_on_body: ClassVar[Mapping[str, object]] = {"pooling": "concat"}
    file_kind: ClassVar[FileKind] = LABELLED_TEXTS
    labels: frozenset[str] = frozenset()
    """Those of the run that reads, where there is one."""

    def name_for(self, source: AnySource) -> str | None:
        """Pictures and series of numbers are for other tasks: corpora of them, or files with such content."""
        try:
            if is_read_once(source):
                return None
            if has_pictures(source):
                return "classify-pictures"
            given = locate_source(source, SERIES_FILES)
        except (ThereafterError, OSError, ValueError):  # what is wrong with it is said when the examples are read
            return None
        if given.kind not in ("text", "labelled-series"):
            return None
        learned = ("text", "train", "shared") if given.corpus is None else ("text",)
        files = [path for part in learned if part in given.parts for path in given.parts[part].files]
        named = given.kind == "labelled-series" or bool(files and holds_series(files))
        return "classify-series" if named else None

    def fitted(self, codecs: ClassCodecs) -> Self:
        reader = copy(self)
        reader.labels = frozenset(codecs["labels"].forms)
        return reader

    def read(self, files: Sequence[Path]) -> list[LabelledText]:
        return [text for path in files for text in read_labelled(path, labels=self.labels)]

    def codecs(self, examples: Sequence[LabelledText]) -> ClassCodecs:
        words = Counter(word for one in examples for word in words_of(one.text))
        return {"words": Lexicon.fit(words, min_count=_RARE), "labels": label_lexicon(examples)}

    def body_settings(self, body: Body) -> Table:
        sizes = body.sizes
        return {"encoder": body.cell, "embed": body.embed, "sizes": sizes, "hidden": sizes[0], "layers": len(sizes)}

    def count_words(self, examples: Sequence[LabelledText], body: Body) -> Counter[str]:
        return Counter(word for one in examples for word in body.reading.cut(one.text, body.forms))

    def check(self, examples: Sequence[LabelledText], codecs: ClassCodecs, name: str) -> None:
        require_known_labels(examples, codecs["labels"].forms, name)

    def build(self, settings: ClassifierSettings, codecs: ClassCodecs) -> Classifier:
        return Classifier(settings, words=len(codecs["words"]), labels=len(codecs["labels"]))

    def lengths(self, examples: Sequence[LabelledText], codecs: ClassCodecs) -> NDArray[np.int64]:
        return np.array([len(_words(one, codecs)) for one in examples], np.int64)

    def batch(self, examples: Sequence[LabelledText], codecs: ClassCodecs) -> ClassBatch:
        words = [codecs["words"].encode(_words(one, codecs)) for one in examples]
        lengths_B = torch.tensor([len(row) for row in words])
        return ClassBatch(torch.from_numpy(padded(words)), lengths_B, numbered_labels(examples, codecs["labels"]))

    def chances(self, net: Classifier, batch: ClassBatch) -> Tensor:
        return net.decide(batch)

    def explain(
        self, net: Classifier, batch: ClassBatch, examples: Sequence[LabelledText], codecs: ClassCodecs
    ) -> list[LabelExplained]:
        """The label of every text with the probability of all labels, and how much each word supports it."""
        names = codecs["labels"].forms
        p_BK, weights_BT = net.decide_with_weights(batch)
        best_B = p_BK.argmax(-1)
        evidence_BT = net.evidence(batch, best_B)
        explained = []
        for row, one in enumerate(examples):
            words = _words(one, codecs)
            explained.append(
                LabelExplained(
                    names[int(best_B[row])],
                    ranked(names, p_BK[row].tolist()),
                    tuple(words),
                    tuple(evidence_BT[row, : len(words)].tolist()),
                    tuple(weights_BT[row, : len(words)].tolist()),
                )
            )
        return explained

    def shown(self, net: Classifier, batch: ClassBatch, example: LabelledText, codecs: ClassCodecs) -> Shown:
        (explained,) = self.explain(net, batch, [example], codecs)
        fields: Fields = {
            "evidence": (("step",), np.array(explained.evidence, np.float32)),
            "weight": (("step",), np.array(explained.weights, np.float32)),
        }
        about = {"answer": explained.label, "probabilities": explained.probabilities}
        return Shown(list(explained.words), list(codecs["labels"].forms), fields, about)

    def example(self, given: object) -> LabelledText:
        """A text; or a `LabelledText`, whose label is ignored."""
        text = given.text if isinstance(given, LabelledText) else str(given)
        if not words_of(text):
            raise OptionError(f"the text {text!r} to classify has no words; expected at least one")
        return LabelledText(text, "")

    def prepare(self, given: object, codecs: ClassCodecs) -> LabelledText:
        """Plain text is brought into the way the training texts were written."""
        example, style = self.example(given), codecs["words"].style
        if style is None or isinstance(given, LabelledText):
            return example
        return LabelledText(style.rewritten(example.text).strip() or example.text, "")

    def beside(
        self, learned: Sequence[LabelledText], asked: Sequence[LabelledText]
    ) -> Mapping[str, Callable[[], list[str]]]:
        """Naive Bayes, a word counted once a text."""

        def naive_bayes() -> list[str]:
            texts, labels = [words_of(one.text) for one in learned], [one.label for one in learned]
            return NaiveBayes.fit(texts, labels, binary=True).predict(words_of(one.text) for one in asked)

        return {"Naive Bayes": naive_bayes}

    def variants(self, learned: Sequence[LabelledText]) -> Mapping[str, Mapping[str, object]]:
        """Convolutions and their maximum (Kim 2014)."""
        return {"1-D convolution": {"encoder": "cnn", "pooling": "max", "sizes": (), "weight_drop": 0.0}}


def words_of(text: str) -> list[str]:
    """Words and marks of a text, in lower case.

    >>> words_of("It's GOOD, really.")
    ["it's", 'good', ',', 'really', '.']
    """
    return WORDS.findall(text.lower())


def _words(one: LabelledText, codecs: ClassCodecs) -> list[str]:
    """The words of an example, as the task reads them or as the language model does that its network began with."""
    lexicon = codecs["words"]
    if lexicon.reading is None:
        return words_of(one.text)
    return lexicon.reading.cut(one.text, lexicon, as_written=lexicon.as_written)


CLASSIFYING = Classifying()


@dataclass(frozen=True, eq=False)
class NaiveBayes:
    """Multinomial Naive Bayes over bags of words: what any classifier has to beat.

    >>> bayes = NaiveBayes.fit([["good", "film"], ["bad", "film"]], ["pos", "neg"])
    >>> bayes.predict([["good", "good", "bad"], ["never", "seen", "bad"]])
    ['pos', 'neg']
    """

    labels: tuple[str, ...]
    words: Mapping[str, int]
    log_prior_K: Floats
    log_p_VK: Floats
    binary: bool = False

    @classmethod
    def fit(
        cls, texts: Sequence[Sequence[str]], labels: Sequence[str], alpha: float = 1.0, *, binary: bool = False
    ) -> Self:
        """Count words by class; every count is raised by `alpha`."""
        if not (alpha > 0 and math.isfinite(alpha)):
            raise OptionError(f"alpha is {alpha}, expected more than 0: an unseen word would rule a class out; try 1")
        if len(texts) != len(labels):
            raise OptionError(f"there are {len(texts):,} texts and {len(labels):,} labels, expected one for each")
        words = {word: v for v, word in enumerate(dict.fromkeys(word for text in texts for word in text))}
        if not words:
            raise EmptyCorpusError("there are no words to learn from; expected at least one text with words")
        known = tuple(sorted(set(labels)))
        at = {label: k for k, label in enumerate(known)}
        counts_VK = np.full((len(words), len(known)), float(alpha))
        texts_K = np.zeros(len(known))
        for text, label in zip(texts, labels, strict=True):
            texts_K[at[label]] += 1
            np.add.at(counts_VK[:, at[label]], _numbers(text, words, binary), 1.0)
        return cls(known, words, np.log(texts_K / texts_K.sum()), np.log(counts_VK / counts_VK.sum(axis=0)), binary)

    def scores(self, texts: Iterable[Sequence[str]]) -> Floats:
        """log p(class) + log p(words | class) of each text, [N, K]; not normalised."""
        rows = [_numbers(text, self.words, self.binary) for text in texts]
        if not rows:
            return np.empty((0, len(self.labels)))
        return np.stack([self.log_prior_K + self.log_p_VK[row].sum(axis=0) for row in rows])

    def predict(self, texts: Iterable[Sequence[str]]) -> list[str]:
        """The likeliest class of each text."""
        return [self.labels[k] for k in self.scores(texts).argmax(axis=1)]


def _numbers(text: Sequence[str], words: Mapping[str, int], binary: bool) -> list[int]:
    """The numbers of the words that are known, as often as they count."""
    return [words[word] for word in (dict.fromkeys(text) if binary else text) if word in words]
