//! Several limits on one request, all or nothing: `cargo run --release --example compose`.
//!
//! Ten a second for each address, a thousand an hour for each API key, and twelve a second for all. The
//! time is the program's own, so that it always prints the same.

use std::time::Duration;

use tollgate::{Clock, JointDecision, KeyedLimiter, Limiter, Quota, check_all};

const NAMES: [&str; 3] = ["address", "API key", "all"];

fn main() -> Result<(), tollgate::BuildError> {
    let (clock, time) = Clock::manual();
    let by_address: KeyedLimiter<str> =
        KeyedLimiter::builder(Quota::per_second(10)).clock(clock.clone()).build()?;
    let by_api_key: KeyedLimiter<str> =
        KeyedLimiter::builder(Quota::per_hour(1_000)).clock(clock.clone()).build()?;
    let for_all = Limiter::builder(Quota::per_second(12)).clock(clock).build()?;

    let request = |address: &str, api_key: &str| {
        check_all(&mut [by_address.ask(address, 1), by_api_key.ask(api_key, 1), for_all.ask(1)])
    };
    let burst = |address: &str| -> JointDecision {
        let admitted = (0..100).take_while(|_| request(address, "k-17").is_allowed()).count();
        let refused = request(address, "k-17");
        println!(
            "{address}: {admitted} requests, then refused by the limit of {}, for {:?}",
            refused.refused_by().map_or("none", |at| NAMES[at]),
            refused.retry_after().unwrap_or(Duration::MAX),
        );
        refused
    };
    assert_eq!(burst("198.51.100.7").refused_by(), Some(0));
    assert_eq!(burst("203.0.113.9").refused_by(), Some(2));
    // Twelve of each were admitted, and what was refused was charged to none.
    assert_eq!(by_api_key.peek("k-17").remaining(), 1_000 - 12);
    assert_eq!(by_address.peek("203.0.113.9").remaining(), 10 - 2);

    // Ten a second use the hour's thousand up: what comes back meanwhile is one in 3.6 s.
    let mut admitted = 12;
    while request("198.51.100.7", "k-17").refused_by() != Some(1) {
        time.advance(Duration::from_millis(100));
        admitted += u64::from(request("198.51.100.7", "k-17").is_allowed());
    }
    let refused = request("198.51.100.7", "k-17");
    println!("k-17: {admitted} requests by {:?}, then one in 3.6 s", time.now());
    assert_eq!((refused.refused_by(), refused.remaining()), (Some(1), 0));
    time.advance(refused.retry_after().unwrap_or_default());
    assert!(request("198.51.100.7", "k-17").is_allowed());
    Ok(())
}
