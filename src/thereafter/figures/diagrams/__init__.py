"""Architecture diagrams. They are drawn from what the code declares and computes, so they cannot be out of date.

drawing             boxes and arrows as a plotly figure
reading             what a cell or block computes: it runs once and every torch call is recorded
formulas            a recorded value as a formula
cell                a recurrent cell: inputs, gates, new state
network, networks   recurrent networks unrolled, stacked, in both directions
paths               what one step does to the memory of a cell
transformer         a Transformer block
window, context     a window network; how much context each kind of model has
"""
