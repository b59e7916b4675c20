"""Ready models: small models of the built-in corpora whose weights ship with the package.

models              the ready language models and their recipes
tasks, examples     the ready task models, and the generated examples they learn from
series              the rows that the ready forecasters learn from
pictures            the pictures and clips that ready models learn from, and how
texts               the sentences that language models learn from
shipped             packing and unpacking the weights in weights/
units               the units that carry a property, searched for once
scores              what the models score on held-out text
anew                training a ready model again
threads             small models are trained on one thread
"""
