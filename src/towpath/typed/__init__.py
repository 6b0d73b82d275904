"""Typed columns: what a topic declares its values to be, and values as columns of its table.

`declaration` is what the topic's settings say, `types` what columns can be, `ids` which numbers
they have in the table, `decode` how a batch of values becomes columns. Nothing but `arrow`,
`decode` and `table` loads pyarrow, so a broker can check a declaration without it.
"""
