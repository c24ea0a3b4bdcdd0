"""The examples in docstrings are true."""

import doctest

import pytest

import fedtse
import fedtse.api


@pytest.mark.parametrize("module", [fedtse, fedtse.api], ids=lambda module: module.__name__)
def test_examples_of_a_module(module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tried = doctest.testmod(module, extraglobs={"fedtse": fedtse}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried.failed == 0 and tried.attempted > 0


def test_everything_public_is_explained():
    for name in fedtse.__all__:
        assert getattr(fedtse, name).__doc__, name
