"""A Transformer as a folder that `transformers` loads as GPT-2, without any code of ours.

gpt2      a plan as GPT-2's configuration and arrays
tokens    its tokenizer as tokenizer.json
target    the target `transformers`: writes the folder and reads it again
"""
