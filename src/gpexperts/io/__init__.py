"""Saving: one `.gpx` file holds a fitted model, and reading one cannot run code.

A `.gpx` file is a safetensors file. Arrays are its tensors; the rest of the model is a tree of plain
values in its metadata, behind a checksum of every byte of the file.

`values`
    turns a model into that tree and back, for a closed set of types;
`registry`
    lists the classes that may occur in it;
`container`
    writes and reads the file, and refuses one that is newer, cut short or altered.

A class of the user's own is not in the list, so that :func:`save` refuses it by name; skops
(`skops.io.dump`) is made for such models.
"""

from gpexperts.io.model import load, save

__all__ = ["load", "save"]
