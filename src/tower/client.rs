//! The client that a request comes from.
