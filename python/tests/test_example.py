"""The wheel in a clean environment, and the example of docs/python.md there."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def example():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    return re.search(r"<!-- python example:[^\n]*-->\n```python\n(.*?)```", text, re.S).group(1)


def test_the_example_of_five_lines_run_where_nothing_else_is_installed(tmp_path):
    (wheel,) = (ROOT / "target" / "wheels").glob("*.whl")
    python = tmp_path / "clean" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)
    assert len(example().strip().splitlines()) == 5
    ran = subprocess.run(
        [python, "-I", "-c", example()], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert re.search(r"'rmse': \d+\.\d+", ran.stdout) and ", 17)" in ran.stdout
    shown = subprocess.run([python.parent / "fedtse", "--version"], check=True, capture_output=True, text=True)
    assert shown.stdout.startswith("fedtse ")


def test_the_wheel_is_typed_and_fits_every_python_from_3_11():
    (wheel,) = (ROOT / "target" / "wheels").glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {"fedtse/py.typed", "fedtse/_fedtse.pyi", "fedtse/_fedtse.abi3.so"} <= set(names)
    assert not any(name.startswith(("tests/", "notebooks/", "src/")) for name in names)
