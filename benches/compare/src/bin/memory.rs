//! Resident bytes for a key: tollgate beside governor.
//!
//! ```text
//! cargo run --release --manifest-path benches/compare/Cargo.toml --bin memory -- [--quick]
//! ```
//!
//! Tables for a million and for ten million keys (`--quick`: a hundred thousand) are filled with as
//! many, each in a process of its own. *Filled* is what the process has grown by then, *peak* the
//! most on the way there. Then all keys fall idle, and governor is swept, and then shrunk; we have
//! nothing to sweep, and what was taken at build stays. Needs Linux's /proc.

use std::error::Error;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::process::Command;
use std::time::Duration;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle, presets};
use governor::RateLimiter;
use governor::clock::FakeRelativeClock;
use tollgate::{Clock, KeyedLimiter, Quota};

/// No lines but one under the header.
const STYLE: TableStyle =
    presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

const WHO: [&str; 2] = ["tollgate", "governor"];
const KINDS: [&str; 3] = ["u64", "IPv6 address", "24-character string"];

/// Given to a process that is to measure one row.
const MEASURE: &str = "--measure";

/// A key is idle again an hour after its first call.
const LONG: Duration = Duration::from_secs(7_200);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => report(&[1_000_000, 10_000_000]),
        ["--quick"] => report(&[100_000]),
        [MEASURE, who, kind, keys] => measure(who, kind, keys.parse()?),
        _ => Err("options: --quick".into()),
    }
}

fn report(sizes: &[u64]) -> Result<(), Box<dyn Error>> {
    let mut table = Table::new();
    let header = ["keys", "key", "who", "filled", "peak", "idle, swept", "shrunk"];
    table.load_style(STYLE).set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 || index > 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for keys in sizes {
        for kind in KINDS {
            for who in WHO {
                let mut row = vec![keys.to_string(), kind.to_owned(), who.to_owned()];
                let sizes = in_a_process(who, kind, *keys)?;
                row.extend(sizes.iter().map(|bytes| format!("{:.1}", bytes / *keys as f64)));
                table.add_row(row);
            }
        }
    }
    println!("{}\n\nResident bytes a key.", table.trim_fmt());
    Ok(())
}

fn in_a_process(who: &str, kind: &str, keys: u64) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut process = Command::new(std::env::current_exe()?);
    let output = process.args([MEASURE, who, kind, &keys.to_string()]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let output = String::from_utf8(output.stdout)?;
    Ok(output.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// Prints what the process has grown by at each moment of a row.
fn measure(who: &str, kind: &str, keys: u64) -> Result<(), Box<dyn Error>> {
    let address = |number: u64| IpAddr::V6(Ipv6Addr::from(u128::from(number) << 64 | 1));
    let name = |number: u64| format!("user-{number:019}");
    let sizes = match (who, kind) {
        ("tollgate", "u64") => ours::<u64>(keys, |limiter, key| limiter.check(&key).is_allowed()),
        ("tollgate", "IPv6 address") => {
            ours::<IpAddr>(keys, |limiter, key| limiter.check(&address(key)).is_allowed())
        }
        ("tollgate", _) => ours::<str>(keys, |limiter, key| limiter.check(&name(key)).is_allowed()),
        (_, "u64") => by_governor(keys, |number| number),
        (_, "IPv6 address") => by_governor(keys, address),
        _ => by_governor(keys, name),
    }?;
    println!("{}", sizes.map(|bytes| bytes.to_string()).join(" "));
    Ok(())
}

/// Bytes by which the process has grown: filled, at most until then, swept, shrunk.
type Sizes = Result<[u64; 4], Box<dyn Error>>;

fn ours<K: Hash + ?Sized + 'static>(
    keys: u64,
    admits: impl Fn(&KeyedLimiter<K>, u64) -> bool,
) -> Sizes {
    let before = resident()?;
    let (clock, time) = Clock::manual();
    let builder = KeyedLimiter::builder(Quota::per_hour(2)).capacity(keys as usize).clock(clock);
    let limiter: KeyedLimiter<K> = builder.build()?;
    assert!((0..keys).all(|key| admits(&limiter, key)), "a new key is admitted");
    let (filled, peak) = (resident()?, peak()?);
    time.advance(LONG);
    assert_eq!(limiter.len(), 0, "all keys are idle");
    let idle = resident()?;
    Ok([filled, peak, idle, idle].map(|bytes| bytes.saturating_sub(before)))
}

fn by_governor<K: Hash + Eq + Clone>(keys: u64, key: impl Fn(u64) -> K) -> Sizes {
    let before = resident()?;
    let clock = FakeRelativeClock::default();
    let quota = governor::Quota::per_hour(NonZeroU32::new(2).expect("not zero"));
    let limiter = RateLimiter::dashmap_with_clock(quota, clock.clone());
    let mut numbers = 0..keys;
    assert!(numbers.all(|number| limiter.check_key(&key(number)).is_ok()), "a new key");
    let (filled, peak) = (resident()?, peak()?);
    clock.advance(LONG);
    limiter.retain_recent();
    assert!(limiter.is_empty(), "all keys are idle");
    let swept = resident()?;
    limiter.shrink_to_fit();
    Ok([filled, peak, swept, resident()?].map(|bytes| bytes.saturating_sub(before)))
}

/// Resident bytes of this process.
fn resident() -> Result<u64, Box<dyn Error>> {
    status("VmRSS:")
}

/// The most that were resident.
fn peak() -> Result<u64, Box<dyn Error>> {
    status("VmHWM:")
}

fn status(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("no such size")?;
    Ok(kibibytes.trim().parse::<u64>()? * 1_024)
}
