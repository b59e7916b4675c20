"""What goes back to the page: one class a shape, each field declared here and nowhere else.

Functions in `verbs/` return these values, `routes/` name them as what an address answers with, and the description of
the API is made from them. One file a family, called like its verbs and routes. Nothing heavy is imported here: the page
is up before torch is.
"""
