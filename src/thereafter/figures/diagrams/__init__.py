"""Architecture diagrams, drawn from what the code declares and does: never from a drawing kept beside it."""
