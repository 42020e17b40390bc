"""The configuration file of a fit: TOML with parameters of the model, and a table [table] about the data.

::

    n_experts = 20
    [selection]
    name = "knn"
    metric = "manhattan"
    [table]
    file = "rides.csv"
    target = "rides"
    drop = ["id"]
    types = { station = "category" }
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpexperts.cli.table_options import TABLE_OPTIONS
from gpexperts.files import appearing
from gpexperts.parameters import PARAMETERS

__all__ = ["TABLE_KEYS", "read_config", "write_config"]

_NUMBER = "a number"
TABLE_KEYS: dict[str, str] = {
    "file": "text", "format": "text", "out": "text",
    "target": "names", "features": "names", "drop": "names", "types": "a table of names and types",
    "weights": "text", "noise_std": "text", "drop_missing": "true or false",
    "test": _NUMBER, "cv": _NUMBER, "time_split": "text", "include_factors": "true or false",
    **{name: "names" if name == "na_values" else "text" for name in TABLE_OPTIONS},
}  # fmt: skip
"""Keys of [table], and what each takes."""
_MAX_BYTES = 16_000_000
_MAX_DOTS = 1000
"""In a line: the parser takes memory in proportion to the square of the parts of a key."""
_STRINGS = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a configuration file.

    Returns
    -------
    settings : dict
        Parameters of the model. A stage may be a dict: `name` is the stage, the other keys are its
        parameters.
    table : dict
        What [table] holds; keys are those of `TABLE_KEYS`.
    """
    config = _parsed(path)
    table = config.pop("table", {})
    if not isinstance(table, dict):
        raise ValueError(f"{path}: table is a TOML table, [table], not {table!r}.")
    unknown = [key for key in config if key not in PARAMETERS]
    if unknown:
        hint = " Keys about the data belong below [table]." if set(unknown) & TABLE_KEYS.keys() else ""
        raise ValueError(
            f"{path} sets {', '.join(unknown)}, which is not a parameter of the model; "
            f"the parameters are {', '.join(PARAMETERS)}.{hint}"
        )
    unknown = [key for key in table if key not in TABLE_KEYS]
    if unknown:
        raise ValueError(
            f"{path} sets {', '.join(unknown)} in [table]; its keys are {', '.join(TABLE_KEYS)}."
        )
    return config, {key: _checked(path, key, value) for key, value in table.items()}


def _parsed(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)  # a device has no end
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path} is no configuration: it has more than {_MAX_BYTES:,} bytes.")
    try:
        text = content.decode("utf-8-sig")
        deepest = max((line.count(".") for line in _STRINGS.sub("", text).splitlines()), default=0)
        if deepest > _MAX_DOTS:
            raise ValueError(f"a line has {deepest:,} dots outside of texts; a key may have few parts")
        return tomllib.loads(text)
    except ValueError as error:  # also of the encoding, and of integers with too many digits
        raise ValueError(f"{path} is not valid TOML: {str(error).rstrip('.')}.") from error
    except RecursionError as error:
        raise ValueError(f"{path} is not valid TOML: its values are nested too deeply.") from error


def _checked(path: Path, key: str, value: Any) -> Any:
    kind = TABLE_KEYS[key]
    if kind == "names" and isinstance(value, str):
        return [value]
    texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    pairs = isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "text": isinstance(value, str), "names": texts, "true or false": isinstance(value, bool),
        _NUMBER: number, "a table of names and types": pairs,
    }  # fmt: skip
    if not fits[kind]:
        raise ValueError(f"{path}: {key} in [table] takes {kind}; got {value!r}.")
    return value


def write_config(path: Path, settings: Mapping[str, Any], table: Mapping[str, Any]) -> None:
    """Write a configuration file that `read_config` reads."""
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    stages = {name: value for name, value in settings.items() if isinstance(value, dict)}
    lines = [f"{name} = {_toml(value)}" for name, value in plain.items()]
    for name, values in {**stages, "table": table}.items():
        lines += ["", f"[{name}]", *(f"{_key(k)} = {_toml(v)}" for k, v in values.items() if v is not None)]
    with appearing(path) as part:
        part.write_text("\n".join(lines).strip() + "\n", encoding="utf-8")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if value is None:
        return '"none"'  # TOML has no null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
