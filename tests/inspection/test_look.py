"""The one look into a network: what it shows is what the model computes, for every kind."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from breadth import core
from refusals import assert_refused
from thereafter import inspection
from thereafter.errors import OptionError
from thereafter.models.build import build, settings_of
from thereafter.models.look import watch
from thereafter.models.neural import NeuralModel

V, END = 15, 3
MODELS: dict[str, dict[str, Any]] = {
    "average": {"embed": 8, "window": 5},
    "window": {"embed": 6, "hidden": 10, "window": 3},
    "rnn": {"hidden": 8},
    "gru": {"hidden": 8, "reset": "before", "update": "new"},
    "lstm": {"hidden": 8, "layers": 3, "peephole": True, "connect": "highway"},
    "mingru": {"hidden": 8, "connect": "residual"},
    "minlstm": {"hidden": 8, "sizes": (6, 8)},
    "transformer": {"hidden": 8, "layers": 2, "heads": 2, "context": 20},
}
RECURRENT = [kind for kind in MODELS if kind not in ("average", "window", "transformer")]


def made(kind: str) -> NeuralModel:
    torch.manual_seed(0)
    model = build(kind, settings_of(kind)(**MODELS[kind]), vocabulary_size=V, context="stream", line_end=END)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


def tokens(rows: int = 2, steps: int = 30) -> torch.Tensor:
    return torch.randint(V, (rows, steps), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("kind", "nodes"), core(product(MODELS, (False, True)), [*((kind, True) for kind in MODELS), ("gru", False)])
)
def test_looking_changes_nothing(kind: str, nodes: bool) -> None:
    model, ids = made(kind), tokens()
    with model.quietly():
        before = model.begin(2)
        features, _, after = model.encode(ids, before)
    with model.evaluating():
        look = model.look(ids, before.detach(), nodes=nodes, attention=True)
    torch.testing.assert_close(look.features_BTH, features)
    assert look.state.memory.keys() == after.memory.keys()
    for name, part in after.memory.items():
        torch.testing.assert_close(look.state.memory[name], part)
    torch.testing.assert_close(look.layers["words"].arrays["x"], model.embedding(ids))


@pytest.mark.parametrize("kind", RECURRENT)
def test_states_are_those_after_each_step(kind: str) -> None:
    model, ids = made(kind), tokens(steps=9)
    look = model.look(ids, model.fresh(2), nodes=True)
    for step in range(9):
        _, _, state = model.encode(ids[:, : step + 1], model.fresh(2))
        for name, part in look.state_after(step).memory.items():
            torch.testing.assert_close(part, state.memory[name])
        for name, part in model.carried(state).items():
            torch.testing.assert_close(look.arrays[name][:, step], part)
    assert list(look.layers) == ["words", *model.cells]


def test_a_residual_stream_is_the_same_beyond_the_context() -> None:
    """45 tokens do not fit into a context of 20: the last block's stream is still what the last norm and head read."""
    model, ids = made("transformer"), tokens(steps=45)
    with model.quietly():
        look = model.look(ids, model.begin(2))
        assert list(look.layers) == ["words", "block 0", "block 1"]
        torch.testing.assert_close(model.norm(look.layers["block 1"].arrays["x"]), look.features_BTH)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_reset_row_begins_anew(kind: str) -> None:
    model, ids = made(kind), tokens(steps=6)
    reset = torch.zeros(2, 6, dtype=torch.bool)
    reset[1, 4] = True
    with model.quietly():
        whole = model.look(ids, model.fresh(2), reset_BT=reset)
        anew = model.look(ids[1:, 4:], model.fresh(1))
    torch.testing.assert_close(whole.features_BTH[1:, 4:], anew.features_BTH)


def test_models_that_carry_nothing_say_so() -> None:
    model, ids = made("window"), tokens()
    assert (model.fields, dict(model.cells), model.recurrent_weights) == ((), {}, {})
    assert model.carried(model.fresh(1)) == {}
    with assert_refused(OptionError, "state"):
        model.look(ids, model.fresh(2), reset_BT=torch.zeros(2, 30, dtype=torch.bool))
    assert (model.most_at_once, made("transformer").most_at_once) == (None, 20)


def test_recurrent_modules_of_any_network_can_be_watched() -> None:
    model, ids = made("lstm"), tokens(steps=5)
    with watch(model, ["layers"]) as seen:
        seen_output, _, _ = model.encode(ids, model.fresh(2))
    output, _, _ = model.encode(ids, model.fresh(2))
    torch.testing.assert_close(seen_output, output)
    assert [layer.name for layer in seen["layers"]] == ["l0", "l1", "l2"]
    assert {"forget", "h", "c"} <= seen["layers"][0].arrays.keys()
    assert not model.layers._forward_hooks


OWN_RNN = ("growth.py", "stability.py")  # these measure a plain RNN of their own, no trained model


def test_instruments_know_no_kind_of_model_and_no_cell() -> None:
    names = ("cells", "models.recurrent", "models.transformer", "models.window", "models.average", "layers.recurrent")
    for file in Path(inspection.__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        imports = [name for name in names if f"from thereafter.{name}" in text and file.name not in OWN_RNN]
        assert not imports, f"{file.name} imports {imports}; look.py and the contract of the model say what it needs"
