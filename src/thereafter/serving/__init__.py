"""What any server of models needs, the studio being one: who may ask, what a request may cost, and whose turn it is.

- `guard`: wrong tokens, and the guard before the application; limits of what is sent
- `listening`: name, port, address and token of a server, and which folders are runs of the user's
- `connections`: limits of connections that do nothing
- `schema`: what goes over the wire in general, and what can go wrong
- `shelf`: models by name, and what is known of their units
- `lanes`: a queue for every model; questions that wait for one model are answered together
- `engine`, `engine_prompts`: texts that share the steps of their model

It knows no address, no page and no verb; those of runs over HTTP are in `server/`, of the harness in `harness/`.
"""
