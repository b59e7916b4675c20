"""Sequence models: one contract, every generation; and the networks of tasks.

    base          the contract `SequenceModel`, and what can be known of a model without running it
    settings, build      options of the neural models; a model of a kind with fresh weights
    registering   the class of a cell as a kind of model, in this process
    neural        what all neural models share; readers: from tokens or numbers to vectors
    average, window, recurrent, transformer      one file a kind of model
    state, scoring, features      the state of a neural model; reading a text in pieces, line by line
    mixture, cache (+ recall)      models made of other models
    graph_step    a step of a language model as one CUDA graph; step_bodies: its layers; kept: what calls leave behind
    shapes        batches of few shapes, for recorded steps
    quiet         blocks without gradients or dropout, shared by threads
    by_layer      the names of weights from the head down
    versions      weights that change while a model is in use; row_heads: the head's product for several rows

Tasks:
    task_net      contracts: a loss over examples, encoders, what reads a text; the network of a task is in its folder
    decoder       the contract: words out of a memory, and the likeliest of them
    word_decoder, transformer_decoder     decoders, the first with the recurrent one
"""
