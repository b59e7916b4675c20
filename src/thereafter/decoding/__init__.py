"""From the distributions of a model to tokens and text.

warping      how a distribution is reshaped before a token is drawn: temperature, top-k, top-p, min-p, penalties
sampling     drawing tokens, one row or many rows as one batch; sampling_rows: the tokens of many rows at once
beam         beam search; extensions: the candidates of one of its steps, best first
generation   continuing a prompt: settings, `generate` and its stream, on top of sampling and beam search
graph_generation      the same on a GPU, all rows from one CUDA graph; device_drawing: the draws of such a graph
sources      the same for decoders that were given sources, such as translators
writing      tokens to text while they are generated, and stop strings
next_tokens  the likeliest next tokens, and what to append
completion   which words begin as the last word of a text does, in these files:
             completion_typed (where that word begins), completion_table (the answer), completion_forms (tokens that are
             words: an exact sum), completion_pieces and completion_search (tokens that spell words: best-first search)
ranking      which of several texts a model finds likeliest
"""
