"""Sentences into sentences: task, network, measures; `pairs`: BLEU of many pairs and what an answer lacks."""
