"""The gradient from a verb to its subject: against an LSTM and an RNN unrolled here, and gates multiplied by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.gradients import decays, gradient_flow, verb_flow
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.build import build, settings_of
from thereafter.text.agreement import Sentence, sentences
from thereafter.text.tokenizers import TOKENIZERS

FIVE = list(sentences(40, part="test", min_distance=5, max_distance=5))
MIXED = list(sentences(60, part="test", max_distance=8))
WORDS = "\n".join(one.text for one in (*FIVE, *MIXED)) + "\n"


def reader(kind: str, reads: str = "line", **options: Any) -> SentenceReader:
    torch.manual_seed(0)
    tokenizer = TOKENIZERS.load("word").fit(lambda: [WORDS, WORDS])  # what was seen twice is a word
    size = {"hidden": 7} | ({} if kind == "window" else {"layers": 1, "tied": False}) | options
    model = build(kind, settings_of(kind)(**size), vocabulary_size=len(tokenizer.vocabulary), context=reads)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return SentenceReader(model.eval(), tokenizer, reads, name=kind)


def read_before_the_verb(of: SentenceReader, one: Sentence) -> tuple[Tensor, int]:
    """Word vectors of `<s>` and all words before the verb, and the verb's id."""
    ids = of.tokenizer.encode(of.begin + " ".join(one.words[: one.verb]))
    (verb,) = of.tokenizer.encode(one.words[one.verb])
    weight = of.model.embedding.weight.detach().double()
    return weight[torch.tensor([of.model.vocabulary_size, *ids])], int(verb)


def unrolled_lstm(
    of: SentenceReader, one: Sentence
) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], Tensor]:
    """h, c, f and o of every step as nodes, and the loss of the verb: the equations, one step after the other."""
    x_TE, verb = read_before_the_verb(of, one)
    named = {name: part.detach().double() for name, part in of.model.layers.named_parameters()}
    W, U, b = named["weight_ih_l0"], named["weight_hh_l0"], named["bias_ih_l0"] + named["bias_hh_l0"]
    h = c = torch.zeros(7, dtype=torch.float64)
    hs, cs, fs, os = [], [], [], []
    for x in x_TE:
        i, f, g, o = (W @ x + U @ h + b).chunk(4)
        f, o = torch.sigmoid(f), torch.sigmoid(o)
        c = (f * c + torch.sigmoid(i) * torch.tanh(g)).requires_grad_()
        h = o * torch.tanh(c)
        for kept, value in zip((hs, cs, fs, os), (h, c, f, o), strict=True):
            kept.append(value)
    head = {name: part.detach().double() for name, part in of.model.head.named_parameters()}
    return hs, cs, fs, os, -torch.log_softmax(head["weight"] @ h + head["bias"], 0)[verb]


def field(flow: Measurement, name: str) -> np.ndarray:
    return flow["norm"][-1, :, flow["field"].tolist().index(name)]


@pytest.mark.parametrize("context", ["line", "stream"])
def test_along_c_and_along_h_by_an_lstm_unrolled_by_hand(context: str) -> None:
    of = reader("lstm", context)
    flow = verb_flow(of, FIVE, distance=5)
    norms: dict[str, list[list[float]]] = {"h": [], "c": [], "gates": [], "direct": []}
    dot = whole = np.zeros(6)
    for one in FIVE:
        hs, cs, fs, os, loss = unrolled_lstm(of, one)
        g_h = torch.autograd.grad(loss, hs, retain_graph=True)
        g_c = torch.autograd.grad(loss, cs)
        back = [len(hs) - 1 - k for k in range(6)]
        product, products = torch.ones(7, dtype=torch.float64), []
        for t in back:
            products.append(product)
            product = product * fs[t].detach()
        direct = [g_c[-1] * product for product in products]
        norms["h"].append([float(g_h[t].norm()) for t in back])
        norms["c"].append([float(g_c[t].norm()) for t in back])
        norms["gates"].append([float(product.mean()) for product in products])
        norms["direct"].append([float(part.norm()) for part in direct])
        dot = dot + np.array([float(part @ g_c[t]) for part, t in zip(direct, back, strict=True)])
        whole = whole + np.array([float(g_c[t] @ g_c[t]) for t in back])
        # what the docstring of `gradients` says of the two: the share that stays on c, and the one that leaves by h
        for t in back[1:]:
            by_h = os[t] * (1 - torch.tanh(cs[t]) ** 2) * g_h[t]
            torch.testing.assert_close(g_c[t], fs[t + 1] * g_c[t + 1] + by_h)
    for name in ("h", "c"):
        np.testing.assert_allclose(field(flow, name), np.mean(norms[name], axis=0), rtol=1e-9)
    for name in ("gates", "direct"):
        np.testing.assert_allclose(flow[name][-1], np.mean(norms[name], axis=0), rtol=1e-9)
    np.testing.assert_allclose(flow["additive"][-1], dot / whole, rtol=1e-9)
    assert np.isnan(flow["gates"][0]).all()  # word vectors are not carried


def test_the_last_state_it_reaches_has_just_read_the_subject() -> None:
    """A change of the subject's vector moves the state at `distance` and none behind it."""
    of = reader("rnn")
    one = FIVE[0]
    flow = verb_flow(of, [one], distance=5)
    x_TE, verb = read_before_the_verb(of, one)
    named = {name: part.detach().double() for name, part in of.model.layers.named_parameters()}
    subject = one.subject + 1  # `<s>` comes first
    h, states = torch.zeros(7, dtype=torch.float64), []
    for x in x_TE:
        z = named["weight_ih_l0"] @ x + named["weight_hh_l0"] @ h + named["bias_ih_l0"] + named["bias_hh_l0"]
        h = torch.tanh(z).requires_grad_()
        states.append(h)
    head = {name: part.detach().double() for name, part in of.model.head.named_parameters()}
    loss = -torch.log_softmax(head["weight"] @ h + head["bias"], 0)[verb]
    (at_subject,) = torch.autograd.grad(loss, [states[subject]])
    assert len(states) - 1 - subject == 5
    assert field(flow, "h")[5] == pytest.approx(float(at_subject.norm()), rel=1e-9)
    assert flow.about["loss"] == pytest.approx(loss.item(), rel=1e-9)
    assert np.isnan(flow["direct"]).all()  # a simple recurrence has no direct path


@pytest.mark.parametrize("kind", ["mingru", "minlstm"])
def test_linear_cells_have_the_direct_path_alone(kind: str) -> None:
    flow = verb_flow(reader(kind), FIVE, distance=5)
    np.testing.assert_allclose(flow["direct"][-1], field(flow, "h"), rtol=1e-9)
    np.testing.assert_allclose(flow["additive"][-1], 1.0, rtol=1e-9)


@pytest.mark.parametrize("update", ["old", "new"])
def test_a_gru_without_recurrent_weights_has_the_direct_path_alone(update: str) -> None:
    of = reader("gru", update=update)
    assert not np.allclose(verb_flow(of, FIVE, distance=5)["additive"][-1, 1:], 1.0)
    with torch.no_grad():
        of.model.layers.weight_hh_l0.zero_()
    np.testing.assert_allclose(verb_flow(of, FIVE, distance=5)["additive"][-1], 1.0, rtol=1e-9)


def test_only_sentences_of_one_distance_go_into_a_mean() -> None:
    of = reader("gru")
    three = [one for one in MIXED if one.distance == 3]
    assert 1 < len(three) < len(MIXED)
    flow, alone = verb_flow(of, MIXED, distance=3), [verb_flow(of, [one], distance=3) for one in three]
    assert flow.about["losses"] == len(three)
    np.testing.assert_allclose(flow["norm"], np.mean([one["norm"] for one in alone], axis=0), rtol=1e-9)
    assert verb_flow(of, MIXED, distance=3, count=2).about["losses"] == 2


@pytest.mark.parametrize("kind", ["transformer", "window"])
def test_a_model_without_a_state_has_its_word_vectors(kind: str) -> None:
    """The same row by row through `gradient_flow`, whose last loss is that of the verb."""
    options = {"heads": 1, "context": 32} if kind == "transformer" else {"window": 3}
    of = reader(kind, **options)
    flow = verb_flow(of, FIVE[:3], distance=5)
    rows = [of.tokenizer.encode(one.right) for one in FIVE[:3]]
    apart = [gradient_flow(of.model, row[None], distance=len(row) - 1, ends=1)["norm"][0, :6, 0] for row in rows]
    np.testing.assert_allclose(flow["norm"][0, :, 0], np.mean(apart, axis=0), rtol=1e-9, atol=1e-15)


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    flow = verb_flow(reader("lstm"), FIVE, distance=5)
    again = Measurement.load(flow.save(tmp_path / "verb.npz"))
    assert again.kind == "gradient-flow"
    assert (again.about["at"], again.about["distance"], again.about["context"]) == ("verb", 5, "line")
    assert again.about["text"] == "40 sentences of agreement"
    assert 0 <= again.about["right"] <= 1
    assert set(decays(again)) == {("words", "x"), ("l0", "h"), ("l0", "c")}


def test_verbs_the_model_does_not_know_are_left_out() -> None:
    of = reader("rnn")
    strange = [replace(one, words=(*one.prefix, "zorbs"), wrong_form="zorb") for one in FIVE]
    assert verb_flow(of, [*strange[:3], *FIVE[:2]], distance=5).about["losses"] == 2
    with assert_refused(OptionError, "zorbs"):
        verb_flow(of, strange, distance=5)


def test_mistakes() -> None:
    of = reader("rnn")
    with assert_refused(OptionError, 1, 2, 40):
        verb_flow(of, FIVE, distance=1)
    with assert_refused(OptionError, 0):
        verb_flow(of, FIVE, count=0)
    with assert_refused(OptionError, 7, 5):
        verb_flow(of, FIVE, distance=7)
    with assert_refused(OptionError):
        verb_flow(of, [])
    counted = thereafter.train(text="the cat sat on the mat\n" * 3, order=2, tokens="word")
    with assert_refused(OptionError, "ngram"):
        verb_flow(SentenceReader.of(counted.model, counted.tokenizer, counted.config))
    small = thereafter.train(text="the cat sat on the mat\n" * 30, model="rnn", tokens="char", hidden=4, epochs=0.1)
    with assert_refused(OptionError, "char", "word"):
        verb_flow(SentenceReader.of(small.model, small.tokenizer, small.config))
