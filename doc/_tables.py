"""Tables and the API page of the documentation: made from the code, so that they cannot disagree with it."""

import importlib
import inspect
from pathlib import Path

from _results import results_page
from sklearn.utils import get_tags

import skdro

FAMILIES = {
    "Wasserstein": ["WassersteinDROClassifier", "FedDROClassifier", "FedOvADROClassifier"],
    "Private federated": ["DPFedDROClassifier", "DPFedERMClassifier", "DPFedSGDClassifier"],
    "Client mixtures": ["BiDROFLRegressor", "BiDROFLClassifier", "AFLRegressor", "AFLClassifier"],
    "One round": ["DPMomentDROClassifier", "DPMomentDRORegressor"],
    "Divergence": ["DROSpiderClassifier", "KLDROSpiderClassifier"],
}


# every public module whose `__all__` makes a section of the API page
SECTIONS = {
    "Estimators": "skdro",
    "Privacy": "skdro.privacy",
    "Privacy: report": "skdro.privacy.report",
    "Privacy: accounting": "skdro.privacy.accounting",
    "Certificates": "skdro.certificates",
    "Model selection": "skdro.model_selection",
    "Preprocessing": "skdro.preprocessing",
    "Inspection": "skdro.inspection",
    "Data sets": "skdro.datasets",
    "Flower": "skdro.flower",
    "Networks": "skdro.torch",
    "Warnings and errors": "skdro.exceptions",
}


def _classes():
    return {
        family: [getattr(skdro, name) for name in names if hasattr(skdro, name)] for family, names in FAMILIES.items()
    }


def _defaults(cls):
    parameters = inspect.signature(cls).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def parameter_table(classes):
    """Markdown table: one row a parameter, one column a class, the default in the cell."""
    defaults = {cls.__name__: _defaults(cls) for cls in classes}
    names = list(dict.fromkeys(name for columns in defaults.values() for name in columns))
    lines = ["| parameter | " + " | ".join(f"`{name}`" for name in defaults) + " |"]
    lines.append("| --- " * (len(defaults) + 1) + "|")
    for name in names:
        cells = [f"`{columns[name]!r}`" if name in columns else "" for columns in defaults.values()]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _takes(function, name):
    return name in inspect.signature(function).parameters


def input_table(classes):
    """Markdown table: what `fit` of each class takes."""
    lines = ["| class | target | `groups` | sparse `X` | missing values | `sample_weight` | `predict_proba` |"]
    lines.append("| --- " * 7 + "|")
    yes = {True: "yes", False: "no"}
    for cls in classes:
        estimator = cls()
        tags = get_tags(estimator)
        target = "numbers" if tags.estimator_type == "regressor" else "two or more classes"
        cells = [
            target,
            yes[_takes(cls.fit, "groups")],
            yes[tags.input_tags.sparse],
            yes[tags.input_tags.allow_nan],
            yes[_takes(cls.fit, "sample_weight")],
            yes[hasattr(cls, "predict_proba")],
        ]
        lines.append(f"| `{cls.__name__}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _public(module_name):
    """Public objects of a module that are classes or functions, by their full names."""
    try:
        module = importlib.import_module(module_name)
    except ImportError:  # a part that is not there, or an extra that is not installed
        return []
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    objects = {name: getattr(module, name) for name in names}
    return [f"{module_name}.{name}" for name, value in objects.items() if inspect.isclass(value) or callable(value)]


def api_page():
    """The API reference as reStructuredText: one section a public module."""
    parts = ["API reference", "=============", ""]
    seen = set()
    for title, module_name in SECTIONS.items():
        names = [name for name in _public(module_name) if name.rpartition(".")[2] not in seen]
        seen |= {name.rpartition(".")[2] for name in names}
        if names:
            parts += [
                title,
                "-" * len(title),
                "",
                ".. autosummary::",
                "   :toctree: generated",
                "   :nosignatures:",
                "",
            ]
            parts += [f"   {name}" for name in sorted(names, key=str.lower)] + [""]
    return "\n".join(parts)


def write_tables(folder: Path) -> None:
    """Write all tables as Markdown files that the pages include, the results page and the API page."""
    (folder.parent / "api.rst").write_text(api_page())
    folder.mkdir(exist_ok=True)
    scripts = folder.parent.parent / "examples" / "reproduction"
    (folder.parent / "results.md").write_text(results_page(scripts, folder))
    families = _classes()
    sections = [f"# {family}\n\n{parameter_table(classes)}\n" for family, classes in families.items() if classes]
    (folder / "parameters.md").write_text("\n".join(sections))
    every = [cls for classes in families.values() for cls in classes]
    (folder / "inputs.md").write_text(input_table(every) + "\n")
