"""Training: from settings and data to weights, resumable to the bit.

The loop, for whatever learns:
    learner       the four contracts it knows: Learner, Batch, Epochs, Heldout
    fit           one training from its first step to its end: the loop, the best weights, the run folder
    loop          step, validate, snapshot
    watching      functions of your own that a training calls, and its bar with the figures beside it
    logs          the figures of every step as CSV or for TensorBoard
    pending       the figures of steps that are still on the device
    optimizers, schedules      updates of the weights; the learning rate of every step
    guard         losses and gradients that are not finite
    graphs        training steps as CUDA graphs; rehearsing: a step that is taken and undone before
    largest_batch the largest batch that a GPU holds
    stopping      Ctrl-C between two steps
    counters, weights      what a snapshot holds; weights too: which layers learn in an epoch, and at what rate
    numerics      what the last bits depend on: threads, products, random numbers, sums in a fixed order on a GPU
    settings      TrainingSettings

Language models:
    protocol      from a text to a trained model; resume goes on with one, store saves and loads it
    starting      a run that another training begins with
    kinds         the contract of a kind of model; neural and ngram are the two implementations, arpa reads files
    gpt2          checkpoints of transformers, read as trained models
    options, recipes, defaults      options by name, options from a file, default options
    split, roles  the validation part of a text; what a text has been to a model
    order, blocks batches of a text; neural has the loss on its validation part
    mixing        mixtures of trained models
    recalling     what a model says verbatim of the text it learned from; surprisal: what each token of a text costs
"""
