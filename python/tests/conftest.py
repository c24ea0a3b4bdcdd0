"""What the wheel's tests begin with."""

import signal

import pytest

import fedtse


@pytest.fixture
def interrupts():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background and it would be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def corridor(tmp_path_factory):
    """A dataset with features of two fleets: 50 minutes of the corridor, after the warm-up."""
    folder = tmp_path_factory.mktemp("data") / "corridor"
    fedtse.simulate(folder, minutes=60, seed=3)
    fedtse.features(folder, rates=[20, 60], providers=[2])
    return folder
