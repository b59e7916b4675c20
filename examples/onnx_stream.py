"""Stream text from a file that `thereafter export RUN --to onnx --out FILE.onnx` wrote: ONNX Runtime and numpy alone.

    python examples/onnx_stream.py FILE.onnx ["Once upon a time" [400]]

The file holds the vocabulary. A prompt is cut into its longest pieces from left to right, which is what the tokenizers
`char` and `byte` do; for others the metadata `tokenizer` has all there is to know.
"""

import json
import sys

import numpy as np
import onnxruntime

given = dict(enumerate(sys.argv))
path, prompt, steps = sys.argv[1], given.get(2, "").encode(), int(given.get(3, 200))
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
facts = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
pieces = [bytes.fromhex(piece) for piece in facts["pieces"]]
types = {one.name: np.int64 if "int64" in one.type else np.float32 for one in session.get_inputs()}
state = {s["name"]: np.full((1, *s["shape"]), s["fresh"], types[s["name"]]) for s in facts["state"]}
names = [one.name for one in session.get_outputs()]
ids, draw = [facts["start"]], np.random.default_rng(0)
while prompt:
    fits = [i for i, piece in enumerate(pieces) if piece and i != facts["unknown"] and prompt.startswith(piece)]
    ids.append(max(fits, key=lambda i: len(pieces[i])) if fits else facts["unknown"] or 0)
    prompt = prompt[len(pieces[ids[-1]]) if fits else 1 :]
for step in range(len(ids) + steps):
    outputs = dict(zip(names, session.run(None, {"token": np.array([ids[step]]), **state}), strict=True))
    state = {name.removeprefix("next_"): value for name, value in outputs.items() if name != "log_p"}
    p = np.exp(outputs["log_p"][0] / 0.8)
    if step + 1 == len(ids):
        p[facts["unknown"] if facts["unknown"] is not None else []] = 0
        ids.append(int(draw.choice(len(p), p=p / p.sum())))
        sys.stdout.buffer.write(pieces[ids[-1]])
        sys.stdout.flush()
