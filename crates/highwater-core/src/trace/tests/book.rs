//! The example of the book's page `docs/src/how-to/add-a-tracepoint.md`, compiled.

#![allow(unreachable_pub, reason = "what the macro makes is public")]

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::trace::macros::tracepoints;
use crate::trace::{Field, Value};
use crate::zone::NodeId;

tracepoints! { [] vmscan {
    // begin
    /// kswapd woke from the nap it takes before it sleeps.
    KswapdNap = "mm_vmscan_kswapd_nap" {
        /// Node.
        nid: NodeId,
        /// Ticks left of the nap; `None` if no task woke it.
        left: u32,
    } => "nid={nid} left={left} is_woken={is_woken}" where is_woken = left > 0;
    // end
} }

const PAGE: &str = include_str!("../../../../../docs/src/how-to/add-a-tracepoint.md");

#[test]
fn the_book_shows_this_declaration() {
    let declaration = include_str!("book.rs")
        .lines()
        .skip_while(|line| line.trim() != "// begin")
        .skip(1)
        .take_while(|line| line.trim() != "// end");
    let shown: Vec<&str> = PAGE.lines().map(str::trim).collect();
    let declaration: Vec<&str> = declaration.map(str::trim).collect();
    assert!(declaration.len() > 5);
    assert!(shown.windows(declaration.len()).any(|lines| lines == declaration));
}

#[test]
fn the_declaration_is_all_there_is_to_do() {
    let event = Event::KswapdNap { nid: NodeId(0), left: 23 };
    let text = event.to_string();
    assert_eq!(text, "mm_vmscan_kswapd_nap: nid=0 left=23 is_woken=1");
    assert!(PAGE.contains(&text), "the book shows this text");
    assert_eq!((event.name(), event.system()), ("mm_vmscan_kswapd_nap", "vmscan"));
    let fields: Vec<_> = event.fields().collect();
    assert_eq!(fields, [("nid", Value::Number(0)), ("left", Value::Number(23))]);
    assert_eq!(event.words().nth(1), Some(23));
    let tracepoint = event.kind().tracepoint();
    assert_eq!(tracepoint.doc, "kswapd woke from the nap it takes before it sleeps.");
    let types = tracepoint.fields.iter().map(|&Field { type_name, bits, .. }| (type_name, bits));
    assert!(types.eq([("NodeId", 16), ("u32", 32)]));
    let made_up: String = Kind::ALL[0].example(|| 0).to_string();
    assert_eq!(made_up, "mm_vmscan_kswapd_nap: nid=0 left=0 is_woken=0");
}
