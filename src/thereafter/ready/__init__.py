"""Ready models: small models of the built-in corpora whose weights ship with the package.

models              the ready language models and their recipes
tasks               the ready task models, and the generated examples they learn from
pictures            the pictures and clips that ready models learn from, and how
texts               the sentences that language models learn from, and the rows for forecasters
shipped             packing and unpacking the weights in weights/; training a ready model again
units               the units that carry a property, searched for once
scores              what the models score on held-out text
threads             small models are trained on one thread
"""
