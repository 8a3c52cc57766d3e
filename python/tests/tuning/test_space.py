"""The settings that a search may choose, and the file that says the chosen ones."""

from __future__ import annotations

import pytest
from highwater import HighwaterError
from highwater.tuning.space import SYSCTLS, USUAL, Choice, Numbers, read_space, sysctl_lines


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


def test_wide_ranges_are_searched_by_factors() -> None:
    assert Numbers(10, 1000).is_log and not Numbers(0, 200).is_log and not Numbers(50, 99).is_log


@pytest.mark.parametrize(
    ("space", "line"),
    [
        (
            {"job.task.db.memory.high": (1, 2)},
            "job.task.db.memory.high: limits of groups are not tuned yet",
        ),
        ({"group.db.memory.max": (1, 2)}, "limits of groups are not tuned yet"),
        ({"vm.swappiness": (60, 60)}, "vm.swappiness: 60 is not below 60"),
        ({"vm.swappiness": [60]}, "neither a range, as (0, 100), nor a choice"),
        ({"vm.swappiness": 60}, "neither a range, as (0, 100), nor a choice"),
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
        }
    )
    assert lines == [
        "vm.swappiness = 10",
        "vm.page-cluster = 0",
        "# not a sysctl: echo never > /sys/kernel/mm/transparent_hugepage/enabled",
        "# not a sysctl: echo false > /sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        "# policy.watermark.boost = false: a setting of the model, not of a running Linux",
    ]
