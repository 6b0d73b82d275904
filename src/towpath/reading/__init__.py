"""Reading topics without a broker: what lies where at one moment, and its rows as Arrow batches.

The table's files and the live tail make one whole: the index names every committed offset once.
"""
