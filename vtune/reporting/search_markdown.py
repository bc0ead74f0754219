"""A search in report.md: its space, how it ended, which knob mattered; fronts and predictions of any tuned study."""

from __future__ import annotations

from vtune.analysis.walked import tuning_s
from vtune.reporting import search_words as words
from vtune.reporting.inert import in_markdown
from vtune.reporting.phase_markdown import table
from vtune.reporting.phase_words import cost_text
from vtune.reporting.study_report import StudyReport


def search_in_markdown(report: StudyReport) -> list[str]:
    search = report.search
    if search is None:
        return []
    spent = tuning_s(report.records, report.tuned_by, scout_s=report.scout_s)
    space = words.space_text(
        search.settings_in_all,
        len(search.dimensions),
        over_a_limit=search.over_a_limit,
        fell=search.ruled_out_by_failures,
    )
    told = [
        words.heading(search),
        words.state_text(search),
        cost_text(spent, report.tuned_by, report.choice, scouted=report.scout_s > 0),
        *([words.left_out_text(search.left_out)] if search.left_out else []),
        *words.remarks_of(report),
    ]
    parts = ["## Search", " ".join(f"{in_markdown(line, 1000)}." for line in told), f"The space: {in_markdown(space)}."]
    turned = [words.dimension_text(one) for one in search.dimensions]
    lines = [*turned, *words.not_turned_lines(search.not_turned)]
    parts += ["\n".join(f"- {in_markdown(line, 1000)}" for line in lines)] if lines else []
    if search.next_best:
        parts.append(
            "\n".join(
                ["Not tried, best first by the model:", ""]
                + [f"- {in_markdown(words.guess_text(one), 1000)}" for one in search.next_best]
            )
        )
    if (untold := words.importance_untold(report)) is not None:
        parts.append(f"{in_markdown(words.opening(untold))}.")
    elif search.importance:
        parts += [
            f"### {words.opening(words.IMPORTANCE)}",
            f"{in_markdown(words.opening(words.importance_text(search)), 1000)}.",
            table(words.IMPORTANCE_HEAD, words.importance_rows(search)),
        ]
        never = words.unturned_text(search)
        parts += [f"{in_markdown(words.opening(never))}."] if never is not None else []
    return parts


def shown_in_markdown(report: StudyReport) -> list[str]:
    """What phases or a search show by their trials."""
    if report.phases is None and report.search is None:
        return []
    parts = []
    for front in words.fronts_of(report):
        parts += [f"## {words.opening(words.front_text(front))}"]
        parts += ["Each is the fastest of all that need no more of it."]
        parts += [table(words.FRONT_HEAD, words.front_rows(front, report))]
    if (told := words.reckoning_text(report)) is not None:
        parts += [f"## {words.opening(words.FORETOLD)}", f"{in_markdown(told, 1000)}."]
        parts += [table(words.FORETOLD_HEAD, words.foretold_rows(words.reckoning_of(report)))]
    return parts
