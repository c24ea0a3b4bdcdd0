"""Guests that bring their own sub-models: in one process."""

import numpy as np
import pyarrow.parquet
import pytest
from models import Failing, Linear, Loops

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


def test_what_was_brought_along_estimates_as_the_built_in_model_does(corridor, tmp_path):
    """From what the parties kept, by an object that was never trained itself."""
    options, network = COMMON | dict(arch="paper"), fedtse.Network.corridor()
    fedtse.train(corridor, out=tmp_path / "built-in", **options)
    fedtse.train(corridor, guests=[fedtse.BuiltIn("stgcn", network)], out=tmp_path / "brought", **options)
    expected = fedtse.estimate(corridor, model=tmp_path / "built-in", progress=False)
    parties = dict(party=[tmp_path / "brought" / name / "model" for name in ("host", "guest")], progress=False)
    again = fedtse.BuiltIn("stgcn", network)
    found = fedtse.estimate(corridor, sub_models={"guest": again}, **parties)
    # To the rounding of 32-bit floats: the whole and its parts may add in another order.
    assert np.allclose(found.density, expected.density, rtol=1e-4, atol=1e-3)
    assert np.allclose(found.flow, expected.flow, rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match="sub-model of `guest`: found none, expected the one"):
        fedtse.estimate(corridor, **parties)
    with pytest.raises(ValueError, match="sub-models: found one of `fleet`"):
        fedtse.estimate(corridor, sub_models={"guest": again, "fleet": again}, **parties)
    with pytest.raises(ValueError, match="sub-model of `host`: found a custom one, expected none"):
        fedtse.estimate(corridor, sub_models={"guest": again, "host": Loops()}, **parties)


def test_a_host_that_brought_one_estimates_with_the_errors_that_it_was_scored_with(corridor, tmp_path):
    (row,) = fedtse.train(corridor, host=Loops(), guests=[Linear()], out=tmp_path, **COMMON)
    folders = [tmp_path / name / "model" for name in ("host", "guest")]
    own = {"host": Loops(), "guest": Linear()}
    made = fedtse.estimate(corridor, party=folders, sub_models=own, progress=False)
    truth = pyarrow.parquet.read_table(corridor / "features" / "targets.parquet").to_pydict()
    truth = dict(zip(zip(truth["step"], truth["link"]), truth["density"]))
    targets = [made.links.index(link) for link in fedtse.Network.corridor().targets]
    test = range(len(made.steps) * 8 // 10, len(made.steps))
    errors = [made.density[at, link] - truth[int(made.steps[at]), link] for at in test for link in targets]
    # The same numbers, summed in another order.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(row["score"]["density"]["rmse"], rel=1e-6)


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
