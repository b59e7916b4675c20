"""The gallery: figures of the textbooks, drawn from small models that are trained here.

build               draws all pictures and writes the page, PNGs and Markdown
models              GalleryPicture: name, source, how it is drawn, which claim it shows; the running sentence; the books
                    and papers the pictures are after; the models that the pictures show
diagrams, traces, memory, tasks     the pictures, a file for each family; what only they measure too: senses and
                    sparsity (traces), expectation (memory)
claims              whether a claim of a source shows in the numbers
"""
