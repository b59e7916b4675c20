"""Window: what is shown of the network is what the network computes with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.models.build import build
from thereafter.models.settings import WindowSettings
from thereafter.studio.panels.stepping import look
from thereafter.text.tokenizers.base import Vocabulary
from thereafter.text.tokenizers.word import WordTokenizer
from thereafter.training.kinds import Trained

TEXT = "the cat sat on the mat\nthe cat ate the fish\nthe dog sat on the mat\nthe dog ate the bone\n" * 4
LONG = "the dog sat on the mat the cat"


def window_model(**options: Any) -> thereafter.LanguageModel:
    options = {"window": 4, "embed": 6, "hidden": 8, "epochs": 2.0, "seed": 1, "min_count": 1} | options
    return thereafter.train(text=TEXT, model="window", tokens="word", **options)


@pytest.fixture(scope="module")
def lm() -> thereafter.LanguageModel:
    return window_model()


def weights(lm: thereafter.LanguageModel) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in lm.model.state_dict().items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("direct", [False, True])
def test_the_numbers_shown_lead_from_the_words_to_the_prediction(direct: bool):
    lm = window_model(direct=direct)
    found, learned = look(lm, LONG).model_dump(), weights(lm)
    vectors = np.array([slot["vector"] for slot in found["slots"]])
    ids = lm.encode(LONG)[-4:]
    np.testing.assert_array_equal(vectors.astype(np.float32), lm.model.input_embedding()[ids])  # type: ignore[attr-defined]
    joined = vectors.reshape(-1)
    hidden = np.tanh(learned["hidden.weight"] @ joined + learned["hidden.bias"])
    np.testing.assert_allclose(found["hidden"], hidden, atol=1e-6)
    np.testing.assert_allclose(found["hidden"], lm.trace(LONG)["hidden"][-1], atol=1e-6)
    features = np.concatenate([found["hidden"], joined]) if direct else np.array(found["hidden"])
    logits = learned["head.weight"] @ features + learned["head.bias"]
    p = np.exp(logits) / np.exp(logits).sum()
    shown = [(one["text"], one["p"]) for one in found["candidates"]]
    assert shown == lm.next(LONG, 10)
    for word, probability in shown:
        assert probability == pytest.approx(p[lm.tokenizer.encode(word)[0]], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "window", "seen"),
    [
        ("", ["<s>", "<s>", "<s>", "<s>"], 0),
        ("the cat", ["<s>", "<s>", "the", "cat"], 2),
        (LONG, ["the", "mat", "the", "cat"], 4),
        ("the cat\nthe", ["the", "cat", "\n", "the"], 4),
    ],
)
def test_the_window_is_what_the_model_still_sees(lm: thereafter.LanguageModel, text: str, window: list[str], seen: int):
    found = look(lm, text).model_dump()
    assert [slot["text"] for slot in found["slots"]] == window
    assert found["seen"] == seen
    assert len(found["tokens"]) == len(lm.encode(text))


def test_words_that_fell_out_of_the_window_change_nothing(lm: thereafter.LanguageModel):
    one, other = (look(lm, f"the {word} sat on the mat").model_dump() for word in ("cat", "dog"))
    assert one["tokens"] != other["tokens"]
    assert (one["hidden"], one["candidates"]) == (other["hidden"], other["candidates"])


def test_where_every_line_starts_afresh_the_window_does_too():
    found = look(window_model(context="line"), "the cat\nthe dog").model_dump()
    assert ([slot["text"] for slot in found["slots"]][-3:], found["seen"]) == (["<s>", "the", "dog"], 2)


def test_a_word_never_met_says_so_and_a_long_text_is_cut(lm: thereafter.LanguageModel):
    found = look(lm, "zebra " * 99 + "the 🙂").model_dump()
    assert [slot["known"] for slot in found["slots"]] == [False, False, True, False]
    assert found["earlier"] + len(found["tokens"]) == 101
    assert len(found["tokens"]) == 60


@pytest.mark.parametrize("options", [{}, {"direct": True}, {"head": "adaptive", "cutoffs": (4, 8)}])
def test_parameters_by_component_add_up_and_shapes_fit(options: dict[str, Any]):
    lm = window_model(**options)
    found = look(lm, LONG).model_dump()
    assert found["parameters"] == lm.model.parameters_count() == sum(part["parameters"] for part in found["parts"])  # type: ignore[attr-defined]
    for part in found["parts"]:
        assert sum(int(np.prod(weight["shape"])) for weight in part["weights"]) == part["parameters"]
    parts = {part["name"]: part for part in found["parts"]}
    assert parts["embedding"]["output"] == parts["joined"]["input"] == [1, 4, 6]
    assert parts["joined"]["output"] == parts["hidden"]["input"] == [1, 24]
    assert parts["output"]["input"] == [1, 8 + (24 if options.get("direct") else 0)]
    assert parts["output"]["output"] == [1, len(lm.tokenizer.vocabulary)]


def test_the_worked_example_has_the_shapes_and_the_size_of_the_books_table():
    tokenizer = WordTokenizer(Vocabulary(["<unk>", "</s>", *(f"w{i}" for i in range(9_998))]))
    model = build("window", WindowSettings(embed=128, window=4, hidden=256), vocabulary_size=10_000)
    text = {"tokens": "word", "context": "stream", "lower": False, "letters_only": False}
    found = look(
        thereafter.LanguageModel(Trained(model, tokenizer, {"model": "window", "text": text})), "w1 w2"
    ).model_dump()
    shapes = {weight["name"]: weight["shape"] for part in found["parts"] for weight in part["weights"]}
    assert shapes == {"E": [10_001, 128], "A": [512, 256], "d": [256], "U": [256, 10_000], "b": [10_000]}
    # the books count neither biases nor a vector for <s>
    assert found["parameters"] - 128 - 256 - 10_000 == 3_971_072


def test_another_kind_of_model_is_refused_with_a_way_out():
    lm = thereafter.train(text=TEXT, tokens="word", order=2)
    with assert_refused(OptionError, "ngram", "ready:window"):
        look(lm, "the").model_dump()
