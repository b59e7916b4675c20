"""A trained model as a file that runs without this package, checked against the model before it is handed over.

plan        `plan_of`: a trained language model as a plan, plain arrays with names, one for each generation of models;
            what a program must know of it to feed it
targets     TARGETS, the table of what can be written; the contract of a `Target` and of its `Runner`
recalling   training lines that a model says by heart
check       the same text through the model and through the file; texts that are easily encoded wrongly; the text of a
            check
export      written beside the target, checked, moved into place, all files or none; a run folder again, with
            weights in fewer bytes
task_export the networks of tasks: the graph that each describes, written to a file, with drawn inputs to check it
arpa        n-grams as ARPA files
steps/      a neural plan as a list of small operations, for c and html
c/          one C99 file and its header
html/       one page that works from disk
onnx/       graphs for ONNX Runtime
torch_program   programs of torch.export
gpt2        folders that transformers loads as GPT-2, and its checkpoints as trained models
"""
