"""What can be asked of a model here: plain functions that take a LanguageModel and give what JSON can say."""
