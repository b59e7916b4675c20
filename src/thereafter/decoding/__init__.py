"""From the distributions of a model to tokens and text.

sampling            drawing tokens, one row or many rows as one batch; how a distribution is reshaped before that:
                    temperature, top-k, top-p, min-p, penalties
beam                beam search, and the candidates of one of its steps, best first
generation          continuing a prompt: settings, `generate` and its stream, on top of sampling and beam search
graph_generation    the same on a GPU, all rows from one CUDA graph, draws included
sources             the same for decoders that were given sources, such as translators
writing             tokens to text while they are generated, and stop strings
completion          which words begin as the last word of a text does: an exact sum over tokens that are words, a
                    best-first search over tokens that spell them
"""
