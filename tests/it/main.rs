//! What users rely on, tested through the public API.
//!
//! | file | what it holds up |
//! |---|---|
//! | `exact.rs` | P3: the reference against fractions of a token |
//! | `properties.rs` | P1, P2, P6, P7, P8: the engine against the reference |
//! | `boundaries.rs` | the ends of every range, and bad input |
//! | `chosen.rs` | keys whose hashes are chosen, against states of their own |
//! | `debt.rs` | debts, penalties and bans |
//! | `histories.rs` | P1: some order of the calls explains what threads were told |
//! | `lines.rs`, `waiting.rs`, `leaving.rs` | places in a line, and the calls that wait for their turn |
//! | `threads.rs` | P1 and P7 under threads |
//! | `handles.rs` | leases of one state: their size, their end, and what is refused |
//! | `leases.rs` | leases of one state: the bound in every interval, and exact books |
//! | `joint.rs` | P1, P2: several limits in one call |
//! | `table.rs` | P5 and P6: capacity, overflow, forgetting |
//! | `scenarios.rs` | cases of real bugs |

#![allow(unreachable_pub, reason = "the modules of a program")]

mod boundaries;
mod chosen;
mod debt;
mod exact;
mod executor;
mod handles;
mod histories;
mod joint;
mod leases;
mod leaving;
mod lines;
mod orderings;
mod permits;
mod properties;
mod reference;
mod scenario;
mod scenarios;
mod table;
mod threads;
mod waiting;
