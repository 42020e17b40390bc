"""Model files: one `.gpx` file holds a fitted model, and reading one cannot run code.

A `.gpx` file is a safetensors file. Arrays are its tensors; the rest is a tree of plain JSON values in its
metadata, behind a checksum of every byte of the file.

`container`
    writes and reads the file, and refuses one that is newer, cut short or altered;
`values`
    turns parameters into JSON values and back, for a closed list of classes;
`model`
    says what of an estimator is stored, and checks it when it is read;
`columns`
    does the same for the encoding of columns;
`selectors`
    does the same for fitted selectors.

A user's own class is not in the list, and `save_model` refuses it by name; `skops.io.dump` can store it.
"""

from gpexperts.io.model import load_model, save_model

__all__ = ["load_model", "save_model"]
