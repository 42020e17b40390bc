"""How the columns of a table become inputs: numbers, categories, gaps and dates.

`frames`
    reads a column of a pandas, polars or Arrow table, or of an array, in one of three neutral forms;
`profile`
    summarises a column, piece by piece where the rows are in partitions;
`column`
    what was decided about a column, and its encoding;
`codes`, `dates`
    points for the levels of a category; cycles of a date;
`encoder`
    all columns together, and which of them share a length scale.
"""

from gpexperts.columns.column import Column
from gpexperts.columns.encoder import ColumnEncoder, InputLayout

__all__ = ["Column", "ColumnEncoder", "InputLayout"]
