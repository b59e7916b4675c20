"""Layers made of cells, and the parts that models are built of. `thereafter.nn` is the door to the recurrent ones.

recurrent, lanes    a stack of cells in one direction or both; one lane a layer and direction
inputs, initial     what users hand in, checked and laid out as rows; the state before the first step
dropout, connect    dropout, weight drop, zoneout; residual and highway connections
blocks, long_memory recurrent layers in residual blocks; fresh gates that remember for as many steps as a task has
stream, one_step    a stack that is stepped token by token, over the steppers of `kernels.step`; one with gradients
convert, counting   weights to and from other libraries; numbers of parameters
scripting           what TorchScript is answered
bptt                backpropagation through time written out, and what autograd keeps for a backward pass
readers, heads      the contracts: from tokens or numbers to vectors, from features to a distribution
embedding, pooling  word vectors; many steps into one vector
softmax, adaptive, gaussian, likeliest      heads over words and over numbers; the most probable words
distributions, number_heads                 distributions over numbers element by element, and heads that give them
picture_encoder, augmenting                 convolutions over pictures, and pictures changed at random while training
frame_encoder                               frames of video: bytes to floats, patches, convolutions
glimpse, glimpse_core, reinforce            a sensor that sees a part of a picture, layers over it; learning by reward
drawing_window, numbered_noise              windows of Gaussian filters over pictures; random numbers of a picture's own
transformer, positions, attention, crf      blocks of a transformer, attention of a decoder, a linear-chain CRF
steady_attention                            attention whose gradients add in a fixed order on a GPU
"""
