"""The task `classify`: one label for a whole text, such as whether a review is a good one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.config import Table
from thereafter.data.corpora import is_read_once, locate_source
from thereafter.data.files import AnySource
from thereafter.data.finding import FileKind
from thereafter.errors import OptionError, ThereafterError
from thereafter.series.labelled import SERIES_FILES, holds_series
from thereafter.tasks.answers import Fields, LabelExplained, Shown
from thereafter.tasks.bodies import Body
from thereafter.tasks.classify.measures import NaiveBayes
from thereafter.tasks.classify.network import ClassBatch, Classifier, ClassifierSettings
from thereafter.tasks.labelling import LabelCodecs, LabelTask, label_lexicon, numbered_labels, ranked
from thereafter.tasks.lexicon import WORDS, Lexicon, padded
from thereafter.tasks.task import Locating, OnBody
from thereafter.text.labelled import LabelledText, read_labelled, require_known_labels
from thereafter.text.sources import LABELLED_TEXTS
from thereafter.vision.pictures.labelled_pictures import has_pictures

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
