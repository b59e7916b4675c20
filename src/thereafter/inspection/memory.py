"""How far back a model remembers: accuracy in a synthetic memory task by n, and of a long dependency by its distance.

A model reads a line from a fresh start. At every place of a question it is right where the answer is likelier than all
other forms, and right by an equal share where several are likeliest; a question with several places needs them all:

    right = product over places of [answer among the likeliest] / (number of likeliest)

so that a model for which all forms are equally likely is right at chance.

A dependency may be that of a subject and its verb, of a noun and its reflexive pronoun, or any other that sentences
mark: `agreement` says how often a model is right by words and by nouns between, and by congruence.

Time and memory of one forward and backward pass are measured by the length of the sequence. Time is the least of
several passes. Memory is what autograd keeps for the backward pass, counted on the tensors themselves
(`kept_for_backward`: every piece once, weights not). The state is what a model carries on to the next token: a fixed
size in a recurrent net, keys and values of all tokens in a Transformer.

`bptt_memory` counts what backpropagation through time has to remember, by length and by the pieces a sequence is cut
into: the hidden states our own backpropagation keeps (`layers.bptt`), which is all the backward pass of an RNN needs,
and what autograd keeps of the same steps run by the plain loop.

Shapes: B lines of one length, V words that can be predicted.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from thereafter.base import progress
from thereafter.cells.base import HState
from thereafter.cells.elman import Elman
from thereafter.errors import OptionError
from thereafter.evaluation.agreement import Verdicts, measure_agreement
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.sentence_reader import SentenceReader, neural
from thereafter.kernels.scan import unroll
from thereafter.layers.bptt import bptt, saved_for_backward
from thereafter.models.neural import NeuralModel
from thereafter.text.agreement import Sentence
from thereafter.text.agreement.grammar import Dice
from thereafter.text.memory import AnswerPlace, Line, MemoryTask, Question

GROWTH = "growth"


def growth(
    models: Mapping[str, object],
    lengths: Sequence[int] = (64, 128, 256, 512),
    *,
    batch: int = 1,
    repeats: int = 3,
    plain_attention: Sequence[str] = (),
    seed: int = 0,
) -> Measurement:
    """Seconds, bytes kept for the backward pass, and bytes of the state after it, for every model and length.

    The tokens are drawn at random: neither time nor memory depends on them. Models named in `plain_attention` keep the
    matrix of attention weights, as the formula is written; otherwise torch may use a way that never stores it.
    Arrays: `seconds`, `saved`, `state` [model, length].
    """
    if not lengths or min(lengths) < 1 or batch < 1 or repeats < 1:
        raise OptionError(f"lengths are {list(lengths)}, batch {batch}, repeats {repeats}; expected 1 or more each")
    shape = (len(models), len(lengths))
    arrays = {"seconds": np.zeros(shape), "saved": np.zeros(shape, np.int64), "state": np.zeros(shape, np.int64)}
    with progress.task("time and memory", total=len(models) * sum(lengths)) as advance:
        for row, (name, model) in enumerate(models.items()):
            copy = deepcopy(neural(model, "growth")).eval()
            most = copy.most_at_once
            if most is not None and most < max(lengths):
                raise OptionError(
                    f"{name} has a context of {most} tokens; expected at least {max(lengths)}, the longest length; "
                    "try shorter lengths"
                )
            for column, steps in enumerate(lengths):
                drawn = torch.Generator().manual_seed(seed)
                tokens = torch.randint(copy.vocabulary_size, (batch, steps + 1), generator=drawn).to(copy.device)
                plain = name in plain_attention
                attention: AbstractContextManager[object] = sdpa_kernel(SDPBackend.MATH) if plain else nullcontext()
                with attention:
                    seconds, saved, state = _measure(copy, tokens, repeats)
                for key, value in zip(("seconds", "saved", "state"), (seconds, saved, state), strict=True):
                    arrays[key][row, column] = value
                advance(steps)
    labels = {"model": np.array(list(models)), "length": np.array(lengths)}
    about = {"model": ", ".join(models), "text": "random tokens", "batch": batch, "threads": torch.get_num_threads()}
    return Measurement.of(GROWTH, arrays | labels, about)


def _measure(model: NeuralModel, tokens_BT: Tensor, repeats: int) -> tuple[float, int, int]:
    inputs, targets = tokens_BT[:, :-1], tokens_BT[:, 1:]
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        nats, _, _ = model.loss(inputs, targets, model.fresh(len(inputs)))
        nats.backward()  # type: ignore[no-untyped-call]
        if model.device.type == "cuda":  # which computes by itself
            torch.cuda.synchronize(model.device)
        times.append(time.perf_counter() - began)
        model.zero_grad(set_to_none=True)
    with kept_for_backward([*model.parameters(), *model.buffers(), tokens_BT]) as kept:
        nats, _, after = model.loss(inputs, targets, model.fresh(len(inputs)))
    return min(times), kept.bytes, sum(part.nbytes for part in after.memory.values())


# How many bytes autograd keeps for the backward pass, counted on the tensors themselves.
#
# `layers.bptt.saved_for_backward` counts what operations of torch keep. Here what our own compiled operations keep is
# counted too. Their buffers have no history, so that weights and inputs can only be left out by their addresses.


@dataclass
class KeptBytes:
    """Bytes of distinct memory."""

    bytes: int = 0


@contextmanager
def kept_for_backward(known: Iterable[Tensor]) -> Iterator[KeptBytes]:
    """Count what is kept of the operations inside the block, each piece of memory once; `known` (weights) not.

    >>> x = torch.ones(10, requires_grad=True)
    >>> with kept_for_backward([x]) as kept:
    ...     y = torch.tanh(x) * x
    >>> kept.bytes
    40
    """
    kept = KeptBytes()
    seen: dict[int, torch.UntypedStorage | None] = {tensor.untyped_storage().data_ptr(): None for tensor in known}

    def pack(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in seen:
            seen[memory.data_ptr()] = memory  # a reference, so that no address is used twice inside the block
            kept.bytes += memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept


BPTT_MEMORY = "bptt-memory"


def bptt_memory(
    lengths: Sequence[int] = (64, 128, 256, 512, 1024),
    truncations: Sequence[int | None] = (None, 140, 35),
    *,
    batch: int = 8,
    hidden: int = 64,
) -> Measurement:
    """Bytes a tanh RNN keeps at once, in float32. Arrays: `states`, `autograd` [truncation, length].

    A truncation of None goes over the whole sequence; among the numbers of the axis it is 0.
    """
    shape = (len(truncations), len(lengths))
    states, graph = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    drawn = torch.Generator().manual_seed(0)
    W, U = (torch.randn(hidden, hidden, generator=drawn) / hidden**0.5 for _ in range(2))
    b, h0 = torch.zeros(hidden), torch.zeros(batch, hidden)

    def of_sum(h_BSH: Tensor, start: int) -> Tensor:
        """The gradient of the sum of all states."""
        return torch.ones_like(h_BSH)

    with progress.task("memory of backpropagation", total=len(truncations) * sum(lengths)) as advance:
        for column, steps in enumerate(lengths):
            x_BTI = torch.randn(batch, steps, hidden, generator=drawn)
            for row, size in enumerate(truncations):
                states[row, column] = bptt(x_BTI, h0, W, U, b, of_sum, truncation=size).stored_bytes
                graph[row, column] = _by_autograd(x_BTI[:, : size or steps], h0, W, U, b)
                advance(steps)
    arrays = {"states": states, "autograd": graph, "length": np.array(lengths)}
    arrays["truncation"] = np.array([size or 0 for size in truncations])
    about = {"model": f"rnn, {hidden} units", "text": f"random numbers, {batch} rows", "batch": batch, "hidden": hidden}
    return Measurement.of(BPTT_MEMORY, arrays, about)


def _by_autograd(x_BSI: Tensor, h0: Tensor, W: Tensor, U: Tensor, b: Tensor) -> int:
    """Bytes autograd keeps of one piece, run by the plain loop: pieces are worked through one after the other."""
    cell = Elman(W.shape[1], W.shape[0], bias="one")
    weights = {"weight_ih": W, "weight_hh": U, "bias_ih": b}
    weights = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    with saved_for_backward() as saved:
        unroll(cell, x_BSI, HState(h0), weights, kernel="reference")
    return saved.bytes


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
