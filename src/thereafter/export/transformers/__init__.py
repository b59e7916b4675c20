"""A Transformer as a folder that `transformers` loads as GPT-2, without any code of ours.

target    the target `transformers`: a plan as GPT-2's configuration and arrays, its tokenizer as tokenizer.json; writes
          the folder and reads it again
"""
