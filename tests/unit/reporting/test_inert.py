import csv
import io

import pytest
from markdown_it import MarkdownIt

from vtune.reporting.inert import fenced, in_csv, in_markdown

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/a.png)",
    "[click](javascript:alert(1))",
    "[a]: http://evil.example",
    "http://evil.example and www.evil.example",
    "<http://evil.example>",
    "a | b || c",
    "`code` and ``` fence",
    "**bold** _it_ ~~gone~~ $math$",
    "# heading",
    "- item",
    "1. item",
    "+ item",
    "> quote",
    "---",
    "===",
    "&lt;b&gt; &amp; &#60;",
    "back\\slash \\| \\",
    "line one\n# line two\r\n\n- three",
    "    indented code",
    "\x1b[31mred\x1b[0m \x07 \x00 \x85",
    "\u202egnp.exe\u2066 \u200f",
    "=cmd|' /C calc'!A0",
    "\ud800 lone",
    "☃ größer 数据",
]


def html(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def words_of(rendered: str) -> str:
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        rendered = rendered.replace(entity, char)
    return rendered


@pytest.mark.parametrize("text", HOSTILE)
def test_in_markdown_it_is_text_and_nothing_but_text(text: str) -> None:
    inert = in_markdown(text)
    assert "\n" not in inert and inert.isprintable()
    paragraph, item = html(inert), html(f"- {inert}")
    assert paragraph.count("<") == 2 and paragraph.startswith("<p>") and paragraph.endswith("</p>\n")
    assert item.startswith("<ul>\n<li>") and item.count("<") == 4
    table = html(f"| a | b |\n| --- | --- |\n| {inert} | end |")
    assert table.count("<td>") == 2 and table.count("<") == html("| a | b |\n| --- | --- |\n| x | end |").count("<")
    assert "<td>end</td>" in table


def test_in_markdown_it_reads_as_it_was_written() -> None:
    for text in (
        "<b> & [x](y) | `z` *a* $1,500",
        "_private workers=4 a_b",
        "1. first",
        "# no",
        "C:\\x\\y",
        "a//b http://x",
    ):
        assert words_of(html(in_markdown(text))) == f"<p>{text}</p>\n"


def test_ordinary_words_stay_readable_in_the_source() -> None:
    for text in ("workers=4 batch_size=2 (trial 3): 3.1× ± 0.2", "waits 83% of the time; try --set workers=4"):
        assert in_markdown(text) == text


def test_long_text_is_cut_with_a_mark() -> None:
    assert len(in_markdown("x" * 10_000)) == 400 and in_markdown("x" * 10_000).endswith("…")
    assert len(in_csv("x" * 10_000)) == 400 and in_csv("x" * 10_000).endswith("…")


def test_nothing_closes_a_fence() -> None:
    block = fenced(["a", "```", "`````", "<script>\x1b[1m\n```"])
    rendered = html(block + "\n\nafter")
    assert rendered.count("<pre>") == 1 and "<p>after</p>" in rendered and "<script>" not in rendered


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "  =1", '"=1', "＝1", "-x", "--flag"]
)
def test_in_csv_what_a_spreadsheet_would_run_is_text(text: str) -> None:
    cell = in_csv(text)
    before, apostrophe, after = cell.partition("'")
    assert apostrophe and before.strip(' "') == "" and after[0] == text.strip(' \t\r"')[0]


def test_in_csv_a_cell_that_another_separator_would_cut_off_is_text() -> None:
    assert in_csv("a;=cmd()") == "a;'=cmd()"
    assert in_csv('a; "=cmd()') == "a; \"'=cmd()"


@pytest.mark.parametrize("text", ["-5", "-5.25", "+3", "1e-05", "-1.5e+10"])
def test_in_csv_a_negative_number_stays_a_number(text: str) -> None:
    assert in_csv(text) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_in_csv_every_value_stays_on_one_line_and_can_be_encoded(text: str) -> None:
    line = io.StringIO()
    csv.writer(line).writerow([in_csv(text), "next"])
    assert line.getvalue().count("\n") == 1 and line.getvalue().encode()
    assert len(next(csv.reader([line.getvalue()]))) == 2
