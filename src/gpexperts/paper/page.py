"""docs/reproduction.md, written from the CSV files of the experiments."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from gpexperts.paper.claims import CLAIMS
from gpexperts.paper.experiment import Experiment, Row
from gpexperts.paper.experiments import EXPERIMENTS
from gpexperts.paper.figures import save_png
from gpexperts.paper.notes import INTRODUCTION, NOTES, REASONS
from gpexperts.paper.runner import write_finished
from gpexperts.paper.tables import markdown_table, read_csv

__all__ = ["write_page"]


def write_page(out: Path, page: Path) -> None:
    """Write `page` from the results in `out`, with its figures and tables in a folder beside it.

    Parameters
    ----------
    out : Path
        Folder of the results of `reproduce`.
    page : Path
        A Markdown file; its figures and tables go into the folder of the same name.
    """
    write_finished(EXPERIMENTS.values(), out)
    tables = {name: out / f"{name}.csv" for name in EXPERIMENTS}
    results = {name: read_csv(table) if table.is_file() else [] for name, table in tables.items()}
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in results.items():
        if rows:
            if folder.resolve() != out.resolve():
                shutil.copy(tables[name], folder)
            save_png(EXPERIMENTS[name].draw(rows), folder / name)
    sections = [INTRODUCTION, _claims(results), "## Experiments"]
    sections += [_section(EXPERIMENTS[name], rows, folder.name) for name, rows in results.items()]
    page.write_text("\n\n".join(section.strip() for section in sections) + "\n", encoding="utf-8")


def _claims(results: dict[str, list[Row]]) -> str:
    lines = ["| claim of the paper | result | reason |", "| --- | --- | --- |"]
    numbers = []
    for claim in CLAIMS:
        absent = [name for name in claim.rests_on if not results[name]]
        if absent:
            lines.append(f"| {claim.text} | **not run** | run `gpexperts reproduce {absent[0]}` |")
            continue
        try:
            verdict, evidence = claim.judge(results)
        except KeyError as missing:  # some of its runs are not finished
            names = ", ".join(f"`gpexperts reproduce {name}`" for name in claim.rests_on)
            lines.append(f"| {claim.text} | **incomplete** | {missing} is missing; run {names} |")
            continue
        lines.append(f"| {claim.text} | **{verdict}** | {REASONS.get(claim.text, '')} |")
        numbers.append(f"- *{claim.text}*: {verdict}. {_minus(evidence[0].upper() + evidence[1:])}.")
    sections = ["## Which claims hold", "\n".join(lines)]
    if numbers:
        sections += ["The numbers:", "\n".join(numbers)]
    return "\n\n".join(sections)


def _minus(text: str) -> str:
    """Typeset hyphens before a digit as minus signs."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text)


def _section(experiment: Experiment, rows: list[Row], folder: str) -> str:
    parts = [f"### {experiment.name}", f"{experiment.paper}: {experiment.about}."]
    if rows:
        seeds = len({row["seed"] for row in rows})
        parts.append(f"Mean ± standard deviation over {seeds} seeds." if seeds > 1 else "One seed.")
        parts.append(f"![{experiment.name}]({folder}/{experiment.name}.png)")
    if note := NOTES.get(experiment.name):
        parts.append(note.strip())
    if rows:
        table = markdown_table(rows, experiment.table)
        parts.append(f"<details><summary>All numbers</summary>\n\n{table}\n</details>")
    if absent := _absent(experiment, rows):
        parts.append(f"Not run: {', '.join(absent)}; run `gpexperts reproduce {experiment.name}`.")
    return "\n\n".join(parts)


def _absent(experiment: Experiment, rows: list[Row]) -> list[str]:
    """Data and methods of the configurations that the rows do not have."""
    if not rows:
        return ["all runs"]
    present = {(row.get("data"), row.get("method")) for row in rows}
    sets = {row.get("data") for row in rows}
    absent = [
        f"{config['data']} {method['method']}" if config["data"] in sets else str(config["data"])
        for config in experiment.configs
        if "data" in config
        for method in config.get("methods", [])
        if (config["data"], method["method"]) not in present
    ]
    return list(dict.fromkeys(absent))
