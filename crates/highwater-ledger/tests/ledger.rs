//! A directory of shards as its users know it: units of a small plan, kept, damaged, shared, merged, verified.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use highwater_ledger::ledger::Look;
use highwater_ledger::sweep::SweepError;
use highwater_ledger::{
    Ledger, ShardError, Share, Sweep, keep, merge, observations, shard, verify,
};
use highwater_plan::experiment::Quiet;
use highwater_plan::experiment::unit::{Recipe, UnitId, Units};
use highwater_plan::plan::{MachineOptions, Options, Plan, Results};
use highwater_report::render::observations::rows;
use highwater_runs::workload::Registry;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

static GO: AtomicBool = AtomicBool::new(false);

/// Two points, two seeds each.
fn options() -> Options {
    let unmap = Options::run("unmap").machine_of("64M", 2).disk("nvme").swap("8M").jobs(2);
    unmap.set("unmap.rounds=1").vary("vm.swappiness", ["0", "60"]).iterations(2)
}

fn plan() -> Plan {
    options().plan(&Registry::default()).unwrap()
}

/// The units of the plan, run once for all tests.
static RAN: LazyLock<(Vec<Recipe>, Results, tempfile::TempDir)> = LazyLock::new(|| {
    let (plan, dir) = (plan(), tempfile::tempdir().unwrap());
    let ledger = Ledger::create(dir.path().join("whole")).unwrap();
    let recipes = plan.recipes().unwrap();
    let missing = ledger.missing(&recipes);
    assert_eq!(missing.len(), 4);
    plan.run_units(&missing, &ledger, &Quiet, &GO).unwrap();
    assert_eq!((ledger.kept().written, ledger.missing(&recipes)), (4, Vec::new()));
    (recipes, plan.collect_from(&[&ledger]).unwrap(), dir)
});

fn whole() -> Ledger {
    Ledger::open(RAN.2.path().join("whole")).unwrap()
}

/// A directory with these units of the whole.
fn with(dir: &Path, ids: &[UnitId]) -> Ledger {
    let ledger = Ledger::create(dir).unwrap();
    for id in ids {
        assert_eq!(ledger.put_bytes(&whole().bytes(*id).unwrap().unwrap()).unwrap(), *id);
    }
    ledger
}

#[test]
fn results_of_shards_are_those_of_the_plan_and_a_shard_is_a_function_of_its_unit() {
    let (recipes, collected, _) = &*RAN;
    let ran = plan().run(None, &Quiet, &GO).unwrap();
    assert!(collected.documents().eq(ran.documents()));
    assert_eq!(collected.grid().csv(), ran.grid().csv());
    let dir = tempfile::tempdir().unwrap();
    let again = Ledger::create(dir.path()).unwrap();
    // In another order, one at a time.
    for recipe in recipes.iter().rev() {
        let Look::Whole(ran) = whole().read(recipe.id()) else { panic!("{}", recipe.id()) };
        again.put(recipe, &ran).unwrap();
        again.put(recipe, &ran).unwrap();
    }
    for id in whole().ids().unwrap() {
        assert_eq!(again.bytes(id).unwrap(), whole().bytes(id).unwrap());
    }
    assert_eq!(fs::read_dir(again.units_dir()).unwrap().count(), 4, "nothing is left beside them");
}

#[test]
fn rows_are_those_of_the_observations() {
    let (recipes, results, _) = &*RAN;
    let path = whole().path(recipes[1].id());
    let file = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let about = file.metadata().file_metadata();
    assert_eq!(about.created_by(), Some("highwater"));
    let schema = about.schema_descr();
    let names: Vec<String> =
        (0..schema.num_columns()).map(|at| schema.column(at).name().to_owned()).collect();
    assert_eq!(names, shard::COLUMNS);
    // The second unit is the second seed of the first point.
    let document = &results.points[0].ran.document;
    let expected: Vec<_> = rows(document).into_iter().filter(|row| row.seed == 2).collect();
    let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), expected.len());
    assert!(rows.len() > 20);
    for (row, expected) in rows.iter().zip(&expected) {
        let text = |at: usize| row.get_string(at).unwrap().as_str();
        let id = recipes[1].id().to_string();
        assert_eq!([text(0), text(1), text(2), text(3)], [&*id, "unmap", "64M-2cpu", "6.1"]);
        assert_eq!((row.get_ulong(4).unwrap(), row.get_uint(5).unwrap()), (2, 0));
        assert_eq!((text(6), text(7)), (expected.kind, expected.operation));
        assert_eq!(row.get_double(8).unwrap().to_bits(), expected.value.as_f64().to_bits());
    }
}

#[test]
fn observations_of_all_points_are_one_table() {
    let results = &RAN.1;
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = dir.path().join(name);
        observations::write(results, fs::File::create(&path).unwrap()).unwrap();
        path
    };
    let path = write("one");
    assert_eq!(fs::read(&path).unwrap(), fs::read(write("two")).unwrap());
    let file = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let all: Vec<_> = results.points.iter().flat_map(|point| rows(&point.ran.document)).collect();
    let mut nr_rows = 0;
    for (row, expected) in file.get_row_iter(None).unwrap().map(Result::unwrap).zip(&all) {
        let text = |at: usize| row.get_string(at).unwrap().as_str();
        let swappiness = if nr_rows < all.len() / 2 { "0" } else { "60" };
        assert_eq!([text(0), text(1), text(4)], [swappiness, expected.experiment, "6.1"]);
        assert_eq!(
            (row.get_ulong(6).unwrap(), row.get_uint(7).unwrap()),
            (expected.seed, expected.iteration)
        );
        assert_eq!(
            [text(8), text(9), text(10), text(11)],
            [expected.kind, expected.metric, expected.operation, expected.unit]
        );
        assert_eq!(row.get_double(12).unwrap(), expected.value.as_f64());
        nr_rows += 1;
    }
    assert_eq!(nr_rows, all.len());
}

#[test]
fn what_is_cut_short_changed_or_foreign_runs_again() {
    let recipes = &RAN.0;
    let ids: Vec<UnitId> = whole().ids().unwrap().into_iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let ledger = with(dir.path(), &ids);
    let bytes = whole().bytes(ids[0]).unwrap().unwrap();
    let look = |changed: &[u8]| {
        fs::write(ledger.path(ids[0]), changed).unwrap();
        assert_eq!(ledger.missing(recipes), [ids[0]]);
        assert!(ledger.put_bytes(changed).is_err() || shard::check(changed).unwrap() != ids[0]);
        match (ledger.check(ids[0]), ledger.read(ids[0])) {
            (Look::Bad(error), Look::Bad(_)) => error,
            other => panic!("{other:?}"),
        }
    };
    for length in [0, 3, 8, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(look(&bytes[..length]), ShardError::Cut), "{length}");
    }
    let at = bytes.windows(8).rposition(|text| text == b"\"samples").unwrap();
    let mut changed = bytes.clone();
    changed[at + 1] = b'S';
    assert!(matches!(look(&changed), ShardError::Damaged));
    let other = whole().bytes(ids[1]).unwrap().unwrap();
    assert!(matches!(look(&other), ShardError::Other(id) if id == ids[1]));
    let mut foreign = Vec::new();
    observations::write(&RAN.1, &mut foreign).unwrap();
    assert!(matches!(look(&foreign), ShardError::Foreign));
    // Written again, it is as it was.
    plan().run_units(&[ids[0]], &ledger, &Quiet, &GO).unwrap();
    assert_eq!(ledger.bytes(ids[0]).unwrap(), Some(bytes));
}

#[test]
fn a_changed_file_is_found_by_running_its_unit_again() {
    let ids: Vec<UnitId> = whole().ids().unwrap().into_iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let ledger = with(dir.path(), &ids);
    let verify = |ids: &[UnitId]| verify::verify(&plan(), &ledger, ids, &Quiet, &GO).unwrap();
    assert_eq!(verify(&ids[..2]), []);
    // A whole shard of the right unit, with another result.
    let recipe = RAN.0.iter().find(|recipe| recipe.id() == ids[1]).unwrap();
    let Look::Whole(mut ran) = ledger.read(ids[1]) else { panic!("it is there") };
    ran.outcome.samples[0].1 += 1.0;
    ledger.put(recipe, &ran).unwrap();
    assert!(matches!(ledger.check(ids[1]), Look::Whole(())));
    assert_eq!(verify(&ids[..2]), [(ids[1], ledger.path(ids[1]))]);
}

#[test]
fn directories_are_merged_and_what_differs_is_named() {
    let ids: Vec<UnitId> = whole().ids().unwrap().into_iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let [one, two, into] = ["one", "two", "into"].map(|name| dir.path().join(name));
    let (one, two) = (with(&one, &ids[..3]), with(&two, &ids[2..]));
    let into = Ledger::create(into).unwrap();
    fs::write(one.path(ids[0]), "cut").unwrap();
    let first = merge::merge(&one, &into).unwrap();
    assert_eq!((first.copied, first.there, first.bad.len()), (2, 0, 1));
    let second = merge::merge(&two, &into).unwrap();
    assert_eq!((second.copied, second.there, second.bad.len()), (1, 1, 0));
    assert_eq!(into.ids().unwrap(), ids[1..].iter().copied().collect());
    let recipe = RAN.0.iter().find(|recipe| recipe.id() == ids[2]).unwrap();
    let Look::Whole(mut ran) = two.read(ids[2]) else { panic!("it is there") };
    ran.outcome.counters.add("pgfault", 1);
    two.put(recipe, &ran).unwrap();
    let error = merge::merge(&two, &into).unwrap_err().to_string();
    let [one, other] = [&two, &into].map(|ledger| ledger.path(ids[2]).display().to_string());
    assert!(error.starts_with(&format!("{one} and {other} differ: ")), "{error}");
}

#[test]
fn a_directory_has_one_plan() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (options, plan) = (options(), plan());
    let sweep = Sweep::of(&options, &plan).unwrap();
    assert_eq!(Sweep::read(dir.path()).unwrap(), None);
    sweep.keep(&ledger, false).unwrap();
    let text = fs::read(Sweep::path(dir.path())).unwrap();
    assert_eq!(Sweep::read(dir.path()).unwrap().as_ref(), Some(&sweep));
    assert_eq!(sweep.ids(), plan.units().unwrap().iter().map(|unit| unit.id).collect());
    assert_eq!((sweep.units[3].point, sweep.units[3].values.join(" ")), (1, "60".to_owned()));
    // The number of jobs is no part of it.
    let again = Options { jobs: Some(7), ..options.clone() };
    assert_eq!(Sweep::of(&again, &again.plan(&Registry::default()).unwrap()).unwrap(), sweep);
    assert_eq!(
        Options::from_toml("sweep.json", &sweep.plan),
        Ok(Options { jobs: None, ..options.clone() })
    );
    // In other words.
    let other = Options { machine: MachineOptions::default(), ..options.clone() };
    let other = other.machine_of("64M", 2).swap("8M").set("disk=nvme");
    let other = Sweep::of(&other, &other.plan(&Registry::default()).unwrap()).unwrap();
    assert!(other.is_same(&sweep) && other.command_line != sweep.command_line);
    assert_eq!(other.keep(&ledger, false).unwrap().command_line, sweep.command_line);
    assert_eq!(fs::read(Sweep::path(dir.path())).unwrap(), text);
    let more = options.iterations(3);
    let more = Sweep::of(&more, &more.plan(&Registry::default()).unwrap()).unwrap();
    let error = more.keep(&ledger, false).unwrap_err();
    assert!(matches!(error, SweepError::Another { .. }), "{error}");
    assert!(error.to_string().contains("is of another sweep (highwater run unmap "), "{error}");
    more.keep(&ledger, true).unwrap();
    assert_eq!(Sweep::read(dir.path()).unwrap(), Some(more));
}

#[test]
fn results_of_a_sweep_are_written_whole() {
    let ids: Vec<UnitId> = whole().ids().unwrap().into_iter().collect();
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| with(&dir.path().join(name), &ids));
    let results = &RAN.1;
    keep::keep(results, &one).unwrap();
    keep::keep(results, &one).unwrap();
    results.write(two.dir()).unwrap();
    let names = |dir: &Path| {
        let names = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let mut expected = names(two.dir());
    expected.insert("observations.parquet".to_owned());
    assert_eq!(names(one.dir()), expected);
    for file in ["grid.csv", "report.txt", "point-0002/results.json", "point-0001/report.txt"] {
        let [a, b] = [&one, &two].map(|ledger| fs::read(ledger.dir().join(file)).unwrap());
        assert_eq!(a, b, "{file}");
    }
    let part = Share::new(2, 3).unwrap().part_of(&one.ids().unwrap());
    assert_eq!(part, [ids[1]]);
}
