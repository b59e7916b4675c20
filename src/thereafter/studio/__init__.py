"""The studio: a local web page where one trains, steps through and questions a model.

`serve` starts it, `app` puts it together, `studio` is what all requests share: the `shelf` of models and the `jobs`.
`verbs/` are plain functions of a model that know nothing of the web; `routes/` give each an address; `page/` is what
the browser shows, one panel a file.
"""
