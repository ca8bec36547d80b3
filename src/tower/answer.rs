//! What an answer tells a client of its limits.
