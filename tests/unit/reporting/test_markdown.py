import re
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from support.records import a_gpu_record
from support.studies import a_failure, a_report, a_trial
from vtune.analysis.judge import NOT_VALIDATED
from vtune.domain.advice import Advice
from vtune.domain.experiment import Limit, Limits, Price
from vtune.domain.machine import Machine
from vtune.domain.trial import TrialStatus
from vtune.reporting.markdown import markdown
from vtune.reporting.summary import summarize

FOUR = {"workers": 4}
BASELINE = a_trial(1, 10.0)
DOLLARS = Price(per_hour=3.67, currency="$")


def html(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def test_the_verdict_comes_first_then_why_next_adoption_and_trials() -> None:
    best = a_trial(2, 31.0, asked=FOUR)
    best = replace(
        best,
        diagnosis=replace(
            best.diagnosis, advice=(Advice("try vtune probe --set workers=8: they wait", asks={"workers": 8}),)
        ),
    )
    text = markdown(a_report(BASELINE, best, a_failure(3), price=DOLLARS))
    order = [
        "# demo", "**adopt workers=4 (trial 2): 3.1× ± 0.1", "## Why", "## Next", "## How to adopt it",
        "\nvtune probe --study demo --set workers=4", "\nDataLoader(..., num_workers=4)", "## Trials",
        "| 1 |", "| 2 |", "| 3 |", "## What failed", "exit code 1", "## Notes",
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
    seen = replace(a_gpu_record(trial=1), asked={}, notes=("energy_j of GPU 0 is not known: Not Supported",))
    without, with_ = markdown(a_report(BASELINE)), markdown(a_report(seen))
    assert "VRAM" not in without and without.count("no GPU was seen") == 1
    assert "VRAM peak" in with_ and "67.2 GiB" in with_ and "17 %" in with_ and "no GPU was seen" not in with_
    assert "energy&#95;j" not in with_ and "energy_j of GPU 0 is not known: Not Supported" in with_


def test_a_column_of_voxels_only_where_some_trial_knows_them() -> None:
    volumes = a_trial(1, 10.0, measured={"voxels_per_s": 2_359_296.0})
    assert "| voxels/s |" in markdown(a_report(volumes, a_trial(2, 9.0))) and "2.36 million" in markdown(
        a_report(volumes)
    )
    assert "voxels" not in markdown(a_report(a_trial(1, 10.0), a_trial(2, 9.0)))


def test_by_whose_word_the_vram_peak_is_stands_beside_it() -> None:
    text = markdown(a_report(replace(a_gpu_record(trial=1), asked={})))
    assert "VRAM peaks are as told by driver" in text
    assert "as told by" not in markdown(a_report(BASELINE))


def test_gpu_numbers_that_nobody_validated_are_called_so() -> None:
    told = {"asked": {}, "notes": (NOT_VALIDATED,)}
    assert f"- {NOT_VALIDATED}" in markdown(a_report(replace(a_gpu_record(trial=1), **told)))


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


def test_the_users_own_settings_from_a_colder_cache_are_no_rival_and_need_no_third_launch() -> None:
    own = [a_trial(n, rate, measured={"cache": cache}) for n, rate, cache in ((1, 10.0, "mixed"), (2, 11.1, "warm"))]
    text = markdown(a_report(*own, a_trial(3, 10.9, asked={"pin_memory": True}, measured={"cache": "warm"})))
    assert "keep your own settings (trial 2): no other is distinguishably faster (trial 3 comes to 0.98×" in text
    assert "another cache" not in text and "measure the baseline again" not in text and "| repeated |" in text


def test_a_colder_trial_that_does_not_look_faster_is_to_be_measured_again_and_not_the_baseline() -> None:
    cold = a_trial(2, 9.0, asked=FOUR, measured={"cache": "cold"})
    text = markdown(a_report(a_trial(1, 10.0, measured={"cache": "warm"}), cold))
    assert "no other looks faster (trial 2 comes to 0.90×" in text and "what looks faster" not in text
    assert "measure trial 2 again" in text and "vtune probe --study demo --set workers=4" in text
    assert "measure the baseline again" not in text


def test_a_price_is_read_as_it_stands_and_two_of_them_make_no_mathematics() -> None:
    text = markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR), price=DOLLARS))
    assert "&#36;" not in text and "price: \\$3.67 an hour" in text and "price: $3.67 an hour" in html(text)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert prose.count("$") == prose.count("\\$")
    assert "&#36;x&#36;" in markdown(a_report(replace(BASELINE, notes=("$x$",))))


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
    diagnosis = replace(BASELINE.diagnosis, verdict=text, why=(text,), advice=(Advice(text),))
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
    (command,) = (line for line in document.splitlines() if line.startswith("vtune probe --study"))
    words = shlex.split(command)
    assert words[:3] == ["vtune", "probe", "--study"] and (words[4:] == ["--set", "workers=4"] or len(text) > 64)


def test_five_hundred_trials_are_reported_within_a_second() -> None:
    records = [a_trial(n, 10 + n % 7, asked={"workers": n % 20} if n > 1 else {}) for n in range(1, 501)]
    started = time.process_time()
    text = markdown(a_report(*records))
    assert text.count("\n| ") == 502 and time.process_time() - started < 1


def test_a_baseline_that_shared_its_machine_is_not_held_against_the_user() -> None:
    text = markdown(a_report(a_trial(1, 10.0, measured={"others_cores": 1.5}), a_trial(2, 31.0, asked=FOUR)))
    assert "other programs kept 1.5 cores busy during trial 1" in text


def test_a_winner_seen_once_is_unconfirmed_and_the_commands_to_confirm_it_are_given() -> None:
    text = markdown(a_report(BASELINE, a_trial(2, 11.5, asked=FOUR)))
    assert "**adopt workers=4 (trial 2, unconfirmed): 1.15× ± 0.05" in text
    again = "measure both once more to be sure: vtune probe --study demo ; vtune probe --study demo --set workers=4"
    assert again in text and "trials 1, 2 were launched only once" in text
    half = markdown(a_report(BASELINE, a_trial(2, 11.5, asked=FOUR), a_trial(3, 10.1)))
    assert "measure trial 2 once more to be sure: vtune probe --study demo --set workers=4" in half
    beyond = markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR)))
    assert "unconfirmed" not in beyond and "once more" not in beyond


def test_the_command_to_confirm_names_another_results_folder_safely() -> None:
    report = replace(a_report(BASELINE, a_trial(2, 11.5, asked=FOUR)), folder=Path("my results/demo"))
    (line,) = (line for line in summarize(report).next if "once more" in line)
    assert "vtune probe --study demo --results 'my results' --set workers=4" in line
    hostile = a_trial(2, 11.5, asked={"workers": "4; reboot"})
    assert "reboot" not in " ".join(summarize(a_report(BASELINE, hostile)).next)


def test_too_few_steps_are_said_to_be_provisional_or_left_out() -> None:
    few = {"steady": False, "steps_measured": 6}
    text = markdown(a_report(a_trial(1, 10.0, measured=few), a_trial(2, 31.0, asked=FOUR)))
    assert "(trial 2, provisional)" in text and "trial 1 rests on 6 measured steps, not shown to be steady" in text
    assert "measure trial 1 again with more --steps" in text
    kept = markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR, measured=few)))
    assert "keep your own settings (trial 1): what looks faster rests on too few steps" in kept
    assert "| too short |" in kept and "measure trial 2 again with more --steps" in kept


def test_a_baseline_whose_cache_nobody_knows_may_owe_its_slowness_to_it() -> None:
    text = markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR, measured={"cache": "warm"})))
    assert "whether trial 1 read its data cold or warm is not known, trial 2 read it warm" in text
    assert "measure the baseline again" in text
    assert "the cache" not in markdown(a_report(BASELINE, a_trial(2, 31.0, asked=FOUR)))


def test_a_tie_beside_others_is_to_be_measured_again_without_them() -> None:
    busy = a_trial(1, 10.0, measured={"others_cores": 1.2})
    text = markdown(a_report(busy, a_trial(2, 10.5, asked=FOUR)))
    assert "with --precise while nothing else runs to tell them apart" in text
    assert "vtune compare demo:1 demo:2 --race" in text
    assert "while nothing else runs" not in markdown(a_report(BASELINE, a_trial(2, 10.2, asked=FOUR)))
