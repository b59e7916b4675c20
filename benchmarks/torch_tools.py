"""Which of torch's tools work on the layers of `thereafter.nn`: each is tried on every cell and its main options.

    python benchmarks/torch_tools.py [--only LAYER ...] [--tools TOOL ...] [--write docs/torch-tools.md] [--inductor]

Prints a table, and with --write puts it between the marks of that page; cells that were not tried this time stay as
they are there. A figure is the largest difference from the plain call: of outputs, states and gradients (compile), of
outputs and states at two other sizes (export, jit.trace, ONNX run by onnxruntime), of gradients (DDP, FSDP: two
processes over gloo against one), of the finite difference relative to the largest entry (jvp, double backward). Lengths
and resets are given wherever a tool can take them.

--inductor   Compile the first layer with torch's own code generator too, which needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.ao.quantization import quantize_dynamic
from torch.utils._pytree import tree_leaves

from thereafter import nn
from thereafter.errors import ThereafterError

SIZE, HIDDEN = 8, 12
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN": ("RNN", {}),
    "RNN, relu, layer norm": ("RNN", {"nonlinearity": "relu", "layer_norm": True}),
    "LSTM": ("LSTM", {}),
    "LSTM, peephole, layer norm": ("LSTM", {"peephole": True, "layer_norm": True}),
    "LSTM, coupled, projected": ("LSTM", {"coupled": True, "proj_size": 5}),
    "LSTM, 2 layers, both directions": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "LSTM, zoneout, highway, learned state": (
        "LSTM",
        {"num_layers": 2, "zoneout": (0.1, 0.2), "connect": "highway", "initial": "learned"},
    ),
    "GRU": ("GRU", {}),
    "GRU, reset before, update new": ("GRU", {"reset": "before", "update": "new"}),
    "MinGRU": ("MinGRU", {}),
    "MinLSTM": ("MinLSTM", {}),
    "Diagonal": ("Diagonal", {}),
}
BEGIN, END = "<!-- table of benchmarks/torch_tools.py -->", "<!-- end of the table -->"


class Called(torch.nn.Module):
    """A layer with lengths and resets."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, lengths: Tensor, reset: Tensor) -> Any:
        return self.layer(x, lengths=lengths, reset=reset)


def made(name: str, **more: Any) -> Any:
    kind, options = LAYERS[name]
    torch.manual_seed(24)
    return getattr(nn, kind)(SIZE, HIDDEN, batch_first=True, **options, **more).eval()


def batch(rows: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(rows)
    lengths = torch.randint(1, steps + 1, (rows,), generator=draw)
    return (
        torch.randn(rows, steps, SIZE, generator=draw),
        lengths,
        torch.rand(rows, steps, generator=draw) < 0.1,
    )


def off(one: Any, other: Any) -> float:
    """The largest difference of two nests of arrays."""
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
    return max(float((torch.as_tensor(a) - torch.as_tensor(b)).abs().max()) for a, b in pairs)


def everything(module: Any, given: tuple[Tensor, ...]) -> list[Tensor]:
    results = tree_leaves(module(*given))
    return [*results, *torch.autograd.grad(sum(r.square().sum() for r in results), list(module.parameters()))]


def try_compile(name: str, backend: str = "aot_eager") -> str:
    layer, given = Called(made(name)), batch(3, 6)
    torch._dynamo.reset()
    began = time.process_time()  # not what other processes took meanwhile
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        results = everything(torch.compile(layer, backend=backend, fullgraph=True), given)
    seconds = time.process_time() - began
    return f"{off(results, everything(layer, given)):.1g} ({seconds:.1f} s, {len(noted)} warnings)"


def free() -> dict[str, Any]:
    axis = torch.export.Dim.DYNAMIC
    return {"x": {0: axis, 1: axis}, "lengths": {0: axis}, "reset": {0: axis, 1: axis}}


def try_export(name: str) -> str:
    layer = Called(made(name)).eval()
    program = torch.export.export(layer, batch(3, 6), dynamic_shapes=free()).module()
    return f"{max(off(program(*batch(*size)), layer(*batch(*size))) for size in ((2, 9), (5, 4))):.1g}"


def try_onnx(name: str) -> str:
    import onnxruntime

    layer = Called(made(name)).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/layer.onnx"
        table = nn.onnx_translations()
        torch.onnx.export(
            layer, batch(3, 6), path, dynamo=True, verbose=False, dynamic_shapes=free(), custom_translation_table=table
        )
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for size in ((2, 9), (5, 4)):
        given = batch(*size)
        results = session.run(
            None, {one.name: part.numpy() for one, part in zip(session.get_inputs(), given, strict=True)}
        )
        worst = max(worst, off([torch.from_numpy(r) for r in results], layer(*given)))
    return f"{worst:.1g}"


def try_amp(name: str) -> str:
    layer, given = Called(made(name)), batch(3, 6)
    with torch.autocast("cpu", torch.bfloat16):
        results = [part.float() for part in everything(layer, given)[:1]]
    return f"{off(results, tree_leaves(layer(*given))[:1]):.1g}"


def try_vmap(name: str) -> str:
    layer = made(name)
    x = batch(6, 5)[0].view(3, 2, 5, SIZE)
    return f"{off(torch.func.vmap(lambda rows: layer(rows)[0])(x), torch.stack([layer(rows)[0] for rows in x])):.1g}"


def try_jvp(name: str) -> str:
    layer = made(name).double()
    x, way = batch(3, 5)[0].double(), batch(3, 5)[0].double().flip(0)
    _, slope = torch.func.jvp(lambda rows: layer(rows)[0], (x,), (way,))
    return relative(slope, lambda step: layer(x + step * way)[0])


def try_double(name: str) -> str:
    try:
        return second_derivative(made(name).double())
    except ThereafterError:
        return f'`kernel="reference"`: {second_derivative(made(name, kernel="reference").double())}'


def second_derivative(layer: Any) -> str:
    x, way = batch(3, 5)[0].double(), batch(3, 5)[0].double().flip(0)

    def slope(rows: Tensor, create_graph: bool = False) -> Tensor:
        total = layer(rows)[0].square().sum()
        return torch.autograd.grad(total, rows, create_graph=create_graph)[0]

    leaf = x.clone().requires_grad_()
    (curve,) = torch.autograd.grad((slope(leaf, True) * way).sum(), leaf)
    return relative(curve, lambda step: slope((x + step * way).requires_grad_()))


def relative(slope: Tensor, at: Callable[[float], Tensor]) -> str:
    measured = (at(1e-5) - at(-1e-5)) / 2e-5
    return f"{float((slope - measured).abs().max() / measured.abs().max()):.1g}"


def try_trace(name: str) -> str:
    layer = made(name)
    traced = torch.jit.trace(layer, batch(3, 6)[0], check_trace=False)
    return f"{max(off(traced(batch(*size)[0]), layer(batch(*size)[0])) for size in ((2, 9), (5, 4))):.1g}"


def try_script(name: str) -> str:
    try:
        torch.jit.script(made(name))
    except ThereafterError:
        return "refused in a sentence"
    return "compiled"


def try_quantize(name: str) -> str:
    """Ours are passed by; the same layer of torch's own, where there is one, is converted."""
    layer, x = made(name), batch(3, 6)[0]
    inside = torch.nn.Sequential  # what is converted is what a module holds, never the module itself
    passed = off(quantize_dynamic(inside(layer))(x), layer(x)) == 0
    cell = "does nothing" if passed else "converts"
    try:
        theirs = nn.to_torch(layer).eval()
    except ThereafterError:
        return cell
    return f"{cell}; `to_torch`: {off(quantize_dynamic(inside(theirs))(x)[0], layer(x)[0]):.1g}"


TOOLS: dict[str, Callable[[str], str]] = {
    "compile, fullgraph": try_compile,
    "export, free batch and length": try_export,
    "ONNX": try_onnx,
    "AMP, bfloat16": try_amp,
    "vmap": try_vmap,
    "jvp": try_jvp,
    "double backward": try_double,
    "jit.trace": try_trace,
    "jit.script": try_script,
    "quantize_dynamic": try_quantize,
}


def together(names: list[str]) -> dict[str, dict[str, str]]:
    """What two processes measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).with_name("torch_tools_worker.py")), folder]
        started = [subprocess.Popen([*command, str(rank), *names]) for rank in range(2)]
        codes = [process.wait() for process in started]
        if any(codes):
            return {name: {"DDP": "no", "FSDP": "no"} for name in names}
        rows: dict[str, dict[str, str]] = json.loads(Path(folder, "rows.json").read_text())
        return rows


def failed(error: Exception) -> str:
    print(f"{type(error).__name__}: {str(error)[:400]}", file=sys.stderr)
    return f"no ({type(error).__name__})"


def measured(name: str, tool: Callable[[str], str]) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tool(name)
    except Exception as error:  # whatever a tool raises is what the table says
        return failed(error)


def kept_cells(page: Path | None) -> dict[str, dict[str, str]]:
    """The cells of the table of a page, by layer and tool."""
    if page is None:
        return {}
    text = page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", choices=list(LAYERS), metavar="LAYER")
    options.add_argument("--tools", action="append", choices=[*TOOLS, "DDP", "FSDP"], metavar="TOOL")
    options.add_argument("--write", type=Path, metavar="PAGE")
    options.add_argument("--inductor", action="store_true")
    given = options.parse_args()
    names = given.only or list(LAYERS)
    torch.set_num_threads(1)
    columns = [*TOOLS, "DDP", "FSDP", "MPS", "Windows"]
    wanted, known = given.tools or columns, kept_cells(given.write)
    lines = ["| layer | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    pairs = together(names) if {"DDP", "FSDP"} & set(wanted) else {}
    for name in LAYERS if given.write is not None else names:
        row = known.get(name, {})
        if name in names:
            row |= {tool: measured(name, trial) for tool, trial in TOOLS.items() if tool in wanted}
            row |= pairs.get(name, {})
        lines.append(f"| {name} | " + " | ".join(row.get(column, "untested") for column in columns) + " |")
        print(lines[-1], flush=True)
    if given.inductor:
        print("inductor,", names[0], measured(names[0], lambda name: try_compile(name, "inductor")))
    if given.write is not None:
        before, _, rest = given.write.read_text(encoding="utf-8").partition(BEGIN)
        table = "\n".join([BEGIN, "", *lines, "", END])
        given.write.write_text(before + table + rest.partition(END)[2], encoding="utf-8")
    return int(any("no (" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
