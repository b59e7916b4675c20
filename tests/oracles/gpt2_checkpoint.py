"""Run by the oracle's own interpreter: transformers writes a small random GPT-2, or reads one; log p as JSON.

gpt2_checkpoint.py JOBS, a JSON list of lists:
["write", FOLDER, OUT, ACTIVATION, TEXT]      a checkpoint and its tokenizer, and log p of the text
["read", FOLDER, OUT, IDS, TEXT]              log p after each id of a list; the ids of a text
"""

import json
import os
import sys

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast


def log_probs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), -1).tolist()


def write(folder, out, activation, text):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    engine.train_from_iterator([text], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=engine, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    torch.manual_seed(5)
    config = GPT2Config(
        vocab_size=335, n_positions=64, n_embd=24, n_layer=2, n_head=3, activation_function=activation,
        bos_token_id=0, eos_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ids = tokenizer(text[:150])["input_ids"][:60]
    with open(out, "w") as file:
        json.dump({"ids": ids, "log_probs": log_probs(model, [0, *ids]), "whole": tokenizer(text)["input_ids"]}, file)


def read(folder, out, ids, text):
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False).eval()
    answer = {"log_probs": log_probs(model, [model.config.bos_token_id, *ids])}
    answer["ids"] = AutoTokenizer.from_pretrained(folder)(text, add_special_tokens=False)["input_ids"]
    with open(out, "w") as file:
        json.dump(answer | {"class": type(model).__name__}, file)


for job, *given in json.loads(sys.argv[1]):
    {"write": write, "read": read}[job](*given)
