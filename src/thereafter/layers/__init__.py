"""Layers made of cells, and the parts that models are built of. `thereafter.nn` exports the recurrent ones.

recurrent           a stack of cells in one direction or both; residual and highway connections, numbers of parameters,
                    what TorchScript is answered
inputs              the user's input, checked and laid out as rows; the first state; the lanes of a stack,
                    one per layer and direction
dropout             dropout, weight drop, zoneout; random numbers of a picture's own
blocks              recurrent layers in residual blocks; many steps into one vector
stream              a stack that is stepped token by token, over the steppers of `kernels.step`
convert             weights to and from other libraries
bptt                backpropagation through time written out, and what autograd keeps for a backward pass
heads               the contract, from features to a distribution; the normal distribution, over numbers; the softmax
                    over words, whole and adaptive
embedding           word vectors and positions
attention           blocks of a transformer, attention of a decoder, whose gradients add in a fixed order on a GPU
"""
