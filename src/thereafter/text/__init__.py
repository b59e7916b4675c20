"""Text: from bytes to normalised text, from text to token ids, and files with examples of tasks.

reading       bytes to text: encodings, byte order marks, line ends
sources       files read as text (`Source`), with the parts of a corpus (`Texts`)
form          the form of a user's own file; gutenberg: its licence; wrapping: hard line breaks; encodings: no UTF-8
chunks        cutting a stream of text where no token crosses the border
builtin       corpora that need no network; agreement/ and memory/ generate some of them
documents/    HTML, Markdown, EPUB, .docx and subtitles as text; columns: a column of a table as text
scripts       scripts without spaces between words: their characters
tokenizers/   text to ids and back, seven kinds; vocabulary: the forms and their ids; counting: forms in bounded memory
spaces        where words end: at white space and at line ends
sentences     running text cut into sentences by rules, each with its place; written: into words too; conllu_write
abbreviations words that have a point of their own, for both
pretokenised  how a pre-tokenised corpus was written (`WritingStyle`), plain text in that form; pretokenised_finding
              finds it, _words cuts words, _restoring writes generated text as people write, _habits are the facts
typography    quotes, apostrophes and dashes of a training text, other text with these marks; quoting: how they turn
writing       what a run knows of how its text was written, and a text brought into that form before it is read
spelling      what an unknown form costs in nats
encoded       the ids of a whole source, in memory or in a mapped file of the cache
batches       from a long array of ids to batches of inputs and targets
lines         the lines of a file; tables: rows of tsv, csv and jsonl
conll         sentences with a tag for each word; labelled: texts with labels; pairs: sentence pairs
"""
