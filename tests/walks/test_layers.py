"""A torch engineer's errand, walked with the blocks of docs/torch-tools.md: torch.nn.LSTM replaced with its weights,
lengths in place of packing, compiled, exported. The last step, a cell of one's own, is `test_strangers_cell.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from thereafter.base.packages import installed

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "torch-tools.md"
REPLACED, TOOLS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
CHECKED = """
assert sorted(nn.__all__) == dir(nn)
loaded = nn.LSTM(256, 512, num_layers=2, batch_first=True).eval()
loaded.load_state_dict(theirs.state_dict())
torch.testing.assert_close(loaded(x, lengths=lengths)[0], expected, rtol=0, atol=1e-5)
torch.testing.assert_close(fast(x, lengths=lengths)[0], layer(x, lengths=lengths)[0], rtol=0, atol=0)
other = torch.randn(2, 9, 256)
torch.testing.assert_close(program.module()(other)[0], layer(other)[0], rtol=0, atol=0)
import onnxruntime
session = onnxruntime.InferenceSession("layer.onnx", providers=["CPUExecutionProvider"])
results = session.run(None, {session.get_inputs()[0].name: other.numpy()})
output, (h_n, c_n) = layer(other)
for result, expected in zip(results, (output, h_n, c_n), strict=True):
    torch.testing.assert_close(torch.from_numpy(result), expected.detach(), rtol=0, atol=1e-5)
print("walked")
"""


@pytest.mark.wide
def test_a_layer_takes_the_place_of_torchs(tmp_path: Path) -> None:
    if not (installed("onnxscript") and installed("onnxruntime")):
        pytest.skip("SKIPPED LOUDLY: no thereafter[export], so the layer was not exported")
    script = tmp_path / "errand.py"
    script.write_text(f"{REPLACED}\n{TOOLS}\n{CHECKED}", encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "walked"
