"""PyArrow, or an error that names the extra to install."""

from gpexperts.exceptions import MissingExtraError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError("Reading and writing tables", "cli") from error

__all__ = ["pa", "pacsv", "pc", "pq"]
