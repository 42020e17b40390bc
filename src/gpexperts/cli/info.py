"""`gpexperts info`: the content of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import Debug, check_output, print_json

__all__ = ["info"]


def info(
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Print what a model was trained on, its kernel, its experts, and how they were chosen.

    Example:

    gpexperts info houses.gpx
    """
    check_output("-", model)
    facts = _facts(model)
    if json:
        print_json(facts)
    else:
        _print(facts)


def _facts(path: Path) -> dict[str, Any]:
    import numpy as np

    from gpexperts import inspection, load
    from gpexperts.io import container

    model = load(path)
    table = getattr(model, "table_", None)
    y = inspection.training_targets(model)
    sizes = model.model_.experts.sizes
    n_selected = model.predictor_.select(model.centroids_[:1]).shape[1]  # of any query
    return {
        "file": {
            "path": str(path),
            "bytes": path.stat().st_size,
            "format": container.FORMAT,
            "written_by": f"gpexperts {container.read_header(path).get('version', '?')}",
            "sha256": container.checksum_of(path),
        },
        "trained_on": {
            "source": None if table is None else table.source,
            "sha256": None if table is None else table.sha256,
            "rows": len(y),
            "rows_left_out": None if table is None else table.n_dropped,
            "target": None if table is None else ", ".join(table.targets),
            "columns_left_out": {} if table is None else table.left_out,
            "scores": {} if table is None else table.scores,
            "target_range": [float(np.min(y)), float(np.max(y))],
        },
        "inputs": _inputs(model),
        "model": {
            "experts": model.n_experts_,
            "rows_per_expert": [int(sizes.min()), int(np.median(sizes)), int(sizes.max())],
            "selected_per_query": n_selected,
            "rows_of_own_expert": model.predictor_.tuning.n_neighbors,
            "aggregation": _name(model.aggregation),
            "choices": inspection.choices(model),
            "kernel": str(model.kernel_),
            "hyperparameters": {h.name: h.value for h in inspection.hyperparameters(model)},
            "noise_std": inspection.noise_std(model),
            "log_marginal_likelihood": float(model.log_marginal_likelihood_value_),
            "training_steps": len(model.trace_),
        },
        "config": {} if table is None else {name: _name(value) for name, value in table.config.items()},
    }


def _inputs(model: Any) -> list[dict[str, Any]]:
    """Name, range and length scale of what has a length scale of its own; categories have no range."""
    from gpexperts import inspection
    from gpexperts.kernels.raw import of_scales

    encoder = model.model_.encoder
    limits = [of_scales(limit, encoder.scale_index) for limit in inspection.input_ranges(model).T]
    has_range = of_scales(encoder.layout(encoder.width).standardized, encoder.scale_index)
    found = zip(
        inspection.scale_names(model), *limits, inspection.length_scales(model), has_range, strict=True
    )
    return [
        {
            "name": name,
            "low": float(low) if ranged else None,
            "high": float(high) if ranged else None,
            "length_scale": float(scale),
        }
        for name, low, high, scale, ranged in found
    ]


def _scores(scores: dict[str, Any]) -> list[tuple[str, str]]:
    """Scores on rows that were left out before the fit."""
    if not scores:
        return []
    lines = [
        f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in values.items() if value is not None)
        for name, values in scores["models"].items()
    ]
    return [("left-out rows", scores["how"]), *(("", line) for line in lines)]


def _name(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, dict, list, type(None))) else type(value).__name__


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # brackets in names are no markup

    from gpexperts.kernels.summary import kernel_summary
    from gpexperts.memory import readable_size
    from gpexperts.text import printable

    file, trained, model = facts["file"], facts["trained_on"], facts["model"]
    low, middle, high = model["rows_per_expert"]
    smallest, largest = trained["target_range"]
    own, selected = model["rows_of_own_expert"], model["selected_per_query"]
    rows = [
        ("model", f"{file['path']}, {readable_size(file['bytes'])}"),
        ("written by", f"{file['written_by']}, format {file['format']}"),
        ("checksum", file["sha256"]),
        ("trained on", f"{trained['rows']:,} rows of {trained['source'] or 'an array in Python'}"),
        ("", f"sha256 {trained['sha256']}" if trained["sha256"] else ""),
        ("target", f"{trained['target'] or '(no name)'}, from {smallest:g} to {largest:g}"),
        *((f"left out {name}", why) for name, why in trained["columns_left_out"].items()),
        *_scores(trained["scores"]),
        ("experts", f"{model['experts']:,}, of {low:,} to {high:,} rows, median {middle:,}"),
        ("own expert", f"{own:,} nearest rows per query" if own else ""),
        ("selected", f"at most {selected} per query, combined by {model['aggregation']}" if selected else ""),
        ("kernel", kernel_summary(model["kernel"])),
        ("noise", f"{model['noise_std']:.4g} (standard deviation, in the units of the target)"),
        ("training", f"{model['training_steps']} steps"),
        ("", f"log marginal likelihood {model['log_marginal_likelihood']:.6g}"),
    ]
    rows += [(f"chosen {name}", value) for name, value in model["choices"].items()]
    rows += [(f"given {name}", str(value)) for name, value in facts["config"].items()]
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    for name, value in rows:
        if value:
            lines.add_row(Text(printable(name), "bold"), Text(printable(value)))
    console = Console()
    console.print(lines)
    inputs = Table(title="Inputs")
    for column in ("input", "from", "to", "length scale"):
        inputs.add_column(column, justify="left" if column == "input" else "right")
    for row in facts["inputs"]:
        limits = ["" if row[end] is None else f"{row[end]:.4g}" for end in ("low", "high")]
        inputs.add_row(Text(printable(row["name"])), *limits, f"{row['length_scale']:.4g}")
    console.print(inputs)
