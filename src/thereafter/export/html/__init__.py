"""A model as one page that works from disk with no network: its weights, its tokenizer and plain JavaScript.

kernel     the one loop that is worth WebAssembly, as bytes
page/      the page: model.js runs a program, trie.js an n-gram, tokenizers.js cuts texts, reader.js remembers,
           pictures.js draws, main.js puts them together
target     the target `html`: weights, tokenizer and what the page says of them, as JSON and one piece of bytes; one
           file of all of it, with a policy that allows no network; and runs it in a browser
"""
