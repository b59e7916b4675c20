"""The task `translate`: one sequence into another, such as a sentence into its translation, a text into its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.decoding.sources import AnswerSettings, decode_answers
from thereafter.errors import OptionError, SourceError
from thereafter.models.word_decoder import END
from thereafter.tasks.answers import Shown
from thereafter.tasks.lexicon import padded
from thereafter.tasks.task import Answering, Comparing, Explaining, Locating, Task
from thereafter.tasks.translate.measures import Pairs, ResampledTranslations, measure_pairs
from thereafter.tasks.translate.network import (
    PairBatch,
    RecurrentTranslator,
    TransformerTranslator,
    Translator,
    TranslatorSettings,
)
from thereafter.tasks.wording import Wording, generators_of, shown_answer
from thereafter.text.sources import PAIRED_FILES
from thereafter.text.tables import SentencePair, has_tabs, read_pairs, read_two

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
