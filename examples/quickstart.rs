//! A limit per client, in a few lines: `cargo run --release --example quickstart`.

use tollgate::{KeyedLimiter, Quota};

fn main() -> Result<(), tollgate::BuildError> {
    let limiter: KeyedLimiter<str> = KeyedLimiter::new(Quota::per_second(2).burst(3))?;
    for call in 1..=5 {
        let decision = limiter.check("198.51.100.7");
        match decision.retry_after() {
            _ if decision.is_allowed() => println!("{call}: go, {} left", decision.remaining()),
            Some(wait) => println!("{call}: try again in {wait:?}"),
            None => println!("{call}: never"),
        }
    }
    Ok(())
}
