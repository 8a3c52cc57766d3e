//! Every switch of the policy is asked about somewhere: one that nothing asks decides nothing.

use std::fs;
use std::path::Path;

use highwater_core::config::Policy;

/// The code of the core, without its tests and without the policy's own declarations.
fn code(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "config" && name != "tests" {
                code(&path, text);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let file = fs::read_to_string(&path).expect("readable");
            let end = file.find("\n#[cfg(test)]\nmod tests {").unwrap_or(file.len());
            text.push_str(&file[..end]);
        }
    }
}

/// True if `text` has `what`, and no longer name that starts with it.
fn has(text: &str, what: &str) -> bool {
    text.match_indices(what).any(|(at, _)| {
        let next = text[at + what.len()..].chars().next();
        !next.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[test]
fn every_switch_is_asked_about() {
    let mut text = String::new();
    code(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    // A long chain of calls is broken before its dots.
    let text: String = text.split_whitespace().collect();
    // A section may put several switches into one rule, which the core asks for.
    let locks = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/policy/locks.rs");
    let rules = fs::read_to_string(locks).expect("readable");
    assert!(has(&text, "policy.locks.rwsem()"), "the rule of semaphores is asked for");
    assert!(text.len() > 100_000, "the search found the sources");
    for field in Policy::describe() {
        let path = field.path.replace('-', "_");
        let mut keys = path.rsplit('.');
        let key = keys.next().expect("a key");
        // By way of its section, or of a section at hand.
        let section = keys.next().unwrap_or("policy");
        let method = format!("{section}_policy()");
        let owners = [section, "policy", &method];
        let is_of_rule = section == "locks" && has(&rules, &format!("self.{key}"));
        let is_asked =
            is_of_rule || owners.iter().any(|owner| has(&text, &format!("{owner}.{key}")));
        assert!(is_asked, "nothing asks about {}", field.path);
    }
}
