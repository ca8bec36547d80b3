//! Costs that are known only afterwards: `cargo run --release --example settle`.
//!
//! A language model's tokens, of which a request estimates how many it will take, and logins, of which only
//! those that fail count. The time is the program's own, so that it always prints the same.

use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, Permits, Quota, ReserveError};

/// What the requests have taken of the 2 000 tokens that each has estimated.
const TAKEN: [u64; 5] = [350, 1_200, 80, 2_600, 900];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (clock, time) = Clock::manual();
    let tokens: KeyedLimiter<str> = KeyedLimiter::builder(Quota::per_minute(60_000).burst(20_000))
        .clock(clock.clone())
        .permits(Permits::new())
        .build()?;
    let mut running = Vec::new();
    for taken in TAKEN {
        running.push((tokens.reserve("tenant", 2_000)?, taken));
    }
    match tokens.reserve("tenant", 11_000) {
        Err(ReserveError::Refused(answer)) => {
            println!("11000 more tokens fit in {:?}", answer.retry_after().unwrap_or_default());
        }
        other => unreachable!("10 000 tokens are out of 20 000, but: {other:?}"),
    }
    // A second later they have their answers. A thousand tokens are earned.
    time.advance(Duration::from_secs(1));
    for (permit, taken) in running {
        let estimate = permit.estimate();
        permit.commit(taken);
        let left = tokens.peek("tenant").remaining();
        println!("{taken:>6} of {estimate} tokens taken, {left:>6} left");
    }

    let logins: KeyedLimiter<str> = KeyedLimiter::builder(Quota::per_minute(5))
        .clock(clock)
        .permits(Permits::new().keep_dropped())
        .build()?;
    let login = |is_right: bool| match logins.reserve("alice", 1) {
        // Whoever knows the password may come as often as she likes.
        Ok(permit) if is_right => permit.cancel(),
        Ok(permit) => permit.keep(),
        Err(error) => println!("alice: {error}"),
    };
    (0..1_000).for_each(|_| login(true));
    println!("alice: {} failures left after 1000 logins", logins.peek("alice").remaining());
    (0..6).for_each(|_| login(false));
    assert_eq!(logins.peek("alice").retry_after(), Some(Duration::from_secs(12)));
    Ok(())
}
