"""The unit that carries the subject's number: chosen on one half of some sentences, measured on the other.

Only places strictly between a subject and its verb count: there the number can only be known from before. How well a
unit u tells a plural subject from a singular one there is the chance that it is higher where the subject is
plural, ties by halves: the AUC of `inspection.units`. The unit is the best of the first half of the sentences, in the
direction it had there; its figure is that of the second half.

Some unit of hundreds fits by luck. So the same search is made for numbers shuffled among the sentences of each half:
that is the control. A unit that follows the last noun would also do well wherever no noun came between, so
there is a second figure, over the places where the last noun read has the other number than the subject (the
attractors of Linzen, Dupoux and Goldberg 2016): that unit falls below one half there.

Shapes: N places of all sentences, U units of all layers' h and c, K ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import OptionError
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.reading import with_units
from thereafter.inspection.sentence_reader import SentenceReader, padded
from thereafter.inspection.units import selectivity
from thereafter.models.neural import NeuralModel
from thereafter.text.agreement import Sentence

TOP = 10
SHUFFLES = 5
_FEWEST = 20  # sentences of each number in each half
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
        first = _read(model, fields, reader, usable[:half], advance)
        second = _read(model, fields, reader, usable[half:], advance)

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


def _read(
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
        if min(plural, len(part) - plural) < _FEWEST:
            raise OptionError(
                f"got {len(part) - plural} singular and {plural} plural subjects with words before their verb in one "
                f"half of the sentences; expected at least {_FEWEST} of each; try more sentences of agreement"
            )
