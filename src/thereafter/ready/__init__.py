"""Ready models: small models of the built-in corpora whose weights ship with the package.

models              the ready language models, their recipes, their sentences, and the units that carry a property
tasks               the ready task models, and the sentences, series, pictures and clips they learn from
shipped             packing and unpacking the weights in weights/; training a ready model again; what the models score
                    on held-out text
"""
