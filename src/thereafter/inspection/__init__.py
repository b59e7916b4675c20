"""Looking into a model. Every instrument is a function that returns a `Measurement`; all read the same look.

    trace, measurement      what a model did over a text; the figures of an instrument, and their way to pictures, which
                            stand a floor above; arrays: how both are stored, and as rows of a table
    meanings.toml           what the arrays of each kind are: their axes, and what the numbers mean
    sentence_reader         a trained model as instruments read with it: which models one applies to, rows of a text,
                            states over a long one, sentences, the beginning of a text

    gradients               how much of a loss reaches earlier states: on running text, at the last token, from a verb
                            back to its subject; what comes along the gates of the memory alone; decay: what is left
                            by distance, in one word
    jacobians               one-step Jacobians and their products; what truncation leaves of a gradient
    stability               what repeated multiplication does, on random matrices
    growth                  time and memory by length, the bytes that autograd keeps too

    probing                 linear probes with a control task, and what they read from states
    units                   units that follow a property of the text (properties); the one that carries the number
    dynamics                how a state moves, how far gates open, how long units remember, from a saved trace;
                            predictions over the plane of states, a gate over its two sums; words with similar vectors

    surprisal               bits of every word, token, sentence or line, under several models side by side
    agreement, pairs        right and wrong forms by distance; the good and the bad sentence of a pair, and their files
    memory                  accuracy in a memory task

A look into a network is `NeuralModel.look` (`models/look.py`): states, gates, residual streams and attention by the
name of the layer. No instrument imports a kind of model or its cells: what applies to some kinds only, the model says.
(`stability` and `bptt_memory` measure a plain RNN of their own.)
"""
