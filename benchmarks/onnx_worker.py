"""Run by the oracle's own interpreter: one LSTM step at a time in ONNX Runtime, state bound to buffers that stay.

    onnx_worker.py SIZE      for every line on the standard input, the microseconds of a step on the standard output

The fastest of its settings (1 and 2 threads, plain run and bound buffers) is what it reports.
"""

import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


def model(size: int) -> bytes:
    rng = np.random.default_rng(0)
    shapes = {"W": (1, 4 * size, size), "R": (1, 4 * size, size), "B": (1, 8 * size)}
    weights = [numpy_helper.from_array(0.05 * rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]

    def value(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    node = helper.make_node("LSTM", ["X", "W", "R", "B", "", "h", "c"], ["", "h_out", "c_out"], hidden_size=size)
    state = [1, 1, size]
    graph = helper.make_graph(
        [node],
        "step",
        [value("X", [1, 1, size]), value("h", state), value("c", state)],
        [value("h_out", state), value("c_out", state)],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def stepper(size: int, threads: int, bound: bool):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model(size), options, providers=["CPUExecutionProvider"])
    x, h, c = (np.zeros((1, 1, size), np.float32) for _ in range(3))
    x += 0.1
    if not bound:
        feeds = {"X": x, "h": h, "c": c}

        def plain() -> None:
            feeds["h"], feeds["c"] = session.run(None, feeds)

        return plain
    values = [ort.OrtValue.ortvalue_from_numpy(a) for a in (x, h, c, h.copy(), c.copy())]
    bindings = []
    for h_in, c_in, h_out, c_out in ((1, 2, 3, 4), (3, 4, 1, 2)):
        binding = session.io_binding()
        binding.bind_ortvalue_input("X", values[0])
        binding.bind_ortvalue_input("h", values[h_in])
        binding.bind_ortvalue_input("c", values[c_in])
        binding.bind_ortvalue_output("h_out", values[h_out])
        binding.bind_ortvalue_output("c_out", values[c_out])
        bindings.append(binding)

    def swapping() -> None:
        session.run_with_iobinding(bindings[0])
        bindings.reverse()

    return swapping


def microseconds(step, steps: int = 500) -> float:
    for _ in range(20):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return 1e6 * (time.perf_counter() - began) / steps


if __name__ == "__main__":
    size = int(sys.argv[1])
    steppers = [stepper(size, threads, bound) for threads in (1, 2) for bound in (False, True)]
    fastest = min(steppers, key=microseconds)
    for _ in sys.stdin:
        print(microseconds(fastest), flush=True)
