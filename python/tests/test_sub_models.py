"""Guests that bring their own sub-models: in one process."""

import numpy as np
import pytest
from models import Failing, Linear

import fedtse
from fedtse._state import pack, unpack

COMMON = dict(method="fedtse", rate=20, target="raw", epochs=2, progress=False)


def test_a_model_of_ones_own_joins_the_federation_and_learns(corridor):
    own = Linear()
    (row,) = fedtse.train(corridor, guests=[own], **COMMON)
    (still,) = fedtse.train(corridor, guests=[Linear(rate=0.0)], **COMMON)
    assert own.gradients and all(np.isfinite(gradient).all() for gradient in own.gradients)
    assert not np.array_equal(own.weights, Linear().weights)
    # Two epochs of plain descent change the estimates a little, and for the better or worse.
    assert row["score"] != still["score"]
    (fleetless,) = fedtse.train(corridor, **(COMMON | dict(method="tse-n")))
    assert row["score"]["density"]["rmse"] < fleetless["score"]["density"]["rmse"]


def test_a_built_in_model_brought_along_is_the_built_in_model(corridor):
    """Through Python and back, bit for bit: the gradients at the boundary are the same."""
    options = COMMON | dict(arch="paper", epochs=2, q=2)
    (built_in,) = fedtse.train(corridor, **options)
    (brought,) = fedtse.train(corridor, guests=[fedtse.BuiltIn("stgcn", fedtse.Network.corridor())], **options)
    assert brought["score"] == built_in["score"]
    assert [brought[name] for name in ("rounds", "bytes")] == [built_in[name] for name in ("rounds", "bytes")]


def test_the_same_twice_and_beside_a_built_in_guest(corridor):
    options = COMMON | dict(rate=60)
    first = fedtse.train(corridor, guests=[Linear(), None], **options)
    assert first == fedtse.train(corridor, guests=[Linear(), None], **options)
    assert first[0]["rounds"] > 0 and "left" not in first[0]


def test_gradients_at_the_boundary_are_those_of_the_loss(tmp_path):
    """∂L/∂z as it crosses, against differences of the loss that the host reports.

    With one batch an epoch, the training loss of the first epoch is the loss of that batch, before any
    update. Dropout is drawn from the seed: it is the same function each time.
    """
    folder = tmp_path / "short"
    fedtse.simulate(folder, minutes=30, seed=4)
    fedtse.features(folder, rates=[60])

    class Shifted(Linear):
        def __init__(self, shift):
            super().__init__(rate=0.0)
            self.shift = shift.astype(np.float32)

        def forward(self, x):
            return super().forward(x) + self.shift

    def loss(shift):
        guest = Shifted(shift)
        (row,) = fedtse.train(folder, guests=[guest], **(COMMON | dict(rate=60, epochs=1)))
        (gradient,) = guest.gradients
        return row["history"][0]["train"], gradient.reshape(-1, 17, 2).sum(axis=0)

    _, gradient = loss(np.zeros((17, 2)))
    slope = np.linalg.norm(gradient)
    ahead = gradient / slope
    size = 0.1
    difference = (loss(size * ahead)[0] - loss(-size * ahead)[0]) / (2 * size)
    # Central differences err by the third derivative times size²/6, and by the 32-bit rounding of the loss,
    # 1e-7 over 2·size: a hundredth of the slope at most.
    assert slope > 1e-3 and abs(difference - slope) < 0.01 * slope, (difference, slope)


def test_a_run_that_was_broken_off_ends_as_an_undisturbed_one(corridor, tmp_path):
    rows, weights = {}, {}
    for name in ("whole", "broken"):
        options = COMMON | dict(guests=[Linear()], epochs=6, out=tmp_path / name)
        if name == "broken":

            class Stops(Linear):
                def backward(self, grad_z):
                    super().backward(grad_z)
                    # After the first checkpoints, which are kept every 100 rounds... or before them.
                    if len(self.gradients) == 5:
                        raise KeyboardInterrupt

            with pytest.raises(fedtse.FedtseError, match="guest `guest` has stopped"):
                fedtse.train(corridor, **(options | dict(guests=[Stops()])))
        rows[name] = fedtse.train(corridor, **options)
        weights[name] = options["guests"][0].weights
    # Bytes that were sent before the break are in the ledgers too.
    for row in rows["broken"] + rows["whole"]:
        row.pop("bytes")
    assert rows["broken"] == rows["whole"]
    assert np.array_equal(weights["broken"], weights["whole"])


@pytest.mark.parametrize("policy", ["wait", "stop"])
def test_an_exception_ends_the_run_and_names_the_guest(corridor, policy):
    with pytest.raises(fedtse.FedtseError) as failed:
        fedtse.train(corridor, guests=[Failing(), None], absent=policy, **(COMMON | dict(rate=60)))
    assert "guest `guest-1` has stopped: model: ZeroDivisionError: the fleet's own mistake" in str(failed.value)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_a_host_that_skips_goes_on_without_the_guest(corridor):
    (row,) = fedtse.train(corridor, guests=[Failing(), None], absent="skip", **(COMMON | dict(rate=60)))
    assert row["left"] == {"guest-1": "model: ZeroDivisionError: the fleet's own mistake"}
    (whole,) = fedtse.train(corridor, guests=[Linear(), None], absent="skip", **(COMMON | dict(rate=60)))
    assert row["rounds"] == whole["rounds"]


def test_the_host_may_bring_one_too(corridor, tmp_path):
    class Loops:
        """A linear map of what the host sees: loops and the signals' clock."""

        per_link = 1

        def __init__(self):
            self.weights, self.updates = None, 0

        def forward(self, x):
            if self.weights is None:
                self.weights = np.zeros((x.shape[1], 17), dtype=np.float32)
            self.x = x
            return x @ self.weights

        def backward(self, grad_z):
            self.updates += 1
            self.weights = self.weights - np.float32(0.05) * (self.x.T @ grad_z)

        def state_dict(self):
            return {"weights": self.weights, "updates": self.updates}

        def load_state_dict(self, state):
            self.weights, self.updates = state["weights"], state["updates"]

    host = Loops()
    (row,) = fedtse.train(corridor, host=host, guests=[Linear()], **COMMON)
    (usual,) = fedtse.train(corridor, guests=[Linear()], **COMMON)
    assert np.abs(host.weights).max() > 0 and host.updates > 0
    # Nothing of the host's own part is sent.
    assert (row["rounds"], row["bytes"]) == (usual["rounds"], usual["bytes"])
    assert row["score"] != usual["score"]
    rows = []
    for _ in range(2):
        # The second call finds the finished run: the same estimates from the same checkpoint.
        rows.append(fedtse.train(corridor, host=Loops(), out=tmp_path / "kept", **COMMON))
    assert rows[0][0]["score"] == rows[1][0]["score"]


def test_what_is_no_sub_model_is_refused(corridor):
    with pytest.raises(ValueError, match="found a object without `forward`"):
        fedtse.train(corridor, guests=[object()], **COMMON)
    with pytest.raises(ValueError, match="expected a federated method"):
        fedtse.train(corridor, guests=[Linear()], **(COMMON | dict(method="oracle")))
    with pytest.raises(ValueError, match='absent: found "never"'):
        fedtse.train(corridor, guests=[Linear()], absent="never", **COMMON)

    class Short(Linear):
        def forward(self, x):
            return super().forward(x)[:, :3]

    with pytest.raises(ValueError, match=r"its outputs: found \d+ numbers for \d+ samples, expected"):
        fedtse.train(corridor, guests=[Short()], **COMMON)


def test_states_survive_as_bytes_without_pickles():
    state = {
        "a": np.arange(3, dtype=np.float16),
        1: [None, True, 2.5, ("x", np.float64(0.1))],
        "empty": {"b": np.zeros((0, 2))},
    }
    again = unpack(pack(state))
    assert np.array_equal(again["a"], state["a"]) and again["a"].dtype == np.float16
    assert again[1][:3] == [None, True, 2.5] and again[1][3] == ("x", 0.1)
    assert again["empty"]["b"].shape == (0, 2)
    with pytest.raises(ValueError, match="found a set"):
        pack({"a": {1, 2}})
    with pytest.raises(ValueError, match="array of objects"):
        pack({"a": np.array([object()])})
    for wrong in (b"", b"not an archive", pack(state)[:-30]):
        with pytest.raises(ValueError, match="state of a sub-model"):
            unpack(wrong)
