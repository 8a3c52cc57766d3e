"""Searches with known answers, by a job whose figures are formulas."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_job import Formula, make_of
from highwater import HighwaterError, tune
from highwater.executors import Threads
from highwater.tuning import Tuning, scaled

pytest.importorskip("optuna")

SPACE = {"vm.swappiness": (0, 200), "vm.page_cluster": [3, 0]}


def bowl(settings: Mapping[str, Any], draw: random.Random) -> dict[str, float | None]:
    """Best at a swappiness of 20; page_cluster changes nothing."""
    noise = draw.gauss(0.0, 3.0)
    swappiness = int(settings.get("vm.swappiness", "60"))
    return {
        "db.get.p99": 100.0 + abs(swappiness - 20) + noise,
        "memory.some": swappiness / 20,
        "pgmajfault": float(swappiness),
        "killed": 0.0,
    }


def flat(settings: Mapping[str, Any], draw: random.Random) -> dict[str, float | None]:
    """No setting matters: chance alone, of each setting and seed."""
    own = random.Random(f"{sorted(settings.items())} {draw.random()}")
    return {"db.get.p99": 100.0 + own.gauss(0.0, 5.0), "memory.some": 1.0}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(formula: Formula, **options: Any) -> Tuning:
        monkeypatch.setattr("highwater.plan", make_of(formula))
        options = {"objective": "db.get.p99", "trials": 32, "on": Threads(1), **options}
        return tune("fake", options.pop("space", SPACE), **options)

    return of


def test_it_finds_what_is_better_and_drops_what_is_not_needed(run: Any) -> None:
    tuning = run(bowl)
    assert tuning.is_worth_it and list(tuning.settings) == ["vm.swappiness"]
    assert abs(tuning.settings["vm.swappiness"] - 20) <= 8
    # From 140 to about 100.
    assert tuning.gain is not None and 20.0 < tuning.gain.low < tuning.gain.mean < 30.0
    assert tuning.sentence.startswith("Worth it: with vm.swappiness=")
    assert "on 16 seeds that no trial saw is 2" in tuning.sentence
    assert tuning.sentence.endswith("better on 4 of 4 similar machines, worse on none.")
    assert [one.machine for one in tuning.neighbours] == [
        "half the memory",
        "twice the memory",
        "1 of its 3 CPUs",
        "6 CPUs instead of 3",
    ]
    assert tuning.what == "fake, quick on small-vm under 6.1"


def test_bad_trials_run_half_of_their_seeds(run: Any) -> None:
    tuning = run(bowl)
    pruned = [trial for trial in tuning.trials if trial.state == "pruned"]
    assert len(pruned) >= 8
    assert {len(trial.values) for trial in pruned} <= {4, 6}
    assert all(trial.reason.startswith("worse than the best in") for trial in pruned)
    complete = [trial for trial in tuning.trials if trial.state == "complete"]
    assert {len(trial.values) for trial in complete} == {8}


@pytest.mark.parametrize("seed", range(5))
def test_chance_is_not_worth_it(run: Any, seed: int) -> None:
    tuning = run(flat, seed=seed)
    assert not tuning.is_worth_it and not tuning.settings and not tuning.neighbours
    assert tuning.sentence.startswith("Not worth it: with the best of 32 settings (")
    assert tuning.sentence.endswith("; keep the defaults.")
    assert tuning.unseen is not None, "it looked better in the search, so other seeds were asked"
    lines = tuning.sysctl_d().splitlines()
    assert lines and all(line.startswith("#") for line in lines)


def test_a_gain_that_is_too_small_is_not_worth_it(run: Any) -> None:
    tuning = run(bowl, least=50.0)
    assert not tuning.is_worth_it
    assert "less than the 50 % asked for; keep the defaults" in tuning.sentence


def test_a_default_that_is_the_best_needs_no_other_seeds(run: Any) -> None:
    def same(settings: Mapping[str, Any], draw: random.Random) -> dict[str, float | None]:
        return {"db.get.p99": 100.0 + draw.gauss(0.0, 3.0)}

    tuning = run(same, trials=8)
    assert not tuning.is_worth_it and tuning.unseen is None and tuning.gain is None
    assert tuning.sentence == (
        "Not worth it: none of 8 settings has a better mean db.get.p99 than the defaults, in 8"
        " seeds; keep the defaults."
    )


def test_constraints_hold_in_every_seed(run: Any) -> None:
    # Above 60 is best, and forbidden from 80 on.
    def steep(settings: Mapping[str, Any], draw: random.Random) -> dict[str, float | None]:
        swappiness = int(settings.get("vm.swappiness", "60"))
        noise = draw.gauss(0.0, 1.0)
        return {"db.get.p99": 400.0 - swappiness + noise, "memory.some": swappiness / 20}

    tuning = run(steep, constraints=["memory.some<4"])
    assert tuning.is_worth_it and 60 < tuning.settings["vm.swappiness"] < 80
    broken = [trial for trial in tuning.trials if trial.state == "infeasible"]
    assert broken and all(trial.settings["vm.swappiness"] >= 80 for trial in broken)
    assert broken[0].reason.startswith("memory.some<4 does not hold (")
    assert broken[0].reason.endswith(" in seed 1")
    assert all(len(trial.values) == 4 for trial in broken), "they stop after the first rung"


def test_a_setting_that_kills_is_never_chosen(run: Any) -> None:
    def deadly(settings: Mapping[str, Any], draw: random.Random) -> dict[str, float | None]:
        swappiness = int(settings.get("vm.swappiness", "60"))
        killed = 2.0 if swappiness > 100 else 0.0
        return {"db.get.p99": 300.0 - swappiness + draw.gauss(0.0, 1.0), "killed": killed}

    tuning = run(deadly)
    assert 60 < tuning.settings["vm.swappiness"] <= 100
    reasons = {trial.reason for trial in tuning.trials if trial.state == "infeasible"}
    assert reasons == {"the OOM killer ended 2 of 4 db in seed 1"}
    assert run(deadly, allow_kills=True).settings["vm.swappiness"] > 150


def test_nothing_keeps_a_constraint(run: Any) -> None:
    tuning = run(bowl, constraints=["db.get.p99<10us"], trials=8)
    assert not tuning.is_worth_it and tuning.unseen is None
    assert tuning.sentence.startswith("Not worth it: none of 8 settings keeps all constraints")
    assert "default" in tuning.table()


def test_a_default_that_breaks_a_constraint_is_said(run: Any) -> None:
    tuning = run(bowl, constraints=["memory.some<2"])
    assert tuning.is_worth_it and tuning.settings["vm.swappiness"] < 40
    assert "keeps all constraints on 16 seeds" in tuning.sentence
    assert "the default does not (memory.some<2 does not hold (3) in seed 9)" in tuning.sentence


def test_a_machine_that_cannot_boot_is_a_failed_trial(run: Any) -> None:
    tuning = run(bowl, space={"vm.swappiness": (0, 200), "vm.page_cluster": [3, 9]})
    failed = [trial for trial in tuning.trials if trial.state == "failed"]
    assert failed and {trial.reason for trial in failed} == {"the machine cannot boot"}
    assert tuning.is_worth_it, "the others go on"


def test_the_answer_depends_on_the_arguments_alone(run: Any, tmp_path: Path) -> None:
    one = run(bowl, out=tmp_path, trials=16)
    again = run(bowl, out=tmp_path, trials=16, on=Threads(3))
    assert again.units_run == 0 and one.units_run > 0, "all units are in the ledger"
    assert (one.table(), one.sentence) == (again.table(), again.sentence)


def test_sizes_are_scaled_for_neighbouring_machines() -> None:
    sizes = [scaled("100%", 0.5), scaled("512M", 2.0), scaled("1.5G", 0.5), scaled("$memory", 2.0)]
    assert sizes == ["50%", "1024M", "0.75G", None]


def test_counters_need_a_direction(run: Any) -> None:
    with pytest.raises(HighwaterError, match="pgmajfault is a count without a better direction"):
        run(bowl, objective="pgmajfault")
    tuning = run(bowl, objective="pgmajfault", direction="lower")
    assert tuning.settings["vm.swappiness"] < 10


def test_wrong_arguments_are_refused_before_a_trial_runs(run: Any) -> None:
    done: list[int] = []
    refused: list[tuple[dict[str, Any], str]] = [
        ({"space": {"vm.swappiness": (0, 201)}}, "201 is not between 0 and 200"),
        ({"space": {"vm.nothing": (0, 1)}}, "--set vm.nothing: there is no such key"),
        ({"constraints": ["memory.some"]}, '"memory.some" is no objective, as'),
        ({"constraints": ["memory.sum<5"]}, '"memory.sum"'),
        ({"constraints": ["db.put.p99<5ms"]}, '"db.put.p99" is no figure'),
        ({"constraints": ["db.get.p99<5"]}, '"5" is not a time, as 5ms'),
        ({"objective": "db.get.p98"}, '"db.get.p98" is no figure'),
        ({"direction": "up"}, "neither 'lower' nor 'higher'"),
        ({"trials": 0}, "each must be at least 1"),
    ]
    for options, line in refused:
        with pytest.raises(HighwaterError) as error:
            run(bowl, progress=lambda at, _: done.append(at), **options)
        assert line in str(error.value)
    assert not done


def test_it_reads_as_text_as_html_and_as_a_file(run: Any) -> None:
    tuning = run(bowl)
    text = str(tuning)
    assert text.startswith(tuning.sentence)
    assert "db.get.p99 of fake, quick on small-vm under 6.1: 32 trials of 8 seeds (" in text
    assert "half the memory" in text and "stopped early" in text
    page = tuning._repr_html_()
    assert page.count("<table>") == page.count("</table>") == 2 and tuning.sentence in page
    lines = tuning.sysctl_d().splitlines()
    assert lines[-1] == f"vm.swappiness = {tuning.settings['vm.swappiness']}"
    assert all(line.startswith("# ") and len(line) <= 100 for line in lines[:-1])
