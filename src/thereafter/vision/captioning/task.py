"""The task `caption`: a picture into words, learned from pictures with captions that people wrote.

A picture is one example with all its captions: it is encoded once, and every caption is a row of the decoder.
Shapes: P pictures, B captions, T steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, TypedDict
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter import figures
from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.tabular import Row
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.decoding.sources import AnswerSettings, decode_answers
from thereafter.errors import OptionError
from thereafter.evaluation.bootstrap import Floats
from thereafter.inspection.measurement import DrawnFigure
from thereafter.inspection.trace import Trace
from thereafter.models.word_decoder import END
from thereafter.tasks.answers import Shown
from thereafter.tasks.lexicon import Wording, generators_of, padded, shown_answer
from thereafter.tasks.task import Answering, Picturing
from thereafter.training.settings import TrainingSettings
from thereafter.vision.captioning import measures, reading
from thereafter.vision.captioning.network import SEES, Captioner, CaptionerSettings, PictureBatch, PictureForm
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.measures import OTHER_PICTURES, Rows, caption_rows
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.sources import holds_pictures, picture_of, with_pictures
from thereafter.vision.rules import Integers, Pixels
from thereafter.vision.task import VisionTask

Ids = Integers
Examples = Sequence[CaptionedPicture]
_SIDES = frozenset({"left", "right"})
_MANY_SIDES = 0.02  # of the captions


class CaptionCodecs(TypedDict):
    """What numbers the parts of an example."""

    pictures: PictureCodec
    words: Wording


@dataclass(frozen=True, eq=False)
class ResampledCaptions:
    """BLEU-1 to BLEU-4 and CIDEr-D of captions. Statistics of a picture: those of BLEU, its CIDEr-D, and 1.

    CIDEr-D weighs k-grams by all pictures of the test set, whichever of them are drawn.
    """

    statistics_NS: Floats

    @classmethod
    def of(cls, answers: Sequence[str], references: Sequence[Sequence[str]]) -> ResampledCaptions:
        """Captions, one a picture, against those that people wrote of it."""
        counted, _ = measures.counted_texts(answers, references)
        figures = measures.bleu_statistics(counted), measures.cider_of_each(counted), np.ones(len(answers))
        return cls(np.column_stack(figures))

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        scores_RO = measures.bleu_of_sums(sums_RS[:, :-2])
        bleus = {f"bleu_{n}": score_R for n, score_R in enumerate(scores_RO.T, 1)}
        return {**bleus, "cider_d": sums_RS[:, -2] / np.maximum(sums_RS[:, -1], 1)}


class Captioning(
    Answering[PictureBatch, Captioner, str, CaptionCodecs],
    Picturing[Captioner],
    VisionTask[CaptionerSettings, CaptionedPicture, PictureBatch, Captioner, str, CaptionCodecs],
):
    """See `task.Task`."""

    name = "caption"
    kind = "captioned"
    unit = "picture"
    typed = "photo.jpg"
    printed_by = ("score", "predict", "compare")
    drawn_unasked = True
    settings = CaptionerSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 30.0, "batch": 32, "rate": 1e-3, "steps": 60}
    asked: ClassVar[Mapping[str, object]] = asdict(AnswerSettings())
    file_kind: ClassVar[FileKind] = reading.CAPTIONED_FILES
    rotated = OTHER_PICTURES
    reported: ClassVar[tuple[str, ...]] = ("bleu_1", "bleu_4", "cider_d")
    chooses = "see"

    def __init__(self, chosen: CaptionerSettings | None = None) -> None:
        super().__init__(chosen)
        self._encoded: WeakKeyDictionary[Wording, dict[tuple[str, ...], list[Ids]]] = WeakKeyDictionary()

    def kinds(self) -> Sequence[str]:
        return SEES

    def part(self, given: Parts, part: str) -> Files | None:
        """The files of one part, such as its names, and those that all parts share: captions and pictures."""
        own = {name: files for name, files in given.parts.items() if name.partition(".")[0] == part}
        if not own:
            return None
        own |= {name: given.parts[name] for name in ("captions", "pictures", "shared") if name in given.parts}
        every = tuple(path for files in own.values() for path in files.files)
        return replace(next(iter(own.values())), name=f"{given.name}:{part}", files=every)

    def read(self, files: Sequence[Path]) -> list[CaptionedPicture]:
        notes: list[str] = []
        examples = reading.read_captioned(with_pictures(files), notes)
        for note in notes:
            progress.note(note)
        return examples

    def codecs(self, examples: Sequence[CaptionedPicture]) -> CaptionCodecs:
        captions = [normal_caption(caption) for one in examples for caption in one.captions]
        chosen = self.chosen
        words = Wording.fit(captions, "word", min_count=chosen.min_count, longest=chosen.longest)
        words.seen = min(chosen.longest, max(map(words.count, captions))) + 1
        pictures = PictureCodec.fit([one.picture for one in examples], chosen.size)
        if pictures.kind == "pixels" and chosen.flip and chosen.see != "nothing":
            _question_flips(captions)
        return {"pictures": pictures, "words": words}

    def codec_notes(self, codecs: CaptionCodecs) -> list[str]:
        return [codecs["pictures"].describe()]

    def check(self, examples: Sequence[CaptionedPicture], codecs: CaptionCodecs, name: str) -> None:
        """Decode all pictures, so that a damaged one is an error now."""
        if self.chosen.see != "nothing":
            codecs["pictures"].keep([one.picture for one in examples])

    def build(self, settings: CaptionerSettings, codecs: CaptionCodecs) -> Captioner:
        pictures, words = codecs["pictures"], codecs["words"]
        form = PictureForm(pictures.kind, pictures.shape, pictures.mean, pictures.deviation)
        return Captioner(settings, form, words=len(words), unknown=words.unknown, limit=max(1, words.seen))

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        """As it is; weights that are averaged do not fit the running means of batches."""
        if training.optimizer == "nt-asgd" and self.chosen.norm == "batch" and self.chosen.see != "nothing":
            raise OptionError(
                "optimizer is 'nt-asgd', which averages weights, and norm is 'batch', whose running means are those of "
                "the weights before; expected one of them; try norm='group' (--set norm=group)"
            )
        return training

    def lengths(self, examples: Sequence[CaptionedPicture], codecs: CaptionCodecs) -> Ids:
        rows = (self._ids(one, codecs["words"]) for one in examples)
        return np.array([max(map(len, ids), default=1) for ids in rows], np.int64)

    def targets(self, examples: Sequence[CaptionedPicture], codecs: CaptionCodecs) -> int:
        return sum(len(row) for one in examples for row in self._ids(one, codecs["words"]))

    def batch(self, examples: Sequence[CaptionedPicture], codecs: CaptionCodecs) -> PictureBatch:
        pictures = torch.from_numpy(codecs["pictures"].batch([one.picture for one in examples]))
        if not all(one.captions for one in examples):
            return PictureBatch(pictures)
        several = [self._ids(one, codecs["words"]) for one in examples]
        rows = [row for ids in several for row in ids]
        target_BT, lengths_B = padded(rows), np.array([len(row) for row in rows])
        inside_BT = np.arange(target_BT.shape[1]) < lengths_B[:, None]
        row_B = np.repeat(np.arange(len(several)), [len(ids) for ids in several])
        return PictureBatch(
            pictures, torch.from_numpy(row_B), torch.from_numpy(target_BT), torch.from_numpy(np.flatnonzero(inside_BT))
        )

    def answers_with(
        self, net: Captioner, batch: PictureBatch, codecs: CaptionCodecs, options: Mapping[str, object]
    ) -> list[str]:
        """Options are those of `AnswerSettings`. What is drawn for a picture depends on nothing else that is asked."""
        settings = toml.build(AnswerSettings, dict(options), "predict")
        with net.quietly():
            memory = net.encode(batch)
        pictures = (np.ascontiguousarray(picture) for picture in batch.pictures.cpu().numpy())
        rngs = generators_of(((zlib.crc32(picture.tobytes()),) for picture in pictures), settings)
        return [codecs["words"].decode(row) for row in decode_answers(net, memory, settings, rngs)]

    def columns(self, answer: str) -> list[Row]:
        return [{"caption": answer}]

    def example(self, given: object) -> CaptionedPicture:
        """A path, an array of pixels or features, a PIL image; or a `CaptionedPicture`, whose captions are ignored."""
        picture = given.picture if isinstance(given, CaptionedPicture) else picture_of(given, such_as="photo.jpg")
        return CaptionedPicture(picture)

    def questions(self, files: Sequence[Path]) -> list[CaptionedPicture]:
        """The pictures of files, of those with a file of names the ones it names; captions are passed over."""
        named = any(not holds_pictures(path) and reading.read_names(path) is not None for path in files)
        return reading.read_captioned(files) if named else list(map(CaptionedPicture, reading.all_pictures(files)))

    def measure(self, examples: Examples, answers: Sequence[str], codecs: CaptionCodecs) -> measures.CaptionScore:
        return measures.measure_captions(answers, [one.captions for one in examples])

    def resampled(self, examples: Examples, answers: Sequence[str], codecs: CaptionCodecs) -> ResampledCaptions:
        return ResampledCaptions.of(answers, [one.captions for one in examples])

    def beside(self, learned: Examples, asked: Examples) -> Rows:
        """One sentence for all, and the nearest picture's caption."""
        return caption_rows(learned, asked)

    def variants(self, learned: Sequence[CaptionedPicture]) -> Mapping[str, Mapping[str, object]]:
        """The same network, which sees nothing."""
        return {"blind network": {"see": "nothing"}}

    def explain(
        self, net: Captioner, batch: PictureBatch, examples: Sequence[CaptionedPicture], codecs: CaptionCodecs
    ) -> list[CaptionExplained]:
        """The likeliest word at every step, with its probability and its attention over the picture."""
        words, pictures = codecs["words"], codecs["pictures"]
        with net.quietly():
            memory = net.encode(batch)
        model = net.given(memory)
        start, pixels = model.start(len(batch)), batch.pictures.cpu().numpy()
        explained = []
        for row, (one, answer) in enumerate(zip(examples, decode_answers(net, memory, AnswerSettings()), strict=True)):
            fields = model.record(np.array([*answer, END]), start.select(np.array([row])))
            length = len(answer)
            forms = tuple(form.strip() for form in words.forms(answer))
            chances = tuple(np.exp(fields["log_prob"][1][:length]).tolist())
            weights = fields["attention"][1][:length] if "attention" in fields else np.empty((length, 0))
            seen = np.moveaxis(pixels[row], 0, 2) if pictures.kind == "pixels" else np.empty((0, 0, 3))
            arrays = weights.astype(np.float32), net.grid, seen.astype(np.uint8)
            explained.append(CaptionExplained(one.picture.name, words.decode(answer), forms, chances, *arrays))
        return explained

    def figure(
        self, net: Captioner, explained: object, given: object, name: str, trace: Callable[[object], Trace]
    ) -> DrawnFigure:
        """Where the network looked for each word."""
        if not isinstance(explained, CaptionExplained) or not explained.attends or not explained.words:
            raise OptionError("the network has no attention to draw; expected one trained with see='attention'")
        return figures.attended_picture(explained)

    def shown(self, net: Captioner, batch: PictureBatch, example: CaptionedPicture, codecs: CaptionCodecs) -> Shown:
        with net.quietly():
            memory = net.encode(batch)
        about: Table = {"picture": example.picture.name, "grid": list(net.grid)}
        return shown_answer(net, memory, codecs["words"], about)

    def _ids(self, one: CaptionedPicture, words: Wording) -> list[Ids]:
        """The captions of a picture as ids, each with its end; they come again every epoch."""
        known = self._encoded.setdefault(words, {})
        ids = known.get(one.captions)
        if ids is None:
            ids = known[one.captions] = [words.encode(normal_caption(caption)) for caption in one.captions]
        return ids


def _question_flips(captions: Sequence[str]) -> None:
    """Say how many training captions a flipped picture would contradict, where they are many."""
    sided = sum(not _SIDES.isdisjoint(caption.split()) for caption in captions)
    if sided > _MANY_SIDES * len(captions):
        progress.note(
            f"{sided:,} of {len(captions):,} training captions say left or right, and pictures are flipped while "
            "training; try flip=False (--set flip=false)"
        )


CAPTIONING = Captioning()


def normal_caption(caption: str) -> str:
    """A caption as it is learned: its words, and nothing else."""
    return " ".join(measures.caption_words(caption))


_ROWS, _COLUMNS = ("top", "", "bottom"), ("left", "", "right")


@dataclass(frozen=True, eq=False)
class CaptionExplained:
    """A caption with the probability of each of its words given those before, and where the network looked for it.

    `weights[t, s]`: the attention of word t to place s; a row sums to 1. Places are counted row by row on `grid` (rows,
    columns), which covers `picture`, uint8 [height, width, 1 or 3], the pixels that the network saw. `weights` has no
    columns where the network has no attention, `picture` no pixels where it was given features.
    """

    name: str
    caption: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...]
    weights: NDArray[np.float32]
    grid: tuple[int, int]
    picture: Pixels

    @property
    def attends(self) -> bool:
        """Whether there is attention to show."""
        return bool(self.weights.shape[1])

    def looked(self, word: int) -> tuple[str, float]:
        """The ninth of the picture that a word looked at most, such as "top left", and the share it took."""
        weights_RC = self.weights[word].reshape(self.grid)
        shares = {
            (row, column): float(weights_RC[np.ix_(rows, columns)].sum())
            for row, rows in enumerate(_thirds(self.grid[0]))
            for column, columns in enumerate(_thirds(self.grid[1]))
        }
        row, column = max(shares, key=lambda place: shares[place])
        name = " ".join(part for part in (_ROWS[row], _COLUMNS[column]) if part)
        return name or "centre", shares[row, column]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        words: list[Table] = []
        for number, (word, p) in enumerate(zip(self.words, self.probabilities, strict=True)):
            one: Table = {"word": word, "probability": round(p, 6)}
            if self.attends:
                one["weights"] = [round(float(weight), 4) for weight in self.weights[number]]
            words.append(one)
        return {"name": self.name, "caption": self.caption, "grid": list(self.grid), "words": words}

    def __str__(self) -> str:
        width = max(map(len, self.words), default=0)
        lines = [self.caption]
        for number, (word, p) in enumerate(zip(self.words, self.probabilities, strict=True)):
            line = f"  {word:<{width}}  p {p:.3f}"
            if self.attends:
                place, share = self.looked(number)
                line += f"  {place} {100 * share:.0f} %"
            lines.append(line)
        return "\n".join(lines)


def _thirds(count: int) -> list[Integers]:
    """The rows or columns of the first, middle and last third; all are in the middle where there is only one."""
    third_N = (6 * np.arange(count) + 3) // (2 * count)
    return [np.flatnonzero(third_N == number) for number in range(3)]
