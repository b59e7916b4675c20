"""The operators `thereafter::scan` and `thereafter::scan_backward`, and torch's tools that need them: torch.compile
without a break, torch.export with free batch and length, and its ONNX exporter, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from parity import Situation, make_job, ready
from torch import Tensor
from torch.export import Dim
from torch.utils._pytree import tree_leaves

from breadth import core
from refusals import assert_refused
from thereafter import nn
from thereafter.base.packages import installed
from thereafter.cells import CELLS
from thereafter.errors import ShapeError
from thereafter.kernels.jobs import cell_of, spell
from thereafter.kernels.operators import _given

# torch's own, on its way through pytrees and random streams
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]

LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("RNN", {"nonlinearity": "relu6", "layer_norm": True}),
    "lstm": ("LSTM", {"peephole": True, "layer_norm": True, "zoneout": (0.1, 0.2), "initial": "learned"}),
    "projected lstm": ("LSTM", {"coupled": True, "proj_size": 3, "bias": "one"}),
    "two directions": ("LSTM", {"num_layers": 2, "bidirectional": True, "connect": "highway"}),
    "gru": ("GRU", {}),
    "other gru": ("GRU", {"reset": "before", "update": "new", "bias": False}),
    "mingru": ("MinGRU", {"bidirectional": True}),
    "minlstm": ("MinLSTM", {"num_layers": 2, "connect": "residual"}),
    "diagonal": ("Diagonal", {}),
}
NAMES = ("x", "lengths", "reset")


def made(name: str) -> Any:
    kind, options = LAYERS[name]
    torch.manual_seed(3)
    layer = getattr(nn, kind)(4, 6, batch_first=True, **options)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return layer.eval()


class Called(torch.nn.Module):
    """Layers with all that may be given to them."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x: Tensor, lengths: Tensor, reset: Tensor) -> list[Any]:
        return [layer(x, lengths=lengths, reset=reset) for layer in self.layers]


def batch(rows: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(rows)
    lengths = torch.randint(1, steps + 1, (rows,), generator=draw)
    reset = torch.rand(rows, steps, generator=draw) < 0.2
    return torch.randn(rows, steps, 4, generator=draw), lengths, reset


FREE = {"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "lengths": {0: Dim.DYNAMIC}, "reset": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}


@pytest.mark.parametrize(
    ("name", "options", "at"),
    [
        ("lstm", {"peephole": True}, Situation("lengths", lengths=(4, 6, 1))),
        pytest.param("gru", {"reset": "before"}, Situation("zoneout mask", hold="mask"), marks=pytest.mark.wide),
        ("mingru", {}, Situation("reset", reset=True)),
    ],
)
def test_the_operators_keep_torchs_rules(name: str, options: dict[str, Any], at: Situation) -> None:
    job = ready(make_job(CELLS.load(name)(4, 5, **options), at, torch.float64, "cpu"), at)
    given = _given(job, "auto")
    torch.library.opcheck(torch.ops.thereafter.scan.default, given)
    gradients = [torch.randn_like(part) for part in torch.ops.thereafter.scan.default(*given)][: 1 + len(job.state)]
    gradients = [gradient.detach() for gradient in gradients]
    plain = (given[0].detach(), *([part.detach() for part in listed] for listed in given[1:3]), *given[3:])
    wanted = [True] * (1 + len(given[1]) + len(given[2]))
    torch.library.opcheck(
        torch.ops.thereafter.scan_backward.default,
        (gradients, wanted, *plain),
        test_utils=("test_schema", "test_faketensor"),
    )


@pytest.mark.parametrize("name", list(CELLS))
def test_a_cell_survives_its_spelling(name: str) -> None:
    cell = CELLS.load(name)(8, 4)
    assert repr(cell_of(spell(cell))) == repr(cell)


@pytest.mark.parametrize("name", core(LAYERS, ["lstm"]))
def test_layers_compile_without_a_break(name: str) -> None:
    layer, given = Called(made(name)), batch(3, 6)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for one, other in zip(everything(layer, given), everything(compiled, given), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=0)


def everything(module: Any, given: tuple[Tensor, ...]) -> list[Tensor]:
    """Outputs, states, gradients."""
    results = tree_leaves(module(*given))
    total = sum((index + 1) * result.square().sum() for index, result in enumerate(results))
    return [*results, *torch.autograd.grad(total, list(module.parameters()))]


def test_exported_layers_run_at_other_sizes() -> None:
    layers = Called(*(made(name) for name in LAYERS)).eval()
    program = torch.export.export(layers, batch(3, 6), dynamic_shapes=FREE)
    for size in ((2, 9), (5, 4)):
        torch.testing.assert_close(program.module()(*batch(*size)), layers(*batch(*size)), rtol=0, atol=0)


def test_exported_layers_refuse_lengths_beyond_the_end() -> None:
    x, lengths, reset = batch(3, 6)
    program = torch.export.export(Called(made("gru")).eval(), (x, lengths, reset), dynamic_shapes=FREE)
    with assert_refused(ShapeError, 7, 0, 6):
        program.module()(x, torch.tensor([1, 7, 2]), reset)


@pytest.mark.skipif(not installed("onnxscript") or not installed("onnxruntime"), reason="no thereafter[export]")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "names",
    [["lstm", "other gru", "minlstm"], pytest.param(list(LAYERS), marks=pytest.mark.wide)],
    ids=["a few", "all"],
)
def test_onnxruntime_runs_what_torch_exports(names: list[str], tmp_path: Path) -> None:
    import onnxruntime

    layers = Called(*(made(name) for name in names)).eval()
    path = tmp_path / "layers.onnx"
    torch.onnx.export(
        layers, batch(3, 6), str(path), dynamo=True, verbose=False, dynamic_shapes=FREE, optimize=False
    )  # fmt: skip
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for size in ((2, 9), (5, 4)):
        given = batch(*size)
        results = session.run(None, dict(zip(NAMES, (part.numpy() for part in given), strict=True)))
        for result, expected in zip(results, tree_leaves(layers(*given)), strict=True):
            torch.testing.assert_close(torch.from_numpy(result), expected.detach(), rtol=0, atol=1e-5)


@pytest.mark.skipif(not installed("onnxscript") or not installed("onnxruntime"), reason="no thereafter[export]")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "named", [pytest.param(False, marks=pytest.mark.wide, id="by itself"), pytest.param(True, id="by its table")]
)
def test_a_program_that_was_exported_before_is_written_too(named: bool, tmp_path: Path) -> None:
    """Also inside a model of torch's own; `onnx_translations` is what such exports find by themselves."""
    import onnxruntime

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), made("gru")).eval()
    x, path = torch.randn(2, 5, 4), tmp_path / "model.onnx"
    program = torch.export.export(model, (x,))
    table = nn.onnx_translations() if named else None
    torch.onnx.export(program, (), str(path), verbose=False, optimize=False, custom_translation_table=table)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    output = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(output), model(x)[0], rtol=0, atol=1e-5)


def test_completion_shows_our_names_alone() -> None:
    assert dir(nn) == sorted(nn.__all__)
    assert all(getattr(nn, name).__module__.startswith("thereafter.") for name in dir(nn))


def test_torch_func_goes_through_the_plain_loop() -> None:
    layer = nn.LSTM(4, 5, batch_first=True)
    x = torch.randn(3, 2, 6, 4)
    torch.testing.assert_close(
        torch.func.vmap(lambda rows: layer(rows)[0])(x), layer(x.flatten(0, 1))[0].view(3, 2, 6, 5)
    )
    _, forward = torch.func.jvp(lambda rows: layer(rows)[0].sum(), (x[0],), (x[1],))
    (backward,) = torch.autograd.grad(layer(rows := x[0].clone().requires_grad_())[0].sum(), rows)
    torch.testing.assert_close(forward, (backward * x[1]).sum())
