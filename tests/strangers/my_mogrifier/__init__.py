"""A stranger's package: the row of a kind of model. It stands apart, since rows are read at every start."""

from thereafter.base.kinds import Kind

_AT = "my_mogrifier.model:Mogrifier"
KIND = Kind("my-mogrifier", "Mogrifier LSTM", "#8E44AD", model=f"{_AT}Model", settings=f"{_AT}Settings", cell=_AT,
            gated=True, adam_rate=2.0, compared=False)  # fmt: skip
