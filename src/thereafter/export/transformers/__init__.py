"""Transformers as folders of `transformers`, GPT-2's, without any code of theirs.

target    the target `transformers`: a plan as GPT-2's configuration and arrays, its tokenizer as tokenizer.json; writes
          the folder and reads it again
gpt2      checkpoints of GPT-2, read as trained models
"""
