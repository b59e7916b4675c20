"""Translators over tensors: all steps at once or one by one, padding, attention, the loss, and the beam."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from thereafter.decoding.sampling import largest
from thereafter.decoding.sources import AnswerSettings, decode_answers, search_answers
from thereafter.errors import OptionError
from thereafter.models.decoder import Fields
from thereafter.models.word_decoder import END
from thereafter.tasks.translate.task import (
    PairBatch,
    RecurrentTranslator,
    TransformerTranslator,
    Translator,
    TranslatorSettings,
)

KINDS: list[dict[str, Any]] = [
    {"attention": "none"},
    {"attention": "none", "cell": "lstm", "layers": 2, "reverse": True},
    {"attention": "dot", "layers": 2},
    {"attention": "bilinear", "cell": "elman", "bidirectional": False, "reverse": True},
    {"attention": "additive", "cell": "lstm", "shared": True},
    {"attention": "additive", "tied": False, "layers": 2},
    {"model": "transformer", "layers": 2, "heads": 2, "feedforward": 12},
    {"model": "transformer", "heads": 4, "shared": True, "tied": False},
]
NAMES = ["-".join(str(value) for value in kind.values()) for kind in KINDS]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=NAMES)
ATTENDING = pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.get("attention") != "none"],
    ids=[name for name in NAMES if not name.startswith("none")],
)
WORDS = 9


def made(kind: dict[str, Any], words: int = WORDS, seed: int = 0, **about: Any) -> Translator:
    settings = TranslatorSettings(**{"embed": 6, "hidden": 8, "dropout": 0.0, "longest": 30} | kind)
    torch.manual_seed(seed)
    network = TransformerTranslator if settings.model == "transformer" else RecurrentTranslator
    return network(settings, source=words, target=words, **{"limit": 8} | about).double().eval()


def rows(lengths: list[int], words: int = WORDS, seed: int = 1) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [[*torch.randint(1, words, (n,), generator=draw).tolist(), END] for n in lengths]


def batch_of(sources: list[list[int]], targets: list[list[int]] | None = None, wider: int = 0) -> PairBatch:
    """A batch; `wider` columns of rubbish behind all rows, where padding is."""

    def table(given: list[list[int]]) -> torch.Tensor:
        width = max(map(len, given)) + wider
        return torch.tensor([row + [END if not wider else 3] * (width - len(row)) for row in given])

    found = PairBatch(table(sources), torch.tensor([len(row) for row in sources]))
    if targets is None:
        return found
    target_BT = table(targets)
    inside_BT = torch.arange(target_BT.shape[1]) < torch.tensor([len(row) for row in targets])[:, None]
    return PairBatch(found.source_BS, found.lengths_B, target_BT, inside_BT.flatten().nonzero().squeeze(1))


def answers(net: Translator, batch: PairBatch, **options: Any) -> list[list[int]]:
    with net.quietly():
        memory = net.encode(batch)
    return decode_answers(net, memory, AnswerSettings(**options))


def search(net: Translator, batch: PairBatch, beam: int, length_penalty: float = 1.0) -> list[list[int]]:
    """The beam search, also with a single beam."""
    with net.quietly():
        memory = net.encode(batch)
    found = search_answers(net, memory, beam, length_penalty)
    return [[token for token in best.tokens if token != END] for (best,) in found]


@EVERY
def test_all_steps_at_once_are_the_steps_one_by_one(kind: dict[str, Any]):
    net = made(kind)
    batch = batch_of(rows([4, 1, 3]), rows([5, 2, 3], seed=2))
    with net.quietly():
        together = net.scores(batch)
        model = net.given(net.encode(batch))
    state = model.start(3)
    logp_BV = model.predict(state)
    for t in range(together.shape[1]):
        torch.testing.assert_close(torch.from_numpy(logp_BV), together[:, t].float())
        logp_BV, state = model.step(batch.target_BT[:, t].numpy(), state)


@EVERY
def test_padding_changes_no_result(kind: dict[str, Any]):
    net = made(kind)
    sources, targets = rows([4, 1, 7, 2]), rows([3, 6, 1, 2], seed=2)
    together, wide = batch_of(sources, targets), batch_of(sources, targets, wider=3)
    said, best = answers(net, together), answers(net, together, beam=3)
    with net.quietly():
        scores, nats = net.scores(together), float(net.nats(together))
        torch.testing.assert_close(net.scores(wide).flatten(0, 1)[wide.at_N], scores.flatten(0, 1)[together.at_N])
        assert float(net.nats(wide)) == pytest.approx(nats)
        alone_nats = 0.0
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            alone = batch_of([source], [target])
            torch.testing.assert_close(net.scores(alone)[0], scores[row, : len(target)])
            alone_nats += float(net.nats(alone))
            assert answers(net, alone) == [said[row]]
            assert answers(net, alone, beam=3) == [best[row]]
    assert alone_nats == pytest.approx(nats)


@EVERY
def test_the_loss_is_the_smoothed_cross_entropy_of_torch(kind: dict[str, Any]):
    net = made(kind | {"label_smoothing": 0.1})
    batch = batch_of(rows([4, 1, 3]), rows([5, 2, 3], seed=2))
    net.train()
    net.nats(batch).backward()
    own = {name: weight.grad.clone() for name, weight in net.named_parameters()}
    net.zero_grad()
    logp_NV = net.scores(batch).flatten(0, 1)[batch.at_N]
    targets_N = batch.target_BT.flatten()[batch.at_N]
    expected = F.cross_entropy(logp_NV, targets_N, label_smoothing=0.1, reduction="sum")
    expected.backward()
    assert float(net.nats(batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
    for name, weight in net.named_parameters():
        torch.testing.assert_close(own[name], weight.grad, msg=name)
    net.eval()
    plain = F.cross_entropy(logp_NV.detach(), targets_N, reduction="sum")
    assert float(net.nats(batch).detach()) == pytest.approx(float(plain), rel=1e-6)  # no smoothing where it is measured


@ATTENDING
def test_attention_is_shared_out_among_the_real_places_of_a_source(kind: dict[str, Any]):
    net = made(kind)
    batch = batch_of(rows([4, 1, 7]), rows([3, 6, 1], seed=2), wider=2)
    shown: Fields = {}
    with net.quietly():
        source = net.prepare(net.encode(batch))
        net.unroll(net.words(batch.target_BT), source, net.begin(source), shown)
    axes, weights_BTS = shown["attention"]
    assert axes == ("step", "source")
    torch.testing.assert_close(weights_BTS.sum(-1), torch.ones(batch.target_BT.shape).double())
    outside_BS = torch.arange(batch.source_BS.shape[1]) >= batch.lengths_B[:, None]
    assert (weights_BTS.transpose(1, 2)[outside_BS] == 0).all()
    ended = [[*answer, END] for answer in answers(net, batch)]
    for said, weights_TS, length in zip(ended, net.alignment(batch, ended), batch.lengths_B.tolist(), strict=True):
        assert weights_TS.shape == (len(said), length)
        torch.testing.assert_close(weights_TS.sum(-1), torch.ones(len(said)))


def test_weights_over_a_reversed_source_are_told_in_its_own_order():
    """A network that reads reversed is the one that reads forwards given the source reversed beforehand."""
    plain, turned = (made({"attention": "additive", "reverse": reverse}) for reverse in (False, True))
    turned.load_state_dict(plain.state_dict())
    source = rows([6])[0]
    backwards = [*source[-2::-1], END]
    read = ((plain, batch_of([backwards])), (turned, batch_of([source])))
    said, same = ([[*answer, END] for answer in answers(net, batch)] for net, batch in read)
    assert said == same
    weights_TS, mirrored_TS = (net.alignment(batch, said)[0] for net, batch in read)
    torch.testing.assert_close(mirrored_TS[:, :-1], weights_TS[:, :-1].flip(1))
    torch.testing.assert_close(mirrored_TS[:, -1], weights_TS[:, -1])


def test_without_attention_there_is_nothing_to_show():
    with pytest.raises(OptionError, match="no attention to show"):
        made({"attention": "none"}).alignment(batch_of(rows([2])), [[END]])


@EVERY
def test_a_beam_of_one_is_the_likeliest_word_at_every_step(kind: dict[str, Any]):
    net = made(kind, unknown=4)
    for table in (net.words, net.source_words):
        if table is not None:
            torch.nn.init.normal_(table.weight, std=2.0)  # so that answers differ in words and length
    batch = batch_of(rows([4, 1, 7, 2, 5]))
    said = answers(net, batch)
    assert search(net, batch, beam=1) == said
    assert all(4 not in row for row in said)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 1.5])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[4], KINDS[6]], ids=["none", "lstm", "transformer"])
def test_a_wide_beam_finds_the_best_of_all_sentences_there_are(kind: dict[str, Any], penalty: float):
    words, limit = 4, 4
    net = made(kind | {"shared": False}, words, limit=limit)
    for part in (net.words, net.head):
        for weight in part.parameters():
            torch.nn.init.normal_(weight, std=1.5, generator=torch.Generator().manual_seed(5))
    batch = batch_of(rows([3, 1, 2], words))
    found = search(net, batch, beam=words**limit, length_penalty=penalty)
    written = range(1, words)
    sentences = [[*one, END] for n in range(limit) for one in itertools.product(written, repeat=n)]
    sentences += [list(one) for one in itertools.product(written, repeat=limit)]  # cut short
    for row in range(3):
        source = [batch.source_BS[row, : batch.lengths_B[row]].tolist()] * len(sentences)
        with net.quietly():
            logp = net.scores(batch_of(source, sentences))
        totals = []
        for logp_TV, sentence in zip(logp, sentences, strict=True):
            total = sum(float(logp_TV[t, word]) for t, word in enumerate(sentence))
            totals.append(total / len(sentence) ** penalty)
        best = sentences[max(range(len(sentences)), key=totals.__getitem__)]
        assert found[row] == [word for word in best if word != END]


@pytest.mark.parametrize("words", [3, 64, 700, 1000])
def test_the_largest_of_each_row_are_found(words: int):
    scores = torch.randn(20, words, generator=torch.Generator().manual_seed(0))
    place = torch.from_numpy(largest(scores.numpy(), 6))
    expected = scores.sort(-1, descending=True)
    assert torch.equal(place, expected.indices[:, :6])


def test_own_words_are_mixed_in_behind_the_start_mark():
    net = made({"own_words": 0.5})
    batch = batch_of(rows([5] * 40), rows([8] * 40, seed=2))
    net.train()
    with torch.no_grad():
        inputs_BT = net.inputs(batch.target_BT)
        mixed_BT = net.mix_own_words(inputs_BT, net.prepare(net.encode(batch)), 0.5)
        own_BT = net.scores(batch).argmax(-1)
    assert (mixed_BT[:, 0] == net.start).all()
    taken = mixed_BT[:, 1:] != inputs_BT[:, 1:]
    assert 0.3 < float(taken.float().mean()) < 0.6
    assert (mixed_BT[:, 1:][taken] == own_BT[:, :-1][taken]).all()


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [("constant", [0.4, 0.4, 0.4]), ("linear", [0.0, 0.2, 0.4]), ("sigmoid", [0.4 * 0.00247, 0.2, 0.4 * 0.99753])],
)
def test_the_share_of_own_words_follows_its_schedule(schedule: str, shares: list[float]):
    net = made({"own_words": 0.4, "own_words_schedule": schedule})
    found = []
    for net.trained in (0.0, 0.5, 1.0):
        found.append(net.own_share())
    assert found == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention": "dott"}, r"attention is 'dott'; expected 'none' or 'dot'"),
        ({"hidden": 7}, r"hidden is 7 and the encoder bidirectional.*even"),
        ({"model": "transformer", "hidden": 10, "heads": 4}, r"heads is 4; expected a multiple"),
        ({"own_words": 1.0}, "own_words is 1.0; expected a share"),
        ({"own_words_schedule": "linaer"}, "own_words_schedule is 'linaer'; expected 'constant'"),
        ({"vocabulary": -1}, "vocabulary is -1"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(OptionError, match=message):
        TranslatorSettings(**wrong)
