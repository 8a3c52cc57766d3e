//! Text of `/proc/vmstat`, `zoneinfo`, `buddyinfo` and `pagetypeinfo`.
