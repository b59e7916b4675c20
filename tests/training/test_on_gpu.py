"""`on_gpu.py` as a test, where torch sees a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here; run tests/training/on_gpu.py on one")
def test_played_steps_learn_what_single_steps_learn():
    subprocess.run([sys.executable, Path(__file__).with_name("on_gpu.py")], check=True)
