"""Training: from settings and data to weights, resumable to the bit.

The loop, for whatever learns:
    learner       the four contracts it knows, Learner, Batch, Epochs, Heldout; and the Course that is made of them
    fit           one training from its first step to its end: the loop, the best weights, the run folder; the largest
                  batch that a GPU holds
    loop          step, validate, snapshot
    watching      functions of your own that a training calls, and its bar with the figures beside it
    logs          the figures of every step as CSV or for TensorBoard
    control       how far a training is and its learning rate there; losses and gradients that are not finite; Ctrl-C
    weights       weights by name; which layers learn in an epoch, and at what rate; the optimizers
    graphs        training steps as CUDA graphs, each taken and undone before it is recorded
    numerics      what the last bits depend on: threads, products, random numbers, sums in a fixed order on a GPU
    settings      TextSettings, TrainingSettings

Language models:
    kinds         the contract of a kind of model, options by name, and a trained one as a run folder; neural and ngram
                  are the two implementations, ngram reads and writes ARPA files too
    protocol      from a text to a trained model, on with a training that was stopped, or with a run that another
                  training begins with
    recipes       options from a file, and as `name=value`; neural chooses those that a user leaves open
    finding       the text of a training, as a user names it and as a run finds it again; its validation part
    blocks        the order in which training sees a text, and its batches; neural has the loss on its validation part
    reading       trained models asked about a text: mixtures, switches, what each token costs; what a text has been to
                  a model
"""
