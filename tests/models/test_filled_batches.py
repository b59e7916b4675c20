"""A batch that is filled up to one of a few shapes: the loss and every gradient are those of the plain batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from thereafter.layers.heads import Softmax, softmax_nll
from thereafter.models.task_net import Fillable, TaskNet, filled_length, filled_rows
from thereafter.tasks.classify import ClassBatch, Classifier, ClassifierSettings
from thereafter.tasks.tag.network import TagBatch, Tagger, TaggerSettings
from thereafter.tasks.translate.task import PairBatch, RecurrentTranslator, TransformerTranslator, TranslatorSettings

MOST, PLACES = 16, 320


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(5)


def ragged(lengths: tuple[int, ...], most: int) -> Tensor:
    """Ids from 2 on, padding 0."""
    inside = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randint(2, most, inside.shape) * inside


def tags(lengths: tuple[int, ...] = (5, 9, 1, 9), letters: tuple[int, ...] = (3, 1, 7, 2, 4, 19, 1)) -> TagBatch:
    shape = len(lengths), max(lengths)
    spelled = torch.randint(0, len(letters) - 1, shape)
    spelled[torch.arange(shape[1]) >= torch.tensor(lengths)[:, None]] = len(letters) - 1
    return TagBatch(
        ragged(lengths, 12),
        torch.tensor(lengths),
        ragged(letters, 8),
        torch.tensor(letters),
        spelled,
        torch.randint(0, 4, shape),
    )


def labels(lengths: tuple[int, ...] = (3, 11, 6)) -> ClassBatch:
    return ClassBatch(ragged(lengths, 12), torch.tensor(lengths), torch.randint(0, 3, (len(lengths),)))


def pairs(sources: tuple[int, ...] = (4, 7, 2), targets: tuple[int, ...] = (5, 3, 6)) -> PairBatch:
    inside = torch.arange(max(targets)) < torch.tensor(targets)[:, None]
    at = inside.flatten().nonzero().squeeze(1)
    return PairBatch(ragged(sources, 12), torch.tensor(sources), ragged(targets, 12), at)


def tagger(**given: object) -> Callable[[], Tagger]:
    settings = TaggerSettings(embed=6, hidden=5, letter_hidden=4, letter_embed=3, dropout=0.0, drop_words=0.0, **given)  # type: ignore[arg-type]
    return lambda: Tagger(settings, words=12, letters=8, tags=4)


def classifier(**given: object) -> Callable[[], Classifier]:
    settings = ClassifierSettings(embed=6, hidden=5, dropout=0.0, drop_words=0.0, **given)  # type: ignore[arg-type]
    return lambda: Classifier(settings, words=12, labels=3)


def translator(**given: object) -> Callable[[], TaskNet[PairBatch]]:
    settings = TranslatorSettings(embed=8, hidden=8, heads=2, dropout=0.0, label_smoothing=0.1, **given)  # type: ignore[arg-type]
    kind = TransformerTranslator if settings.model == "transformer" else RecurrentTranslator
    return lambda: kind(settings, source=12, target=12)


CASES: dict[str, tuple[Callable[[], TaskNet[object]], Callable[[], Fillable]]] = {
    "tag": (tagger(), tags),
    "tag, cnn": (tagger(letters="cnn"), tags),
    "tag, no letters": (tagger(letters="none", cell="gru"), tags),
    "tag, crf": (tagger(crf=True), tags),
    **{f"classify, {pooling}": (classifier(pooling=pooling), labels) for pooling in ("last", "mean", "max")},
    **{f"classify, {pooling}": (classifier(pooling=pooling), labels) for pooling in ("attention", "concat")},
    "classify, cnn": (classifier(encoder="cnn"), labels),
    "classify, forward only": (classifier(sizes=(7, 5), pooling="last"), labels),
    "translate, no attention": (translator(attention="none"), pairs),
    "translate, dot": (translator(attention="dot", cell="lstm"), pairs),
    "translate, additive": (translator(attention="additive", reverse=True), pairs),
    "translate, untied": (translator(attention="bilinear", tied=False), pairs),
    "translate, transformer": (translator(model="transformer"), pairs),
}  # type: ignore[assignment]


OTHERS: dict[Callable[[], Fillable], Callable[[], Fillable]] = {
    tags: lambda: tags((16, 3), (17, 5)),
    labels: lambda: labels((9, 16, 1, 1, 2)),
    pairs: lambda: pairs((8, 5), (1, 7)),
}
"""Batches of other rows and lengths that are filled up to the same shapes."""


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients_are_those_of_the_plain_batch(name: str) -> None:
    build, make = CASES[name]
    net, batch = build().double(), make()
    larger = batch.filled(MOST, PLACES)
    assert len(larger) == MOST  # type: ignore[arg-type]
    results = []
    for one in (batch, larger):
        net.zero_grad()
        nats = net.nats(one)
        nats.backward()  # type: ignore[no-untyped-call]
        results.append((nats.detach(), {name: p.grad for name, p in net.named_parameters() if p.grad is not None}))
    (plain, slopes), (more, others) = results
    torch.testing.assert_close(more, plain)
    assert slopes.keys() == others.keys()
    for name, slope in slopes.items():
        torch.testing.assert_close(others[name], slope, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("name", CASES)
def test_all_batches_of_about_one_length_have_one_shape(name: str) -> None:
    make = CASES[name][1]
    larger, again = make().filled(MOST, PLACES), OTHERS[make]().filled(MOST, PLACES)
    places, others = larger.places(), again.places()
    assert places is not None
    assert others is not None
    assert [x.shape for x in places.values()] == [x.shape for x in others.values()]
    assert make().places() is None  # a batch of its own shape is not recorded
    over = larger.over({name: place.clone() for name, place in places.items()}).places()
    assert over is not None
    assert all(torch.equal(over[name], place) for name, place in places.items())


def test_lengths_are_few_and_rows_are_enough() -> None:
    for step in (4, 8, 16):
        lengths = [filled_length(n, step) for n in range(1, 40 * step)]
        assert all(n <= made <= max(n + step - 1, 1.25 * n + 1) for n, made in enumerate(lengths, 1))
        assert len(set(lengths)) <= 18
        for most, places in ((32, 1280), (128, 8192), (1, 40), (7, 7)):
            for longest in range(1, 200):
                rows = max(1, min(most, places // longest))
                made = filled_rows(rows, longest, step, most, places)
                same = filled_rows(1, filled_length(longest, step), step, most, places)
                assert made >= rows
                assert made == same


@pytest.mark.parametrize("low", [torch.float64, torch.float32])
@pytest.mark.parametrize("chunk", [None, 2])
def test_targets_that_do_not_count_have_no_part_in_a_softmax(low: torch.dtype, chunk: int | None) -> None:
    head = Softmax(5, 7, chunk=chunk).to(low)
    f, targets = torch.randn(9, 5, dtype=low, requires_grad=True), torch.randint(0, 7, (9,))
    counted = torch.tensor([True, False, True, True, False, True, True, False, True])
    results = []
    for places in (None, counted):
        head.zero_grad()
        f.grad = None
        rows = (f, targets) if places is not None else (f[counted], targets[counted])
        total = head.total(*rows, None, places)
        (2.5 * total).backward()  # type: ignore[no-untyped-call]
        results.append([total.detach(), f.grad, head.weight.grad, head.bias.grad])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    # and where every token has a factor of its own, which no forward pass can know
    weights = torch.rand(9, dtype=low)
    nll = softmax_nll(f, head.weight, head.bias, targets, 7, chunk, counted_N=counted)
    (slope,) = torch.autograd.grad((weights * nll).sum(), f)
    plain = softmax_nll(f, head.weight, head.bias, targets, 7, chunk)
    (expected,) = torch.autograd.grad((weights * counted * plain).sum(), f)
    torch.testing.assert_close(slope, expected)
    with torch.no_grad():
        quiet = softmax_nll(f, head.weight, head.bias, targets, 7, chunk, counted_N=counted)
    torch.testing.assert_close(quiet, nll.detach())
