"""The gallery: figures of the textbooks, drawn from small models that are trained here.

build               draws all pictures and writes the page, PNGs and Markdown
picture             GalleryPicture: name, source, how it is drawn, which claim it shows; the running sentence
models              the models that the pictures show
sources             the books and papers the pictures are after
bank                a generated text with an ambiguous word
diagrams, traces, gradients, memory, units, forecasting, vision     the pictures, a file for each family;
                    what only they measure too: senses and sparsity (traces), expectation (memory)
claims              whether a claim of a source shows in the numbers
"""
