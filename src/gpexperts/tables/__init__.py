"""Tables on disk: CSV, Parquet, Feather and Arrow files, read and written in batches.

`formats`
    the format of a file;
`reading`, `writing`
    read and write batches of rows, in memory that does not grow with the file;
`training`, `rows`
    rows to fit a model on, and rows to predict;
`encoding`
    encode columns as numbers.

Needs PyArrow, the extra [cli].
"""
