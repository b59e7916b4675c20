"""Architecture diagrams. They are drawn from what the code declares and computes, so they cannot be out of date.

drawing             boxes and arrows as a plotly figure
reading             what a cell or block computes, and as a formula: it runs once and every torch call is recorded
cell                a recurrent cell: inputs, gates, new state; what one step does to its memory
network             recurrent networks unrolled, stacked, in both directions; a Transformer block
"""
