//! P9: `docs/orderings.md` has a row for every atomic operation of the engine, and every ordering
//! that is stronger than Relaxed has a mutant that a model kills.
//!
//! The table is made from the sources: the name of a place, its ordering, and the comment above it.
//! `TOLLGATE_WRITE=1 cargo test orderings` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# Orderings

Every atomic operation of the engine, made from the comments above it in `src/` and from
`loom-tests/mutants.txt` by `tests/it/orderings.rs`, which fails when this page is out of date. No
operation is sequentially consistent and there is no fence: DESIGN.md says why none is needed.

The manual clock's operations (`clock/`) have no mutant: only the models of charges that are taken back
read it, and those ask for no more than what the word brings along; `tests/weak/count.rs` has their race,
for Miri.

A *mutant* is the engine with that ordering weakened, or with that part of a protocol left out or done
wrongly. `ci/loom.sh mutants` runs each on the model that is named, which must fail.

";

/// An atomic operation in the sources.
struct Operation {
    /// Its name, as in `find/word`.
    name: String,
    file: String,
    function: String,
    method: String,
    ordering: String,
    comment: String,
}

/// A line of `loom-tests/mutants.txt`.
struct Mutant {
    name: String,
    /// The file and the test that fail, or `none` and the reason.
    file: String,
    test: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether this is the crate as it is published, without the models and so without their mutants.
fn is_published() -> bool {
    !root().join("loom-tests").exists() && !root().join(".git").exists()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.file_name().unwrap() != "probe.rs" {
            found.push(path);
        }
    }
    found.sort();
}

/// The comment lines next above a line, at most a statement's length away.
fn comment_above(lines: &[&str], line: usize) -> String {
    let is_comment = |line: &&&str| line.trim_start().starts_with("// ");
    let above = lines[..line].iter().rev();
    let skipped = above.clone().take(6).take_while(|line| !is_comment(line)).count();
    let mut comment: Vec<&str> = above.skip(skipped).take_while(is_comment).copied().collect();
    comment.reverse();
    let text: Vec<&str> = comment.iter().map(|line| line.trim_start()[3..].trim()).collect();
    text.join(" ")
}

/// The name of the function that a line is in.
fn function_of(lines: &[&str], line: usize) -> String {
    let is_function = |line: &&&str| line.contains("fn ") && line.contains('(');
    let start = lines[..=line].iter().rev().find(is_function).expect("code is in functions");
    let name = start.split("fn ").nth(1).unwrap();
    name.split(['(', '<']).next().unwrap().to_owned()
}

fn operations() -> Vec<Operation> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut operations = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let file = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
        for (number, line) in lines.iter().enumerate() {
            for (column, _) in line.match_indices(".at(\"") {
                let before = &line[..column];
                let name = line[column + 5..].split('"').next().unwrap().to_owned();
                let ordering = before.rsplit([' ', '(']).next().unwrap().to_owned();
                // The call is on this line or on one of the few before it.
                let call = lines[number.saturating_sub(4)..number].join("\n") + "\n" + before;
                let methods = ["load", "store", "compare_exchange", "fetch_"];
                let starts = methods.iter().filter_map(|name| call.rfind(&format!(".{name}")));
                let start = starts.max().expect("an ordering belongs to an operation") + 1;
                operations.push(Operation {
                    name,
                    file: file.clone(),
                    function: function_of(&lines, number),
                    method: call[start..].split('(').next().unwrap().to_owned(),
                    ordering,
                    comment: comment_above(&lines, number),
                });
            }
        }
    }
    operations
}

/// The names of the mutants in the sources that leave a part of a protocol out.
fn left_out() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    let names = |text: String| -> Vec<String> {
        let parts = text.split("mutant(\"").skip(1);
        parts.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    texts.flat_map(names).collect()
}

fn mutants() -> Vec<Mutant> {
    let text = fs::read_to_string(root().join("loom-tests/mutants.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &str| {
        let mut fields = line.split('|').map(|field| field.trim().to_owned());
        let mut next = || fields.next().unwrap_or_else(|| panic!("a field is missing: {line}"));
        Mutant { name: next(), file: next(), test: next() }
    };
    lines.map(parse).collect()
}

/// Atomics whose orderings no model weakens, each with its reason on the page.
fn is_beside_the_protocols(operation: &Operation) -> bool {
    operation.name.starts_with("clock/")
}

/// The mutants that an operation must have.
fn wanted(operation: &Operation) -> Vec<String> {
    let weaker: &[&str] = match operation.ordering.as_str() {
        "Acquire" | "Release" => &["Relaxed"],
        "AcqRel" => &["Acquire", "Release"],
        "Relaxed" => &[],
        other => panic!("{other} at {}", operation.name),
    };
    weaker.iter().map(|weaker| format!("{}={weaker}", operation.name)).collect()
}

fn shown_by(mutant: &Mutant) -> String {
    match mutant.file.as_str() {
        "none" => mutant.test.clone(),
        file => format!("`{file}::{}`", mutant.test),
    }
}

fn page(operations: &[Operation], mutants: &[Mutant]) -> String {
    let mut page = HEAD.to_owned();
    page += "| place | operation | ordering | reason and partner | fails if weaker |\n";
    page += "|---|---|---|---|---|\n";
    for operation in operations {
        let Operation { name, file, function, method, ordering, comment } = operation;
        let shown = wanted(operation).into_iter().map(|wanted| {
            let of = |mutant: &&Mutant| mutant.name == wanted;
            let mutant = mutants.iter().find(of);
            let weaker = wanted.split('=').nth(1).unwrap_or_default();
            mutant.map_or(String::new(), |mutant| format!("{weaker}: {}", shown_by(mutant)))
        });
        let shown: Vec<String> = shown.filter(|shown| !shown.is_empty()).collect();
        let shown = if shown.is_empty() { "-".to_owned() } else { shown.join("; ") };
        let place = format!("`{name}` in `{file}`, `{function}`");
        writeln!(page, "| {place} | {method} | {ordering} | {comment} | {shown} |").unwrap();
    }
    page += "\n## Parts of the protocols\n\n| mutant | fails |\n|---|---|\n";
    for mutant in mutants.iter().filter(|mutant| !mutant.name.contains('=')) {
        writeln!(page, "| {} | {} |", mutant.name, shown_by(mutant)).unwrap();
    }
    page
}

#[test]
fn the_page_is_what_the_sources_say() {
    if is_published() {
        return;
    }
    let page = page(&operations(), &mutants());
    let path = root().join("docs/orderings.md");
    if std::env::var_os("TOLLGATE_WRITE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(path).unwrap();
    assert!(written == page, "docs/orderings.md is out of date: see tests/it/orderings.rs");
}

#[test]
fn every_operation_has_a_name_a_reason_and_its_mutants() {
    if is_published() {
        return;
    }
    let (operations, mutants) = (operations(), mutants());
    let listed: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    assert_eq!(listed.len(), mutants.len(), "a mutant is listed twice");
    let mut known = left_out();
    let mut names = BTreeSet::new();
    for operation in &operations {
        let name = &operation.name;
        assert!(names.insert(name), "two operations are called {name}");
        assert!(!operation.comment.is_empty(), "{name} has no comment above it");
        if !is_beside_the_protocols(operation) {
            known.extend(wanted(operation));
        }
    }
    for name in &known {
        assert!(listed.contains(name.as_str()), "no model is named for the mutant {name:?}");
    }
    for name in listed {
        assert!(known.contains(name), "the sources have no mutant {name:?}");
    }
    for Mutant { name, file, test } in mutants.iter().filter(|mutant| mutant.file != "none") {
        let source = file.trim_start_matches("homes:");
        let path = root().join(format!("loom-tests/tests/{source}.rs"));
        let models = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(models.contains(&format!("fn {test}()")), "{name}: no model {test} in {file}");
    }
}

/// Whoever adds an ordering that is stronger than Relaxed without a name is told so.
#[test]
fn no_ordering_is_without_a_name() {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    for path in files.iter().filter(|path| !path.ends_with("sync.rs")) {
        let text = fs::read_to_string(path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code.filter(|line| !line.starts_with("use crate::sync::")) {
            for ordering in ["Acquire", "Release", "AcqRel", "SeqCst"] {
                let named = line.matches(&format!("{ordering}.at(\"")).count();
                let all = line.matches(ordering).count();
                assert_eq!(named, all, "an ordering without a name in {path:?}: {line}");
            }
        }
    }
}
