"""Ledgers behind URLs: what one computer finished, another one finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake import FakePlan
from highwater import HighwaterError, Threads
from highwater._ledger import Ledger, open_ledger
from highwater._store import StoreLedger


@pytest.fixture(params=["obstore", "fsspec"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store, by each library."""
    pytest.importorskip(request.param)
    if request.param == "fsspec":
        # As if obstore were not there.
        import sys

        monkeypatch.setitem(sys.modules, "obstore", None)
        return f"memory://{tmp_path.name}/sweep"
    return (tmp_path / "store" / "sweep").as_uri()


def test_two_computers_share_their_units(url: str, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    plan = FakePlan("a", 10, str(tmp_path / "log"))
    ids = [unit.id for unit in plan.units()]
    here = StoreLedger(url, tmp_path / "here")
    Threads(2).run(plan, ids[:6], here)
    # Another computer has another cache.
    there = StoreLedger(url, tmp_path / "there")
    assert there.missing(ids) == ids[6:]
    Threads(2).run_all([(plan, ids[:8]), (plan, ids)], there)
    assert sum(plan.starts(seed) for seed in range(10)) == 10, "no unit ran twice"
    assert Ledger(tmp_path / "there").ids() == set(ids[6:])
    here.fetch(ids)
    assert here.ids() == set(ids)
    here.fetch(ids)
    assert all(here.path(id).read_bytes() == plan.bytes_of(id) for id in ids)
    assert there.get(ids[0]) == plan.bytes_of(ids[0]), "one by one, too"


def test_units_that_were_not_uploaded_are_so_later(url: str, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    plan = FakePlan("a", 3, str(tmp_path / "log"))
    ids = [unit.id for unit in plan.units()]
    # A process that was killed before the upload.
    Ledger(tmp_path / "here").put(ids[0], plan.bytes_of(ids[0]))
    Threads(1).run(plan, ids, StoreLedger(url, tmp_path / "here"))
    assert plan.starts(0) == 0
    assert StoreLedger(url, tmp_path / "there").ids() == set(ids)


def test_a_url_that_nobody_knows_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HighwaterError, match="nowhere://x: .*; pip install obstore") as error:
        open_ledger("nowhere://x")
    assert "\n" not in str(error.value)
    assert type(open_ledger(tmp_path)) is Ledger
