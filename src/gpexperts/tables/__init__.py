"""Tables on disk: CSV, Parquet, Feather and Arrow files, read and written in batches.

`formats`
    which file is read how;
`reading`, `writing`
    batches of rows in and out, in memory that does not grow with the file;
`schema`
    the columns a model was trained on, as it remembers them;
`training`, `rows`
    the rows a model is fitted on, and those it predicts;
`encoding`
    from columns to the numbers a model takes.

All but `schema` need PyArrow, the extra [cli].
"""
