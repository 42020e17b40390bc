"""The table of docs/federated.md: ``python benchmarks/federated.py --page``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import common


def page(path: Path, n_clients: int) -> None:
    """Write the table and the notes into a page."""
    rows = {(r["data"], r["method"]): r for r in common.rows("federated") if r["status"] == "done"}
    lines = [
        "| data | method | SMSE | MSLL | coverage | joint steps | rounds | MB | fit, CPU s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (data, method), r in sorted(rows.items()):
        lines.append(_line(data, method, r))
        if "central_smse" in r:
            lines.append(
                _line(data, "central training", {k[8:]: v for k, v in r.items() if k[:8] == "central_"})
            )
    notes = [""]
    for (data, method), r in sorted(rows.items()):
        if "smse_left_after" in r:
            notes.append(
                f"- {data}: {r['absent']} of {n_clients} clients absent: SMSE on the rows of the others "
                f"from {r['smse_left_before']:.4g} to {r['smse_left_after']:.4g}. "
                f"{r['messages']} messages in a fit; {r['predict_megabytes']:.2g} MB for the test rows."
            )
        if "auc" in r and method != "centroids":
            notes.append(f"- {data}, {method}: membership attack with AUC {r['auc']:.3f}{_draws(r)}.")
        if method == "dropped":
            before = rows[data, "federated"]["smse_left_before"]
            notes.append(
                f"- {data}: {n_clients - r['clients']} clients vanish in the third joint step: SMSE on rows "
                f"of the others {r['smse']:.4g}, instead of {before:.4g}."
            )
    common.write_between(path, "federated", "\n".join([*lines, *notes]))


def _draws(r: dict[str, Any]) -> str:
    text = f", ε = {r['epsilon_client']:.1f} per client" if "epsilon_client" in r else ""
    if "auc_draws" not in r:
        return text
    auc, error = sorted(r["auc_draws"]), r["smse_draws"]
    return (
        f" ({auc[0]:.3f} to {auc[-1]:.3f} in {len(auc)} draws of the noise, whose SMSE is {error[0]:.4g} to "
        f"{error[-1]:.4g}){text}"
    )


def _line(data: str, method: str, r: dict[str, Any]) -> str:
    def cell(name: str, form: str) -> str:
        return format(r[name], form) if name in r else "–"

    cells = [cell("smse", ".4g"), cell("msll", ".3f"), cell("coverage", ".3f"), cell("steps", "d")]
    cells += [cell("rounds", "d"), cell("megabytes", ".2g"), cell("cpu_seconds", ".0f")]
    return f"| {data} | {method} | {' | '.join(cells)} |"
