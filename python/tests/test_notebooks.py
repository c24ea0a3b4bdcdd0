"""Every notebook runs from its first cell to its last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "kept without outputs"
    # From the project's folder, where SUMO is found.
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": ROOT}}).execute()
    assert any("image/png" in (output.get("data") or {}) for cell in notebook.cells for output in cell.get("outputs", []))


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["city", "provider", "researcher"]
