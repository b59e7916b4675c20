"""Fast ways of doing what a readable twin also does."""
