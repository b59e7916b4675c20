"""Sequence models: one contract, every generation; and the networks of tasks.

    base          the contract `SequenceModel`, and what can be known of a model without running it; any_model: its name
                  where states are of any type; look: the one way into a network
    settings, build      options of the neural models; a model of a kind with fresh weights, and the class of a cell as
                  a kind of model, in this process
    neural        what all neural models share, reading a text in pieces or line by line included; readers: from tokens
                  or numbers to vectors
    recurrent, feedforward      the kinds of model; feedforward: the Transformer, those of the last tokens, their mean
    mixture, cache      models made of other models
    graph_step    a step of a language model as one CUDA graph; step_bodies: its layers
    quiet         the state of a neural model; blocks without gradients or dropout, shared by threads; what is kept
                  until weights change, such as the head's matrix laid out for several rows; weights by layer

Tasks:
    task_net      contracts: a loss over examples, encoders; batches of few shapes, for recorded steps. The network of a
                  task is in its folder
    decoder       the contract: words out of a memory, and the likeliest of them
    word_decoder, transformer_decoder     decoders, the first with the recurrent one
"""
