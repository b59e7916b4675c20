"""Pictures of traces, measurements and logs: plotly figures with a caption and their numbers as a table."""
