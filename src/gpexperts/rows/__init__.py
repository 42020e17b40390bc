"""Row sources: where training rows come from, arrays of this process or partitions of a Dask collection.

Every `RowSource` returns a summary of the columns, rows by number, the rows nearest to given points, and the
rows of each shard. Random choices are made by row number, so that the same rows and seed give the same model
wherever the rows are.
"""
