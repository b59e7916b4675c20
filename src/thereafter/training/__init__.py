"""Training: from settings and data to weights, resumable to the bit.

The loop, for whatever learns:
    learner       the four contracts it knows: Learner, Batch, Epochs, Heldout
    fit           one training from its first step to its end: the loop, the best weights, the run folder
    loop          step, validate, snapshot
    watching      functions of your own that a training calls
    logs          the figures of every step as CSV (log_csv) or for TensorBoard (log_tensorboard)
    pending       the figures of steps that are still on the device
    progress_line the bar of a training and the figures beside it
    optimizers, schedules      updates of the weights; the learning rate of every step
    layering      which layers learn in an epoch, and at what rate
    guard         losses and gradients that are not finite
    graphs        training steps as CUDA graphs; rehearsing: a step that is taken and undone before
    determinism   sums in a fixed order on a GPU
    largest_batch the largest batch that a GPU holds
    stopping      Ctrl-C between two steps
    counters, generators, weights, numerics, products      what a snapshot holds, and what the last bits depend on
    settings      TrainingSettings

Language models:
    protocol      from a text to a trained model; resume goes on with one, store saves and loads it
    starting      a run that another training begins with
    kinds         the contract of a kind of model; neural and ngram are the two implementations, arpa reads files
    gpt2          checkpoints of transformers, read as trained models
    options, recipes, defaults      options by name, options from a file, default options
    split, roles  the validation part of a text; what a text has been to a model
    order, blocks, validation       batches of a text, and the loss on its validation part
    mixing        mixtures of trained models
    recalling     what a model says verbatim of the text it learned from
"""
