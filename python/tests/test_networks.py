import numpy as np
import pytest

import fedtse


def test_the_corridor_is_the_papers():
    network = fedtse.Network.corridor()
    assert (len(network), len(network.links), len(network.targets)) == (17, 17, 9)
    assert network.length_m.shape == network.speed_m_s.shape == network.lanes.shape == (17,)
    assert network.turns.shape[1] == 2 and network.turns.max() < 17
    assert all(shape.shape[1] == 2 for shape in network.shapes)
    assert {loop["link"] for loop in network.loops} <= set(network.links)
    assert network.links[network.index("E3")] == "E3"


def test_a_file_gives_the_same_network(tmp_path):
    network = fedtse.Network.grid(rows=3, columns=2)
    network.save(tmp_path / "city.toml")
    again = fedtse.Network.load(tmp_path / "city.toml")
    assert again.hash == network.hash and again.to_toml() == network.to_toml()
    assert np.array_equal(again.turns, network.turns)
    assert fedtse.Network.parse(network.to_toml()).hash == network.hash


def test_errors_are_pythons_with_the_words_of_the_command_line(tmp_path):
    with pytest.raises(OSError, match="nowhere.toml") as missing:
        fedtse.Network.load(tmp_path / "nowhere.toml")
    assert isinstance(missing.value, fedtse.FedtseError)
    with pytest.raises(ValueError, match='found "E99", expected a link of network'):
        fedtse.Network.corridor().index("E99")
    with pytest.raises(fedtse.FedtseValueError):
        fedtse.Network.parse("links = 3")
