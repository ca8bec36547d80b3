//! Writes the inputs that fuzzing starts from: `seeds FOLDER` fills `FOLDER/<target>/`.
//!
//! The scripts are the scenarios of `tests/data`, under every algorithm that can take their place;
//! the logs are the lines beside this file, one by one, all at once, and packed. Calls of `compose` are any
//! bytes, and start from some that are as if they were random, but always the same.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
// This program is built with the targets' flags, and so for the counters that libFuzzer brings.
use libfuzzer_sys as _;
use serde_json::Value;
use tollgate_fuzz::script::{self, QUOTAS};

const SCENARIOS: &str = include_str!("../../tests/data/scenarios.jsonl");
const LOG: &str = include_str!("access.log");

/// Every bit of a number counts.
const ALL_BITS: u8 = 64;

/// The number of an algorithm, as `script.rs` counts them, and of those that take the same quotas.
fn algorithms(name: &str) -> &'static [u8] {
    match name {
        "token_bucket" => &[0, 1, 2],
        "fixed_window" => &[3],
        "sliding_counter" => &[4],
        "sliding_log" => &[5],
        _ => &[],
    }
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or(0)
}

fn quota(config: &Value) -> Vec<u8> {
    let kind = u8::from(config["burst"].is_null());
    let period = number(config, "period_ns") + number(config, "window_ns");
    let mut bytes = vec![kind, ALL_BITS, ALL_BITS, ALL_BITS];
    for number in [number(config, "limit"), period, number(config, "burst")] {
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

/// A case as a script; see the picture in `script.rs`.
fn write_script(case: &Value, algorithm: u8, overflow: u8) -> Vec<u8> {
    let steps = case["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut quotas: Vec<&Value> = vec![&case["config"]];
    quotas.extend(steps.iter().map(|step| &step["quota"]).filter(|quota| !quota.is_null()));
    quotas.truncate(QUOTAS);
    let ring = quotas.iter().map(|quota| number(quota, "limit")).max().unwrap_or(1);
    let ring = (ring.clamp(1, 256) - 1) as u8;
    let mut bytes = vec![algorithm, overflow, ring, ring, 0, 0, 0, 0];
    let fill = quotas.last().copied();
    let all = quotas.iter().copied().chain(fill.into_iter().cycle()).take(QUOTAS);
    all.for_each(|config| bytes.extend(quota(config)));
    let mut keys: Vec<&str> = Vec::new();
    let mut changes = 0;
    for step in steps {
        let name = step["key"].as_str().unwrap_or_default();
        let key = keys.iter().position(|key| *key == name).unwrap_or_else(|| {
            keys.push(name);
            keys.len() - 1
        });
        let verb = match step["op"].as_str() {
            Some("peek") => 6,
            Some("refund") => 8,
            Some("set_quota") => {
                changes += 1;
                11 + 16 * changes
            }
            _ => 0,
        };
        bytes.extend([verb, key as u8, 2, 0, ALL_BITS, ALL_BITS, 0, 0]);
        bytes.extend(number(step, "t_ns").to_le_bytes());
        bytes.extend(step["cost"].as_u64().unwrap_or(1).to_le_bytes());
    }
    assert_eq!(script::read(&bytes).steps.len(), steps.len(), "a script holds every step");
    bytes
}

fn write_scripts(folder: &Path) -> Result<(), Box<dyn Error>> {
    for line in SCENARIOS.lines().filter(|line| !line.trim().is_empty()) {
        let case: Value = serde_json::from_str(line)?;
        let id = case["id"].as_str().ok_or("a case without an id")?;
        for &algorithm in algorithms(case["algorithm"].as_str().unwrap_or_default()) {
            for target in ["limiter", "change"] {
                let file = folder.join(target).join(format!("{id}-{algorithm}"));
                fs::write(file, write_script(&case, algorithm, 0))?;
            }
            for overflow in 0..3 {
                let file = folder.join("keyed").join(format!("{id}-{algorithm}-{overflow}"));
                fs::write(file, write_script(&case, algorithm, overflow))?;
            }
        }
    }
    Ok(())
}

fn write_logs(folder: &Path) -> Result<(), Box<dyn Error>> {
    let folder = folder.join("access_log");
    for (number, line) in LOG.lines().enumerate() {
        fs::write(folder.join(format!("line-{number:02}")), line)?;
    }
    fs::write(folder.join("all"), LOG)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(LOG.as_bytes())?;
    fs::write(folder.join("packed"), packed.finish()?)?;
    Ok(())
}

/// Programs for `compose`: numbers of a linear congruential generator, as much of each as is random.
fn write_programs(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut state = 1_u64;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for number in 0..200 {
        let bytes: Vec<u8> = (0..2_500).map(|_| byte()).collect();
        fs::write(folder.join("compose").join(format!("program-{number:03}")), bytes)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: seeds FOLDER")?;
    let folder = Path::new(&folder);
    for target in ["limiter", "keyed", "change", "compose", "access_log"] {
        fs::create_dir_all(folder.join(target))?;
    }
    write_scripts(folder)?;
    write_programs(folder)?;
    write_logs(folder)
}
