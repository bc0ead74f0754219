import re
import time
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from support.records import a_gpu_record
from support.studies import a_failure, a_report, a_trial
from vtune.domain.experiment import Limit, Limits, Price
from vtune.domain.machine import Machine
from vtune.domain.trial import TrialStatus
from vtune.reporting.markdown import markdown

FOUR = {"workers": 4}
BASELINE = a_trial(1, 10.0)
DOLLARS = Price(per_hour=3.67, currency="$")


def html(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def test_the_verdict_comes_first_then_why_next_adoption_and_trials() -> None:
    text = markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR), a_failure(3), price=DOLLARS))
    order = [
        "# demo", "**adopt workers=4 (trial 2): 3.1× ± 0.1", "## Why", "## Next", "## How to adopt it",
        "\n--set workers=4", "## Trials", "| 1 |", "| 2 |", "| 3 |", "## What failed", "exit code 1", "## Notes",
    ]  # fmt: skip
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "1 trial did not complete: crashed" in text
    assert re.search(r"workers=4: 3\.1× ± 0\.1, saves \S+ \w+ / \$\d", text)


def test_every_row_has_as_many_cells_as_the_head() -> None:
    text = markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR), a_failure(3, detail="a | b")))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 5 and len({line.count("|") for line in table}) == 1
    assert html(text).count("<tr>") == 4


def test_gpu_columns_only_where_a_gpu_was_seen() -> None:
    without, with_ = markdown(a_report(BASELINE)), markdown(a_report(replace(a_gpu_record(trial=1), asked={})))
    assert "VRAM" not in without and without.count("no GPU was seen") == 1
    assert "VRAM peak" in with_ and "67.2 GiB" in with_ and "17 %" in with_ and "no GPU was seen" not in with_
    assert "energy&#95;j" not in with_ and "energy_j of GPU 0 is not known: Not Supported" in with_


def test_no_trial_yet_is_a_whole_report() -> None:
    text = markdown(a_report())
    assert "no trial was recorded yet" in text and "vtune probe" in text and "## Trials" not in text


def test_failures_only_are_told_with_their_evidence_alike_ones_once() -> None:
    words = ["Traceback (most recent call last):", "RuntimeError: out of room"]
    failed = [a_failure(n, TrialStatus.OUT_OF_RAM, "killed at 31 GiB", words) for n in range(1, 6)]
    text = markdown(a_report(*failed, a_failure(6)))
    assert "none of 6 trials completed: 5 out of ram, 1 crashed" in text
    assert text.count("RuntimeError: out of room") == 1 and "trials 1, 2, 3, 4, 5, out of ram" in text
    assert "How to adopt" not in text


def test_nothing_feasible_names_the_limit_and_the_nearest_relaxation() -> None:
    limits = Limits(ram=Limit(bytes=2**30, text="1GiB"))
    text = markdown(a_report(BASELINE, a_trial(2, 20.0, asked=FOUR), limits=limits))
    assert "no trial fits the limits; trial 1 is nearest: --ram-limit 3GiB lets it in" in text
    assert text.count("over the RAM limit") == 2 and "limits: RAM 1GiB" in text


def test_a_tie_is_called_one() -> None:
    text = markdown(a_report(BASELINE, a_trial(2, 10.2, asked=FOUR)))
    assert "keep your own settings (trial 1): no other is distinguishably faster" in text
    assert "adopt" not in text.lower() and "--precise" in text


def test_another_effective_batch_is_called_another_training() -> None:
    large = a_trial(2, 31.0, asked={"batch_size": 4}, batch=4, measured={"samples_per_epoch": 8000})
    text = markdown(a_report(BASELINE, large))
    assert "another training: the effective batch is 4 instead of 2" in text and "×2 for SGD" in text
    assert "×1.41 for Adam" in text and "8000 samples instead of 4000" in text


def test_cold_against_warm_is_said_and_nothing_is_adopted() -> None:
    cold, warm = a_trial(1, 10.0, measured={"cache": "cold"}), a_trial(2, 31.0, asked=FOUR, measured={"cache": "warm"})
    text = markdown(a_report(cold, warm))
    assert "read its data from another cache" in text and "measure the baseline again" in text
    assert "How to adopt" not in text


def test_a_faster_trial_over_a_limit_is_told_with_what_it_would_take() -> None:
    large = a_trial(2, 31.0, asked=FOUR, measured={"ram_peak_bytes": 9 * 2**30})
    text = markdown(a_report(BASELINE, large, limits=Limits(ram=Limit(bytes=4 * 2**30, text="4GiB"))))
    assert "what is faster is over a limit" in text and "--ram-limit 9GiB lets trial 2 in" in text


def test_without_a_price_there_is_no_money_and_without_epochs_no_projection() -> None:
    unknown = replace(
        BASELINE, measurement=replace(BASELINE.measurement, projected=type(BASELINE.measurement.projected)())
    )
    text = markdown(a_report(unknown))
    assert "$" not in text and "cost" not in text and "| whole run |" not in text and "vtune.run.epochs" in text


def test_a_stand_in_for_the_users_own_settings_is_called_one_and_saves_nothing() -> None:
    text = markdown(a_report(a_trial(1, 10.0, asked={"workers": 2}), a_trial(2, 31.0, asked=FOUR), price=DOLLARS))
    assert "no trial of your own settings can be compared" in text and "saves" not in text and "without --set" in text


def test_what_the_study_was_measured_on_is_told_without_its_name() -> None:
    machine = Machine(
        host="secret-host", kernel="6", cpu_model="EPYC", cores=12.0, ram_bytes=170 * 2**30, shm_bytes=None
    )
    text = markdown(a_report(BASELINE, machine=machine))
    assert "measured on 12 cores, EPYC, 170 GiB of RAM" in text and "secret-host" not in text


HOSTILE = ["<script>alert(1)</script>", "![x](http://e.example/a)", "a | b | c", "```\n# x", "\x1b[31m", "x" * 10_000,
           "\u202egnp", "=cmd()", "[l](javascript:x)\n\n<b>", "**b**", "--set workers=$(reboot)"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert_wherever_it_stands(text: str) -> None:
    diagnosis = replace(BASELINE.diagnosis, verdict=text, why=(text,), next=(text,))
    gpu = replace(a_gpu_record().measurement.gpus[0], name=text, unknown={text: text})
    records = [
        replace(BASELINE, diagnosis=diagnosis, notes=(text,), settings={"workers": text, text: 1}),
        replace(a_trial(2, 31.0, asked=FOUR), diagnosis=diagnosis, settings={"workers": 4, text: text}, reason=text),
        a_failure(3, detail=text, words=[text, text]),
    ]
    measured = replace(records[0].measurement, gpus=(gpu,), unsteady_because=text, cache=text, steady=False)
    records[0] = replace(records[0], measurement=measured)
    machine = Machine(host=text, kernel=text, cpu_model=text, cores=1.0, ram_bytes=1, shm_bytes=1, gpus=(text,))
    document = markdown(replace(a_report(*records, machine=machine), study=text, journal_notes=(text,)))
    rendered = html(document)
    allowed = {"h1", "h2", "p", "strong", "ul", "li", "pre", "code", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"</?([a-z0-9]+)", rendered)) <= allowed
    assert "\x1b" not in document and "\u202e" not in document
    assert rendered.count("<h1>") == 1 and rendered.count("<h2>") == document.count("\n## ")
    assert rendered.count("<tr>") == 4 and max(map(len, document.splitlines())) < 8000
    flags = [line for line in document.splitlines() if line.startswith("--set")]
    assert all(re.fullmatch(r"--set workers=4", line) for line in flags[:1])


def test_five_hundred_trials_are_reported_within_a_second() -> None:
    records = [a_trial(n, 10 + n % 7, asked={"workers": n % 20} if n > 1 else {}) for n in range(1, 501)]
    started = time.process_time()
    text = markdown(a_report(*records))
    assert text.count("\n| ") == 502 and time.process_time() - started < 1


def test_a_baseline_that_shared_its_machine_is_not_held_against_the_user() -> None:
    text = markdown(a_report(a_trial(1, 10.0, measured={"others_cores": 1.5}), a_trial(2, 31.0, asked=FOUR)))
    assert "other programs kept 1.5 cores busy during trial 1" in text
