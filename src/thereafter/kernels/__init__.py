"""Fast ways of computing what a readable twin also computes.

scan                the only door: sequences (`unroll`), single steps (`make_stepper`), layouts (`prepare_weights`)
jobs                what a kernel is asked to do, and what it answers
running             a job by a kernel, by name or the fastest; time turned round
operators           the kernels as operators that torch.compile and torch.export write down
spelling            cells as strings, for those operators
onnx_table          those operators in ONNX, for torch's exporter; onnx_steps: a cell's own step, traced
choice              which kernel `auto` takes
second              derivatives of derivatives, for kernels whose backward pass autograd cannot look into
reference           the plain loop, the twin of all others
parallel            linear recurrences, all steps at once
cpu/, loops/        the compiled kernel: what torch does around it, and the loops themselves
step/               steppers of streams
vendor, widening    torch's own operators, and sizes they run fast with; flatten: weights as cuDNN wants them
conv_lstm           the convolutional LSTM on a GPU, a part of vendor
row_sums            rows added by an index in a fixed order: the gradient of embeddings
chain               sums and best ways over a chain of tags, as a plain loop: the twin of the CRF programs;
                    chains: which of the two
one_token           the door to the programs of one generated token
recording           the lock of those who record CUDA graphs
onednn              what oneDNN lacks on this processor; row_products: products of some rows, weights laid out once
"""
