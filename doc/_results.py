"""The results page: what the reproduction scripts found, made from the files that they left."""

import ast
import csv
import shutil
from pathlib import Path

PAGE = """# Results

What the papers print, beside what this package finds with the scripts in `examples/reproduction/`. Each script has
a quick form (`--quick`), keeps its runs so that a study that was cut goes on, and leaves the files that this page is
made from. A cell holds our mean (its standard error) / the published number / the difference in our standard errors.
Where a published figure is not reached, the text above its table says why.
"""


# the papers' own order, then what is ours
ORDER = (
    "table1",
    "table4",
    "figure1",
    "figure2",
    "figure3",
    "mixture_figure2",
    "divergence_table3",
    "membership_table2",
)


def _place(path):
    name = path.stem.removesuffix("_summary")
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _read(path):
    """Header lines as a dictionary (the first is the title), and the rows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line[2:] for line in lines if line.startswith("# ")]
    facts = dict(comment.split(": ", 1) for comment in comments[1:])
    return comments[0], facts, list(csv.DictReader(line for line in lines if not line.startswith("# ")))


def _number(text, digits=4):
    return f"{float(text):.{digits}g}" if text else ""


def _cell(row):
    parts = [f"{_number(row['ours'])} ({_number(row['standard error'], 2)})"]
    if row["published"]:
        parts.append(_number(row["published"]))
        parts += [f"{float(row['difference']):+.1f}"] if row["difference"] else []
    return " / ".join(parts)


def _table(rows):
    columns = list(dict.fromkeys(row["column"] for row in rows))
    cells = {}
    for row in rows:
        cells.setdefault(row["row"], {})[row["column"]] = _cell(row)
    lines = ["| | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    lines += [f"| {label} | " + " | ".join(by.get(c, "") for c in columns) + " |" for label, by in cells.items()]
    return "\n".join(lines)


def _story(script):
    """What the script says of itself, without its command line."""
    paragraphs = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))).split("\n\n")
    return "\n\n".join(p for p in paragraphs if "python examples/" not in p)


def results_page(folder: Path, images: Path) -> str:
    """The page in Markdown; figures are copied to `images`, which lies beside the page.

    Parameters
    ----------
    folder : Path
        The scripts, with their files in its ``results``.
    images : Path
        Where the figures go.
    """
    parts = [PAGE]
    images.mkdir(exist_ok=True)
    for path in sorted((folder / "results").glob("*_summary.csv"), key=_place):
        title, facts, rows = _read(path)
        name, script = path.stem.removesuffix("_summary"), Path(facts["command"].split()[1]).name
        parts += [f"## {title}", _story(folder / script)]
        parts.append(f"`{facts['command']}`, {facts['date']}, {facts['versions']}; {rows[0]['seeds']} seeds.")
        for figure in sorted((folder / "results").glob(f"{name}*.png")):
            shutil.copy(figure, images)
            parts.append(f"![{title}]({images.name}/{figure.name})")
        parts.append(_table(rows))
    return "\n\n".join(parts) + "\n"
