"""What any server of models needs, the studio being one: who may ask, what a request may cost, and whose turn it is.

- `hosts`, `attempts`, `guard`: the name a server is called by, wrong tokens, and the guard before the application
- `listening`: port, address and token of a server
- `bodies`, `connections`: limits of what is sent, and of connections that do nothing
- `schema`, `errors`: what goes over the wire in general, and what can go wrong
- `own`, `known_units`, `shelf`: which folders are runs of the user's, what is known of their units, models by name
- `lanes`, `together`: a queue for every model; questions that wait for one model are answered together
- `engine`, `engine_rows`, `engine_prompts`, `engine_batch`, `engine_scores`: texts that share the steps of their model

It knows no address, no page and no verb.
"""
