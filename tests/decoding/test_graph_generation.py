"""Generation over tensors, as a GPU does it, on a CPU: the same tokens as `Sampler` draws, and the same warping."""

from __future__ import annotations

import ast
import gc
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from drawing_cases import SEEN, WARPINGS, OneNumber, log_probs
from small_models import made

from thereafter.decoding import graph_generation
from thereafter.decoding.graph_generation import (
    NOTHING,
    DeviceDrawing,
    GraphSampler,
    among_largest,
    graph_sampler,
    nucleus,
    place_of,
)
from thereafter.decoding.sampling import Draw, Sampler, Warping, draw, generators, keep_nucleus, largest
from thereafter.errors import DeviceMemoryError
from thereafter.kernels import one_token
from thereafter.models.graph_step import GraphStep
from thereafter.models.neural import NeuralModel

OTHERS = ["awd-lstm", "gru", "rnn", "minlstm", "average"]
EVERY_WARPING = pytest.mark.parametrize("warping", WARPINGS, ids=repr)


@EVERY_WARPING
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("forbidden", [(), (0, 5, 17)])
def test_weights_and_tokens_are_those_of_the_host(warping: Warping, ties: bool, forbidden: tuple[int, ...]):
    logp_BV, seen = log_probs(6, ties=ties), np.array(SEEN)
    logp = torch.from_numpy(logp_BV)
    own = DeviceDrawing(warping, forbidden, logp)
    if own.seen_BV is not None:
        own.seen_BV[:, seen] = True
    expected = [warping.weights(row, seen=seen, forbidden=forbidden) for row in logp_BV]
    if warping.temperature > 0:
        np.testing.assert_allclose(own.weights(logp).numpy(), np.stack(expected), rtol=1e-12, atol=1e-300)
    for seed in range(20):
        u_B = np.random.default_rng(seed).random(6)
        tokens = own.draw(logp, torch.from_numpy(u_B)).tolist()
        if own.seen_BV is not None:
            own.seen_BV.zero_()
            own.seen_BV[:, seen] = True
        for token, weights_V, u in zip(tokens, expected, u_B, strict=True):
            assert token == (int(np.argmax(weights_V)) if warping.temperature == 0 else draw(weights_V, OneNumber(u)))


def test_where_nothing_is_possible_nothing_is_drawn():
    logp = torch.from_numpy(log_probs(2, 3))
    logp[0] = -torch.inf
    tokens = DeviceDrawing(Warping(), (0, 1), logp).draw(logp, torch.full((2,), 0.5, dtype=torch.float64))
    assert tokens.tolist() == [NOTHING, 2]


def test_the_end_of_the_line_is_the_last_word_of_any_weight():
    weights = torch.tensor([[0.0, 1.0, 0.5, 0.0]], dtype=torch.float64)
    assert place_of(weights, torch.tensor([1.0], dtype=torch.float64)).tolist() == [2]
    assert place_of(weights, torch.tensor([0.0], dtype=torch.float64)).tolist() == [1]


def test_ties_go_to_the_lower_id():
    rows = np.random.default_rng(0).integers(0, 4, (5, 50)).astype(np.float64)
    for k in (1, 3, 20, 50):
        for row, chosen in zip(rows, among_largest(torch.from_numpy(rows), k), strict=True):
            assert chosen.nonzero().flatten().tolist() == sorted(largest(row, k).tolist())
    weights = rows / rows.max(1, keepdims=True)
    for top_p in (0.1, 0.5, 0.99):
        np.testing.assert_array_equal(nucleus(torch.from_numpy(weights), top_p).numpy(), keep_nucleus(weights, top_p))


def drawn(sampler: Sampler[Any] | GraphSampler, steps: int, stopping: dict[int, int]) -> list[list[Draw]]:
    """What is drawn in some steps; row r is stopped after its token number stopping[r]."""
    every: list[list[Draw]] = []
    for step in range(steps):
        draws = sampler.draw()
        every.append(draws)
        for one in draws:
            if stopping.get(one.row) == step:
                sampler.stop(one.row)
    return every


@pytest.mark.parametrize(
    "name", ["lstm", "mingru", "window", *(pytest.param(name, marks=pytest.mark.wide) for name in OTHERS)]
)
@pytest.mark.parametrize("rows", [1, 5])
def test_the_same_seed_gives_the_tokens_of_the_host(name: str, rows: int):
    lm = made(name)
    begin = lm.begin("the cat")
    for warping in (Warping(), Warping(temperature=0.0), Warping(top_k=9, top_p=0.9, repetition_penalty=1.3)):
        stopping = {1: 3, 2: 40, 3: 0}
        samplers = sampler_of(lm.model, begin, rows, warping, most=70)
        theirs, ours = (drawn(sampler, 70, stopping) for sampler in samplers)
        for step, (expected, got) in enumerate(zip(theirs, ours, strict=True)):
            assert [(one.row, one.token) for one in got] == [(one.row, one.token) for one in expected], step
            np.testing.assert_allclose([one.log_prob for one in got], [one.log_prob for one in expected], atol=1e-4)
        assert samplers[1].draw() == []


def sampler_of(model: Any, begin: Any, rows: int, warping: Warping, most: int) -> tuple[Sampler[Any], GraphSampler]:
    about: dict[str, Any] = {"prompt": begin.ids, "forbidden": begin.forbidden}
    host = Sampler(model, begin.state, generators(3, rows), warping, **about)
    return host, GraphSampler(model, begin.state, generators(3, rows), warping, most=most, recorded=False, **about)


def test_loops_are_kept_and_made_again_for_other_weights(monkeypatch: pytest.MonkeyPatch):
    lm = made("lstm")
    model, begin = lm.model, lm.begin("the")
    assert isinstance(model, NeuralModel)
    model.eval()
    made_for: list[object] = []
    construct = graph_generation.SharedStep.__init__

    def counted(self: Any, *args: Any, **options: Any) -> None:
        made_for.append(args[1])
        construct(self, *args, **options)

    monkeypatch.setattr(graph_generation.SharedStep, "__init__", counted)

    def tokens(steps: int) -> Sequence[int]:
        sampler = sampler_of(model, begin, 1, Warping(temperature=0.0), most=steps)[1]
        return [one.token for _ in range(steps) for one in sampler.draw()]

    first = tokens(5)
    assert tokens(5) == first
    assert len(made_for) == 1
    sampler_of(model, begin, 1, Warping(), most=5)[1].stop(0)  # drawn otherwise, from the same copy
    assert len(made_for) == 1
    weight = dict(model.named_parameters())["head.bias"]
    with torch.no_grad():
        before = weight.clone()
        weight[1] += 100.0
    try:
        assert tokens(5) == [1] * 5
        assert len(made_for) == 2
        model.forget()
        tokens(5)
        assert len(made_for) == 3
        assert len(model.kept.things) == 1  # those of weights that are no more are gone
    finally:
        with torch.no_grad():
            weight.copy_(before)
        model.forget()


def test_a_model_is_forgotten_with_its_loops_and_copied_without_them():
    model, begin = deepcopy(made("lstm").model).eval(), made("lstm").begin("the")
    sampler = sampler_of(model, begin, 1, Warping(), most=3)[1]
    while sampler.draw():
        pass
    assert len(model.kept.things) == 1
    assert deepcopy(model).kept.things == []
    gone = ref(model)
    del model, sampler
    gc.collect()
    assert gone() is None


def on_tensors(model: Any, state: Any, rngs: Any, warping: Warping, **about: Any) -> GraphSampler:
    """What `graph_sampler` gives on a GPU, operator by operator."""
    return GraphSampler(model, state, rngs, warping, recorded=False, **about)


def test_whoever_leaves_a_stream_early_gives_its_loop_back(monkeypatch: pytest.MonkeyPatch):
    lm = made("lstm")
    model = lm.model
    assert isinstance(model, NeuralModel)
    monkeypatch.setattr(graph_generation, "graph_sampler", on_tensors)
    model.kept.clear()
    copies = []
    for _ in range(3):
        for _piece in lm.stream("the cat", 50, seed=1):
            break
        assert len(model.kept.things) == 1
        copies.append(model.kept.things[0])
    assert copies[0] is copies[1] is copies[2]
    model.kept.clear()


def test_a_loop_that_launches_otherwise_is_another_one(monkeypatch: pytest.MonkeyPatch):
    lm = made("lstm")
    begin = lm.begin("the")
    monkeypatch.setattr(one_token, "launch", lambda *given, **about: None)
    shared = graph_generation.SharedStep(lm.model, 1)
    manners = [
        graph_generation.Manner(Warping(top_k=k), (), recorded, programs)
        for k in (3, 4) for recorded in (False, True) for programs in (False, True)
    ]  # fmt: skip
    loops = [shared.loop(manner) for manner in manners]
    assert len({id(loop) for loop in loops}) == len(manners)
    assert len({id(loop.step) for loop in loops}) == 1  # all read the same copy of the weights
    assert shared.loop(manners[-1]) is loops[-1]
    assert len(shared._loops) == graph_generation.MOST_LOOPS
    loops[0].begin(begin.state, None)
    loops[0].launch(np.full((2, 1), 0.5))
    assert (loops[0].fetch(2)[:, 0] >= 0).all()


def test_idle_copies_make_room_where_memory_is_short(monkeypatch: pytest.MonkeyPatch):
    model, begin = deepcopy(made("lstm").model).eval(), made("lstm").begin("the")
    sampler_of(model, begin, 1, Warping(), most=3)[1].stop(0)
    assert len(model.kept.things) == 1
    construct = graph_generation.GraphStep.__init__

    def full(self: Any, *args: Any, **options: Any) -> None:
        if model.kept.things:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        construct(self, *args, **options)

    monkeypatch.setattr(graph_generation.GraphStep, "__init__", full)
    sampler_of(model, begin, 2, Warping(), most=3)
    assert model.kept.things == []
    model.kept.put("a copy", 1)
    with pytest.raises(DeviceMemoryError), model.quietly():
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    assert model.kept.things == []


def test_on_a_cpu_the_host_draws():
    for name in ("ngram", "lstm", "transformer"):
        lm = made(name)
        begin = lm.begin("the")
        assert graph_sampler(lm.model, begin.state, generators(0, 2), Warping(), most=5) is None


@EVERY_WARPING
def test_the_program_gets_what_it_asks_for(warping: Warping, monkeypatch: pytest.MonkeyPatch):
    lm = made("lstm")
    begin, launched = lm.begin("the"), []
    monkeypatch.setattr(one_token, "launch", lambda *given, **about: launched.append((*given, about)))
    words = lm.model.vocabulary_size
    about: dict[str, Any] = {"most": 3, "prompt": begin.ids, "forbidden": begin.forbidden}
    GraphSampler(lm.model, begin.state, generators(0, 2), warping, recorded=False, programs=True, **about)
    assert len(launched) == 3
    module, function, arguments, constants, how = launched[0]
    top_k = warping.top_k is not None and warping.top_k < words
    penalty = warping.repetition_penalty != 1
    assert how["blocks"] == 2
    flags = (warping.temperature == 0, top_k, warping.top_p < 1, warping.min_p > 0, penalty, True)
    assert tuple(constants.values())[:-1] == flags
    types = [torch.float32, torch.float64, torch.int32, torch.float64, torch.int32, torch.uint8, torch.uint8]
    arrays = list(arguments.values())[:7]
    assert all(array is None or array.dtype is kind for array, kind in zip(arrays, types, strict=True))
    assert (arguments["seen"] is not None) == penalty
    floats = {name for name, value in arguments.items() if isinstance(value, float)}
    assert floats <= set(how["kinds"]) == {"temperature", "top_p", "min_p", "penalty"}
    assert [*arguments, *constants] == parameters(module, function)


def parameters(module: str, function: str) -> list[str]:
    """The parameters of a program, which only Triton could import."""
    path = Path(one_token.__file__).parent / "gpu" / "code" / f"{module}.py"
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    one = next(node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == function)
    return [argument.arg for argument in one.args.args]


@pytest.mark.parametrize("rows", [1, 3])
def test_the_programs_of_a_step_get_what_they_ask_for(rows: int, monkeypatch: pytest.MonkeyPatch):
    launched: list[str] = []

    def launch(module: str, function: str, arguments: dict[str, Any], constants: dict[str, Any], **about: Any) -> None:
        assert [*arguments, *constants] == parameters(module, function)
        aligned = dict(about["aligned"]) if "aligned" in about else {}
        assert all(arguments[name] % divisor == 0 for name, divisor in aligned.items())
        assert all(one.data_ptr() % 16 == 0 for one in arguments.values() if isinstance(one, torch.Tensor))
        launched.append(function)

    monkeypatch.setattr(one_token, "launch", launch)
    model = made("awd-lstm").model
    assert isinstance(model, NeuralModel)
    step = GraphStep(model, rows, "bfloat16", programs=True, recorded=False)
    launched.clear()
    step.step(np.ones(rows, dtype=np.int64))
    expected = ["begin_rows", "lstm_row", "lstm_row", "head_row", "normalise_row"]
    assert launched == (expected if rows == 1 else ["begin_rows", "lstm_rows", "lstm_rows"])
