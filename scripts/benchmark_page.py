"""docs/benchmarks.md and docs/benchmarks.json: one part for each script that measures.

A part is replaced by the script that wrote it; the others stay as they are.
"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PARTS = ["sensing", "training", "federation", "sums", "physics", "sealed", "map"]
MARK = re.compile(r"^<!-- part: (\w+) -->\n", re.M)


def write(part, page, document):
    """Puts a part's Markdown and numbers in the place of its last ones."""
    file = DOCS / "benchmarks.json"
    whole = json.loads(file.read_text()) if file.exists() else {}
    whole[part] = document
    whole = {name: whole[name] for name in PARTS if name in whole}
    file.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    file = DOCS / "benchmarks.md"
    pieces = MARK.split(file.read_text()) if file.exists() else [""]
    pages = dict(zip(pieces[1::2], pieces[2::2])) | {part: page}
    parts = (f"<!-- part: {name} -->\n\n{pages[name].strip()}\n" for name in PARTS if name in pages)
    about = "Each part names the command that wrote it. All numbers, round by round: [benchmarks.json](benchmarks.json)."
    file.write_text("\n".join([f"# Benchmarks\n\n{about}\n", *parts]))
