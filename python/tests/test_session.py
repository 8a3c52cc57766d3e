"""Runs in steps, and the environment of gymnasium."""

from __future__ import annotations

import importlib.util
from typing import Any

import highwater as hw
import pytest
from conftest import JOB, SMALL

needs_gymnasium = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium") is None, reason="the extra gym is not installed"
)

Samples = list[tuple[str, float]]

READS: dict[str, Any] = {**JOB["task"][0]["phase"][0], "times": 1000}
LONG: dict[str, Any] = {**JOB, "iterations": 1, "task": [{"name": "reader", "phase": [READS]}]}

GROUPED: dict[str, Any] = {
    **LONG,
    "file": [{"name": "data", "size": "24M"}],
    "group": [{"name": "web", "max": "48M"}],
    "task": [{"name": "reader", "group": "web", "phase": [READS]}],
}
"""The reader in a group that has room for its file."""


def begin(**more: Any) -> hw.Session:
    return hw.session(LONG, machine=SMALL, policies="6.1", every=0.005, **more)


def test_a_run_in_steps_is_the_run_of_compare() -> None:
    with begin() as run:
        frames = list(run)
        ended = run.finish()
    assert len(frames) > 3
    assert [round(frame.time / 0.005) for frame in frames] == list(range(1, len(frames) + 1))
    last = frames[-1]
    assert last.counters["pgmajfault"] >= 0 and last.counters["nr_free_pages"] > 0
    assert last.pressure is not None and set(last.pressure) >= {"memory.some", "io.full"}
    assert sum(zone.free for zone in last.zones) == last.counters["nr_free_pages"]
    assert any(task.name.startswith("reader") for task in last.tasks)
    assert last.sysctls["swappiness"] == 60
    whole = hw.compare(LONG, machine=SMALL, policies="6.1", progress=False).document["runs"][0]
    samples = {of["operation"]: of["values"] for of in whole["samples"]}
    assert {name: ended.values(name) for name in samples} == samples
    assert len(ended.values("reader.get p99")) == 1 and ended.elapsed > 0
    assert run.title == "reader: 6.1 on small, seed 1"


def test_a_written_sysctl_is_in_force_and_the_run_repeats() -> None:
    def run(writes: dict[int, dict[str, Any]]) -> tuple[Samples, dict[str, int]]:
        with begin() as session:
            for nr, frame in enumerate(session):
                if nr in writes:
                    session.set(writes[nr])
                if nr == 2 and writes:
                    assert frame.sysctls["min_free_kbytes"] == 16384
                    assert frame.sysctls["dirty_ratio"] == 0
            ended = session.finish()
        return list(ended.samples), dict(ended.counters)

    writes = {1: {"vm.min_free_kbytes": 16384, "vm.dirty_bytes": 1 << 20}}
    assert run(writes) == run(writes)
    assert run(writes) != run({})


def test_a_limit_of_a_group_is_written_and_the_next_charges_meet_it() -> None:
    def run(high: str | None) -> tuple[list[int], Samples]:
        used: list[int] = []
        with hw.session(GROUPED, machine=SMALL, policies="6.1", every=0.002) as session:
            for nr, frame in enumerate(session):
                web = frame.groups["web"]
                assert (web.limits["max"], web.limits["low"]) == (12288, 0) and web.swap == 0
                assert web.pressure is not None and web.pressure["memory.some"] >= 0.0
                used.append(web.current)
                if high and nr == 9:
                    session.set({"group.web.high": high, "vm.swappiness": 10})
                if high and nr == 10:
                    assert web.limits["high"] == 2048 and frame.sysctls["swappiness"] == 10
            ended = session.finish()
        return used, list(ended.samples)

    limited = run("8M")
    assert limited == run("8M") and limited[1] != run(None)[1]
    assert max(limited[0]) > 2500 and limited[0][-1] < 2048 + 128


def test_what_cannot_change_is_refused() -> None:
    with begin() as session:
        assert session.step() is not None

        def refused(values: dict[str, Any]) -> str:
            with pytest.raises(hw.HighwaterError) as raised:
                session.set(values)
            return str(raised.value)

        assert "only sysctls (vm.NAME) and settings of groups" in refused({"machine.memory": "1G"})
        assert "while the kernel runs" in refused({"vm.thp": "never"})
        assert "between 0 and 200" in refused({"vm.swappiness": 999})
    with pytest.raises(hw.HighwaterError, match="the session is closed"):
        session.step()
    with pytest.raises(hw.HighwaterError, match="one policy"):
        hw.session(LONG, machine=SMALL, policies=["5.4", "6.1"])
    with pytest.raises(hw.HighwaterError, match="one seed"):
        hw.session(LONG, machine=SMALL, seeds=2)
    with pytest.raises(hw.HighwaterError, match="every: must be between"):
        hw.session(LONG, every=0)


@needs_gymnasium
def test_the_environment_is_one_of_gymnasium() -> None:
    from gymnasium.utils.env_checker import check_env

    env = hw.gym.MemoryEnv(
        LONG,
        machine=SMALL,
        actions={"vm.swappiness": (0, 200), "vm.min_free_kbytes": (1024, 8192)},
        every=0.005,
        max_steps=50,
        render_mode="ansi",
    )
    check_env(env, skip_render_check=True)
    observation, info = env.reset(seed=3)
    assert observation.shape == (len(env.observation_names),) and info["seed"] == 3
    text = env.render()
    assert isinstance(text, str) and "pgscan_kswapd" in text
    env.close()


@needs_gymnasium
def test_an_episode_repeats_with_its_seed_and_ends_with_the_job() -> None:
    def episode(seed: int, value: int) -> tuple[list[float], Samples]:
        env = hw.gym.MemoryEnv(
            LONG,
            machine=SMALL,
            actions={"vm.watermark_scale_factor": [10, 1000]},
            reward=lambda step: -step.figure("pgscan_direct"),
            every=0.005,
        )
        env.reset(seed=seed)
        rewards: list[float] = []
        while True:
            _, reward, terminated, truncated, info = env.step([value])
            assert not truncated
            if terminated:
                ended: hw.Ended = info["ended"]
                return rewards, list(ended.samples)
            rewards.append(reward)

    assert episode(1, 0) == episode(1, 0)
    assert episode(1, 0)[1] != episode(2, 0)[1]
    assert episode(1, 0) != episode(1, 1)


@needs_gymnasium
def test_an_agent_moves_the_limit_of_a_group() -> None:
    def episode(size: float) -> tuple[list[float], Samples]:
        env = hw.gym.MemoryEnv(
            GROUPED,
            machine=SMALL,
            policies="6.1",
            actions={"group.web.high": ("4M", "40M"), "vm.swappiness": (0, 100)},
            observe=["group.web.current", "group.web.memory.some", "pgscan_direct"],
            reward="group.web.memory.some",
            every=0.002,
        )
        env.reset(seed=1)
        assert env.action_space.low.tolist() == [4 << 20, 0]  # type: ignore[attr-defined]
        used: list[float] = []
        while True:
            seen, _, terminated, _, info = env.step([size, 50.0])
            if terminated:
                return used, list(info["ended"].samples)
            # A size is rounded to whole pages.
            assert info["frame"].groups["web"].limits["high"] == round(size / 4096)
            used.append(seen[0])

    small = episode(8e6)
    assert small == episode(8e6) and small[1] != episode(40 << 20)[1]
    assert max(small[0]) < 1953 + 128


@needs_gymnasium
def test_a_group_that_was_removed_is_left_alone() -> None:
    remove, pause = {"do": "remove-group", "of": "old"}, {"do": "sleep", "us": 50000.0}
    job = {
        **GROUPED,
        "group": [*GROUPED["group"], {"name": "old"}, {"name": "old.but.kept"}],
        "task": [{"name": "reader", "group": "web", "phase": [READS, remove, pause]}],
    }
    env = hw.gym.MemoryEnv(
        job,
        machine=SMALL,
        actions={"group.old.high": ["8M", "max"], "group.old.but.kept.high": [8 << 20, "max"]},
        observe=["group.old.current", "group.old.but.kept.io.some"],
        every=0.005,
    )
    env.reset(seed=1)
    there: list[bool] = []
    while True:
        seen, _, terminated, _, info = env.step([0, 0])
        if terminated:
            break
        assert info["frame"].groups["old.but.kept"].limits["high"] == 2048
        there.append("old" in info["frame"].groups)
        assert seen.tolist() == [0.0, 0.0]
    assert there[0] and there.count(False) > 3


@needs_gymnasium
def test_the_environment_says_what_is_wrong() -> None:
    def refused(**given: Any) -> str:
        with pytest.raises(hw.HighwaterError) as raised:
            job = given.pop("job", LONG)
            hw.gym.MemoryEnv(job, **{"machine": SMALL, "every": 0.005, **given})
        return str(raised.value)

    assert "settings of groups (group.NAME.KEY)" in refused(actions={"memory.high": (0, 1)})
    assert "only sysctls" in refused(actions={"machine.cpus": (1, 2)})
    high = {"group.web.high": ("4M", "8M")}
    assert "group.web.high" in refused(actions=high)
    assert "did you mean" in refused(job=GROUPED, actions={"group.web.hihg": ("4M", "8M")})
    assert "(low, high)" in refused(job=GROUPED, actions={"group.web.high": ("4M", 8)})
    assert "(low, high)" in refused(job=GROUPED, actions={"group.web.high": ("4M", "big")})
    assert "there are web" in refused(job=GROUPED, actions=high, observe=["group.wbe.current"])
    assert "there are web" in refused(job=GROUPED, actions=high, reward="group.wbe.current")
    assert "current, swap, cpu.some" in refused(
        job=GROUPED, actions=high, observe=["group.web.curent"]
    )
    assert "at least one" in refused(actions={})
    assert "(low, high)" in refused(actions={"vm.swappiness": (5, 1)})
    assert "or all lists" in refused(actions={"vm.swappiness": (0, 1), "vm.dirty_ratio": [1]})
    swappy = {"vm.swappiness": (0, 100)}
    assert "no such figure" in refused(actions=swappy, observe=["pgfalt"])
    assert "do not measure pressure" in refused(actions=swappy, policies="4.6")
    assert "reset(seed=...)" in refused(actions=swappy, seeds=2)
    assert "before its first look" in refused(actions=swappy, every=1000)
