"""What every kind of data shares: codecs, which turn a user's values into numbers and back.

codecs   the contract, and the table of those that a run can hold
scaler   numbers to mean 0 and deviation 1
"""
