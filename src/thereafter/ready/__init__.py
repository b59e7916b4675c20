"""Small models of the built-in corpora that are there at once: recipes, shipped weights, and what their units carry."""
