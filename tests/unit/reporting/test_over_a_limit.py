"""Reports where some trials fit a limit and others do not."""

from __future__ import annotations

from rich.console import Console

from support.studies import a_report, a_trial
from vtune.domain.experiment import Limit, Limits
from vtune.reporting.markdown import markdown
from vtune.reporting.report_panel import report_panel
from vtune.reporting.summary import summarize


def test_what_is_not_faster_is_named_by_a_trial_that_fits() -> None:
    big = a_trial(2, 9.9, asked={"workers": 4}, measured={"ram_peak_bytes": 8 * 2**30})
    small = a_trial(3, 7.0, asked={"workers": 2}, measured={"ram_peak_bytes": 2**30})
    own = a_trial(1, 10.0, measured={"ram_peak_bytes": 2**30})
    limits = Limits(ram=Limit(bytes=4 * 2**30, text="4GiB"))
    verdict = summarize(a_report(own, big, small, limits=limits)).verdict
    assert "all others are slower (trial 3 comes to 0.70×" in verdict and "trial 2" not in verdict
    verdict = summarize(a_report(own, big, limits=limits)).verdict
    assert "what else was measured is over a limit, and does not look faster (trial 2 comes to 0.99×" in verdict


def test_what_grows_over_a_limit_shows_the_figure_that_it_is_judged_by() -> None:
    sizes = {"ram_peak_bytes": 318 * 2**20, "ram_projected_bytes": 323 * 2**20}
    own = a_trial(1, 10.0, measured={"ram_peak_bytes": 200 * 2**20})
    report = a_report(
        own,
        a_trial(2, 20.0, asked={"workers": 4}, measured=sizes),
        limits=Limits(ram=Limit(bytes=320 * 2**20, text="320MiB")),
    )
    console = Console(width=140, record=True, file=open("/dev/null", "w"), color_system=None)  # noqa: SIM115
    console.print(report_panel(report))
    for text in (console.export_text(), markdown(report)):
        assert "318 MiB, would grow to 323 MiB" in text and "200 MiB, " not in text
    # Another limit, another question.
    assert "would grow" not in markdown(a_report(*report.records))
