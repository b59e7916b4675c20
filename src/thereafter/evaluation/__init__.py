"""How good a model is, in numbers.

scores              perplexity and bits per byte of a text; the share of unknown words, and when to warn of it
surprisal           the same by word, token, sentence or line, as a table: token_costs (nats of every token), text_units
                    (words as they are written), text_reading (both, and what an item is read after), predicted (rank,
                    entropy, alternatives), aligning (the texts of several models), surprisal_measurement (arrays)
conditions          figures of items by condition, and how frequent a word is
switches            a cache, dynamic evaluation, the weights of a mixture: what makes a score another one
dynamic             dynamic evaluation, with dynamic_settings
tuning              chooses what a switch leaves open, on another text
bootstrap           the interval of a difference between two models, by resampling, and of a share (Wilson)
verdicts            right answers, counted by distance and in groups
corpus_probe        the contract: questions that a corpus offers about itself
offered             the table of its probes: agreement, reflexives and filler-gap (agreement measures), memory tasks

Measures of a task are in the task's folder.
"""
