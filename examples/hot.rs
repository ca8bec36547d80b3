//! One limit that all cores hit, plain and leased: `cargo run --release --example hot`.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{LeasedLimiter, Leases, Limiter, Quota};

/// More than any machine asks for.
const QUOTA: Quota = Quota::per_second(1_000_000_000).burst(1_000_000_000);
const RUN: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new(QUOTA)?.leased(Leases::of(Duration::from_millis(1)))?;
    println!("{:<10}{:>16}{:>18}{:>12}", "threads", "plain", "leased", "times");
    for threads in [1, 2] {
        let plain = rate(threads, || plain(limiter.limiter()));
        let leased = rate(threads, || leased(&limiter));
        println!(
            "{threads:<10}{:>12.1} M/s{:>14.1} M/s{:>12.1}",
            plain / 1e6,
            leased / 1e6,
            leased / plain
        );
    }
    Ok(())
}

/// Admitted calls a second, of all threads together.
fn rate(threads: usize, admitted: impl Fn() -> u64 + Sync) -> f64 {
    let start = Instant::now();
    let admitted: u64 = thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(&admitted)).collect();
        spawned.into_iter().map(|one| one.join().expect("no thread panics")).sum()
    });
    admitted as f64 / start.elapsed().as_secs_f64()
}

fn plain(limiter: &Limiter) -> u64 {
    count(|| limiter.check().is_allowed())
}

fn leased(limiter: &LeasedLimiter) -> u64 {
    let mut handle = limiter.handle();
    count(|| handle.check().is_allowed())
}

/// How often a call is admitted until the run is over.
fn count(mut call: impl FnMut() -> bool) -> u64 {
    let (start, mut admitted) = (Instant::now(), 0);
    while start.elapsed() < RUN {
        admitted += (0..10_000).map(|_| u64::from(call())).sum::<u64>();
    }
    admitted
}
