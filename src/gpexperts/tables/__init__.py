"""Tables on disk: CSV, Parquet, Feather and Arrow files, read and written in batches.

`formats`, `dialect`
    the format of a file; separator, encoding and decimal mark of a CSV;
`reading`, `reader`, `csv_reader`, `standard_input`, `writing`
    read and write batches of rows, in memory that does not grow with the file;
`understand`, `columns_seen`, `roles`
    what is in a table: types, gaps and problems of its columns, and which of them are inputs;
`numbers`, `dates`, `convert`
    texts as numbers and dates; the columns of a batch with their types;
`training`, `assess`, `baselines`
    rows to fit a model to; scores on rows that are left out, beside simple models;
`rows`, `outputs`, `outside`, `kept`, `tally`
    predictions of all rows, and what was found in them;
`inputs`
    typed columns as inputs of a model, which encodes them (`gpexperts.columns`);
`names`, `messages`, `fingerprint`
    names of columns; errors; a checksum of rows.

Needs PyArrow, the extra [cli].
"""
