"""How far back a model remembers: accuracy in a synthetic memory task by n, and of a long dependency by its distance.

A model reads a line from a fresh start. At every place of a question it is right where the answer is likelier than all
other forms, and right by an equal share where several are likeliest; a question with several places needs them all:

    right = product over places of [answer among the likeliest] / (number of likeliest)

so that a model for which all forms are equally likely is right at chance.

A dependency may be that of a subject and its verb, of a noun and its reflexive pronoun, or any other that sentences
mark: `agreement` says how often a model is right by words and by nouns between, and by congruence.

Shapes: B lines of one length, V words that can be predicted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.evaluation.agreement import Verdicts, measure_agreement
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.agreement import Sentence
from thereafter.text.agreement.grammar import Dice
from thereafter.text.memory import AnswerPlace, Line, MemoryTask, Question

COUNT = 100
_ROWS = 512


def memory(
    reader: SentenceReader,
    task: MemoryTask,
    spans: Sequence[int] | None = None,
    *,
    count: int = COUNT,
    seed: int = 0,
    longest: int | None = None,
) -> Measurement:
    """Accuracy by n over `count` lines for each of `spans`, by default every n of the task's corpus.

    Arrays, all over the axis `n`: `accuracy`, `chance`, and `total`, the questions asked. Lines of brackets have
    questions of smaller n too, which count there. `longest` is the longest n in training, where it is known; it is that
    of the corpus for a model trained on it.
    """
    wanted = sorted(set(task.spans() if spans is None else spans))
    if not wanted or count < 1:
        raise OptionError(f"got {len(wanted)} values of n and {count} lines each; expected at least one of both")
    dice = Dice(f"asking {task.name} {seed}")
    lines = [task.line(dice, n) for n in wanted for _ in range(count)]
    right: defaultdict[int, list[float]] = defaultdict(list)
    chance: defaultdict[int, list[float]] = defaultdict(list)
    for question, share in answers(reader, lines):
        if question.n in wanted:
            right[question.n].append(share)
            chance[question.n].append(question.chance)
    arrays = {
        "n": np.array(wanted),
        "accuracy": np.array([np.mean(right[n]) for n in wanted]),
        "chance": np.array([np.mean(chance[n]) for n in wanted]),
        "total": np.array([len(right[n]) for n in wanted]),
    }
    if longest is None and reader.source == task.name:
        longest = task.longest
    about = reader.about(task=task.name, question=task.question, text=f"{len(lines):,} lines of {task.name}")
    about |= {} if longest is None else {"longest": longest}
    return Measurement.of("memory", arrays, about)


def remembered(measured: Measurement) -> str:
    """A plain verdict: up to which n the model is right, and what it does beyond.

    Right is at least half of the way from chance to always.
    """
    good = measured["accuracy"] >= (1 + measured["chance"]) / 2
    n = measured["n"].tolist()
    if good.all():
        return f"remembers over all of the {n[-1]} steps asked for"
    if not good[0]:
        return f"does not remember over {n[0]} steps"
    until = int(good.argmin())
    later = " (and over some longer ones)" if good[until:].any() else ""
    return f"remembers over {n[until - 1]} steps, not over {n[until]}{later}"


def answers(reader: SentenceReader, lines: Sequence[Line]) -> Iterator[tuple[Question, float]]:
    """Every question of the lines, and the share by which it is answered rightly; lines of one length go together."""
    order = sorted(lines, key=lambda line: len(line.words))
    with progress.task("memory", total=len(lines), unit="lines") as advance:
        for _, group in groupby(order, key=lambda line: len(line.words)):
            alike = list(group)
            for at in range(0, len(alike), _ROWS):
                batch = alike[at : at + _ROWS]
                shares = _shares(reader, batch)
                for row, line in enumerate(batch):
                    for question in line.questions:
                        yield question, float(np.prod([shares[row, place] for place in question.places]))
                advance(len(batch))


def _shares(reader: SentenceReader, batch: Sequence[Line]) -> dict[tuple[int, AnswerPlace], float]:
    """For each row and place of a batch, the share by which it is right."""
    for word in {word for line in batch for word in line.words}:
        reader.word(word)  # a model that does not know the words is refused, not found to be bad
    tokens_BT = np.stack([reader.ids(line.text) for line in batch])
    first = tokens_BT.shape[1] - len(batch[0].words)  # the line end that a stream begins with
    asked: defaultdict[int, list[tuple[int, AnswerPlace]]] = defaultdict(list)
    for row, line in enumerate(batch):
        for question in line.questions:
            for place in question.places:
                asked[place.at + first].append((row, place))
    shares: dict[tuple[int, AnswerPlace], float] = {}
    state = reader.model.start(len(batch))
    logp_BV = np.asarray(reader.model.predict(state))
    for step in range(max(asked) + 1):
        for row, place in asked.get(step, ()):
            forms = [reader.word(form) for form in (place.answer, *place.others)]
            largest = logp_BV[row, forms] == logp_BV[row, forms].max()
            shares[row, place] = float(largest[0] / largest.sum())  # 1/2 where another equals the first
        if step < max(asked):
            logp, state = reader.model.step(tokens_BT[:, step], state)
            logp_BV = np.asarray(logp)
    return shares


DEPENDENCY = "dependency"
GROUPS = ("distance", "attractors", "congruence")


def agreement(reader: SentenceReader, sentences: Iterable[Sentence], corpus: str = "agreement") -> Measurement:
    """The verdicts of a model over sentences that know their dependency: see `evaluation.agreement`.

    The pictures of agreement speak of verbs, so that sentences of another corpus become a measurement of another kind.
    """
    known = list(sentences)
    forms = [(one.correct_form, one.wrong_form) for one in known]
    facts = (
        reader.check_words((one.prefix for one in known), forms, "both forms to choose from", corpus) if known else {}
    )
    tallies = measure_agreement(reader.model, reader.tokenizer, known, context=reader.context, prepare=reader.prepare)
    about = reader.about(text=f"{len(known):,} new sentences of {corpus}", corpus=corpus) | facts
    return from_tallies(tallies, about, "agreement" if corpus == "agreement" else DEPENDENCY)


def from_tallies(verdicts: Verdicts, about: Mapping[str, object], kind: str = "agreement") -> Measurement:
    """Verdicts that were counted already, such as those of a comparison, as a measurement.

    For each of `distance`, `attractors`, `congruence`: the groups under that name, and `right_` and `total_` of it.
    """
    arrays: Arrays = {}
    groups = verdicts.all_groups()
    for name in GROUPS:
        tallies = groups[name]
        arrays |= {
            name: np.array(list(tallies)),
            f"right_{name}": np.array([tally.right for tally in tallies.values()], dtype=np.float64),
            f"total_{name}": np.array([tally.total for tally in tallies.values()], dtype=np.int64),
        }
    return Measurement.of(kind, arrays, dict(about))
