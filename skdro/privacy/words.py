"""A guarantee said in a sentence, and as the little table that a notebook shows."""

from html import escape

__all__ = ["html_table", "sentence"]


def sentence(report) -> str:
    """What a `PrivacyReport` promises, to whom, and through which releases.

    Parameters
    ----------
    report : PrivacyReport

    Returns
    -------
    sentence : str
    """
    epsilon = report.epsilon if report.private else report.nominal_epsilon
    pair = f"total epsilon {epsilon or 0.0:.4g} and delta {report.delta:g} ({report.adjacency.replace('_', '-')})"
    kinds = dict.fromkeys((event.name, event.count) for event in report.events)
    clients = len(report.per_client)
    what = " and ".join(f"{count} noisy release{'s' * (count != 1)} of the {name}" for name, count in kinds)
    source = f"{what} {'from one client' if clients == 1 else f'about {clients} clients'}"
    if report.private:
        said = f"Every {report.unit} is protected with {pair}: {source}. Trusted: {report.trust}."
    else:
        said = (
            f"No {report.unit} is protected: {'; '.join(report.why_not_private)}. "
            f"Otherwise it would be {pair}: {source}."
        )
    if report.assumes:
        said += f" It was taken for public, and read from the data: {', '.join(report.assumes)}."
    return said


def html_table(said: str, text: str) -> str:
    r"""A sentence over the lines "name : value" of a report's text.

    Parameters
    ----------
    said : str
    text : str
        As the report's `repr`; its first line is left out.

    Examples
    --------
    >>> html_table("All is well.", "Report: x\n  noise : none")
    '<p>All is well.</p><table><tr><th>noise</th><td style="text-align: left">none</td></tr></table>'
    """
    rows = [line.strip().split(":", 1) for line in text.splitlines()[1:]]
    cells = "".join(
        f'<tr><th>{escape(name.strip())}</th><td style="text-align: left">{escape(value.strip())}</td></tr>'
        for name, value in rows
    )
    return f"<p>{escape(said)}</p><table>{cells}</table>"
