"""The classifier: padding changes nothing, evidence is the gradient times the input, weights are shares."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.layers.recurrent import Recurrent
from thereafter.tasks.classify import POOLINGS, ClassBatch, Classifier, ClassifierSettings

READERS = [{"pooling": pooling} for pooling in POOLINGS]
READERS += [{"encoder": "cnn"}, {"encoder": "elman", "layers": 2}, {"encoder": "gru", "pooling": "mean"}]
ROWS = ([5], [2, 3, 4, 5, 6, 7, 8], [1, 1], [9, 2, 4])


def network(**settings: Any) -> Classifier:
    torch.manual_seed(3)
    return Classifier(ClassifierSettings(embed=5, hidden=4, **settings), words=10, labels=3).eval()


def batch_of(rows: Any, labels: list[int] | None = None) -> ClassBatch:
    longest = max(map(len, rows))
    words_BT = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return ClassBatch(words_BT, torch.tensor([len(row) for row in rows]), torch.tensor(labels) if labels else None)


def test_convolutions_are_those_of_torch_with_the_same_padding():
    net = network(encoder="cnn")
    x_BTE = torch.randn(2, 3, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = [F.conv1d(x_BTE.transpose(1, 2), c.weight, c.bias, padding="same").relu() for c in net.reader.each]
    torch.testing.assert_close(net.reader(x_BTE), torch.cat(each, 1).transpose(1, 2))


@pytest.mark.parametrize("settings", READERS, ids=str)
def test_padding_changes_neither_scores_nor_weights_nor_evidence_nor_loss(settings: dict[str, Any]):
    net = network(**settings)
    labels = [2, 0, 1, 2]
    batch = batch_of(ROWS, labels)
    z_BK, weights_BT = net.scores_with_weights(batch)
    spoke_BT = net.evidence(batch, torch.tensor(labels))
    nats = 0.0
    for row, words in enumerate(ROWS):
        alone = batch_of([words], [labels[row]])
        z_1K, weights_1T = net.scores_with_weights(alone)
        torch.testing.assert_close(z_BK[row], z_1K[0])
        torch.testing.assert_close(weights_BT[row, : len(words)], weights_1T[0])
        torch.testing.assert_close(spoke_BT[row, : len(words)], net.evidence(alone, alone.labels_B)[0])
        assert not weights_BT[row, len(words) :].any()
        assert not spoke_BT[row, len(words) :].any()
        nats += float(net.nats(alone).detach())
    torch.testing.assert_close(weights_BT.sum(1), torch.ones(len(ROWS)))
    assert float(net.nats(batch).detach()) == pytest.approx(nats, rel=1e-5)


@pytest.mark.parametrize("settings", READERS, ids=str)
def test_evidence_is_the_gradient_of_the_score_times_the_word_vector(settings: dict[str, Any]):
    """By hand: a leaf in the place of the word vectors, one row and one label at a time."""
    net = network(**settings)
    for row in ROWS:
        batch = batch_of([row])
        for label in range(3):
            x_1TE = net.words(batch.words_BT).detach().requires_grad_()
            net.scores(batch, x_1TE)[0, label].backward()
            by_hand_T = torch.stack([x_1TE.grad[0, t] @ x_1TE[0, t] for t in range(len(row))])
            found_1T = net.evidence(batch, torch.tensor([label]))
            torch.testing.assert_close(found_1T[0], by_hand_T.detach())
    assert not net.training
    assert net.train().evidence(batch, torch.tensor([label])).shape == (1, len(row))
    assert net.training


class Passing(Recurrent):
    """A reader that hands on the word vectors themselves."""

    def forward(
        self, input: Tensor, hx: Any = None, *, lengths: Any = None, reset: Any = None
    ) -> tuple[Tensor, Tensor]:
        return input, torch.stack((input[:, 0], input[:, 0]))


def test_of_a_linear_classifier_the_evidence_is_exactly_weight_times_input():
    """score = b + mean of W x_t: each word has W x_t / n of it, and all together are the score without its bias."""
    net = network(pooling="mean")
    net.reader = Passing("elman", 5, 4, batch_first=True, bidirectional=True)
    net.head = torch.nn.Linear(5, 3)
    batch = batch_of(ROWS)
    for label in range(3):
        spoke_BT = net.evidence(batch, torch.full((len(ROWS),), label))
        expected_BT = net.words(batch.words_BT) @ net.head.weight[label] / batch.lengths_B[:, None]
        expected_BT[batch.words_BT == 0] = 0.0
        torch.testing.assert_close(spoke_BT, expected_BT.detach(), rtol=1e-6, atol=1e-8)
        z_B = net.scores(batch)[:, label] - net.head.bias[label]
        torch.testing.assert_close(spoke_BT.sum(1), z_B.detach())


def test_of_a_convolution_without_biases_the_evidence_adds_up_to_the_score():
    """relu and maximum are linear in pieces: f(x) = f'(x) x (Euler)."""
    net = network(encoder="cnn")
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if name.endswith("bias"):
                weight.zero_()
    batch = batch_of(ROWS)
    z_BK = net.scores(batch)
    for label in range(3):
        spoke_BT = net.evidence(batch, torch.full((len(ROWS),), label))
        torch.testing.assert_close(spoke_BT.sum(1), z_BK[:, label].detach())


def test_attention_weights_are_the_softmax_of_their_scores():
    net = network(pooling="attention")
    batch = batch_of([[2, 3, 4]])
    h_1TH, _ = net.reader(net.vectors(batch), lengths=batch.lengths_B)
    score_T = torch.tanh(h_1TH[0] @ net.attention.weight.T + net.attention.bias) @ net.attended.weight[0]
    a_T = score_T.exp() / score_T.exp().sum()
    z_1K, weights_1T = net.scores_with_weights(batch)
    torch.testing.assert_close(weights_1T[0], a_T)
    torch.testing.assert_close(z_1K[0], net.head(a_T @ h_1TH[0]))
