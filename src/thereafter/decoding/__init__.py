"""From the distributions of a model to tokens and text.

warping      how a distribution is reshaped before a token is drawn: temperature, top-k, top-p, min-p, penalties
sampling     drawing tokens, one row or many rows as one batch
beam         beam search; extensions: the candidates of one of its steps, best first
generation   continuing a prompt: settings, `generate` and its stream, on top of sampling and beam search
sources      the same for decoders that were given sources, such as translators
writing      tokens to text while they are generated, and stop strings
ranking      which of several texts a model finds likeliest
"""
