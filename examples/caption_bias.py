"""What captions make likely without the picture, and which words a captioner gets right: on flickr8k, or on yours.

    python examples/caption_bias.py [--predictions NAME=FILE.csv ...] [--json FILE]
    python examples/caption_bias.py --captions captions.csv --train train.txt --test test.txt

1. Of the training captions: which words come with a word (company), which colour stands before a noun (texture), how
   often persons are male beside a word (persons). All this a decoder can learn that never sees a picture.
2. Of the test pictures: BLEU and CIDEr-D, and recall and precision of words by class (colours, numbers, animals,
   persons, clothes, places, actions). The first caption of a picture is the row `a person`; all rows are judged by the
   other captions of the picture. A word is to be named if two of them name it; it is right if one of them does.
3. Of pictures of women or of men alone: how often a caption names the one, the other or neither.

Rows without a picture are the best constant sentence and `a person, another picture`: the first caption of the next
picture. Every other row is a table with the columns picture and caption, as written by
`thereafter predict RUN --in flickr8k:test --out captions.csv`. Tables are printed as Markdown.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from thereafter.data.corpora import locate
from thereafter.vision.captioning.measures import RULE, caption_words, measure_captions
from thereafter.vision.captioning.reading import read_captions
from thereafter.vision.measures import constant_caption

CLASSES = {
    "colours": "black,white,red,blue,brown,green,yellow,orange,pink,purple,grey gray,tan,blond blonde",
    "numbers": "two,three,four,five,six,several,group",
    "animals": "dog dogs,puppy puppies,horse horses,cat cats,bird birds,cow cows,duck ducks,sheep,goat goats",
    "persons": "man men,woman women,boy boys,girl girls,child children,baby babies,person,people,player players",
    "clothes": "shirt shirts,hat hats,jacket jackets,dress dresses,shorts,jeans,helmet helmets,suit suits",
    "places": "beach,snow snowy,grass grassy,water,field,street road,park,pool,ocean sea,sand,mountain mountains,rock",
    "actions": "run runs running,jump jumps jumping,play plays playing,stand stands standing,sit sits sitting,"
    "walk walks walking,ride rides riding,swim swims swimming,climb climbs climbing,hold holds holding",
}
"""Forms between commas count as one word."""
MALE = frozenset(caption_words("man men boy boys he his him guy guys male males gentleman gentlemen"))
FEMALE = frozenset(caption_words("woman women girl girls she her lady ladies female females"))
CUES = ("snow", "beach", "pool", "ball", "bike", "guitar", "mountain", "street")
NOUNS = ("dog", "horse", "shirt", "dress", "hair", "grass", "water", "ball")
SCENES = ("skateboard", "bike", "guitar", "football", "baseball", "camera", "dancing", "smiling", "dress", "pink")
STOP = frozenset(caption_words("""a an the is are in on of with and at to it its by up from while as his her their other
another out through over into down that there one two near next has front behind around each for be being s some off
along"""))  # fmt: skip
AGREED = 2  # references that name a word before it is to be named
COMPANY = 4  # words shown beside a cue

Words = Sequence[str]
Pictures = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Row:
    """The figures of one captioner on the test pictures; recall and precision by class of words, in percent."""

    name: str
    bleu_1: float
    bleu_4: float
    cider_d: float
    recall: dict[str, float]
    precision: dict[str, float]
    to_name: dict[str, int]
    women: tuple[float, float, float]
    men: tuple[float, float, float]


def company(captions: Sequence[Words], cue: str, most: int = COMPANY) -> list[tuple[str, float, float]]:
    """The words whose share of captions rises most beside a cue: word, share of those with the cue, share of all."""
    having = [set(words) for words in captions if cue in words]
    beside, everywhere = Counter(w for one in having for w in one), Counter(w for one in captions for w in set(one))
    shares = [
        (word, count / len(having), everywhere[word] / len(captions))
        for word, count in beside.items()
        if word != cue and word not in STOP
    ]
    return sorted(shares, key=lambda row: (row[2] - row[1], row[0]))[:most]


def colours_before(captions: Sequence[Words], noun: str) -> list[tuple[str, float]]:
    """The colours right before a noun, by their share of all colours there."""
    folded = forms_of("colours")
    pairs = (pair for words in captions for pair in pairwise(words))
    counts = Counter(folded[first] for first, second in pairs if second == noun and first in folded)
    return [(colour, count / counts.total()) for colour, count in counts.most_common(3)]


def male_share(captions: Sequence[Words], cue: str | None = None) -> tuple[float, int]:
    """Of the captions (with a cue) that name persons of one sex alone, the share that names male ones; how many."""
    chosen = [sex_of(words) for words in captions if cue is None or cue in words]
    male, female = chosen.count("male"), chosen.count("female")
    return male / max(1, male + female), male + female


def sex_of(words: Words) -> str:
    """Which persons a caption names: "male", "female", "both" or "none"."""
    male, female = not MALE.isdisjoint(words), not FEMALE.isdisjoint(words)
    return "both" if male and female else "male" if male else "female" if female else "none"


def forms_of(name: str) -> dict[str, str]:
    """The forms of a class of words, each with the first form that it counts as."""
    return {form: group.split()[0] for group in CLASSES[name].split(",") for form in group.split()}


def by_class(name: str, answers: Sequence[Words], references: Sequence[Sequence[Words]]) -> tuple[float, float, int]:
    """Recall and precision of the words of a class, in percent, over all pictures; how many were to be named."""
    folded = forms_of(name)
    named = given = right = recalled = 0
    for answer, several in zip(answers, references, strict=True):
        counts = Counter(word for words in several for word in {folded[w] for w in words if w in folded})
        wanted = {word for word, count in counts.items() if count >= min(AGREED, len(several))}
        mine = {folded[word] for word in answer if word in folded}
        named, given = named + len(wanted), given + len(mine)
        right, recalled = right + len(mine & set(counts)), recalled + len(mine & wanted)
    return 100 * recalled / max(1, named), 100 * right / max(1, given), named


def of_sex(sex: str, answers: Sequence[Words], references: Sequence[Sequence[Words]]) -> tuple[float, float, float]:
    """Of pictures whose references name persons of this sex at least twice and none of the other: the shares of
    captions that name it, that name the other or both, and that name neither; in percent."""
    kinds = Counter[str]()
    for answer, several in zip(answers, references, strict=True):
        named = [sex_of(words) for words in several]
        if named.count(sex) >= min(AGREED, len(several)) and set(named) <= {sex, "none"}:
            kinds[sex_of(answer)] += 1
    total = max(1, kinds.total())
    right, none = kinds[sex], kinds["none"]
    return 100 * right / total, 100 * (kinds.total() - right - none) / total, 100 * none / total


def row_of(name: str, answers: Sequence[str], references: Sequence[Sequence[str]]) -> Row:
    """All figures of one captioner."""
    score = measure_captions(answers, references)
    words, several = [caption_words(text) for text in answers], [[caption_words(t) for t in one] for one in references]
    figures = {kind: by_class(kind, words, several) for kind in CLASSES}
    return Row(
        name,
        score.bleu_1,
        score.bleu_4,
        score.cider_d,
        {kind: recall for kind, (recall, _, _) in figures.items()},
        {kind: precision for kind, (_, precision, _) in figures.items()},
        {kind: named for kind, (_, _, named) in figures.items()},
        of_sex("female", words, several),
        of_sex("male", words, several),
    )


def read_predictions(path: Path, names: Sequence[str]) -> list[str]:
    """The captions of a table with the columns picture and caption, in the order of names; folders do not count."""
    with path.open(encoding="utf-8", newline="") as file:
        given = {Path(row["picture"]).name: row["caption"] for row in csv.DictReader(file)}
    missing = [name for name in names if name not in given]
    if missing:
        raise SystemExit(f"{path} has no caption of {len(missing):,} test pictures, such as {missing[0]}")
    return [given[name] for name in names]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def print_prior(captions: Sequence[Words]) -> None:
    """What the training captions make likely."""
    print(f"{len(captions):,} training captions ({RULE})\n")
    print("company: share of captions with the word beside the cue (share of all captions)\n")
    shown = [(cue, sum(cue in words for words in captions), company(captions, cue)) for cue in CUES]
    rows = [[c, f"{n:,}", ", ".join(f"{w} {p:.0%} ({q:.0%})" for w, p, q in beside)] for c, n, beside in shown]
    print(table(["cue", "captions", "words that come with it"], rows))
    print("texture: of the colours right before a noun\n")
    before = [[noun, ", ".join(f"{c} {p:.0%}" for c, p in colours_before(captions, noun))] for noun in NOUNS]
    print(table(["noun", "colours before it"], before))
    print("persons: of the captions that name persons of one sex alone, those that name male ones\n")
    shares = [(cue or "all captions", *male_share(captions, cue)) for cue in (None, *SCENES)]
    print(table(["beside", "captions", "male"], [[cue, f"{n:,}", f"{share:.0%}"] for cue, share, n in shares]))


def print_rows(rows: Sequence[Row]) -> None:
    """The figures of all captioners on the test pictures."""
    print(table(["captions by", "BLEU-1", "BLEU-4", "CIDEr-D"], [
        [row.name, f"{row.bleu_1:.1f}", f"{row.bleu_4:.1f}", f"{row.cider_d:.3f}"] for row in rows
    ]))  # fmt: skip
    print("recall / precision of words by class, in %; after a class how many words were to be named\n")
    by_row = [[row.name, *(f"{row.recall[kind]:.0f} / {row.precision[kind]:.0f}" for kind in CLASSES)] for row in rows]
    print(table(["captions by", *(f"{kind} ({count:,})" for kind, count in rows[0].to_name.items())], by_row))
    print("pictures of one sex alone: named rightly / the other or both / neither, in %\n")
    sexes = [[row.name, *(" / ".join(f"{p:.0f}" for p in three) for three in (row.women, row.men))] for row in rows]
    print(table(["captions by", "pictures of women or girls", "pictures of men or boys"], sexes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, help="captions of all pictures; that of flickr8k unless given")
    parser.add_argument("--train", type=Path, help="names of the training pictures, one a line")
    parser.add_argument("--test", type=Path, help="names of the test pictures, one a line")
    parser.add_argument("--predictions", action="append", default=[], metavar="NAME=FILE", help="a row of its own")
    parser.add_argument("--json", type=Path, help="write the figures of all rows here")
    given = parser.parse_args()
    files = [given.captions, given.train, given.test]
    if None in files:
        parts = locate("flickr8k").parts
        files = [parts["captions"], parts["train.names"], parts["test.names"]]
    captions: dict[str, list[str]] = {}
    for name, caption in read_captions(files[0]):
        captions.setdefault(name, []).append(caption)
    train, test = ([n for n in path.read_text().split() if len(captions.get(n, ())) > 1] for path in files[1:])
    print_prior([caption_words(caption) for name in train for caption in captions[name]])
    people, references = [captions[name][0] for name in test], [captions[name][1:] for name in test]
    answers = {"a person": people}
    for one in given.predictions:
        name, _, path = one.partition("=")
        answers[name] = read_predictions(Path(path), test)
    constant = constant_caption([captions[name] for name in train])
    answers["a person, another picture"] = people[1:] + people[:1]
    answers[f'always "{constant}"'] = [constant] * len(test)
    rows = [row_of(name, texts, references) for name, texts in answers.items()]
    print(f"{len(test):,} test pictures\n")
    print_rows(rows)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
