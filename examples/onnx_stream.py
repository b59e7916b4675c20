"""Stream text from a file that `thereafter export RUN --to onnx --out FILE.onnx` wrote: ONNX Runtime and numpy alone.

    python examples/onnx_stream.py FILE.onnx ["Once upon a time" [400]]

The file holds the vocabulary, and says how a text is normalised before it is encoded. A prompt is encoded here for the
tokenizers `char` and `byte`; for others the metadata `tokenizer` has all there is to know.
"""

import json
import re
import sys

import numpy as np
import onnxruntime

given = dict(enumerate(sys.argv))
path, prompt, steps = sys.argv[1], given.get(2, ""), int(given.get(3, 200))
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
facts = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
pieces = [bytes.fromhex(piece) for piece in facts["pieces"]]
types = {one.name: np.int64 if "int64" in one.type else np.float32 for one in session.get_inputs()}
state = {s["name"]: np.full((1, *s["shape"]), s["fresh"], types[s["name"]]) for s in facts["state"]}
names = [one.name for one in session.get_outputs()]
ids, draw = [facts["start"]], np.random.default_rng(0)
tokens = facts["tokenizer"]["name"]
if prompt and tokens not in ("char", "byte"):
    sys.exit(f"{path} has {tokens} tokens, and a prompt is encoded here for char and byte alone; try it without one")
prompt = prompt.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
prompt = prompt.lower() if facts["lower"] else prompt
prompt = re.sub(r"(?:(?!\n)[\W\d_])+", " ", prompt) if facts["letters_only"] else prompt
index = {form: i for i, form in enumerate(facts["vocabulary"])}
ids += list(prompt.encode()) if tokens == "byte" else [index.get(character, facts["unknown"]) for character in prompt]
for step in range(len(ids) + steps - 1):
    outputs = dict(zip(names, session.run(None, {"token": np.array([ids[step]]), **state}), strict=True))
    state = {name.removeprefix("next_"): value for name, value in outputs.items() if name != "log_p"}
    p = np.exp(outputs["log_p"][0] / 0.8)
    if step + 1 == len(ids):
        p[facts["unknown"] if facts["unknown"] is not None else []] = 0
        ids.append(int(draw.choice(len(p), p=p / p.sum())))
        sys.stdout.buffer.write(pieces[ids[-1]])
        sys.stdout.flush()
