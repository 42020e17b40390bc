"""How columns are understood and encoded, for every library that makes data frames."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpexperts.columns import ColumnEncoder
from gpexperts.columns.encoder import profile_columns
from gpexperts.columns.frames import frame_of
from gpexperts.columns.profile import merged_profile
from gpexperts.exceptions import ColumnWarning

LIBRARIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
}


def table(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "count": rng.integers(9, size=n),
            "town": pd.Categorical(rng.choice(["north", "south", "west"], n)),
            "code": [f"c{i}" for i in rng.integers(40, size=n)],
            "new": rng.random(n) > 0.5,
            "when": pd.date_range("2021-01-01", periods=n, freq="95h", tz="Europe/Berlin"),
        }
    )
    frame.loc[frame.index % 17 == 3, "x"] = np.nan
    frame.loc[frame.index % 50 == 10, "town"] = None
    return frame


def encoder_of(X: Any, categorical: Any = "from_dtype") -> ColumnEncoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        return ColumnEncoder.of(profile_columns(frame_of(X), categorical))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_inputs(library: str) -> None:
    frame = table()
    expected = encoder_of(frame)
    made = LIBRARIES[library](frame)
    encoder = encoder_of(made)
    assert encoder == expected
    np.testing.assert_array_equal(encoder.encoded(made)[0], expected.encoded(frame)[0])
    kinds = [column.kind for column in encoder.columns]
    assert kinds == ["number", "number", "category", "category", "boolean", "date"]
    assert encoder.scale_names == [
        "x", "x (missing)", "count", "town", "code", "new",
        "when", "when (hour)", "when (weekday)", "when (season)",
    ]  # fmt: skip


def test_levels_are_at_distance_1_and_gaps_are_a_level() -> None:
    frame = pd.DataFrame({"town": ["a", "b", "a", "b", None, None]})
    encoder = encoder_of(frame)
    Z, notes = encoder.encoded(frame)
    assert notes == []
    distance = np.linalg.norm(Z[:, None] - Z, axis=2)
    same = np.array([0, 1, 0, 1, 2, 2])
    np.testing.assert_allclose(distance, same[:, None] != same, atol=1e-12)
    assert encoder.scale_index is not None
    assert len(set(encoder.scale_index)) == 1


def test_unseen_and_rare_levels_are_one_and_counted() -> None:
    frame = pd.DataFrame({"town": ["a"] * 5 + ["b"] * 5 + ["rare", "once"]})
    with pytest.warns(
        ColumnWarning, match=r"'town' has 2 rare levels \(2 of 12 rows\), which are taken as one"
    ):
        encoder = ColumnEncoder.of(profile_columns(frame_of(frame), "from_dtype"))
    new = pd.DataFrame({"town": ["a", "rare", "unseen", None]})
    with pytest.warns(
        ColumnWarning, match=r"2 rows of 2 rare or unseen levels \('rare', 'unseen'\).*1 row without"
    ):
        Z = encoder.transform(new)
    np.testing.assert_array_equal(Z[1], Z[2])
    np.testing.assert_array_equal(Z[1], Z[3])
    assert np.linalg.norm(Z[0] - Z[1]) == pytest.approx(1.0)


def test_gaps_of_numbers_are_filled_with_an_indicator_where_training_had_gaps() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [1.0, 2.0, 6.0]})
    encoder = encoder_of(frame)
    np.testing.assert_array_equal(encoder.encoded(frame)[0], [[1, 0, 1], [2, 1, 2], [3, 0, 6]])
    with pytest.warns(ColumnWarning, match="column 'b' has 1 row without a value, filled with the mean"):
        Z = encoder.transform(pd.DataFrame({"a": [np.nan], "b": [np.nan]}))
    np.testing.assert_allclose(Z, [[2, 1, 3]], rtol=1e-8)


def test_an_empty_column_is_without_effect() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "none": [np.nan, np.nan]})
    with pytest.warns(ColumnWarning, match="'none' has no values and is without effect"):
        encoder = ColumnEncoder.of(profile_columns(frame_of(frame), "from_dtype"))
    Z, notes = encoder.encoded(pd.DataFrame({"a": [1.0, 2.0], "none": [5.0, np.nan]}))
    assert notes == []
    np.testing.assert_array_equal(Z, [[1, 0], [2, 0]])


@pytest.mark.parametrize(
    ("start", "step", "n", "cycles"),
    [
        ("2020-01-01", "10min", 50, ()),
        ("2020-01-01", "1h", 72, ("hour",)),
        ("2020-01-01", "1D", 40, ("weekday",)),
        ("2020-01-01", "6h", 200, ("hour", "weekday")),
        ("2020-01-06", "7D", 200, ("season",)),
        ("2020-01-01", "31h", 800, ("hour", "weekday", "season")),
    ],
)
def test_cycles_are_those_that_the_span_supports(
    start: str, step: str, n: int, cycles: tuple[str, ...]
) -> None:
    frame = pd.DataFrame({"when": pd.date_range(start, periods=n, freq=step)})
    (column,) = encoder_of(frame).columns
    assert column.cycles == cycles


def test_dates_are_elapsed_days_and_points_on_circles() -> None:
    when = pd.date_range("2020-02-01", periods=900, freq="25h", tz="Europe/Berlin")
    encoder = encoder_of(pd.DataFrame({"when": when}))
    Z, _ = encoder.encoded(pd.DataFrame({"when": when}))
    seconds = (when - when[0]).total_seconds()
    np.testing.assert_allclose(Z[:, 0] - Z[0, 0], seconds / 86400, atol=1e-9)
    local = [t.to_pydatetime() for t in when]  # of the column's time zone, summer time included
    for k, share in enumerate(
        (
            [(t.hour * 3600 + t.minute * 60) / 86400 for t in local],
            [t.weekday() / 7 for t in local],
            [
                (t.replace(tzinfo=None) - dt.datetime(t.year, 1, 1))
                / (dt.datetime(t.year + 1, 1, 1) - dt.datetime(t.year, 1, 1))
                for t in local
            ],
        )
    ):
        angle = 2 * np.pi * np.array(share)
        np.testing.assert_allclose(Z[:, 1 + 2 * k], np.sin(angle), atol=1e-6)
        np.testing.assert_allclose(Z[:, 2 + 2 * k], np.cos(angle), atol=1e-6)


def test_dates_of_another_zone_are_converted() -> None:
    when = pd.DataFrame({"when": pd.date_range("2020-02-01", periods=90, freq="25h", tz="Europe/Berlin")})
    encoder = encoder_of(when)
    elsewhere = when.assign(when=when["when"].dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_array_equal(encoder.encoded(when)[0], encoder.encoded(elsewhere)[0])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_zone_on_one_side_only_is_an_error(library: str) -> None:
    make = LIBRARIES[library]
    plain = pd.DataFrame({"when": pd.date_range("2020-02-01", periods=9)})
    zoned = pd.DataFrame({"when": plain["when"].dt.tz_localize("UTC")})
    with pytest.raises(ValueError, match=r"'when' has no time zone, but in training it had UTC"):
        encoder_of(make(zoned)).encoded(make(plain))
    with pytest.raises(ValueError, match=r"'when' has the time zone UTC, but in training it had none"):
        encoder_of(make(plain)).encoded(make(zoned))


def test_mixed_time_zones_are_an_error() -> None:
    mixed = [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01", tz="Asia/Tokyo")]
    frame = pd.DataFrame({"when": pd.Series(mixed, dtype=object)})
    with pytest.raises(ValueError, match=r"'when' cannot be compared.*to_datetime\(…, utc=True\)"):
        encoder_of(frame)


def test_levels_of_mixed_types() -> None:
    different = encoder_of(pd.DataFrame({"a": pd.Series(["x", 1, "x", 1], dtype=object)}))
    assert different.columns[0].levels == ("1", "x")
    with pytest.raises(ValueError, match=r"'a' has levels of mixed types: 1 \(int\) and the text '1'"):
        encoder_of(pd.DataFrame({"a": pd.Series(["1", 1, "1", 1], dtype=object)}))


def test_equal_numbers_are_one_level() -> None:
    whole = pd.DataFrame({"a": [1, 2, 1, 2]})
    encoder = encoder_of(whole, ["a"])
    # A gap makes floats of a column of integers.
    Z, notes = encoder.encoded(pd.DataFrame({"a": [1.0, 2.0]}))
    assert notes == []
    np.testing.assert_array_equal(Z, encoder.encoded(whole)[0][:2])


@pytest.mark.parametrize("choice", [[False, True], [1], [-1], ["b"]])
def test_chosen_columns_are_categories_and_others_numbers(choice: list[Any]) -> None:
    frame = pd.DataFrame({"a": [True, False, True], "b": [1.0, 2.0, 1.0]})
    assert [column.kind for column in encoder_of(frame, choice).columns] == ["number", "category"]


def test_an_object_array_may_have_categories() -> None:
    X = np.array([[1, "a"], [2, "b"], [3, "a"], [None, "b"]], dtype=object)
    encoder = encoder_of(X, [1])
    assert [column.kind for column in encoder.columns] == ["number", "category"]
    assert encoder.columns[0].gaps
    assert encoder.columns[1].levels == ("a", "b")


@pytest.mark.parametrize(
    ("column", "categorical", "message"),
    [
        (["a", "b"], None, "cannot be converted to float"),
        ([1.0, np.inf], "from_dtype", "contains infinity: column 'a', in 1 of 2 rows"),
        ([1j, 2j], "from_dtype", "neither a number, a category nor a date"),
        ([1.0, 2.0], ["b"], "categorical_features names 'b'; the columns are a"),
        ([1.0, 2.0], [4], "position 4, but X has 1 columns"),
        ([1.0, 2.0], [True, False], "mask of 2, but X has 1 columns"),
    ],
)
def test_bad_columns(column: list[Any], categorical: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoder_of(pd.DataFrame({"a": column}), categorical)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": [[1], [2]]}),
        pl.DataFrame({"a": [[1], [2]]}),
        pa.table({"a": [[1], [2]]}),
        np.array([[[1]], [[2, 3]]], dtype=object),
    ],
    ids=["pandas", "polars", "arrow", "array"],
)
def test_lists_are_no_levels(X: Any) -> None:
    with pytest.raises(ValueError, match=r"holds .*[lL]ist.* neither a number, a category nor a date"):
        encoder_of(X, [0])


@pytest.mark.parametrize("library", LIBRARIES)
def test_text_in_a_column_of_numbers_is_named(library: str) -> None:
    encoder = encoder_of(pd.DataFrame({"a": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="Column 'a' holds values that cannot be converted to float"):
        encoder.encoded(LIBRARIES[library](pd.DataFrame({"a": ["one", "two"]})))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(0, 1000))
def test_pieces_of_a_table_give_the_encoder_of_the_whole(sizes: list[int], seed: int) -> None:
    frame = table(sum(sizes), seed)
    pieces, start = [], 0
    for size in sizes:
        pieces.append(profile_columns(frame_of(frame.iloc[start : start + size]), "from_dtype"))
        start += size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        merged = ColumnEncoder.of(map(merged_profile, zip(*pieces, strict=True)))
    assert merged == encoder_of(frame)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=2, max_size=30))
def test_decode_returns_what_was_encoded(levels: list[str | None]) -> None:
    frame = pd.DataFrame({"level": levels, "x": np.arange(len(levels), dtype=float)})
    encoder = encoder_of(frame)
    kept = set(encoder.columns[0].levels)
    decoded = encoder.decode(encoder.encoded(frame)[0])
    if encoder.columns[0].kind != "empty":
        assert decoded[:, 0].tolist() == [v if v is None or v in kept else "(other)" for v in levels]
    assert decoded[:, 1].tolist() == frame["x"].tolist()


def test_decode_of_dates_and_gaps() -> None:
    when = pd.to_datetime(["2020-01-01 10:30:00", None, "2020-03-05 00:00:01"])
    frame = pd.DataFrame({"when": when, "x": [1.0, np.nan, 2.5], "new": [True, False, None]})
    encoder = encoder_of(frame)
    assert encoder.decode(encoder.encoded(frame)[0]).tolist() == [
        ["2020-01-01T10:30:00", 1.0, "True"],
        [None, None, "False"],
        ["2020-03-05T00:00:01", 2.5, None],
    ]


def test_numbers_without_gaps_are_not_copied() -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    encoder = encoder_of(X)
    assert encoder.is_plain
    assert encoder.choice is None
    assert encoder.encoded(X)[0] is X
