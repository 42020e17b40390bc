from __future__ import annotations

from pathlib import Path

import pytest

from gpexperts.paper.claims import CLAIMS
from gpexperts.paper.experiment import Row
from gpexperts.paper.experiments import EXPERIMENTS
from gpexperts.paper.notes import NOTES, REASONS
from gpexperts.paper.page import write_page
from gpexperts.paper.runner import reproduce
from gpexperts.paper.tables import read_csv, write_csv

JUDGES = {claim.text: claim.judge for claim in CLAIMS}


def selection_rows(ggm: list[float]) -> list[Row]:
    """NPAE at 0.1; KNN and DNN there from K = 2 on; GGM as given."""
    rows: list[Row] = [{"seed": 0, "method": "NPAE", "n_selected": 10, "smse": 0.1}]
    for K in range(1, 11):
        rows += [
            {"seed": 0, "method": m, "n_selected": K, "smse": 0.2 if K == 1 else 0.101}
            for m in ("KNN", "DNN")
        ]
        rows.append({"seed": 0, "method": "GGM", "n_selected": K, "smse": ggm[K - 1]})
    return rows


@pytest.mark.parametrize(
    ("ggm", "verdict", "first"), [([0.3] * 9 + [0.1], "held", 10), ([0.1] * 10, "did not hold", 1)]
)
def test_nearing_npae_is_judged_by_where_the_error_settles(
    ggm: list[float], verdict: str, first: int
) -> None:
    rows = selection_rows(ggm)
    found, numbers = JUDGES["KNN and DNN near NPAE faster than GGM"](
        {"concrete-selection": rows, "synthetic-k": rows}
    )
    assert found == verdict
    assert f"concrete-selection KNN K = 2, DNN K = 2, GGM K = {first};" in numbers


def test_outputs_are_compared_in_pairs() -> None:
    # Softmax is better by 0.01 in every pair, though the seeds differ by far more than that.
    rows = [
        {"seed": s, "n_selected": 4, "batch_size": 16, "output": o, "smse": s + d, "msll": s - d}
        for s in (0, 1, 2)
        for o, d in (("softmax", 0.0), ("sigmoid", 0.01))
    ]
    verdict, numbers = JUDGES["Softmax beats sigmoid output"]({"concrete-activation": rows})
    assert verdict == "held in part"
    assert "SMSE -0.01000" in numbers
    assert "MSLL +0.01000" in numbers


@pytest.mark.parametrize(("noise", "better"), [(0.0, 5), (0.1, 0)])
def test_npae_is_better_only_beyond_what_chance_explains(noise: float, better: int) -> None:
    # NPAE is better by 0.01 on average; noise of opposite signs in two of three pairs hides it.
    rows = [
        {"seed": s, "n_experts": 5, "method": m, "smse": v, "msll": v}
        for s, wobble in enumerate((-noise, noise, 0.0))
        for m, v in [("NPAE", 0.1 + wobble), *((m, 0.11) for m in ("PoE", "GPoE", "BCM", "RBCM", "GRBCM"))]
    ]
    claim = "NPAE beats the independent rules, on concrete"
    verdict, numbers = JUDGES[claim]({"concrete-baselines": rows})
    assert verdict == ("held" if better else "did not hold")
    assert numbers.endswith(f"for {better} of 5")


def test_the_page_tells_what_was_run_and_what_was_not(tmp_path: Path) -> None:
    reproduce(EXPERIMENTS["selection-scheme"], tmp_path / "out", [0], (60, 12))
    write_page(tmp_path / "out", tmp_path / "docs" / "reproduction.md")
    page = (tmp_path / "docs" / "reproduction.md").read_text()
    assert "![selection-scheme](reproduction/selection-scheme.png)" in page
    assert (tmp_path / "docs" / "reproduction" / "selection-scheme.png").is_file()
    assert (
        "| Disjoint parts beat random ones | **not run** | `gpexperts reproduce partition` would tell |"
        in page
    )
    assert "Not run: all of it; `gpexperts reproduce cost` would run it." in page


def test_the_page_can_be_written_again_from_what_it_shows(tmp_path: Path) -> None:
    reproduce(EXPERIMENTS["selection-scheme"], tmp_path / "out", [0], (60, 12))
    page = tmp_path / "docs" / "reproduction.md"
    write_page(tmp_path / "out", page)
    first = page.read_text()
    write_page(tmp_path / "docs" / "reproduction", page)
    assert page.read_text() == first


def test_what_is_written_as_csv_is_read_as_it_was(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": 0.1 + 0.2, "c": "x, y"}, {"a": -2, "b": 1e-12}]
    write_csv(rows, tmp_path / "t.csv")
    assert read_csv(tmp_path / "t.csv") == rows


def test_every_reason_and_note_belongs_to_something() -> None:
    assert set(REASONS) <= set(JUDGES)
    assert set(NOTES) <= set(EXPERIMENTS)
