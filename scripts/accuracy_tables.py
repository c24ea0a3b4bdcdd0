"""Checks that docs/accuracy.md shows the numbers of docs/results; with --write, puts them there.

`fedtse reproduce table2 --publish docs/results`, and table5, make the results; this script only copies numbers,
of the rows that a newcomer needs.
"""

import json
import re
import sys
from pathlib import Path

DOCUMENT = Path("docs/accuracy.md")
RESULTS = Path("docs/results")
BLOCK = r"(<!-- {name}: written and checked by scripts/accuracy_tables.py -->\n)(.*?)(<!-- end of {name} -->)"
QUANTITIES = ["density", "flow"]
# Of each table: our rows, and the paper's.
ROWS = {
    "table2": (
        ["TSE-n, `link`", "scale-up", "ridge", "gradient boosting", "Oracle, `link`", "FedTSE, `link`", "FedTSE-cell, `link`"],
        ["TSE-n", "Oracle", "FedTSE (Q = 1)", "FedTSE-cell (Q = 1)"],
    ),
    "table5": (
        ["scale-up", "ridge, *with labels*", "QEST", "QEST, without hindsight", "UKF", "FedTSE-PI", "FedTSE-HF", "FedTSE-PI+HF"],
        ["QEST",
        "QEST, without hindsight", "UKF", "FedTSE-PI"],
    ),
}


def render(table: dict) -> str:
    """RMSE of density / flow with raw targets, a row for each estimator that is wanted; then the paper's."""
    ours, papers = ROWS[table["table"]]
    target = table["targets"].index("raw")
    head = ["density / flow"] + table["columns"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    seeds = len(table["demand_seeds"])
    for row in wanted(table["rows"], ours):
        cells = [shown(cell, seeds) for cell in row["cells"][target]]
        if any(cell != "–" for cell in cells):
            lines.append("| " + " | ".join([row["label"]] + cells) + " |")
    for row in wanted(table["paper"], papers):
        pairs = zip(*row["rmse"])
        cells = ["–" if None in pair else " / ".join(f"{n:.2f}" for n in pair) for pair in pairs]
        lines.append("| " + " | ".join([f"*paper: {row['label']}*"] + cells) + " |")
    if any("–" in line for line in lines):
        lines += ["", "A dash: not run yet."]
    return "\n" + "\n".join(lines) + "\n\n"


def wanted(rows: list[dict], labels: list[str]) -> list[dict]:
    """The rows with these labels, in their order; a label that no row has is left out."""
    found = {row["label"]: row for row in rows}
    return [found[label] for label in labels if label in found]


def shown(cell: dict | None, seeds: int) -> str:
    if cell is None:
        return "–"
    text = " / ".join(f"{cell[quantity]['rmse']['mean']:.2f}" for quantity in QUANTITIES)
    found = len(cell["demand_seeds"])
    return text if found == seeds else f"{text} ({found} of {seeds} seeds)"


def main() -> int:
    text = DOCUMENT.read_text(encoding="utf-8")
    names = [name for name in ROWS if (RESULTS / f"{name}.json").exists()]
    problems = []
    for name in names:
        table = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        if table["quick"] or not all(len(one["commit"]) == 12 for one in table["made"]["programs"]):
            problems.append(f"docs/results/{name}.json: not a result of a known commit")
        match = re.search(BLOCK.format(name=name), text, re.S)
        if not match:
            problems.append(f"docs/accuracy.md: no block for {name}")
            continue
        expected = render(table)
        if "--write" in sys.argv:
            text = text[: match.start(2)] + expected + text[match.end(2) :]
        elif match.group(2) != expected:
            problems.append(f"docs/accuracy.md: {name} differs from docs/results/{name}.json; run with --write")
    if "--write" in sys.argv:
        DOCUMENT.write_text(text, encoding="utf-8")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"accuracy: {len(names)} tables compared, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
