"""Units that follow a property of the text, chosen on one half of it and measured on the other.

How well a unit u tells where a property holds is the chance that it is higher at a place where it does than at one
where it does not, ties by halves (Hanley and McNeil 1982):

    AUC = (S - n1 (n1 + 1) / 2) / (n1 n0),    S the sum of the ranks of u at the n1 places where it holds

A unit that is low there is as good a sign, so what counts is max(AUC, 1 - AUC), with its direction. For numbers it is
Pearson's correlation, without its sign. There are thousands of units, and some fit by luck: the unit is chosen on
the first half of the text and its figure is that of the second, in the direction that was chosen. The control is the
same search for the property moved along the text by large random offsets, whose runs are as long and which has nothing
to do with the text below it (Karpathy, Johnson and Li 2015 looked for such units by eye).

`number_unit` looks for the unit that carries the subject's number, chosen on one half of some sentences and measured on
the other. Only places strictly between a subject and its verb count: there the number can only be known from before.
How well a unit u tells a plural subject from a singular one there is the chance that it is higher where the subject is
plural, ties by halves: the same AUC. The unit is the best of the first half of the sentences, in the direction it had
there; its figure is that of the second half.

Some unit of hundreds fits by luck. So the same search is made for numbers shuffled among the sentences of each half:
that is the control. A unit that follows the last noun would also do well wherever no noun came between, so
there is a second figure, over the places where the last noun read has the other number than the subject (the
attractors of Linzen, Dupoux and Goldberg 2016): that unit falls below one half there.

Shapes: N places, U units of all fields together, L labellings, K ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.properties import Property, token_ends
from thereafter.inspection.sentence_reader import SentenceReader, padded, stream_states, with_units
from thereafter.models.neural import NeuralModel
from thereafter.text.agreement import Sentence
from thereafter.text.tokenizers.base import Tokenizer

LIMIT = 200_000
"""Tokens read by default."""
SAMPLE = 10_000
"""Places of the first half whose states are kept for the choice, spread evenly."""
SHIFTS = 5
SHOWN = 800
"""Tokens of the stretch that is kept to be shown in colours."""
_FEWEST = 200  # places of each kind a figure can be made of


@dataclass(frozen=True)
class _Half:
    """Some places of a text, the units' states there, and the labels."""

    places_N: NDArray[np.int64]
    names: list[str]
    states_NU: NDArray[np.float32]


def search(
    model: object,
    tokenizer: Tokenizer,
    text: str,
    properties: Sequence[Property],
    *,
    top: int = 10,
    gates: bool = False,
    limit: int = LIMIT,
    seed: int = 0,
    about: Table | None = None,
) -> Measurement:
    """The `top` units for each property: every layer's h and c, with `gates` also these.

    Returns a "units" measurement: `unit`, `chosen`, `held_out`, `direction` [property, rank], where `chosen` and
    `held_out` are the AUC or |correlation| on both halves; `control` [property], the greatest that any shifted property
    gave its own best unit; and for the best unit of each property a stretch of the second half: `token`, `value`,
    `truth` [property, step].
    """
    if not properties:
        raise OptionError("no property was given; expected at least one; try quotes")
    # a token has at least one character, so that this much text is enough
    ids, ends = token_ends(text[: 40 * limit], tokenizer)
    ids, ends = ids[:limit], ends[:limit]
    labels_LN = np.stack([np.asarray(one.of(text[: 40 * limit])[ends], dtype=np.float64) for one in properties])
    yes_no_L = np.array([one.of(text[:1]).dtype == np.bool_ for one in properties])
    half = len(ids) // 2
    _check_labels(properties, labels_LN, yes_no_L, half)
    shifted_LN, owner = _shift(labels_LN, half, seed)

    first = _read(model, ids[:half], gates, None, "reading to choose units")
    with progress.task("ranking units", total=2) as advance:
        sampled = first.places_N
        chosen_LU = selectivity(first.states_NU, labels_LN[:, sampled], yes_no_L)
        control_LU = selectivity(first.states_NU, shifted_LN[:, sampled], yes_no_L[owner])
        ranks = min(top, len(first.names))
        best_LK = np.argsort(-np.abs(chosen_LU), axis=1, kind="stable")[:, :ranks]
        lucky_S = np.abs(control_LU).argmax(axis=1)
        advance(1)
    columns = np.unique(np.concatenate([best_LK.ravel(), lucky_S]))
    second = _read(model, ids[half:], gates, [first.names[u] for u in columns], "reading to measure them")
    place_of = {int(u): at for at, u in enumerate(columns)}

    held_LK = np.empty(best_LK.shape)
    for label, units in enumerate(best_LK):
        states_NK = second.states_NU[:, [place_of[int(u)] for u in units]]
        truth_1N = labels_LN[label : label + 1, half + second.places_N]
        held_LK[label] = selectivity(states_NK, truth_1N, yes_no_L[label : label + 1])[0]
    sign_LK = np.sign(np.take_along_axis(chosen_LU, best_LK, 1)).astype(np.int64)
    control_S = np.empty(len(owner))
    for shift, unit in enumerate(lucky_S):
        states_N1 = second.states_NU[:, [place_of[int(unit)]]]
        truth_1N = shifted_LN[shift : shift + 1, half + second.places_N]
        luck = selectivity(states_N1, truth_1N, yes_no_L[owner[shift] : owner[shift] + 1])[0, 0]
        control_S[shift] = luck * np.sign(control_LU[shift, unit])

    def figure(signed: NDArray[np.float64], kind: NDArray[np.bool_]) -> NDArray[np.float64]:
        """From -1 .. 1 to what is reported: an AUC, or a correlation in the direction that was chosen."""
        return np.where(kind, 0.5 + signed / 2, signed)

    arrays = {
        "property": np.array([one.name for one in properties]),
        "yes_no": yes_no_L,
        "unit": np.array(first.names)[best_LK],
        "chosen": figure(np.abs(np.take_along_axis(chosen_LU, best_LK, 1)), yes_no_L[:, None]),
        "held_out": figure(held_LK * sign_LK, yes_no_L[:, None]),
        "direction": sign_LK,
        "control": np.array([figure(control_S[owner == i], yes_no_L[i]).max() for i in range(len(properties))]),
    }
    stretches = [
        _stretch(second, labels_LN[i, half:], place_of[int(best_LK[i, 0])], tokenizer, ids[half:])
        for i in range(len(properties))
    ]
    shortest = min(len(tokens) for tokens, _, _ in stretches)
    for at, name in enumerate(("token", "value", "truth")):
        arrays[name] = np.array([part[at][:shortest] for part in stretches])
    facts = {"model": type(model).__name__, "tokens": len(ids), "units": len(first.names), "seed": seed}
    meanings = {"meaning": {one.name: one.meaning for one in properties}}
    return Measurement.of("units", arrays, facts | meanings | (about or {}))


def selectivity(
    states_NU: NDArray[np.floating], labels_LN: NDArray[np.float64] | NDArray[np.bool_], yes_no_L: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """How every unit follows every labelling, -1 to 1, [L, U]: 2 AUC - 1, or Pearson's correlation.

    The ranks of a unit are worked out once, and serve all labellings in one product.

    >>> selectivity(np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[0, 0, 1, 1]]), np.array([True])).tolist()
    [[1.0]]
    """
    places, units = states_NU.shape
    labels = np.asarray(labels_LN, dtype=np.float64)
    follows_LU = np.zeros((len(labels), units))
    positive = labels.sum(axis=1)
    pairs = np.maximum(positive * (places - positive), 1.0)
    centred = labels - labels.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=1))
    for begin in range(0, units, 64):
        narrow = np.ascontiguousarray(states_NU[:, begin : begin + 64].T)
        block = slice(begin, begin + len(narrow))
        if yes_no_L.any():
            ranked = np.stack([_ranks(row) for row in narrow])
            sums_LU = labels[yes_no_L] @ ranked.T
            n1, n = positive[yes_no_L, None], pairs[yes_no_L, None]
            follows_LU[yes_no_L, block] = np.where(
                n1 * (places - n1) > 0, 2 * (sums_LU - n1 * (n1 + 1) / 2) / n - 1, 0.0
            )
        if not yes_no_L.all():
            part = narrow - narrow.mean(axis=1, keepdims=True, dtype=np.float64)
            scale = spread[~yes_no_L, None] * np.sqrt((part**2).sum(axis=1))
            together = centred[~yes_no_L] @ part.T
            follows_LU[~yes_no_L, block] = np.divide(together, scale, out=np.zeros_like(together), where=scale > 0)
    return follows_LU


def _ranks(values_N: NDArray[np.floating]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs."""
    order = np.argsort(values_N)
    ordered = values_N[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(first, len(ordered)))
    ranks = np.empty(len(ordered))
    ranks[order] = np.repeat(first + (sizes + 1) / 2, sizes)
    return ranks


def _read(model: object, ids: NDArray[np.int32], gates: bool, wanted: list[str] | None, label: str) -> _Half:
    """All units at places spread over the text, or the wanted units at all places."""
    every = 1 if wanted is not None else max(1, -(-len(ids) // SAMPLE))
    places, parts, names = [], [], list(wanted or [])
    for piece in stream_states(model, ids, gates=gates, label=label):
        kept = piece.places_N % every == 0
        places.append(piece.places_N[kept])
        if wanted is None:
            names = names or [f"{field}[{u}]" for field, array in piece.fields.items() for u in range(array.shape[1])]
            parts.append(np.concatenate([array[kept] for array in piece.fields.values()], axis=1))
        else:
            columns = [unit.removesuffix("]").split("[") for unit in wanted]
            parts.append(np.stack([piece.fields[field][kept, int(u)] for field, u in columns], axis=1))
    at = np.concatenate(places)
    order = np.argsort(at, kind="stable")
    return _Half(at[order], names, np.concatenate(parts)[order])


def _shift(labels_LN: NDArray[np.float64], half: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Each labelling moved round by random offsets, each half within itself; and whose each is."""
    draw = np.random.default_rng(seed)
    moved, owner = [], []
    for place, label_N in enumerate(labels_LN):
        for _ in range(SHIFTS):
            parts = [label_N[:half], label_N[half:]]
            moved.append(np.concatenate([np.roll(p, draw.integers(len(p) // 4, 3 * len(p) // 4 + 1)) for p in parts]))
            owner.append(place)
    return np.stack(moved), np.array(owner)


def _check_labels(
    properties: Sequence[Property], labels_LN: NDArray[np.float64], yes_no_L: NDArray[np.bool_], half: int
) -> None:
    for one, label_N, yes_no in zip(properties, labels_LN, yes_no_L, strict=True):
        for part, where in ((label_N[:half], "first"), (label_N[half:], "second")):
            if not yes_no and (len(part) < _FEWEST or np.ptp(part) == 0):
                raise OptionError(f"{one.name!r} is the same all over the {where} half of the text; try a longer text")
            if yes_no and not _FEWEST <= part.sum() <= len(part) - _FEWEST:
                raise OptionError(
                    f"{one.name!r} holds at {int(part.sum()):,} of {len(part):,} tokens in the {where} half of the "
                    f"text; expected at least {_FEWEST} where it does and where it does not; try a longer text"
                )


def _stretch(
    half: _Half, truth_N: NDArray[np.float64], column: int, tokenizer: Tokenizer, ids: NDArray[np.int32]
) -> tuple[list[str], NDArray[np.float32], NDArray[np.float64]]:
    """Where the property changes as much as anywhere: tokens, the unit's states and the truth."""
    size = min(SHOWN, len(truth_N))
    changes = np.concatenate([[0], np.cumsum(truth_N[1:] != truth_N[:-1])])
    spread = np.array([np.std(truth_N[at : at + size]) for at in range(0, len(truth_N) - size + 1, size // 2)])
    moves = np.array([changes[at + size - 1] - changes[at] for at in range(0, len(truth_N) - size + 1, size // 2)])
    # both kinds of place in it, and some borders: the fourth quarter's typical stretch, not the wildest
    begin = int(np.argsort(spread * (moves > 0), kind="stable")[int(0.9 * (len(spread) - 1))]) * (size // 2)
    part = slice(begin, begin + size)
    tokens = [tokenizer.piece(int(token)) for token in ids[part]]
    return tokens, half.states_NU[part, column], truth_N[part]


TOP = 10
SHUFFLES = 5
_FEWEST_SENTENCES = 20  # sentences of each number in each half
_ROWS = 256
_YES = np.array([True])


@dataclass(frozen=True)
class _Places:
    """All places of some sentences: the units' states, whether the subject is plural, and of which sentence each is."""

    names: list[str]
    states_NU: NDArray[np.float32]
    plural_N: NDArray[np.bool_]
    other_N: NDArray[np.bool_]
    """Whether the last noun read has the other number than the subject."""
    sentence_N: NDArray[np.int64]


def number_unit(
    reader: SentenceReader, sentences: Iterable[Sentence], *, field: str | None = None, top: int = TOP, seed: int = 0
) -> Measurement:
    """The `top` units of a recurrent model for "the subject is plural", every layer's h and c among them, best first.

    With `field` it is that field alone: the memory of an LSTM is "c", of which h shows what the output gate lets out.
    Only agreement sentences with words between subject and verb count. Returns a "number-unit" measurement, arrays over
    `rank`: `unit`, such as "l0.c[17]"; `chosen` and `held_out`, the AUC on either half; `direction`, 1 where it is
    higher for plurals; `against`, the held-out AUC after a noun of the other number (NaN where there is none); and
    `singular` and `plural`, its mean on the second half. `control` [shuffle] is the held-out AUC of the best unit for
    shuffled numbers.
    """
    model = with_units(reader.model)
    fields = model.fields if field is None else (field,)
    if not set(fields) <= set(model.fields):
        raise OptionError(f"the model {reader.name!r} has no state {field!r}; expected {' or '.join(model.fields)}")
    reader.whole_words()
    usable = [one for one in sentences if one.kind == "agreement" and one.number is not None and one.distance > 0]
    half = len(usable) // 2
    _check(usable[:half], usable[half:])
    with progress.task("reading sentences", total=len(usable), unit="sentences") as advance:
        first = _read_sentences(model, fields, reader, usable[:half], advance)
        second = _read_sentences(model, fields, reader, usable[half:], advance)

    chosen_U = _auc(first.states_NU, first.plural_N)
    best_K = np.argsort(-np.abs(chosen_U - 0.5), kind="stable")[:top]
    rising_K = chosen_U[best_K] > 0.5
    states_NK = second.states_NU[:, best_K]
    other = second.other_N
    measured_K = _auc(states_NK, second.plural_N)
    against_K = _auc(states_NK[other], second.plural_N[other])
    arrays = {
        "unit": np.array(first.names)[best_K],
        "chosen": _along(chosen_U[best_K], rising_K),
        "held_out": _along(measured_K, rising_K),
        "against": _along(against_K, rising_K),
        "direction": np.where(rising_K, 1, -1),
        "singular": states_NK[~second.plural_N].mean(axis=0),
        "plural": states_NK[second.plural_N].mean(axis=0),
        "control": _control(first, second, seed),
    }
    text = f"{half:,} sentences of agreement to choose on, {len(usable) - half:,} to measure on"
    about = reader.about(text=text, units=len(first.names), places=len(second.plural_N), seed=seed)
    return Measurement.of("number-unit", arrays, about)


def _auc(states_NU: NDArray[np.float32], plural_N: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The chance that a unit is higher where the subject is plural; NaN where one of the numbers is missing."""
    if plural_N.all() or not plural_N.any():
        return np.full(states_NU.shape[1], np.nan)
    auc_U: NDArray[np.float64] = 0.5 + selectivity(states_NU, plural_N[None, :], _YES)[0] / 2
    return auc_U


def _along(auc_K: NDArray[np.float64], rising_K: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The AUC in the direction that was chosen."""
    return np.where(rising_K, auc_K, 1 - auc_K)


def _control(first: _Places, second: _Places, seed: int) -> NDArray[np.float64]:
    """The same search with the numbers of whole sentences shuffled."""
    draw = np.random.default_rng(seed)
    control = []
    for _ in range(SHUFFLES):
        chosen_U = _auc(first.states_NU, _shuffle(first, draw))
        unit = int(np.abs(chosen_U - 0.5).argmax())
        measured = _auc(second.states_NU[:, unit : unit + 1], _shuffle(second, draw))
        control.append(_along(measured, chosen_U[unit : unit + 1] > 0.5)[0])
    return np.array(control)


def _shuffle(places: _Places, draw: np.random.Generator) -> NDArray[np.bool_]:
    """Every place of a sentence gets the number of another sentence, the same for all of them."""
    count = int(places.sentence_N[-1]) + 1
    number_of = np.zeros(count, dtype=np.bool_)
    number_of[places.sentence_N] = places.plural_N
    shuffled: NDArray[np.bool_] = draw.permutation(number_of)[places.sentence_N]
    return shuffled


def _read_sentences(
    model: NeuralModel,
    wanted: Sequence[str],
    reader: SentenceReader,
    known: Sequence[Sentence],
    advance: progress.Advance,
) -> _Places:
    """The states after each word strictly between subject and verb, sentence after sentence."""
    states: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(known)
    names: list[str] = []
    order = sorted(range(len(known)), key=lambda at: known[at].closer)  # sentences of about one length together
    with model.quietly():
        for begin in range(0, len(order), _ROWS):
            batch = order[begin : begin + _ROWS]
            rows = [reader.ids(" ".join(known[at].prefix)) for at in batch]
            look = model.look(model.checked(padded(rows)), model.begin(len(rows)))
            units = [f"{layer}.{field}" for layer in model.cells for field in wanted]
            fields = {unit: look.arrays[unit].float().cpu().numpy() for unit in units}
            names = [f"{field}[{unit}]" for field, array in fields.items() for unit in range(array.shape[-1])]
            every_BTU = np.concatenate(list(fields.values()), axis=-1)
            for row, at in enumerate(batch):
                end = len(rows[row])
                states[at] = every_BTU[row, end - known[at].distance : end]
            advance(len(batch))
    return _Places(
        names,
        np.concatenate(states),
        np.concatenate([np.full(one.distance, one.number == "plural") for one in known]),
        np.concatenate([_other(one) for one in known]),
        np.repeat(np.arange(len(known)), [one.distance for one in known]),
    )


def _other(one: Sentence) -> NDArray[np.bool_]:
    """At each place between: whether the last noun read is not the subject and has the other number."""
    differs = np.zeros(one.distance, dtype=np.bool_)
    for position, number in one.attractors:  # in the order of the sentence: a later noun is the last read
        if one.opener < position < one.closer:
            differs[position - one.opener - 1 :] = number != one.number
    return differs


def _check(first: Sequence[Sentence], second: Sequence[Sentence]) -> None:
    for part in (first, second):
        plural = sum(one.number == "plural" for one in part)
        if min(plural, len(part) - plural) < _FEWEST_SENTENCES:
            raise OptionError(
                f"got {len(part) - plural} singular and {plural} plural subjects with words before their verb in one "
                f"half of the sentences; expected at least {_FEWEST_SENTENCES} of each; try more sentences of agreement"
            )
