"""The ready task models, and the examples they learn from.

Their weights ship with the package (`shipped.py`); trained anew they take:

| task | models | on one core |
|---|---|---|
| translate | two translators that differ in one thing: one has attention, the other has not | about 45 seconds |
| tag | a tagger that reads words and their characters | some seconds |
| classify | a classifier of reviews | some seconds |
| forecast | an LSTM of the noisy sine, an LSTM and a GRU of the seasonal series | about a minute |
| caption | a captioner of drawn shapes | about 90 seconds |
| video | a network that sees which drawn digit moves, and where | about 4 minutes |
| next-frames | a convolutional LSTM that draws the next frames of a moving digit | about 2 minutes |
| glimpse | a network that looks at a drawn digit among pieces of others, six times | about 3 minutes |
| draw | a network that draws digits in eight strokes | about 2 minutes |
| act | a network that plays catch by glimpses | about 5 minutes |

Beside each model lies the recipe it was made by, as with the other ready models (`models.py`). Examples are generated,
the same on every machine: series, pictures and clips by the built-in corpora, the others by small grammars.

- Pairs: English noun phrases, chained by a verb and prepositions, with their French. In French an adjective follows its
  noun and articles and adjectives agree with it, so a translator has to look ahead, and a little to the side.
- Tagged sentences: many of the words are nouns in one place and verbs in another, so a tagger has to look around.
- Reviews: praise and blame, turned round by "not" and "never"; after "but" it is the second half that counts.

A part of a series is cut by time. A part of `shapes` is a folder with its pixels (.npz) and its captions (.tsv); one of
moving or still digits is a rule (.json). Still digits stand among pieces of others (`cluttered-glyphs`, 40 x 40) or
alone (`glyphs`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.base.config import Table
from thereafter.base.storage import replacing, write_text
from thereafter.ready import models

if TYPE_CHECKING:
    from thereafter.vision.acting.game import CatchRule
    from thereafter.vision.pictures.glyphs import DigitRule

SHAPES, GLYPH = "shapes", "moving-glyph"
CLUTTERED, GLYPHS = "cluttered-glyphs", "glyphs"
CATCH = "catch"
SHAPES_CAPTIONER: Table = {"embed": 16, "hidden": 32, "width": 6, "stages": 3, "see": "attention", "tied": False}
SHAPES_CAPTIONER |= {"min_count": 1, "flip": False, "shift": 0.0, "zoom": 0.0, "colour": 0.0, "erase": 0.0}
SHAPES_CAPTIONER |= {"dropout": 0.0, "drop_picture": 0.0, "batch": 16, "epochs": 10.0, "rate": 0.01}
MOVING_GLYPH: Table = {"width": 4, "hidden": 28, "dropout": 0.0, "batch": 32, "epochs": 3.0, "rate": 0.005}
NEXT_GLYPHS: Table = {"hidden": 8, "kernel": 3, "layers": 1, "batch": 16, "epochs": 1.0, "rate": 0.01}
GLYPH_GLIMPSES: Table = {"glimpses": 6, "patch": 8, "scales": 3, "hidden": 32, "read": 32, "batch": 64}
GLYPH_GLIMPSES |= {"epochs": 14.0, "rate": 0.01}
GLYPH_DRAWER: Table = {"size": 20, "hidden": 40, "latent": 8, "strokes": 8, "read": 5, "write": 8, "batch": 64}
GLYPH_DRAWER |= {"epochs": 18.0, "rate": 0.008}
CATCHER: Table = {"hidden": 64, "read": 32, "batch": 256, "epochs": 6.0, "rate": 0.003}
_STILL = {CLUTTERED: (40, None), GLYPHS: (29, 0)}
"""Pixels on the side of a picture, and how many pieces of others (None: as the rule has it)."""
_LEAST_SHAPES, _LEAST_RULED = 120, 200  # examples, however short the training is


def picture_part(folder: Path, corpus: str, part: str, examples: int, scale: float = 1.0) -> Path:
    """The file of a part, written where it is not there yet; `scale` takes fewer examples to train on, for tests.

    Of `shapes` it is the captions; their pictures lie beside them.
    """
    short = f"-{scale:g}" if scale < 1 else ""
    least, write = (_LEAST_SHAPES, _shapes) if corpus == SHAPES else (_LEAST_RULED, _ruled)
    count = max(least, round(scale * examples)) if part == "train" else 0
    return write(folder / "texts" / f"pictures{short}" / corpus, corpus, part, count)


def _shapes(place: Path, corpus: str, part: str, count: int) -> Path:
    """Captions and pictures of a part; of so many pictures, 0: all."""
    import numpy as np

    from thereafter.data import corpora

    captions = place / part / "captions.tsv"
    if not captions.exists():
        parts = corpora.locate(corpus).parts
        with np.load(parts[part], allow_pickle=False) as arrays:
            pixels, names = arrays["pixels"], arrays["names"]
        wanted = names[: count or len(names)]
        header, *lines = parts[f"{part}.captions"].read_text(encoding="utf-8").splitlines()
        known = set(wanted.tolist())
        captions.parent.mkdir(parents=True, exist_ok=True)
        with replacing(captions.with_name("pictures.npz")) as growing, growing.open("wb") as file:
            np.savez_compressed(file, pixels=pixels[: len(wanted)], names=wanted)
        chosen = [line for line in lines if line.partition("\t")[0] in known]
        write_text(captions, "\n".join([header, *chosen]) + "\n")
    return captions


def _ruled(place: Path, corpus: str, part: str, count: int) -> Path:
    """The rule of a part; with so many clips or pictures, 0: all."""
    from thereafter.vision.made_pictures import catch_rules, clutter_rules, moving_rules

    path = place / f"{part}.json"
    if path.exists():
        return path
    rule: CatchRule | DigitRule
    if corpus == CATCH:
        rule = catch_rules()[part]
    elif corpus == GLYPH:
        rule = moving_rules(corpus)[part]
    else:
        size, pieces = _STILL[corpus]
        still = clutter_rules(CLUTTERED)[part]
        rule = replace(still, size=size, pieces=still.pieces if pieces is None else pieces)
    write_text(path, (replace(rule, count=count) if count else rule).to_json())
    return path


SHARES = {"train": (0.0, 0.7), "valid": (0.7, 0.8), "test": (0.8, 1.0)}
"""Which rows belong to which part."""
_LEAST_ROWS = 600  # rows to train on, however short the training is


def series_part(folder: Path, series: str, part: str, scale: float = 1.0) -> Path:
    """A file of the rows of a part of a built-in series, which is cut by time; written where it is not there yet.

    `scale` takes fewer rows to train on, for tests.
    """
    from thereafter.data import corpora

    short = f"-{scale:g}" if scale < 1 else ""
    path = folder / "texts" / f"series{short}" / f"{series}.{part}.csv"
    if not path.exists():
        header, *rows = corpora.locate(series).parts["text"].read_text(encoding="utf-8").splitlines()
        begin, end = (round(share * len(rows)) for share in SHARES[part])
        if part == "train" and scale < 1:
            begin = max(0, end - max(_LEAST_ROWS, round(scale * end)))
        write_text(path, "\n".join([header, *rows[begin:end]]) + "\n")
    return path


VERSION = 1
"""Goes up when a grammar changes, so that what was learned from the old one is learned again."""
SHORTEST, LONGEST = 2, 20
"""Words of an English sentence."""

_NOUNS = (
    *(("cat", "chat", "m"), ("dog", "chien", "m"), ("horse", "cheval", "m"), ("book", "livre", "m")),
    *(("wall", "mur", "m"), ("garden", "jardin", "m"), ("boat", "bateau", "m"), ("house", "maison", "f")),
    *(("table", "table", "f"), ("car", "voiture", "f"), ("cow", "vache", "f"), ("flower", "fleur", "f")),
    *(("chair", "chaise", "f"), ("river", "rivière", "f")),
)
_ADJECTIVES = (
    *(("red", "rouge", "rouge"), ("green", "vert", "verte"), ("black", "noir", "noire"), ("white", "blanc", "blanche")),
    *(("blue", "bleu", "bleue"), ("round", "rond", "ronde"), ("slow", "lent", "lente"), ("quick", "rapide", "rapide")),
    *(("strong", "fort", "forte"), ("tired", "fatigué", "fatiguée")),
)
_VERBS = (("sees", "voit"), ("follows", "suit"), ("finds", "trouve"), ("watches", "regarde"), ("hides", "cache"))
_RESTS = (("sleeps", "dort"), ("waits", "attend"), ("falls", "tombe"), ("stays", "reste"))
_PLACES = (
    *(("behind", "derrière"), ("under", "sous"), ("with", "avec"), ("on", "sur"), ("without", "sans")),
    ("against", "contre"),
)
Pair = tuple[list[str], list[str]]


def pair(rng: random.Random, length: int) -> tuple[str, str]:
    """An English sentence of so many words, and its French."""
    # a phrase has two words or three, and there is one word between two; a single one may have a verb after it
    counts = range(1, length)
    phrases = rng.choice([count for count in counts if 3 * count - 1 <= length <= 4 * count - 1 + (count == 1)])
    free = length - (3 * phrases - 1)
    rests = phrases == 1 and free > 0 and (free == 2 or rng.random() < 0.5)
    coloured = set(rng.sample(range(phrases), free - rests))
    source, target = list[str](), list[str]()
    for at in range(phrases):
        if at:
            english, french = rng.choice(_VERBS if at == 1 else _PLACES)
            source.append(english)
            target.append(french)
        here = _phrase(rng, at in coloured)
        source += here[0]
        target += here[1]
    if rests:
        english, french = rng.choice(_RESTS)
        source.append(english)
        target.append(french)
    return " ".join(source), " ".join(target)


def _phrase(rng: random.Random, coloured: bool) -> Pair:
    english, french, gender = rng.choice(_NOUNS)
    article = "le" if gender == "m" else "la"
    if not coloured:
        return ["the", english], [article, french]
    quality, *forms = rng.choice(_ADJECTIVES)
    return ["the", quality, english], [article, french, forms[gender == "f"]]


_BOTH = (
    *("fish", "walk", "talk", "watch", "play", "dream", "hope", "help", "plan", "drink"),
    *("cook", "dance", "smile", "work", "answer", "visit"),
)
_THINGS = ("teacher", "river", "garden", "child", "city", "letter", "train", "forest")
_ACTS = ("see", "eat", "build", "bring", "choose", "sing", "forget", "write")
_WHO = ("they", "we", "you", "i")
_WHOSE = ("the", "every", "this", "my")
_MAY = ("can", "will", "must", "may")
_HOW = ("quickly", "slowly", "quietly", "gladly", "often", "never", "badly", "early")
_WHAT = ("long", "quiet", "old", "bright", "early", "kind", "small", "cold")
_NEAR = ("near", "behind", "with", "before", "after", "in")


def tagged(rng: random.Random) -> list[tuple[str, str]]:
    """A sentence as words with their tags."""
    by_name = rng.random() < 0.5
    words = _thing(rng) if by_name else [(rng.choice(_WHO), "PRON")]
    if by_name or rng.random() < 0.2:
        words.append((rng.choice(_MAY), "AUX"))  # verbs have one form here: "the cook can watch"
    if rng.random() < 0.3:
        words.append((rng.choice(_HOW), "ADV"))
    words.append((rng.choice(_BOTH + _ACTS), "VERB"))
    if rng.random() < 0.6:
        words += _thing(rng)
    if rng.random() < 0.5:
        words += [(rng.choice(_NEAR), "ADP"), *_thing(rng)]
    if rng.random() < 0.3:
        words.append((rng.choice(_HOW), "ADV"))
    return [*words, (".", "PUNCT")]


def _thing(rng: random.Random) -> list[tuple[str, str]]:
    quality = [(rng.choice(_WHAT), "ADJ")] if rng.random() < 0.4 else []
    return [(rng.choice(_WHOSE), "DET"), *quality, (rng.choice(_BOTH + _THINGS), "NOUN")]


_ABOUT = ("film", "story", "music", "ending", "cast", "plot", "book", "dialogue", "hero", "first half")
_GOOD = ("good", "great", "moving", "clever", "funny", "warm", "fresh", "gripping", "beautiful", "sharp")
_BAD = ("bad", "dull", "boring", "flat", "clumsy", "cold", "stale", "silly", "ugly", "weak")
_MUCH = ("", "", "very ", "really ", "quite ")
_TURNED = ("not ", "never ", "hardly ", "not at all ")


def review(rng: random.Random) -> tuple[str, str]:
    """A short review and its label, "good" or "bad"."""
    label = rng.choice(("good", "bad"))
    if rng.random() < 0.5:
        return f"{_opinion(rng, label)} .", label
    if rng.random() < 0.5:
        other = "bad" if label == "good" else "good"
        return f"{_opinion(rng, other)} , but {_opinion(rng, label)} .", label
    return f"{_opinion(rng, label)} and {_opinion(rng, label)} .", label


def _opinion(rng: random.Random, label: str) -> str:
    turned = rng.random() < 0.35
    words = _GOOD if (label == "good") != turned else _BAD
    return f"the {rng.choice(_ABOUT)} was {rng.choice(_TURNED) if turned else rng.choice(_MUCH)}{rng.choice(words)}"


def pairs_file(rng: random.Random, count: int) -> str:
    """Pairs of all lengths alike, a line each, with a tab."""
    lengths = [SHORTEST + at % (LONGEST - SHORTEST + 1) for at in range(count)]
    return "".join("\t".join(pair(rng, length)) + "\n" for length in lengths)


def tagged_file(rng: random.Random, count: int) -> str:
    """Tagged sentences in two columns, an empty line between them."""
    return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in tagged(rng)) for _ in range(count))


def reviews_file(rng: random.Random, count: int) -> str:
    """Reviews with their labels, under a heading."""
    return "text\tlabel\n" + "".join("\t".join(review(rng)) + "\n" for _ in range(count))


FILES: dict[str, tuple[str, Callable[[random.Random, int], str]]] = {
    "translate": ("pairs.{part}.tsv", pairs_file),
    "tag": ("tagged.{part}.conll", tagged_file),
    "classify": ("reviews.{part}.tsv", reviews_file),
}
"""For each task the name of its files, and what fills them."""


TASKS = "tasks"
"""Their folder, inside that of all ready models."""

_LEAST = 120  # examples, however short the training is
_SEEDS = {"train": 0, "valid": 1, "test": 2}
_SIZES = {"valid": 190, "test": 20 * (LONGEST - SHORTEST + 1)}
_TRANSLATOR: Table = {"embed": 24, "hidden": 40, "dropout": 0.0, "label_smoothing": 0.0, "tied": False}
_TRANSLATOR |= {"tokens": "word", "min_count": 1, "epochs": 10.0, "rate": 0.008}
_TAGGER: Table = {"embed": 24, "hidden": 24, "layers": 1, "letters": "cnn", "letter_embed": 16, "letter_hidden": 16}
_TAGGER |= {"dropout": 0.1, "epochs": 3.0, "rate": 0.01}
_CLASSIFIER: Table = {"encoder": "gru", "embed": 24, "hidden": 24, "dropout": 0.1, "drop_words": 0.02, "epochs": 3.0}
_CLASSIFIER |= {"rate": 0.01}
_SINE_LSTM: Table = {"model": "lstm", "strategy": "recursive", "horizon": 16, "lookback": 64, "hidden": 16}
_SINE_LSTM |= {"norm": "last", "epochs": 30.0, "rate": 0.01}
_SEASON_LSTM: Table = {"model": "lstm", "horizon": 24, "lookback": 168, "segment": 1, "hidden": 24, "skip": True}
_SEASON_LSTM |= {"stride": 4, "epochs": 8.0, "rate": 0.004}
_SEASON_GRU: Table = {"model": "gru", "horizon": 24, "lookback": 336, "segment": 24, "hidden": 16, "stride": 4}
_SEASON_GRU |= {"epochs": 20.0, "rate": 0.008}


@dataclass(frozen=True)
class ReadyTask:
    """A ready task model: its name, its task, how many examples it learns from, and how."""

    name: str
    task: str
    examples: int
    options: Table = field(default_factory=dict)
    minutes: float = field(default=0.0, repr=False)
    """How long its training takes, about: no part of the recipe."""
    stored: str = field(default="float16", repr=False)
    """The form in which its weights ship, as in `runs/narrow.py`: no part of the recipe either."""

    @property
    def recipe(self) -> str:
        """What it is made by, as a text."""
        return f"{self!r} by the grammars of version {VERSION}\n"

    @property
    def learns(self) -> str:
        """What it is trained on, in words."""
        return f"{self.examples:,} generated examples, {self.options['epochs']:g} times"


@dataclass(frozen=True)
class ReadyForecaster(ReadyTask):
    """A ready forecaster of one of the built-in series; its examples are rows."""

    series: str = ""

    @property
    def learns(self) -> str:
        return f"{self.examples:,} rows of {self.series}, {self.options['epochs']:g} times"


@dataclass(frozen=True)
class ReadyPictures(ReadyTask):
    """A ready model of pictures or clips that are drawn here; `things` is what its examples are called."""

    corpus: str = ""
    things: str = field(default="pictures", repr=False)

    @property
    def learns(self) -> str:
        return f"{self.examples:,} {self.things} of {self.corpus}, {self.options['epochs']:g} times"


READY_TASKS = (
    ReadyTask("no-attention", "translate", 6_000, _TRANSLATOR | {"attention": "none"}, minutes=0.4),
    ReadyTask("attention", "translate", 6_000, _TRANSLATOR | {"attention": "additive"}, minutes=0.4),
    ReadyTask("tagger", "tag", 1_500, _TAGGER, minutes=0.1),
    ReadyTask("sentiment", "classify", 2_000, _CLASSIFIER, minutes=0.1),
    ReadyForecaster("sine-lstm", "forecast", 700, _SINE_LSTM, minutes=0.2, series="noisy-sine"),
    ReadyForecaster("season-lstm", "forecast", 12_264, _SEASON_LSTM, minutes=0.5, series="seasonal"),
    ReadyForecaster("season-gru", "forecast", 12_264, _SEASON_GRU, minutes=0.5, series="seasonal"),
    ReadyPictures("shapes-captioner", "caption", 4_000, SHAPES_CAPTIONER, minutes=1.5, corpus=SHAPES),
    ReadyPictures("moving-glyph", "video", 20_000, MOVING_GLYPH, minutes=4, corpus=GLYPH, things="clips"),
    ReadyPictures("next-glyphs", "next-frames", 20_000, NEXT_GLYPHS, minutes=2, corpus=GLYPH, things="clips"),
    ReadyPictures("glyph-glimpses", "glimpse", 20_000, GLYPH_GLIMPSES, minutes=3, corpus=CLUTTERED),
    ReadyPictures("glyph-drawer", "draw", 5_000, GLYPH_DRAWER, minutes=2, corpus=GLYPHS),
    ReadyPictures("catch", "act", 100_000, CATCHER, minutes=5, corpus=CATCH, things="games"),
)


def missing(folder: Path, task: str) -> list[ReadyTask]:
    """The ready models of a task that are not there yet; `folder` is that of all ready models."""
    return [one for one in READY_TASKS if one.task == task and not models.is_there(one, folder / TASKS)]


def make(one: ReadyTask, folder: Path, scale: float = 1.0) -> None:
    """Train a ready task model, or resume its training; `scale` takes fewer examples, for tests."""
    from thereafter.task_model import resume_task, train_task

    def begin() -> None:
        files = {part: examples(folder, one, part, scale) for part in ("train", "valid")}
        run = folder / TASKS / one.name
        train_task(one.task, files["train"], {"seed": 0, "device": "cpu", **one.options}, valid=files["valid"], out=run)

    models.make_run(one, folder / TASKS, resume_task, begin)


def examples(folder: Path, one: ReadyTask, part: str, scale: float = 1.0) -> Path:
    """A file of examples, written where it is not there yet: train, valid, or the test that no training has seen."""
    if isinstance(one, ReadyForecaster):
        return series_part(folder, one.series, part, scale)
    if isinstance(one, ReadyPictures):
        return picture_part(folder, one.corpus, part, one.examples, scale)
    pattern, text_of = FILES[one.task]
    count = _SIZES.get(part) or max(_LEAST, round(scale * one.examples))
    path = folder / "texts" / f"tasks-{VERSION}-{count}" / pattern.format(part=part)
    if not path.exists():
        write_text(path, text_of(random.Random(_SEEDS[part]), count))
    return path


def test_pairs(folder: Path) -> Path:
    """The sentences that both ready translators are measured on."""
    return examples(folder, READY_TASKS[0], "test")
