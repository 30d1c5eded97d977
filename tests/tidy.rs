//! The house rules that neither the compiler nor clippy knows, each one small function from a
//! source text to what is wrong with it. A rule says what to do. The tests at the end show
//! that each rule can fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a function, its head and last brace included: what fits on a screen, twice.
const MAX_FUNCTION: usize = 70;
/// Lines of a source file that are not tests.
const MAX_FILE: usize = 400;

/// What each top-level module of `src` may use; `lib` may use anything. Arrows point one way:
/// what a module uses stands above it here.
const MAY_USE: [(&str, &[&str]); 17] = [
    ("time", &[]),
    ("model", &["time"]),
    ("policy", &["time", "model"]),
    ("outcome", &["time", "model", "policy"]),
    ("delivery", &["time", "model", "policy", "outcome"]),
    ("schedule", &["time", "model", "policy", "outcome"]),
    ("store", &["time", "model", "policy", "outcome", "delivery"]),
    ("engine", &["time", "model", "policy", "outcome", "delivery", "schedule", "store"]),
    ("metrics", &["time", "model", "outcome", "delivery", "engine"]),
    ("sign", &["time", "model"]),
    ("sender", &["time", "model", "outcome", "sign"]),
    ("config", &["time", "model", "policy"]),
    ("driver", &BELOW_DRIVER),
    ("http", &BELOW_HTTP),
    ("drill", &["time", "model", "config"]),
    ("cli", &BELOW_CLI),
    ("main", &["cli"]),
];
/// Everything that runs, and no settings: what it needs of them is passed in.
const BELOW_DRIVER: [&str; 10] =
    ["time", "model", "policy", "outcome", "delivery", "schedule", "store", "engine", "metrics", "sender"];
const BELOW_HTTP: [&str; 12] = [
    "time", "model", "policy", "outcome", "delivery", "schedule", "store", "engine", "metrics", "sender",
    "config", "driver",
];
/// Signing is the sender's alone.
const BELOW_CLI: [&str; 14] = [
    "time", "model", "policy", "outcome", "delivery", "schedule", "store", "engine", "metrics", "sender",
    "config", "driver", "http", "drill",
];

/// Words that name nothing: whatever is called so has no subject of its own.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "manager", "helper", "common"];

/// Licences that may be linked into the binary: permissive ones, and file-level copyleft data.
const LICENCES: [&str; 14] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
    "MIT-0",
];
/// Crates that must not come in by the back door, and why.
const BANNED_CRATES: [(&str, &str); 2] = [
    ("openssl", "TLS is rustls: one implementation, no system library"),
    ("native-tls", "TLS is rustls: one implementation, no system library"),
];
/// Crates that another one may bring in for itself, but that we do not use, and why.
const NOT_OURS: [(&str, &str); 1] = [("chrono", "time is our own, with jiff to print it")];

/// Words for what is sent, a key or a URL: whoever has a field of such a type writes its own `Debug`.
const UNSHOWN: [&str; 5] = ["Bytes", "BytesMut", "Url", "RawValue", "Letterhead"];
/// The same, as they stand in a field.
const UNSHOWN_PARTS: [&str; 2] = ["Vec<u8>", "[u8]"];
/// Types that have such a field and may be printed all the same, and why.
const PRINTED: [(&str, &str); 6] = [
    ("RetryHeaders", "the lines of Retry-After and Date, which are shown with an attempt"),
    ("Parts", "where a payload is kept is shown with its delivery, and has no query"),
    ("Via", "a proxy's URL has no password (config)"),
    ("Send", "the same"),
    ("Config", "the same, and certificates, which are public"),
    ("Hex", "a digest"),
];

/// A source file and its place below the root.
struct Source {
    path: String,
    text: String,
}

/// A rule: what is wrong with a file, one line each.
type Rule = fn(&Source) -> Vec<String>;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below these folders, in order.
fn sources(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let short = path.strip_prefix(root()).expect("below the root").display().to_string();
            found.push(Source { path: short, text: fs::read_to_string(&path).expect("UTF-8") });
        }
    }
}

fn hold(rule: Rule, folders: &[&str]) {
    let all = sources(folders);
    assert!(all.len() > 3, "too few files were found: are the folders right?");
    let wrong: Vec<String> = all.iter().flat_map(rule).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// True for a file that holds only tests.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Who derives `Debug` shows every field: bodies, keys and URLs are to be left out by hand.
fn derives_no_debug_of_bytes(source: &Source) -> Vec<String> {
    // Drills and the scripted receiver are a test's.
    let is_drill = source.path.starts_with("src/drill/");
    let lines: Vec<&str> = shipped(source).filter(|_| !is_drill).collect();
    let derives = |(at, line): (usize, &&str)| {
        let derive = line.trim_start().starts_with("#[derive(") && line.contains("Debug");
        derive.then(|| at + 1)
    };
    let wrong = |from: usize| {
        let (name, fields) = declared(&lines[from..])?;
        let bare =
            fields.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| UNSHOWN.contains(&word));
        let shows = bare || UNSHOWN_PARTS.iter().any(|part| fields.contains(part));
        let excused = PRINTED.iter().any(|(other, _)| *other == name);
        (shows && !excused).then(|| {
            format!(
                "{}:{from}: {name} derives Debug, which shows its bytes: write one that does not",
                source.path
            )
        })
    };
    lines.iter().enumerate().filter_map(derives).filter_map(wrong).collect()
}

/// The type that a derive stands over, and its fields without comments.
fn declared(lines: &[&str]) -> Option<(String, String)> {
    let head = lines.iter().position(|line| line.contains("struct ") || line.contains("enum "))?;
    let after = lines[head].split_once("struct ").or_else(|| lines[head].split_once("enum "))?.1;
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let one_line = lines[head].trim_end().ends_with([';', '}']);
    let length = if one_line { 1 } else { lines[head..].iter().position(|line| line.trim() == "}")? };
    let bare = lines[head..head + length].iter().map(|line| line.split("//").next().unwrap_or_default());
    let fields: Vec<&str> = bare.collect();
    Some((name.clone(), fields.join("\n").replacen(&name, "", 1)))
}

/// The lines before the tests of a file.
fn shipped(source: &Source) -> impl Iterator<Item = &str> {
    let all = if is_test_file(&source.path) { 0 } else { usize::MAX };
    source.text.lines().take_while(|line| *line != "#[cfg(test)]").take(all)
}

fn short_functions(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let long = |(at, line): (usize, &&str)| {
        let length = if is_function(line) { length(&lines[at..]) } else { 0 };
        (length > MAX_FUNCTION).then(|| {
            let Source { path, .. } = source;
            format!(
                "{path}:{}: {length} lines: give parts of it names of their own (at most {MAX_FUNCTION})",
                at + 1
            )
        })
    };
    lines.iter().enumerate().filter_map(long).collect()
}

/// A line that begins a function, as rustfmt writes it.
fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    let before = |word: &&str| {
        word.starts_with("pub")
            || ["async", "const", "unsafe", "extern", "\"C\""].contains(word)
            || *word == "super)"
    };
    while words.next_if(before).is_some() {}
    words.next() == Some("fn")
}

/// Lines up to the brace that closes at the indentation of the first line. A function without
/// a body ends where its head does.
fn length(lines: &[&str]) -> usize {
    let head = lines.iter().position(|line| line.ends_with(['{', '}', ';'])).unwrap_or(0);
    if !lines[head].ends_with('{') {
        return head + 1;
    }
    let indent = lines[0].len() - lines[0].trim_start().len();
    let closing = format!("{}}}", " ".repeat(indent));
    lines.iter().position(|line| *line == closing).map_or(lines.len(), |at| at + 1)
}

fn short_files(source: &Source) -> Vec<String> {
    let length = shipped(source).count();
    let told = format!("{}: {length} lines: split it by concept (at most {MAX_FILE})", source.path);
    (length > MAX_FILE).then_some(told).into_iter().collect()
}

fn one_way(source: &Source) -> Vec<String> {
    let Some(module) = module_of(&source.path) else { return Vec::new() };
    let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
        return vec![format!(
            "{}: module {module} is not in the table MAY_USE: give it its place",
            source.path
        )];
    };
    let shipped: Vec<&str> = shipped(source).filter(|line| !line.trim_start().starts_with("//")).collect();
    let used = used_modules(&shipped.join("\n"));
    let wrong = used.iter().filter(|used| *used != module && !may_use.contains(&used.as_str()));
    let told = |used: &String| {
        format!("{}: {module} must not use {used}: pass what it needs as a value, or move it", source.path)
    };
    wrong.map(told).collect()
}

/// `src/store/mod.rs` and `src/store.rs` are `store`; the root of the library has no place.
fn module_of(path: &str) -> Option<&str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    let name = first.trim_end_matches(".rs");
    (name != "lib").then_some(name)
}

/// What stands after each `crate::`, groups in braces included.
fn used_modules(text: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for after in ["crate::", "duehook::"].iter().flat_map(|root| text.split(root).skip(1)) {
        match after.strip_prefix('{') {
            Some(group) => used.extend(group_heads(group)),
            None => used.extend(head(after)),
        }
    }
    used
}

/// The first name of each part of a group, up to its closing brace.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let (mut depth, mut begins) = (0_usize, true);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if letter.is_whitespace() => {}
            _ if begins => {
                heads.extend(head(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    heads
}

/// A module's name at the beginning of `text`; types, macros and constants are none.
fn head(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        .unwrap_or(text.len());
    let is_macro = text[end..].starts_with('!');
    (end > 0 && !is_macro).then(|| text[..end].to_owned())
}

fn telling_names(source: &Source) -> Vec<String> {
    let file = source.path.trim_end_matches(".rs");
    let places = file.split('/').flat_map(|part| part.split('_'));
    let kinds = ["struct ", "enum ", "trait ", "mod ", "type "];
    let declared = source.text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
        kinds.iter().find_map(|kind| line.strip_prefix(kind))
    });
    let names = declared.flat_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').take(1));
    let empty = |name: &str| {
        let name = name.to_ascii_lowercase();
        EMPTY_NAMES.iter().any(|word| name == *word || name.ends_with(word))
    };
    let told = |name: &str| format!("{}: {name:?} names nothing: call it what it is about", source.path);
    places.chain(names).filter(|name| empty(name)).map(told).collect()
}

fn opens_with_its_subject(source: &Source) -> Vec<String> {
    let told = format!("{}: begin with //! what the module owns and what it must never do", source.path);
    (!source.text.starts_with("//!")).then_some(told).into_iter().collect()
}

fn nothing_unfinished(source: &Source) -> Vec<String> {
    let marks = [
        (concat!("to", "do!("), "write it, or leave it out"),
        (concat!("unimplemented", "!("), "write it, or leave it out"),
        (concat!("dbg", "!("), "remove it"),
        (concat!("#[ig", "nore"), "a test that does not run proves nothing: make it run or delete it"),
        (concat!("FIX", "ME"), "fix it, or file an issue"),
        (concat!("#[al", "low("), "use #[expect(…, reason = \"…\")] on the smallest item"),
    ];
    found(source, &marks)
}

fn tests_stay_awake(source: &Source) -> Vec<String> {
    let advice = "wait for what is to happen, or use virtual time";
    found(source, &[(concat!("sle", "ep("), advice), (concat!("park_time", "out("), advice)])
}

fn no_place_of_this_machine(source: &Source) -> Vec<String> {
    let advice = "nothing may name a path of one machine: use a temporary folder or CARGO_MANIFEST_DIR";
    let places =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
    found(source, &places.map(|place| (place, advice)))
}

fn found(source: &Source, marks: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        for (mark, advice) in marks.iter().filter(|(mark, _)| line.contains(mark)) {
            wrong.push(format!("{}:{}: {mark}: {advice}", source.path, at + 1));
        }
    }
    wrong
}

/// What is wrong with the packages of `cargo metadata`.
fn packages(metadata: &serde_json::Value) -> Vec<String> {
    let all = metadata["packages"].as_array().expect("cargo lists packages");
    all.iter()
        .flat_map(|package| [source(package), licence(package), ban(package), own_use(package)])
        .flatten()
        .collect()
}

fn source(package: &serde_json::Value) -> Option<String> {
    let source = package["source"].as_str()?;
    let good = source == "registry+https://github.com/rust-lang/crates.io-index";
    (!good).then(|| format!("{}: comes from {source}: take it from the crate registry", package["name"]))
}

/// `A OR B` needs one of them, `A AND B` both; `/` is an old way to write OR.
fn licence(package: &serde_json::Value) -> Option<String> {
    let text = package["license"].as_str().unwrap_or("none").replace('/', " OR ");
    let known = |one: &str| LICENCES.contains(&one.trim_matches(|c| "() ".contains(c)));
    let all_of = |part: &str| part.split(" AND ").all(known);
    let any_of = |part: &str| part.split(" OR ").any(|one| known(one) || all_of(one));
    let good = any_of(&text) || text.split(" AND ").all(any_of);
    (!good).then(|| format!("{}: licence {text} is not in LICENCES: may we ship it?", package["name"]))
}

fn ban(package: &serde_json::Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let (name, why) = BANNED_CRATES.iter().find(|(banned, _)| *banned == name)?;
    Some(format!("{name}: {why}"))
}

/// What our own manifest must not name.
fn own_use(package: &serde_json::Value) -> Option<String> {
    let dependencies = package["dependencies"].as_array().filter(|_| package["name"] == "duehook")?;
    let named = |name: &str| dependencies.iter().any(|one| one["name"] == name);
    let (name, why) = NOT_OURS.iter().find(|(name, _)| named(name))?;
    Some(format!("{name}: {why}"))
}

#[test]
fn functions_fit_on_a_screen() {
    hold(short_functions, &["src", "tests", "benches", "fuzz"]);
}

#[test]
fn files_are_one_concept() {
    hold(short_files, &["src"]);
}

#[test]
fn dependencies_point_one_way() {
    hold(one_way, &["src"]);
}

#[test]
fn names_name_something() {
    hold(telling_names, &["src", "tests", "benches", "fuzz"]);
}

#[test]
fn modules_say_what_they_own() {
    hold(opens_with_its_subject, &["src", "tests", "benches", "fuzz"]);
}

#[test]
fn nothing_is_unfinished() {
    hold(nothing_unfinished, &["src", "tests", "benches", "fuzz"]);
}

#[test]
fn no_test_sleeps() {
    hold(tests_stay_awake, &["tests"]);
}

#[test]
fn no_path_of_one_machine() {
    hold(no_place_of_this_machine, &["src", "tests", "benches", "fuzz"]);
}

/// The same for what is not Rust.
#[test]
fn no_path_of_one_machine_in_other_files() {
    let mut wrong = Vec::new();
    for name in [
        "README.md",
        "CHANGELOG.md",
        "Cargo.toml",
        ".ci/run",
        "packaging/README.md",
        "packaging/duehook.toml",
    ] {
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            wrong.extend(no_place_of_this_machine(&Source { path: name.into(), text }));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_top_level_has_what_the_design_lists() {
    let known = [
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "tests",
        "fuzz",
        "benches",
        "packaging",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
    ];
    let untracked =
        |name: &str| name.starts_with('.') || name == "target" || name.contains(".redb") || name == "backup";
    let entries = fs::read_dir(root()).expect("readable");
    let names = entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    let wrong: Vec<String> =
        names.filter(|name| !known.contains(&name.as_str()) && !untracked(name)).collect();
    assert!(wrong.is_empty(), "at the top level: {wrong:?}: put it into a folder that is there");
}

/// Licences, sources and bans of everything that is linked, from cargo itself.
#[test]
fn dependencies_may_be_shipped() {
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--offline",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).expect("JSON");
    let wrong = packages(&metadata);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn nothing_secret_is_printed_by_accident() {
    hold(derives_no_debug_of_bytes, &["src"]);
}

/// How many faults `rule` finds in `text`, were it the file `path`.
fn check(rule: Rule, path: &str, text: &str, faults: usize) {
    let source = Source { path: path.into(), text: text.into() };
    let found = rule(&source);
    assert_eq!(found.len(), faults, "{path}: {text}\n{found:?}");
}

#[test]
fn the_rules_about_length_can_fail() {
    let body =
        |lines: usize| format!("    pub(super) async fn f() {{\n{}    }}\n", "        x();\n".repeat(lines));
    check(short_functions, "src/a.rs", &body(68), 0);
    check(short_functions, "src/a.rs", &body(69), 1);
    check(short_functions, "src/a.rs", &format!("{}{}", body(69), body(69)), 2);
    check(short_functions, "src/a.rs", &format!("fn a();\n{}", "x\n".repeat(99)), 0);
    check(short_functions, "src/a.rs", &format!("fn a() {{}}\n{}", "x\n".repeat(99)), 0);
    check(short_files, "src/a.rs", &"x\n".repeat(400), 0);
    check(short_files, "src/a.rs", &"x\n".repeat(401), 1);
    check(short_files, "src/a.rs", &format!("x\n#[cfg(test)]\n{}", "x\n".repeat(500)), 0);
    check(short_files, "src/a/tests.rs", &"x\n".repeat(500), 0);
}

#[test]
fn the_table_of_dependencies_can_fail() {
    let check = |path: &str, text: &str, faults: usize| check(one_way, path, text, faults);
    check("src/time.rs", "use crate::model::Name;", 1);
    check("src/model.rs", "use crate::time::Millis;", 0);
    check("src/store/mod.rs", "use crate::engine::Engine;", 1);
    check("src/store/mod.rs", "use crate::{time::Millis, engine::{Engine, live}, http};", 2);
    check("src/store/mod.rs", "fn f() -> crate::http::Page {}", 1);
    check("src/schedule/lane.rs", "use crate::store::Snapshot;", 1);
    check("src/http/mod.rs", "use crate::driver::Handle;\nuse crate::http::dto;", 0);
    check("src/sign.rs", "use crate::sender::OutboundRequest;", 1);
    check("src/driver/mod.rs", "use crate::config::Config;", 1);
    check("src/sender/mod.rs", "// crate::store is not for us", 0);
    check("src/sender/mod.rs", "x\n#[cfg(test)]\nuse crate::store::Snapshot;", 0);
    check("src/main.rs", "duehook::cli::run()", 0);
    check("src/main.rs", "duehook::engine::run()", 1);
    check("src/lib.rs", "use crate::engine::Engine;", 0);
    check("src/brand_new.rs", "", 1);
}

/// The table itself: no module may use one that stands below it, so there is no way round.
#[test]
fn the_table_of_dependencies_has_no_circle() {
    for (at, (module, may_use)) in MAY_USE.iter().enumerate() {
        for used in *may_use {
            let above = MAY_USE[..at].iter().any(|(name, _)| name == used);
            assert!(above, "{module} may use {used}: it must stand above it in MAY_USE");
        }
    }
}

#[test]
fn the_rules_about_words_can_fail() {
    check(telling_names, "src/store/util.rs", "", 1);
    check(telling_names, "src/time_utils.rs", "", 1);
    check(telling_names, "src/a.rs", "pub struct QueueManager;\nenum Helper {}\nmod common;", 3);
    check(telling_names, "src/a.rs", "pub struct Uncommonly;\nlet manager = 1;", 0);
    check(opens_with_its_subject, "src/a.rs", "use x;\n//! late", 1);
    check(opens_with_its_subject, "src/a.rs", "//! The subject.", 0);
    check(nothing_unfinished, "src/a.rs", concat!("to", "do!()"), 1);
    check(
        nothing_unfinished,
        "tests/a.rs",
        concat!("#[ig", "nore]\n#[al", "low(x)]\nunimplemented", "!()"),
        3,
    );
    check(tests_stay_awake, "tests/a.rs", concat!("std::thread::sle", "ep(d)"), 1);
    check(tests_stay_awake, "tests/a.rs", "// a sleeper", 0);
    check(no_place_of_this_machine, "src/a.rs", concat!("\"/ro", "ot/x\""), 1);
    check(no_place_of_this_machine, "src/a.rs", "\"/var/lib/duehook\"", 0);
}

#[test]
fn the_rule_about_what_is_printed_can_fail() {
    let check = |text: &str, faults: usize| check(derives_no_debug_of_bytes, "src/a.rs", text, faults);
    check("#[derive(Clone, Debug)]\npub struct A {\n    body: Bytes,\n}", 1);
    check("#[derive(Debug)]\n#[x]\n/// Doc.\nenum A {\n    /// Bytes\n    B(Option<Vec<u8>>),\n}", 1);
    check("#[derive(Debug)]\npub(super) struct A(pub Url);", 1);
    check("#[derive(Debug)]\nstruct A<'a> {\n    key: &'a [u8],\n}", 1);
    check("#[derive(Clone)]\nstruct A(Url);\n#[derive(Debug)]\nstruct B(u8);", 0);
    check(
        "#[derive(Debug)]\nstruct A {\n    digest: [u8; 32], // Bytes\n    n: PageBytes,\n}\nstruct B(Url);",
        0,
    );
    check("#[derive(Debug)]\nstruct RetryHeaders(Vec<u8>);", 0);
}

#[test]
fn the_rules_about_packages_can_fail() {
    let check = |name: &str, source: Option<&str>, licence: Option<&str>, faults: usize| {
        let package = serde_json::json!({"name": name, "source": source, "license": licence});
        let found = packages(&serde_json::json!({"packages": [package]}));
        assert_eq!(found.len(), faults, "{name} {source:?} {licence:?}: {found:?}");
    };
    let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
    check("a", registry, Some("MIT OR Apache-2.0"), 0);
    check("a", registry, Some("MIT/Apache-2.0"), 0);
    check("a", registry, Some("(MIT OR Apache-2.0) AND Unicode-3.0"), 0);
    check("a", registry, Some("GPL-3.0 OR MIT"), 0);
    check("a", registry, Some("GPL-3.0"), 1);
    check("a", registry, Some("MIT AND GPL-3.0"), 1);
    check("a", registry, None, 1);
    check("a", Some("git+https://example.com/a"), Some("MIT"), 1);
    check("openssl", registry, Some("Apache-2.0"), 1);
    check("duehook", None, Some("Apache-2.0"), 0);
    let own = serde_json::json!({"name": "duehook", "license": "MIT", "dependencies": [{"name": "chrono"}]});
    assert_eq!(packages(&serde_json::json!({"packages": [own]})).len(), 1);
}
