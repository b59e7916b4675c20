"""Models as ONNX graphs, by standard operators alone (opset 17), with free batch and length.

graph       a graph as it is written, operator by operator
cells       one step of each cell, by the rules of `kernels.onnx_rules`; products with weights, in float32 or in int8;
            features to log p; whole sequences through a layer: the operators LSTM, GRU and RNN where they mean the
            same, else Scan
attention   Transformer blocks with their keys and values: those of `torch_program`, written down
model       the step graph and the sequence graph of a plan, and its network between tokens and features, with
            tokenizer and vocabulary in the metadata; FILE.onnx (a step) and FILE-sequence.onnx (whole sequences), and
            ONNX Runtime as their runner
tracing     networks of tasks, written down while they compute
"""
