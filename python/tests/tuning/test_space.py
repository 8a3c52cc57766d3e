"""The settings that a search may choose, and the file that says the chosen ones."""

from __future__ import annotations

import pytest
from highwater import HighwaterError
from highwater.tuning.space import SYSCTLS, USUAL, Choice, Numbers, Sizes, read_space, sysctl_lines


def test_tuples_are_ranges_lists_are_choices_names_have_usual_ranges() -> None:
    space = read_space(
        {
            "vm.swappiness": (0, 200),
            "vm.dirty_ratio": (5, 60, 5),
            "job.var.skew": (0.5, 1.5),
            "policy.watermark.boost": [True, False],
        }
    )
    assert space == {
        "vm.swappiness": Numbers(0, 200),
        "vm.dirty_ratio": Numbers(5, 60, 5),
        "job.var.skew": Numbers(0.5, 1.5),
        "policy.watermark.boost": Choice((True, False)),
    }
    assert [s.is_whole for s in space.values() if isinstance(s, Numbers)] == [True, True, False]
    assert list(read_space(None)) == list(USUAL)
    assert read_space(["vm.thp"]) == read_space("vm.thp") == {"vm.thp": SYSCTLS["vm.thp"].range}


class Trial:
    """Answers as Optuna would: always the same share of a range."""

    def suggest_int(self, _: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return low + (high - low) // 3 // step * step


def test_sizes_are_texts_in_steps() -> None:
    space = read_space(
        {
            "group.web.max": ("64M", "256M"),
            "group.web.high": ("64M", "65540K"),
            "machine.memory": ("1G", "64G", "512M"),
            "group.web.low": ("0", "64M"),
            "group.db.max": ["64M", "max"],
        }
    )
    assert space == {
        "group.web.max": Sizes(64 << 20, 256 << 20, 1 << 20),
        "group.web.high": Sizes(64 << 20, 65540 << 10, 4096),
        "machine.memory": Sizes(1 << 30, 64 << 30, 512 << 20),
        "group.web.low": Sizes(0, 64 << 20, 1 << 20),
        "group.db.max": Choice(("64M", "max")),
    }
    assert space["group.web.low"].ends == ["0", "64M"]
    assert [size.ends for size in space.values()][:2] == [["64M", "256M"], ["64M", "65540K"]]
    assert str(space["machine.memory"]) == "1G to 64G by 512M"
    chosen = [space[key].suggest(Trial(), key) for key in ("group.web.max", "machine.memory")]
    # The second by factors, and still in whole steps.
    assert chosen == ["128M", "22G"]


def test_wide_ranges_are_searched_by_factors() -> None:
    assert Numbers(10, 1000).is_log and not Numbers(0, 200).is_log and not Numbers(50, 99).is_log


@pytest.mark.parametrize(
    ("space", "line"),
    [
        ({"group.db.max": ("96M", "64M")}, "group.db.max: 96M is not below 64M"),
        ({"group.db.max": ("64M", "96M", "5M")}, "no whole steps of 5M"),
        ({"group.db.max": ("64000", "96M")}, "sizes are multiples of 4K"),
        ({"group.db.max": ("64M", "max")}, "is neither a range, as (0, 100) or ('64M', '1G')"),
        ({"vm.swappiness": (60, 60)}, "vm.swappiness: 60 is not below 60"),
        ({"vm.swappiness": [60]}, "is neither a range, as (0, 100) or ('64M', '1G'), nor a choice"),
        ({"vm.swappiness": 60}, "is neither a range, as (0, 100) or ('64M', '1G'), nor a choice"),
        (["vm.nothing"], "vm.nothing: give its values"),
        ({}, "the space is empty"),
    ],
)
def test_wrong_spaces_are_one_clear_line(space: object, line: str) -> None:
    with pytest.raises(HighwaterError) as error:
        read_space(space)  # type: ignore[arg-type]
    assert line in str(error.value) and "\n" not in str(error.value)


def test_a_file_of_sysctl_d_has_sysctls_only() -> None:
    lines = sysctl_lines(
        {
            "vm.swappiness": 10,
            "vm.page_cluster": 0,
            "vm.thp": "never",
            "vm.khugepaged_defrag": False,
            "policy.watermark.boost": False,
            "group.web.max": "96M",
            "group.web.swap-max": "max",
        }
    )
    assert lines == [
        "vm.swappiness = 10",
        "vm.page-cluster = 0",
        "# not a sysctl: echo never > /sys/kernel/mm/transparent_hugepage/enabled",
        "# not a sysctl: echo false > /sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        "# policy.watermark.boost = false: a setting of the model, not of a running Linux",
        "# not a sysctl: echo 96M > memory.max, in the directory of cgroup web",
        "# not a sysctl: echo max > memory.swap.max, in the directory of cgroup web",
    ]
