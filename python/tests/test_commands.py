"""Simulation, features of datasets, training, estimation, tables and audits."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fedtse


def test_training_gives_the_numbers_of_the_command_line(corridor):
    rows = fedtse.train(corridor, method="ridge", rate=[20, 60], target="raw")
    words = ["train", "--data", corridor, "--method", "ridge", "--rate", "20,60", "--target", "raw", "--json"]
    printed = subprocess.run([sys.executable, "-m", "fedtse", *words], check=True, capture_output=True, text=True)
    assert rows == json.loads(printed.stdout)
    assert [row["rate"] for row in rows] == [20.0, 60.0]
    # More vehicles seen, less error.
    assert rows[1]["score"]["density"]["rmse"] < rows[0]["score"]["density"]["rmse"]


def test_a_federation_trains_estimates_and_is_audited(corridor, tmp_path):
    told = []
    (row,) = fedtse.train(
        corridor, method="fedtse", rate=60, target="raw", guests=2, fusion="concatenate", epochs=2,
        out=tmp_path / "model", progress=lambda *where: told.append(where),
    )
    assert row["rounds"] > 0 and row["bytes"] > 0
    assert told[-1][1:] == (2, 2)
    estimates = fedtse.estimate(corridor, model=tmp_path / "model")
    assert estimates.density.shape == (len(estimates.steps), 17) == estimates.flow.shape
    assert np.isfinite(estimates.density).all()
    columns = estimates.columns()
    assert columns["link"][:17].tolist() == fedtse.Network.corridor().links
    assert columns["density_veh_km_lane"].base is not None, "a view, not a copy"
    report = fedtse.audit(tmp_path / "model" / "guest-1" / "ledger.jsonl", "guest-1")
    assert report["messages"] > 0 and {tally["to"] for tally in report["tallies"]} == {"host"}
    with pytest.raises(ValueError, match="hash of the last line"):
        fedtse.audit(tmp_path / "model" / "guest-1" / "ledger.jsonl", "guest-1", head="00")


def test_refused_options_name_what_was_found(corridor):
    def refused(text, call, *args, **options):
        with pytest.raises(fedtse.FedtseValueError, match="^" + re.escape(text)):
            call(*args, **options)

    refused("method: found `best`, expected one of scale-up, ukf,", fedtse.train, corridor, method="best")
    refused("arch: found `large`, expected one of link, paper", fedtse.train, corridor, arch="large")
    refused("arch: found `3`, expected one of link, paper", fedtse.train, corridor, arch=3)
    refused("target: found `rough`, expected one of raw, smooth", fedtse.train, corridor, target=["raw", "rough"])
    refused("epochs: found 0, expected 1 to 100000", fedtse.train, corridor, epochs=0)
    refused("epochs: found 1.5, expected a whole number, 0 or more", fedtse.train, corridor, epochs=1.5)
    refused("epochs: found `many`, expected a whole number, 0 or more", fedtse.train, corridor, epochs="many")
    refused("seed: found -1, expected a whole number, 0 or more", fedtse.train, corridor, seed=-1)
    refused("q: found 101, expected 1 to 100", fedtse.train, corridor, q=101)
    refused("embedding_size: found 70000, expected a whole number from 0 to 65535", fedtse.train, corridor, embedding_size=70_000)
    refused("rate: found True, expected a number", fedtse.train, corridor, rate=True)
    refused("frozen: found 1, expected True or False", fedtse.train, corridor, frozen=1)
    refused("out: found a value of type object, expected a path", fedtse.train, corridor, out=object())
    refused("minutes: found -3, expected more than 0", fedtse.simulate, "never-made", minutes=-3)
    refused("warm_up: found 10, expected 0 or more and less than all 5 minutes", fedtse.simulate, "never-made", minutes=5)
    refused("flow: found with a demand", fedtse.simulate, "never-made", flow=100, demand="file")
    refused("model: found none, expected", fedtse.estimate, corridor)
    refused("quik: found an unknown keyword, expected one of what, out,", fedtse.reproduce, "table2", quik=True)
    refused("what: found `table9`, expected one of table1, table2,", fedtse.reproduce, "table9")
    refused("party: name of a party: found", fedtse.audit, "ledger.jsonl", "../host")
    with pytest.raises(ValueError, match="fleet `nobody`: not found"):
        fedtse.train(corridor, method="ridge", fleets=["nobody"])
    with pytest.raises(fedtse.FedtseOSError, match="no-ledger"):
        fedtse.audit("no-ledger", "guest")
    assert not os.path.exists("never-made")


def test_values_of_any_kind_that_means_the_same(corridor):
    expected = fedtse.train(corridor, method="ridge", rate=[20.0, 60.0], target=["raw", "smooth"])
    for rate in ([20, 60], (20, np.float32(60)), np.array([20, 60]), iter([np.int64(20), 60.0])):
        assert fedtse.train(corridor, method="ridge", rate=rate, target="raw,smooth") == expected
    assert fedtse.train(str(corridor), method="ridge", rate=20, target="raw") == expected[:1]
    (row,) = fedtse.train(corridor, method="oracle", rate=20, target="raw", epochs=1.0, seed=np.int64(2))
    assert row == fedtse.train(corridor, method="oracle", rate=20, target="raw", epochs=1, seed=2)[0]


def test_what_a_value_raises_is_raised(corridor):
    def rates():
        yield 20
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        fedtse.train(corridor, method="ridge", rate=rates())


def test_other_threads_run_meanwhile(corridor, tmp_path, interrupts):
    # Only another thread ends this training, so that it has to run while the training does: with Python's lock
    # held the training would finish all its epochs instead.
    def count_then_interrupt():
        for _ in range(20):
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=count_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        # The slowest training there is.
        options = dict(method="oracle-cell", arch="paper", rate=20, target="raw", out=tmp_path / "model")
        thread.start()
        fedtse.train(corridor, epochs=100_000, progress=False, **options)
    thread.join()


def test_interrupted_training_stops_and_goes_on_later(corridor, tmp_path, interrupts):
    rows = {}
    for name in ("whole", "broken"):
        out = tmp_path / name
        options = dict(method="oracle", rate=20, target="raw", epochs=60, out=out)
        if name == "broken":
            def interrupt(what, done, total):
                if 1 <= done < total:
                    signal.raise_signal(signal.SIGINT)

            with pytest.raises(KeyboardInterrupt):
                fedtse.train(corridor, progress=interrupt, **options)
            assert not (out / "model.json").exists()
        rows[name] = fedtse.train(corridor, progress=False, **options)
    assert rows["broken"] == rows["whole"]


def test_what_a_progress_function_raises_stops_the_work(corridor):
    def refuse(what, done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        fedtse.train(corridor, method="fedtse", rate=20, target="raw", epochs=50, progress=refuse)


def test_a_table_of_the_paper(tmp_path):
    made = fedtse.reproduce(
        "table2", quick=True, only=["ridge", "scale-up"], rates=[20], target="raw",
        out=tmp_path / "results", data=tmp_path / "data",
    )
    assert "ridge" in made["text"] and (tmp_path / "results").is_dir()
