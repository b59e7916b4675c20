"""Text in: sources, named corpora, tokenizers, vocabularies, batches."""
