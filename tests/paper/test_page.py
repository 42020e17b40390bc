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
    """NPAE has SMSE 0.1, KNN and DNN 0.101 for K ≥ 2, GGM as given."""
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
def test_smallest_k_near_npae(ggm: list[float], verdict: str, first: int) -> None:
    rows = selection_rows(ggm)
    found, numbers = JUDGES["KNN and DNN near NPAE faster than GGM"](
        {"concrete-selection": rows, "synthetic-k": rows}
    )
    assert found == verdict
    assert f"concrete-selection KNN K = 2, DNN K = 2, GGM K = {first};" in numbers


def test_outputs_are_compared_pairwise() -> None:
    # Softmax is better by 0.01 in every pair; the seeds differ by 1.
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
def test_npae_is_better_only_beyond_two_standard_errors(noise: float, better: int) -> None:
    # NPAE is better by 0.01 on average; with noise the standard error is larger than that.
    rows = [
        {"seed": s, "n_experts": 5, "method": m, "smse": v, "msll": v}
        for s, wobble in enumerate((-noise, noise, 0.0))
        for m, v in [("NPAE", 0.1 + wobble), *((m, 0.11) for m in ("PoE", "GPoE", "BCM", "RBCM", "GRBCM"))]
    ]
    claim = "NPAE beats the independent rules, on concrete"
    verdict, numbers = JUDGES[claim]({"concrete-baselines": rows})
    assert verdict == ("held" if better else "did not hold")
    assert numbers.endswith(f"for {better} of 5")


def test_page_lists_finished_and_missing_experiments(tmp_path: Path) -> None:
    reproduce(EXPERIMENTS["selection-scheme"], tmp_path / "out", [0], (60, 12))
    write_page(tmp_path / "out", tmp_path / "docs" / "reproduction.md")
    page = (tmp_path / "docs" / "reproduction.md").read_text()
    assert "![selection-scheme](reproduction/selection-scheme.png)" in page
    assert (tmp_path / "docs" / "reproduction" / "selection-scheme.png").is_file()
    assert "| Disjoint parts beat random ones | **not run** | run `gpexperts reproduce partition` |" in page
    assert "Not run: all runs; run `gpexperts reproduce cost`." in page


def test_page_can_be_written_from_its_own_folder(tmp_path: Path) -> None:
    reproduce(EXPERIMENTS["selection-scheme"], tmp_path / "out", [0], (60, 12))
    page = tmp_path / "docs" / "reproduction.md"
    write_page(tmp_path / "out", page)
    first = page.read_text()
    write_page(tmp_path / "docs" / "reproduction", page)
    assert page.read_text() == first


def test_csv_round_trip(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": 0.1 + 0.2, "c": "x, y"}, {"a": -2, "b": 1e-12}]
    write_csv(rows, tmp_path / "t.csv")
    assert read_csv(tmp_path / "t.csv") == rows


def test_reasons_and_notes_belong_to_claims_and_experiments() -> None:
    assert set(REASONS) <= set(JUDGES)
    assert set(NOTES) <= set(EXPERIMENTS)
