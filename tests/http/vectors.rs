//! Where each vector of the conventions is shown, so that none is silently missing.

/// Vectors of headers that are for those who read the headers of others.
const OF_CLIENTS: &str = "for clients: the gate writes headers, and reads of others only what it must \
    to stand beside them";

/// By whose file a vector is shown, or why it is not.
const ELSEWHERE: &[(&str, &str)] = &[
    ("H8", OF_CLIENTS),
    ("H44", OF_CLIENTS),
    ("H45", OF_CLIENTS),
    ("H46", OF_CLIENTS),
    ("H23", "all policies are told, not the tightest alone, which the draft allows as well"),
    ("H40", "there is no store that can fail"),
    ("H41", "the gate sheds no load"),
    ("G9", "there is no store that can fail"),
    ("B13", "the gate has no limit of concurrency"),
    ("B16", "there is no store that can fail"),
    ("B17", "there is no store that can fail"),
    ("B18", "there is no store that can fail"),
    ("B22", "the gate writes no log"),
    ("B23", "the gate has no metrics but each limiter's `stats`, which have no labels"),
    (
        "I8",
        "tiers are rules with limiters of their own: who changes tier starts afresh in the new one",
    ),
];

/// The files that show the others, by the vectors' names in them.
const FILES: [&str; 7] = [
    include_str!("behaviour.rs"),
    include_str!("client.rs"),
    include_str!("contract.rs"),
    include_str!("grpc.rs"),
    include_str!("nested.rs"),
    include_str!("../../src/tower/answer/vectors.rs"),
    include_str!("hold.rs"),
];

/// Whether a file names this vector, and not only one whose number begins so.
fn names(file: &str, vector: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
    file.match_indices(vector).any(|(at, _)| is_end(&file[at + vector.len()..]))
}

#[test]
fn no_vector_is_missing() {
    // K and P are counted in their own file, which has them as rows.
    for (letter, count) in [("H", 50), ("G", 10), ("I", 9), ("B", 23), ("T", 12)] {
        for number in 1..=count {
            let vector = format!("{letter}{number}");
            let reason = ELSEWHERE.iter().find(|(name, _)| *name == vector);
            let is_shown = FILES.iter().any(|file| names(file, &vector));
            assert!(is_shown || reason.is_some(), "{vector} is neither shown nor explained");
        }
    }
}
