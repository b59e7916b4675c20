"""Fast ways of computing what a readable twin also computes.

scan                the only door: sequences (`unroll`), single steps (`make_stepper`), layouts (`prepare_weights`: as
                    cuDNN wants them), chains of tags
jobs                what a kernel is asked to do, and what it answers
running             a job by a kernel, by name or the one that `auto` takes; time turned round
operators           the kernels as operators that torch.compile and torch.export write down
switches            parts of torch behind functions with types; the lock of those who record CUDA graphs; what oneDNN
                    lacks on this processor, and its products of some rows, weights laid out once
onnx_table          those operators in ONNX, for torch's exporter: a cell's own step, written down
onnx_rules          what torch computes as operators of ONNX, a rule for each function
second              derivatives of derivatives, for kernels whose backward pass autograd cannot look into
plain               the plain loop, the twin of all others; linear recurrences, all steps at once
cpu/, loops/        the compiled kernel: what torch does around it, and the loops themselves, over `arrays` by name
gpu/                programs for NVIDIA GPUs, and what launches them
step/               steppers of streams
vendor              torch's own operators, and sizes they run fast with; the convolutional LSTM on a GPU
chain               sums and best ways over a chain of tags, as a plain loop: the twin of the CRF programs
rows                rows added by an index in a fixed order: the gradient of embeddings
one_token           the programs of one generated token on a GPU
"""
