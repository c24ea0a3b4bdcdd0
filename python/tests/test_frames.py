"""Features of tables in memory: whoever made the table, the same numbers as of a dataset."""

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import fedtse


@pytest.fixture(scope="module")
def table(corridor):
    """The rows of a dataset, with names of links and vehicles."""
    rows = pyarrow.parquet.read_table(corridor / "trajectories.parquet").to_pandas()
    names = pyarrow.parquet.read_table(corridor / "vehicles.parquet")["name"].to_numpy()
    links = np.asarray(fedtse.Network.corridor().links, dtype=object)
    return pandas.DataFrame({
        "time": rows["time"],
        "vehicle": names[rows["vehicle"]],
        "link": links[rows["link"]],
        "position": rows["position"],
    })


def of_dataset(corridor, name):
    columns = ["travel_time_s", "travel_distance_m", "vehicles"]
    stored = pyarrow.parquet.read_table(corridor / "features" / f"{name}.parquet", columns=["step", *columns])
    steps = np.unique(stored["step"].to_numpy())
    return steps, [stored[column].to_numpy().reshape(len(steps), 17) for column in columns]


class OnlyArrow:
    """A table that speaks Arrow and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


AS = {
    "pandas": lambda table: table,
    "pandas, categories": lambda table: table.astype({"vehicle": "category", "link": "category"}),
    "Polars": lambda table: polars.from_pandas(table),
    "pyarrow": lambda table: pyarrow.Table.from_pandas(table),
    "Arrow's stream": lambda table: OnlyArrow(pyarrow.Table.from_pandas(table)),
    "arrays": lambda table: {name: table[name].to_numpy() for name in table},
    "any order": lambda table: table.sample(frac=1.0, random_state=1),
    "numbers for names": lambda table: table.astype({"vehicle": "int64"}),
}


@pytest.mark.parametrize("kind", AS)
def test_a_table_has_the_features_of_the_dataset_of_its_rows(corridor, table, kind):
    made = fedtse.features(AS[kind](table), network=fedtse.Network.corridor(), rates=[20, 60], gap=60)
    assert made.samples == len(table)
    for name in ("all", "fleet-20", "fleet-60"):
        steps, stored = of_dataset(corridor, name)
        fleet = made.fleets[name]
        assert np.array_equal(made.steps, steps)
        found = [fleet.travel_time_s, fleet.travel_distance_m, fleet.vehicles]
        # Sums of the same numbers; only vehicles of one moment may be added in another order.
        for ours, theirs in zip(found, stored):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_arrays_of_the_right_type_are_not_copied(table):
    from fedtse._frames import columns

    numbers = table.astype({"vehicle": "int64"})
    taken = columns(numbers)
    for name in ("time", "position", "vehicle"):
        assert np.shares_memory(taken[name], numbers[name].to_numpy()), name
    polar = polars.from_pandas(numbers)
    assert np.shares_memory(columns(polar)["time"], polar["time"].to_numpy())


def test_a_table_becomes_a_dataset_to_train_on(table, tmp_path):
    made = fedtse.features(table, network=fedtse.Network.corridor(), out=tmp_path / "own", rates=[60], gap=60)
    assert made["features"]["fleets"][0]["name"] == "fleet-60"
    (row,) = fedtse.train(tmp_path / "own", method="ridge", rate=60, target="raw")
    assert row["score"]["density"]["rmse"] < 20


def test_missing_is_not_zero(table):
    made = fedtse.features(table, network=fedtse.Network.corridor(), rates=[20], gap=60)
    fleet = made.fleets["fleet-20"]
    nobody = fleet.vehicles == 0
    assert nobody.any() and np.isnan(fleet.speed_m_s[nobody]).all()
    assert np.isfinite(fleet.speed_m_s[~nobody]).all()
    # Cells and sub-steps add up to their link's total, to the precision of 32 bits.
    np.testing.assert_allclose(fleet.cell_time_s.sum(axis=(2, 3)), fleet.travel_time_s, rtol=1e-5)


def test_wrong_tables_are_refused_by_row_and_column(table):
    network = fedtse.Network.corridor()
    with pytest.raises(ValueError, match="columns: found time, vehicle; expected time, vehicle, link, position"):
        fedtse.features(table[["time", "vehicle"]], network=network)
    wrong = table.head(1000).copy()
    wrong.loc[500, "link"] = "E99"
    with pytest.raises(ValueError, match='row 500: link: found "E99"'):
        fedtse.features(wrong, network=network)
    wrong.loc[500, "link"] = None
    with pytest.raises(ValueError, match="row 500: link: found nothing"):
        fedtse.features(wrong, network=network)
    wrong = table.head(1000).copy()
    wrong.loc[7, "time"] = np.inf
    with pytest.raises(ValueError, match="row 7: time: found inf"):
        fedtse.features(wrong, network=network)
    with pytest.raises(ValueError, match="network: found none"):
        fedtse.features(table)
    with pytest.raises(ValueError, match="time: found values of type"):
        fedtse.features(table.assign(time="noon"), network=network)
    with pytest.raises(ValueError, match="table: found int"):
        fedtse.features(3, network=network)
