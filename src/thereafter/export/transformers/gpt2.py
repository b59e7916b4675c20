"""A pre-norm Transformer with a full softmax as GPT-2 (Radford et al. 2019), number by number.

    theirs:  x = wte[token] + wpe[position],  blocks,  f = ln_f(x),  logits = lm_head f          (no bias)
    ours:    x = sqrt(H) E[token] + p[position],  the same blocks,  f = g n(x) + b,  logits = W f + c

wte = sqrt(H) E and wpe = p; the maps of a block are stored turned, [in, out]. GPT-2 has no bias c. But n(x), a layer
norm without gain and shift, has the mean 0 for every x, so that with

    b' = b + t g,    t = 1 - mean(b / g),    v = 1 / (H g)         v . (g n(x) + b') = mean(n) + mean(b / g) + t = 1

and W' = W + (c - t W g) v^T gives W' f' = W f + c for every x. The row of `<s>`, which is read and never predicted, is
-10,000 v: its logit is -10,000 whatever was read.

Shapes: V words, H features, C positions.
"""

from __future__ import annotations

import numpy as np

from thereafter.config import Table
from thereafter.export.parts import EPSILON, Array, BlockPlan, SoftmaxPlan
from thereafter.export.plans import Plan, TransformerPlan

_NEVER = -10_000.0


def refuses(plan: Plan) -> str | None:
    """Why a plan is no GPT-2; None where it is one."""
    if not isinstance(plan, TransformerPlan):
        return (
            f"a model of kind {plan.kind!r} does not exist in transformers: only a Transformer does, as GPT-2; "
            "try --to onnx"
        )
    if not plan.pre or plan.norm is None:
        return (
            "this Transformer has norm='post', and GPT-2 normalises before; try training with norm='pre', or --to onnx"
        )
    if not isinstance(plan.head, SoftmaxPlan):
        return (
            "this Transformer has an adaptive softmax, and GPT-2 has none; try training with head='full', or --to onnx"
        )
    if not np.all(plan.norm[0]):
        return (
            "the last norm of this Transformer has a gain of 0, so its bias cannot be moved into GPT-2; try --to onnx"
        )
    return None


def config_of(plan: TransformerPlan) -> Table:
    """config.json: what `AutoModelForCausalLM` builds the model from. Dropout is off, as it is at rest."""
    start = plan.wording.start
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": plan.wording.size + 1,
        "n_positions": plan.context,
        "n_embd": plan.embedding.shape[1],
        "n_layer": len(plan.blocks),
        "n_head": plan.heads,
        "n_inner": len(plan.blocks[0].widen[0]),
        "activation_function": "gelu_new" if plan.blocks[0].approximate else "gelu",
        "layer_norm_epsilon": EPSILON,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": False,
        "bos_token_id": start,
        "eos_token_id": start,
        "torch_dtype": "float32",
    }


def arrays_of_gpt2(plan: TransformerPlan) -> dict[str, Array]:
    """The arrays by GPT-2's names."""
    gain_H, shift_H, head_RH = _last(plan)
    arrays: dict[str, Array] = {
        "transformer.wte.weight": plan.embedding * np.float32(plan.scale),
        "transformer.wpe.weight": plan.positions,
        "transformer.ln_f.weight": gain_H,
        "transformer.ln_f.bias": shift_H,
        "lm_head.weight": head_RH,
    }
    for number, block in enumerate(plan.blocks):
        arrays |= {f"transformer.h.{number}.{name}": array for name, array in _block(block).items()}
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}


def _block(block: BlockPlan) -> dict[str, Array]:
    named: dict[str, Array] = {}
    for name, (gain, shift) in (("ln_1", block.norm_attention), ("ln_2", block.norm_forward)):
        named |= {f"{name}.weight": gain, f"{name}.bias": shift}
    maps = {"attn.c_attn": block.into, "attn.c_proj": block.out, "mlp.c_fc": block.widen, "mlp.c_proj": block.narrow}
    for name, (weight, bias) in maps.items():
        named |= {f"{name}.weight": weight.T, f"{name}.bias": bias}
    return named


def _last(plan: TransformerPlan) -> tuple[Array, Array, Array]:
    """The last norm and the head [V + 1, H], with the bias of the head inside."""
    if plan.norm is None or not isinstance(plan.head, SoftmaxPlan):
        raise TypeError(plan.kind)
    gain_H, shift_H = (part.astype(np.float64) for part in plan.norm)
    matrix_VH = plan.head.matrix[: plan.wording.size].astype(np.float64)
    bias_V = plan.head.bias.astype(np.float64)
    moved = 1 - float(np.mean(shift_H / gain_H))
    one_H = 1 / (len(gain_H) * gain_H)
    head_VH = matrix_VH + (bias_V - moved * (matrix_VH @ gain_H))[:, None] * one_H
    head_RH = np.concatenate([head_VH, _NEVER * one_H[None]])
    return plan.norm[0], (shift_H + moved * gain_H).astype(np.float32), head_RH.astype(np.float32)
