"""Text: from bytes to normalised text, from text to token ids, and files with examples of tasks.

reading       bytes to text and its lines: encodings, byte order marks, line ends; a stream of text cut where no token
              crosses the border; where words end, and the characters of scripts without spaces
sources       files read as text (`Source`), with the parts of a corpus (`Texts`)
form          the form of a user's own file: without Gutenberg's licence and hard line breaks
builtin       corpora that need no network; agreement/ and memory generate some of them
documents/    HTML, Markdown, EPUB, .docx and subtitles as text
tokenizers/   text to ids and back, seven kinds
sentences     running text cut into sentences by rules, each with its place, and abbreviations
pretokenised  how a pre-tokenised corpus was written (`WritingStyle`), and plain text in that form; pretokenised_words
              cuts words, and writes generated text as people write
writing       what a run knows of how its text was written (or its quotes, apostrophes and dashes), and other text
              brought into that form before it is read
encoded       the ids of a whole source, in memory or in a mapped file of the cache
tables        rows of tsv, csv and jsonl; sentence pairs; labelled: texts with labels, and a column of a table as text
conll         sentences with a tag for each word, and running text as such sentences
"""
