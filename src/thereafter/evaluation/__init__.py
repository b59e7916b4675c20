"""How good a model is, in numbers.

scores              perplexity and bits per byte of a text; the share of unknown words, and when to warn of it
text_reading        a text token by token: nats, rank, entropy, alternatives; what an item is read after
text_units          its words as they are written, sentences and lines; the same units for several models
conditions          figures of items by condition, and how frequent a word is
switches            a cache, dynamic evaluation, the weights of a mixture: what changes a score, and how what
                    a switch leaves open is chosen on another text
dynamic             dynamic evaluation, with dynamic_settings
bootstrap           the interval of a difference between two models, by resampling, and of a share (Wilson)
agreement           which of two forms a model prefers, whole words whatever its tokens; right answers, counted by
                    distance and in groups

The table of surprisals is in `inspection`, questions about a corpus in `comparing`, measures of a task
in the task's folder.
"""
