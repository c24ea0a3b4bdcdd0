"""What the wheel's tests begin with."""

import pytest

import fedtse


@pytest.fixture(scope="session")
def corridor(tmp_path_factory):
    """A dataset with features of two fleets: 50 minutes of the corridor, after the warm-up."""
    folder = tmp_path_factory.mktemp("data") / "corridor"
    fedtse.simulate(folder, minutes=60, seed=3)
    fedtse.features(folder, rates=[20, 60], providers=[2])
    return folder
