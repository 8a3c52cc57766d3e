"""Reads a trace with Perfetto's own package and holds it to the run that it is of.

trace.py TRACE.pftrace RESULTS.json FTRACE.txt: TRACE is of a step of a run of RESULTS, FTRACE.txt is the same run as ftrace's
text. What is counted twice has to come out equal.
"""

import collections
import json
import re
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def main(trace_file, results_file, ftrace_file):
    trace = Trace()
    with open(trace_file, "rb") as file:
        trace.ParseFromString(file.read())
    names, categories, fields = {}, {}, {}
    types = collections.defaultdict(set)
    units = {}
    tracks, threads = {}, {}
    depth = collections.Counter()
    slices, instants = collections.Counter(), collections.Counter()
    open_slices = collections.defaultdict(list)
    counters, lengths = collections.defaultdict(list), collections.defaultdict(list)
    flows, ended = collections.Counter(), collections.Counter()
    switches = collections.Counter()
    for packet in trace.packet:
        if packet.HasField("interned_data"):
            names.update((name.iid, name.name) for name in packet.interned_data.event_names)
            fields.update((name.iid, name.name) for name in packet.interned_data.debug_annotation_names)
            categories.update((name.iid, name.name) for name in packet.interned_data.event_categories)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("counter"):
                tracks[track.uuid] = track.name
                units[track.name] = track.counter.unit_name
            if track.HasField("thread"):
                threads[track.uuid] = track.thread.thread_name
        if packet.HasField("track_event"):
            event = packet.track_event
            at, track = packet.timestamp, event.track_uuid
            flows.update(event.flow_ids)
            ended.update(event.terminating_flow_ids)
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                kind = categories[event.category_iids[0]]
                slices[kind, names[event.name_iid]] += 1
                open_slices[track].append((kind, names[event.name_iid], at))
            elif event.type == TrackEvent.TYPE_SLICE_END:
                kind, name, since = open_slices[track].pop()
                assert at >= since, f"{name} of {threads[track]} ends before it begins"
                lengths[kind, name].append(at - since)
            elif event.type == TrackEvent.TYPE_INSTANT:
                instants[categories[event.category_iids[0]], names[event.name_iid]] += 1
                for field in event.debug_annotations:
                    types[fields[field.name_iid]].add(field.WhichOneof("value"))
            elif event.type == TrackEvent.TYPE_COUNTER:
                counters[tracks[track]].append((at, event.counter_value))
        for event in packet.ftrace_events.event:
            if event.HasField("sched_switch"):
                switches[event.sched_switch.next_comm.split("/")[0] == "swapper"] += 1
            else:
                assert event.HasField("sched_waking"), event
    assert not any(open_slices.values()), "slices without an end"
    assert flows == ended and all(count == 1 for count in flows.values()), "arrows without an end"
    assert threads and {"kswapd0", "kcompactd0"} <= set(threads.values())

    # Operations: as many as the results have samples, and as long.
    with open(results_file) as file:
        document = json.load(file)
    process = next(p.track_descriptor.process.process_name for p in trace.packet
                   if p.track_descriptor.HasField("process"))
    label, machine, seed, step = re.search(r": (\S+) on (\S+), seed (\d+), (\S+)", process).groups()
    run = next(r for r in document["runs"] if (r["label"], r["machine"]) == (label, machine))
    values = [value for series in run["samples"] for value in series["values"]
              if series["operation"] == step and series["seed"] == int(seed)]
    operations = sorted(lengths["operation", step])
    # The measuring task does more operations than are measured: those of the warm-up.
    assert len(operations) >= len(values) > 0, (len(operations), len(values))
    longest = max(operations) / 1e6
    assert abs(longest - max(values)) <= 0.001 * longest + 0.01, (longest, max(values))

    # Tracepoints: as many as in ftrace's text of the same run; arrows and switches, too.
    lines = collections.Counter()
    with open(ftrace_file) as file:
        for line in file:
            if found := re.match(r"\s*.{1,16}-\d+\s+\[\d+\] \S+\s+[\d.]+: (\w+): ", line):
                lines[found.group(1)] += 1
    points = {name: count for (kind, name), count in instants.items() if kind == "tracepoint"}
    assert points and all(lines[name] == count for name, count in points.items()), (points, lines)
    assert lines["sched_switch"] == sum(switches.values())
    assert instants["wake", "wakes"] == len(flows) <= lines["sched_waking"]

    # Fields of tracepoints have one type each; counters have the unit of what they count.
    assert types["order"] == types["nr_reclaimed"] == {"uint_value"} and types["gfp_flags"] == {"string_value"}, types
    assert all(len(of) == 1 for name, of in types.items() if name != "pfn"), types
    assert all(unit == "microseconds" for name, unit in units.items() if name.startswith("pressure/"))
    assert units["nr_free_pages"] == units["pgscan_direct"] == "pages" and units["pgfault"] == "events"

    # Counters: watermarks stand in order, memory is used, and what only grows does.
    for zone in {name.rsplit("/", 1)[0] for name in counters if name.endswith("/low")}:
        lowest, low, high = (counters[f"{zone}/{mark}"][0][1] for mark in ("min", "low", "high"))
        assert lowest <= low <= high, zone
        assert f"{zone}/free" in counters or f"{zone}/min" in counters
    for name, points_of in counters.items():
        assert all(a[0] < b[0] for a, b in zip(points_of, points_of[1:])), name
        if name.startswith(("pgscan", "pgsteal", "pgfault", "pgalloc")):
            assert all(a[1] < b[1] for a, b in zip(points_of, points_of[1:])), name
    begun = points.get("mm_vmscan_direct_reclaim_begin", 0)
    stalled = sum(counters[name][-1][1] - counters[name][0][1] for name in counters if name.startswith("allocstall"))
    # A reclaim that was under way at the end is counted when it begins, and one that starts over to deactivate pages twice.
    assert begun - max(2, begun // 50) <= stalled <= 2 * begun, (begun, stalled)
    print(f"{trace_file}: {len(trace.packet)} packets, {len(threads)} threads, {sum(slices.values())} slices, "
          f"{len(counters)} counters, {len(flows)} arrows, {sum(points.values())} tracepoints: as in the run")


main(*sys.argv[1:])
