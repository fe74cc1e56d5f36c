"""What the reproduction scripts share: cached runs, a comparison with published numbers, and the files they leave.

A script is a list of jobs (dictionaries of numbers and words) and a function that turns one job into one row of
results, or several.  Rows are written to ``results/NAME.csv`` as they come, under the job they belong to, and what is
there is not run again: a study that was cut goes on where it stopped, and `--fresh` starts over.  With `--quick` the
files lie in ``results/quick``, which is not kept.  The comparison is written to ``results/NAME_summary.csv`` with the
command, the date and the versions in its first lines; the results page of the documentation is made from it.
"""

import argparse
import platform
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import skdro

RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("scikit-learn", "numpy", "scipy", "cvxpy")


def options(doc, **more):
    """Parse --quick, --fresh and --jobs, and further options given as keyword: dict of argparse settings."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few seeds and settings, at most five minutes")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are there")
    parser.add_argument("--seeds", type=int, help="seeds of the full form, fewer than it has")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    for name, settings in more.items():
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args()


def as_rows(result):
    """One row or a list of rows, as a list."""
    return result if isinstance(result, list) else [result]


def call(function, job):
    """The rows of one job, with its seconds."""
    start = time.perf_counter()
    rows = as_rows(function(**job))
    seconds = round(time.perf_counter() - start, 3)
    return [{**job, **row, "seconds": seconds} for row in rows]


class Study:
    """The runs and the files of one script.

    Parameters
    ----------
    name : str
        Of the files.
    args : Namespace
        Of `options`.
    """

    def __init__(self, name, args):
        self.name, self.args = name, args
        self.folder = RESULTS / "quick" if args.quick else RESULTS
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, suffix):
        """Of a file of this study."""
        return self.folder / f"{self.name}{suffix}"

    def run(self, function, jobs, part=""):
        """The rows of all jobs, as a data frame in the order of the jobs; only those not yet there are run."""
        jobs, path = list(jobs), self.path(f"{part}.csv")
        keys = list(jobs[0])
        if self.args.fresh:
            path.unlink(missing_ok=True)
        there = pd.read_csv(path) if path.exists() else None
        done = set() if there is None else {identity(row) for row in there[keys].to_dict("records")}
        left = [job for job in jobs if identity(job) not in done]
        start = time.perf_counter()
        results = Parallel(n_jobs=self.args.jobs, return_as="generator_unordered")(
            delayed(call)(function, job) for job in left
        )
        for k, rows in enumerate(results, 1):
            pd.DataFrame(rows).to_csv(path, mode="a", header=not path.exists(), index=False)
            minutes = (time.perf_counter() - start) / 60
            print(f"\r{self.name}{part}: {k}/{len(left)} runs, {minutes * (len(left) / k - 1):.1f} minutes left  ",
                  end="" if k < len(left) else "\n", file=sys.stderr, flush=True)  # fmt: skip
        rows = pd.read_csv(path)
        order = {identity(job): k for k, job in enumerate(jobs)}
        rank = [order.get(identity(row), -1) for row in rows[keys].to_dict("records")]
        rows = rows.assign(rank=rank).query("rank >= 0").sort_values("rank", kind="stable")
        return rows.drop(columns="rank").reset_index(drop=True)

    def compare(self, title, entries):
        """Print and write ours / published / the difference in our standard errors.

        Parameters
        ----------
        title : str
        entries : list of tuple
            (row, column, values of ours over the seeds, published number or None).
        """
        frame = pd.DataFrame([entry_of(*entry) for entry in entries])
        path = self.path("_summary.csv")
        lines = [
            f"# {title}",
            f"# command: python examples/reproduction/{' '.join(command())}",
            f"# date: {date.today().isoformat()}",
            f"# versions: skdro {skdro.__version__}, python {platform.python_version()}, "
            + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        ]
        path.write_text("\n".join(lines) + "\n" + frame.to_csv(index=False), encoding="utf-8")
        print(f"\n{title}\n(ours, mean and standard error; published; difference in our standard errors)\n")
        print(grid(frame).to_string())

    def save(self, figure, suffix=""):
        """Write a figure."""
        figure.savefig(self.path(f"{suffix}.png"), dpi=110)


def command():
    """The words of this call, without those that change no number."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    if "--jobs" in words:
        del words[words.index("--jobs") : words.index("--jobs") + 2]
    return [word for word in words if word != "--fresh"]


def identity(job):
    """A job as something that survives the way through a CSV file."""
    return tuple(f"{float(v):.12g}" if not isinstance(v, str) and is_number(v) else str(v) for v in job.values())


def is_number(value):
    """Whether a value is a number and not a truth value."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))


def entry_of(row, column, values, published):
    """A row of the summary."""
    values = np.asarray(values, dtype=float)
    mean, n = values.mean(), len(values)
    error = values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    difference = np.nan if published is None or not error > 0 else (mean - published) / error
    return {
        "row": row,
        "column": column,
        "ours": round(mean, 5),
        "standard error": round(error, 5),
        "seeds": n,
        "published": published,
        "difference": round(difference, 2),
    }


def grid(frame):
    """The summary as rows and columns of text."""

    def cell(entry):
        text = f"{entry['ours']:.4g} ({entry['standard error']:.2g})"
        if pd.isna(entry["published"]):
            return text
        return f"{text} / {entry['published']:.4g}" + (
            "" if pd.isna(entry["difference"]) else f" / {entry['difference']:+.1f}"
        )

    texts = frame.assign(text=[cell(entry) for entry in frame.to_dict("records")])
    table = texts.pivot(index="row", columns="column", values="text")
    return table.loc[pd.unique(frame["row"]), pd.unique(frame["column"])].fillna("")


def band(ax, x, values, label, **style):
    """A line of means with two standard errors around it; values of shape (n_seeds, n_points)."""
    values = np.asarray(values, dtype=float)
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros_like(mean)
    (line,) = ax.plot(x, mean, label=label, **style)
    ax.fill_between(x, mean - 2 * error, mean + 2 * error, color=line.get_color(), alpha=0.2, lw=0)
