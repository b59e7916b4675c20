"""The network of captions against its equations, for every way of seeing; its words come from the house's decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from thereafter.decoding import sources
from thereafter.decoding.sources import AnswerSettings
from thereafter.errors import OptionError
from thereafter.inspection.trace import record
from thereafter.layers.recurrent import Recurrent
from thereafter.models.word_decoder import END, RecurrentDecoder, WordDecoder
from thereafter.vision.captioning.network import SEES, Captioner, CaptionerSettings, PictureBatch, PictureForm

WORDS = 7
PIXELS = PictureForm("pixels", (3, 8, 8), (0.4, 0.5, 0.6), (0.2, 0.3, 0.25))
VECTORS = PictureForm("vectors", (5,), (0.1,), (2.0,))
MAPS = PictureForm("maps", (4, 5), (0.1,), (2.0,))
FORMS = {"pixels": PIXELS, "vectors": VECTORS, "maps": MAPS}
SMALL: dict[str, Any] = {"embed": 4, "hidden": 6, "width": 2, "stages": 2, "label_smoothing": 0.0}
STILL: dict[str, Any] = {
    "dropout": 0.0,
    "drop_picture": 0.0,
    "flip": False,
    "shift": 0,
    "zoom": 0,
    "colour": 0,
    "erase": 0,
}
EVERY_WAY = pytest.mark.parametrize("see", SEES)


def made(see: str, form: PictureForm = PIXELS, seed: int = 0, **options: Any) -> Any:
    """A network in double precision with weights so great that pictures make a difference."""
    torch.manual_seed(seed)
    net = Captioner(CaptionerSettings(see=see, **SMALL | STILL | options), form, words=WORDS, unknown=3, limit=5)
    nn.init.normal_(net.words.weight, std=1.0)
    return net.double().eval()


def pictures(form: PictureForm = PIXELS, count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    if form.kind == "pixels":
        return torch.randint(0, 256, (count, *form.shape), dtype=torch.uint8, generator=generator)
    return torch.randn((count, *form.shape), generator=generator)


def batch_of(form: PictureForm = PIXELS) -> Any:
    """Three pictures with two, one and three captions of several lengths."""
    captions = [[1, 2, END], [4, END], [5, 5, 6, 1, END], [2, END], [6, 4, 2, END], [1, 1, END]]
    longest = max(map(len, captions))
    target_BT = torch.tensor([row + [END] * (longest - len(row)) for row in captions])
    inside = torch.tensor([[step < len(row) for step in range(longest)] for row in captions])
    return PictureBatch(pictures(form), torch.tensor([0, 0, 1, 2, 2, 2]), target_BT, inside.flatten().nonzero()[:, 0])


def by_hand(net: Any, batch: Any) -> Tensor:
    """log p of every word, [B, T, V], with torch's own LSTM and the equations of the module."""
    settings, weights = net.settings, dict(net.named_parameters())
    lstm = nn.LSTM(net.decoder.input_size, settings.hidden, batch_first=True).double()
    lstm.load_state_dict({name: weights[f"decoder.{name}"] for name, _ in lstm.named_parameters()})
    x_BTE = net.words.weight[net.inputs(batch.target_BT)] * settings.embed**0.5
    zero = x_BTE.new_zeros(1, len(x_BTE), settings.hidden)
    state, extra = (zero, zero), None
    if settings.see != "nothing":
        pixels = batch.pictures.double()
        if net.form.kind == "pixels":
            mean, deviation = (torch.tensor(one)[:, None, None] for one in (net.form.mean, net.form.deviation))
            m_PDS = net.pixels.layers((pixels / 255 - mean) / deviation).flatten(2)
        else:
            m_PDS = ((pixels - net.form.mean[0]) / net.form.deviation[0]).view(len(pixels), -1, 5).transpose(1, 2)
        h_PSH = torch.einsum("pds,hd->psh", m_PDS, weights["place.weight"]) + weights["place.bias"]
        begin = (h_PSH.mean(1) @ weights["begins.weight"].T + weights["begins.bias"])[batch.row_B]
        h_BSH = h_PSH[batch.row_B]
        if settings.see == "first":
            _, state = lstm(begin[:, None])
        else:
            h, c = torch.tanh(begin).chunk(2, -1)
            state = (h[None].contiguous(), c[None].contiguous())
        if settings.see == "every":
            extra = h[:, None].expand(-1, x_BTE.shape[1], -1)
            x_BTE = torch.cat((x_BTE, extra), -1)
    q_BTH, _ = lstm(x_BTE, state)
    if settings.see == "attention":
        w1, w2, v = (weights[f"attention.{name}"] for name in ("of_query.weight", "of_memory.weight", "v_A"))
        score = torch.einsum("btsa,a->bts", torch.tanh((q_BTH @ w1.T)[:, :, None] + (h_BSH @ w2.T)[:, None]), v)
        extra = torch.einsum("bts,bsh->bth", score.softmax(-1), h_BSH)
    joined = q_BTH if extra is None else torch.cat((extra, q_BTH), -1)
    f_BTF = torch.tanh(joined @ weights["join.weight"].T + weights["join.bias"])
    return torch.log_softmax(f_BTF @ net.words.weight[:WORDS].T + weights["head.bias"], -1)


@EVERY_WAY
@pytest.mark.parametrize("kind", FORMS)
def test_scores_are_those_of_the_equations(see: str, kind: str) -> None:
    net, batch = made(see, FORMS[kind]), batch_of(FORMS[kind])
    with torch.no_grad():
        torch.testing.assert_close(net.scores(batch), by_hand(net, batch), atol=1e-9, rtol=0)
        logp = by_hand(net, batch).flatten(0, 1)[batch.at_N].gather(1, batch.target_BT.flatten()[batch.at_N, None])
        torch.testing.assert_close(net.nats(batch), -logp.sum(), atol=1e-8, rtol=0)


@EVERY_WAY
@pytest.mark.parametrize("training", [False, True])
def test_gradients_of_captions_are_differences_of_the_loss(see: str, training: bool) -> None:
    """Along random directions of all weights together; while training through the statistics of the batch."""
    net, batch = made(see, bag=0.5, layers=2 if see == "first" else 1), batch_of()
    net.train(training)
    names = [name for name, _ in net.named_parameters() if training or not name.startswith("bag")]
    weights = [dict(net.named_parameters())[name] for name in names]
    gradients = torch.autograd.grad(net.nats(batch), weights)
    generator, step = torch.Generator().manual_seed(1), 1e-6
    for _ in range(4):
        along = [torch.randn(weight.shape, generator=generator, dtype=torch.float64) for weight in weights]
        sides = []
        for sign in (1, -2):
            with torch.no_grad():
                for weight, direction in zip(weights, along, strict=True):
                    weight += sign * step * direction
                sides.append(net.nats(batch).item())
        with torch.no_grad():
            for weight, direction in zip(weights, along, strict=True):
                weight += step * direction
        slope = sum(float((one * direction).sum()) for one, direction in zip(gradients, along, strict=True))
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-6)


@EVERY_WAY
def test_captions_share_their_picture_and_nothing_else(see: str) -> None:
    net, batch = made(see), batch_of()
    logp_BTV = net.scores(batch)
    for row, picture in enumerate(batch.row_B.tolist()):
        alone = PictureBatch(batch.pictures[picture : picture + 1], torch.tensor([0]), batch.target_BT[row : row + 1])
        alone = PictureBatch(alone.pictures, alone.row_B, alone.target_BT, torch.arange(5))
        torch.testing.assert_close(net.scores(alone)[0], logp_BTV[row], atol=1e-10, rtol=0)
    other = PictureBatch(batch.pictures.flip(0), batch.row_B, batch.target_BT, batch.at_N)
    same = torch.allclose(net.scores(other), logp_BTV)
    assert same == (see == "nothing")


def test_a_bag_of_words_is_added_while_training_alone() -> None:
    net, batch = made("attention", bag=0.5, norm="group"), batch_of()
    plain = net.nats(batch)
    with torch.no_grad():
        logp_PV = torch.log_softmax(net.bag(net.encode(batch).h_BSH.mean(1)), -1)
        words = [
            (row, word) for row, caption in zip(batch.row_B, batch.target_BT, strict=True) for word in _cut(caption)
        ]
        expected = -0.5 * sum(float(logp_PV[row, word]) for row, word in words)
    assert net.train().nats(batch).item() - plain.item() == pytest.approx(expected, abs=1e-8)


def _cut(caption_T: Tensor) -> list[int]:
    words = caption_T.tolist()
    return words[: words.index(END) + 1]


@EVERY_WAY
def test_words_come_from_the_decoder_of_translators(see: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("unroll", "prepare", "begin"):
        assert getattr(Captioner, name) is getattr(RecurrentDecoder, name)
    for name in ("advance", "log_prob", "given", "nats_given", "scores_given", "vectors"):
        assert getattr(Captioner, name) is getattr(WordDecoder, name)
    calls: list[int] = []
    net = made(see)
    assert type(net.decoder) is Recurrent
    plain = RecurrentDecoder.unroll

    def counted(self: RecurrentDecoder, *given: Any) -> Any:
        calls.append(1)
        return plain(self, *given)

    monkeypatch.setattr(RecurrentDecoder, "unroll", counted)
    net.nats(batch_of())
    assert len(calls) == 1  # all captions of all pictures in one pass
    with net.quietly():
        memory = net.encode(batch_of())
    for settings in (AnswerSettings(), AnswerSettings(beam=3), AnswerSettings(do_sample=True, seed=1)):
        before = len(calls)
        answers = sources.decode_answers(net, memory, settings, [np.random.default_rng(k) for k in range(3)])
        assert len(calls) > before
        assert all(3 not in answer and len(answer) <= 5 for answer in answers)  # never the unknown word


@EVERY_WAY
def test_steps_beam_and_trace_agree_with_the_whole_pass(see: str) -> None:
    net, batch = made(see, seed=2), batch_of()
    with net.quietly():
        memory = net.encode(batch)
    model = net.given(memory)
    for row, (best,) in enumerate(sources.search_answers(net, memory, 64, length_penalty=0.0)):
        target = torch.tensor([best.tokens])
        alone = PictureBatch(batch.pictures[row : row + 1], torch.tensor([0]), target, torch.arange(target.shape[1]))
        logp_TV = by_hand(net, alone)[0].detach()
        assert best.total == pytest.approx(sum(float(logp_TV[t, w]) for t, w in enumerate(best.tokens)), abs=1e-5)
        (greedy,) = sources.decode_answers(net, net.encode(alone), AnswerSettings())
        reached = PictureBatch(
            alone.pictures, alone.row_B, torch.tensor([[*greedy, END]]), torch.arange(len(greedy) + 1)
        )
        one = by_hand(net, reached)[0].detach()
        one[:, 3] = -torch.inf  # the unknown word
        assert one.argmax(-1).tolist()[: len(greedy)] == greedy
        ids = np.array(best.tokens)
        start = model.start(3).select(np.array([row]))
        traced = model.record(ids, start)
        np.testing.assert_allclose(traced["log_prob"][1], [float(logp_TV[t, w]) for t, w in enumerate(ids)], atol=1e-5)
        assert ("attention" in traced) == (see == "attention")
        assert traced["l0.forget"][1].shape == (len(ids), 6)
        if see == "attention":
            assert traced["attention"][1].shape == (len(ids), 4)
            np.testing.assert_allclose(traced["attention"][1].sum(1), 1.0, atol=1e-5)


def test_a_trace_of_a_caption_names_its_steps() -> None:
    net = made("attention")
    with net.quietly():
        memory = net.encode(PictureBatch(pictures(count=1)))
    trace = record(net.given(memory), np.array([1, 2, END]), ["a", "b", "</s>"], list("eabcdfg"))
    assert trace.axes["attention"] == ("step", "source")
    assert net.grid == (2, 2)
    assert made("attention", MAPS).grid == (2, 2)
    assert made("every", VECTORS).grid == (1, 1)


def test_settings_of_captions_that_cannot_be_are_refused() -> None:
    for wrong, message in (
        ({"see": "sometimes"}, "see is 'sometimes'; expected 'attention' or"),
        ({"attention": "none"}, "see is 'attention' and attention is 'none'.*try see='every'"),
        ({"norm": "layer"}, "norm is 'layer'; expected 'batch' or 'group'"),
        ({"erase": 1.0}, "erase is 1.0; expected a share"),
        ({"width": 0}, "width is 0; expected at least 1"),
        ({"stages": 20}, "stages is 20; expected 1 to 8"),
        ({"bag": -1.0}, "bag is -1.0; expected 0 or more"),
    ):
        with pytest.raises(OptionError, match=message):
            CaptionerSettings(**wrong)
    with pytest.raises(OptionError, match="without captions has no loss"):
        made("first").nats(PictureBatch(pictures()))
