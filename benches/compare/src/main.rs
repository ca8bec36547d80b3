use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use governor::{Quota as GQ, RateLimiter};
use tollgate::{Clock, Decision, KeyedLimiter, Quota};

fn time(ops: usize, mut f: impl FnMut()) -> f64 {
    let t = Instant::now();
    f();
    t.elapsed().as_nanos() as f64 / ops as f64
}
fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    for &n in &sizes {
        let ops = 4_000_000usize;
        let mut rng = fastrand::Rng::with_seed(7);
        let keys: Vec<u64> = (0..ops).map(|_| rng.u64(..n as u64)).collect();
        let g = RateLimiter::keyed(GQ::per_second(NonZeroU32::new(1_000_000).unwrap()));
        let ours: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_second(1_000_000)).capacity(n).build().unwrap();
        let (clock, _h) = Clock::coarse(Duration::from_micros(500)).unwrap();
        let coarse: KeyedLimiter<u64> = KeyedLimiter::builder(Quota::per_second(1_000_000)).capacity(n).clock(clock).build().unwrap();
        for k in 0..n as u64 { let _ = g.check_key(&k); let _ = ours.check(&k); let _ = coarse.check(&k); }
        let (mut tg, mut to, mut tc, mut tb) = (vec![], vec![], vec![], vec![]);
        for _ in 0..5 {
            let mut ok = 0usize;
            tg.push(time(ops, || for k in &keys { ok += g.check_key(k).is_ok() as usize }));
            to.push(time(ops, || for k in &keys { ok += ours.check(k).is_allowed() as usize }));
            tc.push(time(ops, || for k in &keys { ok += coarse.check(k).is_allowed() as usize }));
            let mut d = [Decision::default(); 32];
            tb.push(time(ops, || for c in keys.chunks(32) { ours.check_many(c, &mut d); ok += d.iter().filter(|d| d.is_allowed()).count() }));
            assert_eq!(ok, 4 * ops);
        }
        let m = |v: &mut Vec<f64>| { v.sort_by(f64::total_cmp); v[v.len() / 2] };
        let (g, o, c, b) = (m(&mut tg), m(&mut to), m(&mut tc), m(&mut tb));
        println!("{n:>9} governor {g:6.1} precise {o:6.1} ({:.2}) coarse {c:6.1} ({:.2}) batch {b:6.1} ({:.2})", g / o, g / c, g / b);
    }
}
